"""The operators' way at a terminal: the same services, sentences for people and --json for programs."""

import json
from argparse import _SubParsersAction
from io import StringIO

import pytest
from django.core.management import CommandError, call_command, get_commands, load_command_class
from django.core.management.base import CommandParser
from django.core.management.commands.check import Command as Check

from leaderboard.management.commands import import_lexicon
from leaderboard.management.commands.work import FIELDS
from leaderboard.management.output import BoardCommand
from leaderboard.models import AuditEvent, ControlCheck, LanguageModel, Metric, MetricVersion, Rescoring, Scoring
from leaderboard.services import workers
from leaderboard.services.rescore import open_rescoring
from scoring.language_models import BUNDLED
from tests.leaderboard.conftest import CAUSAL, OTHER_CAUSAL
from tests.leaderboard.stored import version_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_workers(monkeypatch):
    monkeypatch.setattr(workers, "ANSWER_SECONDS", 0.05)


@pytest.fixture
def rescored(measured_board) -> Rescoring:
    return open_rescoring(measured_board, "a new library")


def run(*words: str) -> str:
    out = StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def said(*words: str):
    """What the command prints with --json."""
    return json.loads(run(*words, "--json"))


def test_a_row_of_work_says_what_it_is_about_and_how_it_stands(rescored):
    """Programs read these names."""
    scoring = rescored.to_version.scorings.get(model__slug=CAUSAL)
    Scoring.objects.filter(pk=scoring.pk).update(texts=40, texts_missing=3, lost_files="scores")
    evaluation_set = str(scoring.run.protocol.evaluation_set)
    subjects = {
        "runs": {
            "evaluation_set": evaluation_set,
            "epoch": scoring.run.epoch,
            "requests_made": scoring.run.requests_made,
            "tokens_used": scoring.run.tokens_used,
        },
        "scorings": {
            "metric": "safety-starter",
            "version": rescored.to_version.number,
            "run": scoring.run_id,
            "texts": 40,
            "texts_missing": 3,
            "lost_files": "scores",
        },
    }
    for kind, work in (("runs", scoring.run), ("scorings", Scoring.objects.get(pk=scoring.pk))):
        (row,) = [row for row in said("work", kind)[kind] if row["id"] == work.pk]
        states = {name: row.pop(name) for name in FIELDS}
        assert row == {"id": work.pk, "model": CAUSAL} | subjects[kind]
        names = ("state", "reason", "fault", "attempts", "waits_for", "worker", "done", "total")
        assert {name: states[name] for name in names} == {name: getattr(work, name) for name in names}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ("retry", "runs", "5", "--metric", "safety-starter"),
            "--metric = 'safety-starter': it chooses among --failed",
        ),
        (("work", "--metric", "safety-starter"), "--metric = 'safety-starter': say what to list, runs or scorings"),
        (("rescore", "safety-starter", "--pause", "--scorer", "x"), "--scorer = 'x': it is for a new rescoring"),
        (("add_model", str(BUNDLED / CAUSAL), "--family", 201 * "x"), "family = 'x+': .* at most"),
        (("add_model", str(BUNDLED / CAUSAL), "--name", 201 * "x"), "name = 'x+': .* at most"),
        (("import_evaluation_set", "toxigen", "https://[board"), "cannot be fetched .*: check the address"),
    ],
    ids=["retry", "work", "rescore", "family", "name", "address"],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(measured_board, words, problem):
    with pytest.raises(CommandError, match=problem):
        run(*words)


@pytest.mark.slow
def test_work_is_listed_retried_and_cancelled(rescored):
    gone = rescored.to_version.scorings.get(model__slug=CAUSAL)
    Scoring.objects.filter(pk=gone.pk).update(state="failed", reason="the disk was full")
    found = said("work", "scorings", "--state", "failed", "--metric", "safety-starter")
    assert (found["total"], found["scorings"][0]["id"], found["scorings"][0]["reason"]) == (
        1,
        gone.pk,
        "the disk was full",
    )
    assert "the disk was full" in run("work", "scorings", "--state", "failed")
    assert said("retry", "scorings", "--failed") == {"retried": [gone.pk], "refused": {}}
    assert "nothing to do" in run("retry", "scorings", "--failed")
    with pytest.raises(CommandError, match="only failed or cancelled"):
        run("retry", "scorings", str(gone.pk))
    assert said("cancel", "scorings", str(gone.pk))["cancelled"] == [gone.pk]
    assert said("retry", "scorings", str(gone.pk))["retried"] == [gone.pk]
    assert run("cancel", "scorings", str(gone.pk)).rstrip().endswith(" is cancelled")
    with pytest.raises(CommandError, match="only waiting or running"):
        run("cancel", "scorings", str(gone.pk))
    with pytest.raises(CommandError, match=r"there is no run 999999: `manage\.py work runs`"):
        run("retry", "runs", "999999")
    with pytest.raises(CommandError, match="give the numbers of runs, or --failed"):
        run("retry", "runs")
    whole = said("work")
    waiting = {queue["name"]: queue["waiting"] for queue in whole["queues"]}
    assert waiting == {"gpu": 0, "default": 2, "readings": 0, "downloads": 0}
    assert whole["work"]["scorings"]["cancelled"] == 1
    assert "no worker answers" in run("work")


def test_policies_scorers_and_models_are_steered(measured_board):
    assert said("set_policy", "toxicity-profanity")["changed"] is False
    found = said(
        "set_policy", "toxicity-profanity", "--threshold", "none", "--alpha", "0.01", "--reason", "fewer alarms"
    )
    assert (found["before"], found["policy"]["threshold"]) == ({"threshold": 0.5, "alpha": 0.05}, None)
    assert "alpha = 0.02 (was 0.01)" in run("set_policy", "toxicity-profanity", "--alpha", "0.02", "--reason", "x")
    for words, problem in (
        (["--alpha", "2", "--reason", "x"], "alpha: 2.0 does not lie between 0 and 1"),
        (["--alpha", "0.1"], "reason: it is empty"),
        (["--mean-difference", "inf", "--reason", "x"], "mean_difference: inf is not finite"),
    ):
        with pytest.raises(CommandError, match=problem):
            run("set_policy", "toxicity-profanity", *words)
    assert Metric.objects.get(slug="toxicity-profanity").drift_policy == {"threshold": None, "alpha": 0.02}
    assert said("retire_scorer", "profanity", "--reason", "x") == {
        "scorer": "profanity",
        "retired": True,
        "changed": True,
    }
    assert "profanity is retired already" in run("retire_scorer", "profanity", "--reason", "x")
    assert "profanity is in use" in run("retire_scorer", "profanity", "--bring-back", "--reason", "x")
    assert said("hide_model", CAUSAL, "--note", "twice")["hidden"] is True
    assert LanguageModel.objects.get(slug=CAUSAL).hidden_note == "twice"
    assert f"{CAUSAL} is shown" in run("hide_model", CAUSAL, "--show")
    with pytest.raises(CommandError, match="--note is empty"):
        run("hide_model", CAUSAL, "--note", " ")
    found = said("audit", "--about", CAUSAL, "--most", "2", "--actor", "the board")
    assert [event["verb"] for event in found["events"]] == ["show model again", "hide model"]
    assert found["events"][1]["detail"]["after"] == {"hidden_note": "twice"}
    assert "Hidden note: nothing -> twice" in run("audit", "--verb", "hide model")
    assert said("audit", "--since", "2999-01-01") == {"total": 0, "events": []}


@pytest.mark.slow
def test_commands_that_were_there_speak_json_too(rescored, tmp_path):
    assert said("rescore", "safety-starter", "--estimate")["estimate"]["entries"] == 3
    rescoring = said("rescore", "safety-starter", "--pause")
    assert (rescoring["metric"], rescoring["from"], rescoring["to"]) == ("safety-starter", 1, 2)
    assert (rescoring["state"], rescoring["done"], rescoring["total"]) == ("paused", 0, 3)
    assert said("rescore", "safety-starter", "--cancel")["state"] == "cancelled"
    assert said("check_control", "safety-starter")["verdict"] == "stable"
    assert said("verify", "safety-starter")["differences"] == []
    found = said("evaluate", CAUSAL, "--metric", "safety-starter")
    assert (found["scoring"]["state"], found["results"][0]["measure"]) == ("done", "likelihood_auc")
    assert said("set_access", OTHER_CAUSAL, "restricted", "--reason", "x") == {
        "model": OTHER_CAUSAL,
        "access": "restricted",
        "changed": True,
    }
    assert said("invite")["link"].startswith("http")
    assert said("manifest", "safety-starter", "--output", str(tmp_path / "m"))["version"] == 1
    assert run("standings", "safety-starter", "--json") == run("standings", "safety-starter", "--format", "json")
    assert AuditEvent.objects.filter(verb="cancel rescoring").count() == 1


def test_an_imported_lexicon_is_described_to_programs(db, tmp_path, settings):
    settings.SCORERS = tmp_path / "scorers"
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "weather.txt").write_text("rain\nsnow\nhail\n")
    description = said("import_lexicon", "weather", str(tmp_path / "words"))
    assert (description["new"], description["categories"], description["terms"]) == (True, ["weather"], 3)
    assert (description["name"], description["metric"], len(description["fingerprint"])) == (
        "weather",
        "lexicon-weather",
        64,
    )


def test_a_lexicon_in_place_of_another_has_its_metric_checked(db, tmp_path, settings, monkeypatch):
    settings.SCORERS = tmp_path / "scorers"
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "weather.txt").write_text("rain\n")
    checks: list[tuple[Metric, str]] = []
    monkeypatch.setattr(import_lexicon, "request_check", lambda *arguments: checks.append(arguments))
    run("import_lexicon", "weather", str(tmp_path / "words"))
    assert not checks, "nothing is scored with it"
    metric = Metric.objects.get(slug="lexicon-weather")
    version_of(metric, "weather")
    MetricVersion.objects.update(status=MetricVersion.Status.CURRENT)
    run("import_lexicon", "weather", str(tmp_path / "words"))
    assert not checks, "it is here already"
    (tmp_path / "words" / "weather.txt").write_text("rain\nsnow\n")
    assert "A check is queued" in run("import_lexicon", "weather", str(tmp_path / "words"), "--replace")
    assert checks == [(metric, ControlCheck.Trigger.MANUAL)]


def parsers_of(command: str) -> list[CommandParser]:
    """The parser of a command, or those of its forms where it has several."""
    parser = load_command_class("leaderboard", command).create_parser("manage.py", command)
    several = [action.choices for action in parser._actions if isinstance(action, _SubParsersAction)]
    return list(several[0].values()) if several else [parser]


def test_every_command_that_answers_has_json():
    servers = {"demo_drift", "migrate", "seed", "seed_synthetic", "up"}  # and those that are Django's
    ours = {name for name, app in get_commands().items() if app == "leaderboard"} - servers
    assert len(ours) > 15
    for form in (form for name in ours for form in parsers_of(name)):
        assert "--json" in form.format_help(), form.prog
    assert not issubclass(Check, BoardCommand)


def test_every_argument_of_every_command_says_what_it_is():
    ours = [name for name, app in get_commands().items() if app == "leaderboard"]
    silent = [
        f"{form.prog} {action.dest}"
        for name in ours
        for form in parsers_of(name)
        for action in form._actions
        if not action.help
    ]
    assert silent == []
