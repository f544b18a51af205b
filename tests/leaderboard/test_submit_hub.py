"""Hub models: what will not do is refused in words, everywhere the same, and leaves nothing; what will is pinned."""

import json
import re
from collections.abc import Iterator
from datetime import date, timedelta
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from huggingface_hub import constants
from hypothesis import given, settings
from hypothesis import strategies as st

from leaderboard.celery import app
from leaderboard.models import (
    Artefact,
    AuditEvent,
    Download,
    EvaluationSet,
    LanguageModel,
    Metric,
    Run,
    Scoring,
    Standing,
    Submission,
    SubmissionLine,
)
from leaderboard.models.clock import from_now
from leaderboard.people.services.tokens import make_token
from leaderboard.services import collect, score
from leaderboard.services.evaluation_sets import declare
from leaderboard.services.memory import memory_needed, memory_of_workers, most_parameters
from leaderboard.services.metrics import Declaration, declare_metric
from leaderboard.submissions import intake
from leaderboard.submissions.services import lifecycle, patience
from leaderboard.submissions.services.hub_ids import read_reference
from leaderboard.submissions.services.metric_choices import ASSUMED, MEASURED, list_choices
from leaderboard.submissions.services.refusals import SubmissionRefused
from scoring.evaluation_sets import get
from scoring.language_models import BUNDLED, HubUnavailable, ModelRefused
from scoring.language_models.hub import fetch
from scoring.refusals import Refused
from tests.leaderboard.bad_submissions import BAD, ID, Bad, Scene, scene
from tests.leaderboard.conftest import CAUSAL, MASKED, finish, starter_metric
from tests.leaderboard.living import fetch_files
from tests.leaderboard.test_accounts import person
from tests.standin_hub import TOKEN

pytestmark = pytest.mark.django_db

METRIC = "safety-starter"
GOOD = {"hub_id": ID, "metrics": [METRIC]}
Problems = dict[str, list[str]]


def light_board() -> None:
    """Three metrics, of which one has texts, as far as rows say."""
    for slug, texts, method, scorer in (
        (METRIC, "starter", "likelihood", ""),
        ("safety-toxigen", "toxigen-human", "likelihood", ""),
        ("toxicity-profanity", "real-toxicity-prompts-sample", "rtp", "profanity"),
    ):
        formula = "toxicity" if scorer else "safety"
        declare_metric(Declaration(slug, slug, scorer, formula, method, {}), declare(get(texts)))
    artefact = Artefact.objects.create(sha256=64 * "a", kind="labelled_sentences", rows=100, size=1, schema_version=1)
    EvaluationSet.objects.filter(slug="starter").update(artefact=artefact)


@pytest.fixture
def hub_scene(db: None, settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """A hub with one good model, that nothing was fetched from yet."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    (tmp_path / "model").mkdir()
    with scene(settings, tmp_path / "model") as made:
        yield made


@pytest.fixture
def stage(hub_scene: Scene) -> Scene:
    """The hub, and a board that can take submissions and not work on them."""
    light_board()
    return hub_scene


@pytest.fixture
def working_stage(hub_scene: Scene) -> Scene:
    """The hub, and a board with texts."""
    starter_metric()
    return hub_scene


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is put on the queue."""
    found: list[Any] = []
    monkeypatch.setattr(app, "send_task", lambda *task, **options: found.append((task, options)))
    return found


def by_service(user: User, values: dict[str, Any]) -> Problems:
    with pytest.raises(SubmissionRefused) as refused:
        intake.submit(user, "hub", values)
    return refused.value.problems


def by_page(user: User, values: dict[str, Any]) -> Problems:
    client = Client()
    client.force_login(user, backend="allauth.account.auth_backends.AuthenticationBackend")
    response = client.post(reverse("submit_hub"), {**values, "send": ""})
    assert response.status_code == 400
    form = response.context["form"]
    shown = response.content.decode()
    assert shown.count("<h1") == 1
    assert all(f'id="id_{name}_error"' in shown for name in form.errors)
    return {name: [str(text) for text in texts] for name, texts in form.errors.items()}


def by_api(user: User, values: dict[str, Any]) -> Problems:
    _, secret = make_token(user, "nightly")
    response = Client().post(
        "/api/v1/submissions",
        json.dumps({"form": "hub", **values}),
        content_type="application/json",
        headers={"Authorization": f"Bearer {secret}"},
    )
    assert response.status_code == 422
    user.api_tokens.all().delete()
    problems: Problems = {}
    for error in response.json()["errors"]:
        assert error["remedy"]
        problems.setdefault(error["field"], []).append(error["message"])
    return problems


def by_command(user: User, values: dict[str, Any]) -> Problems:
    values = dict(values)
    words = [f"--metric={slug}" for slug in values.pop("metrics")]
    words += [f"--interface={name}" for name in values.pop("interface", [])]
    words += [f"--{name}={value}" for name, value in values.items() if name != "hub_id"]
    with pytest.raises(CommandError) as refused:
        call_command("submit", "hub", *words, "--as", user.username, "--", values["hub_id"])
    problems: Problems = {}
    for line in str(refused.value).split("\n"):
        field, _, text = line.partition(": ")
        problems.setdefault(field, []).append(text)
    return problems


WAYS = {"page": by_page, "api": by_api, "command": by_command}


def traces() -> dict[str, Any]:
    """All that a submission could leave behind."""
    kinds = (Submission, SubmissionLine, LanguageModel, Run, Scoring)
    files = sorted(Path(django_settings.MEDIA_ROOT).rglob("*")) + sorted(Path(constants.HF_HUB_CACHE).rglob("*"))
    events = AuditEvent.objects.exclude(verb="make API token").count()
    return {"rows": [kind.objects.count() for kind in kinds], "files": files, "events": events}


@pytest.mark.slow_cases
@pytest.mark.either_database
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_bad_submission_is_refused_at_its_field_everywhere_alike_and_leaves_nothing(stage: Scene, sent, bad: Bad):
    user = person()
    bad.arrange(stage)
    values = {**GOOD, **bad.values}
    before = traces()
    problems = by_service(user, values)
    assert bad.words in " ".join(problems[bad.at])
    assert set(problems) == {bad.at}
    for name, way in WAYS.items():
        if not (name == "command" and not values["metrics"]):  # there no metric is all of them
            # How long the hub was waited for, and how its client says so, differs from one time to the next.
            assert without_passing(way(user, values)) == without_passing(problems), name
    assert traces() == before
    assert sent == []


def without_passing(problems: Problems) -> Problems:
    return {name: [re.sub(r"\(.*\)", "", text) for text in texts] for name, texts in problems.items()}


def test_there_are_more_than_thirty_kinds_of_bad_submissions_each_with_words_of_its_own():
    assert len(BAD) > 30
    assert len({(bad.words, bad.at) for bad in BAD.values()}) > 30


def test_all_that_is_wrong_is_said_at_once(stage):
    problems = by_service(person(), {"hub_id": "nobody/nothing", "notes": 3000 * "a", "metrics": ["none"]})
    assert set(problems) == {"hub_id", "notes", "metrics"}


@pytest.mark.slow
def test_who_may_not_submit_or_has_sent_enough_is_told_so(stage, settings):
    stranger = person("stranger", role="viewer")
    assert "may not submit" in by_service(stranger, GOOD)["__all__"][0]
    settings.SUBMISSIONS_AT_ONCE = 1
    user = person()
    intake.submit(user, "hub", GOOD)
    assert "1 submissions under way" in by_service(user, {**GOOD, "hub_id": "a/b"})["__all__"][0]
    assert by_api(user, GOOD) == {None: by_service(user, GOOD)["__all__"]}


@pytest.mark.parametrize(
    ("limit", "words"), [("SUBMISSIONS_AT_ONCE", "1 submissions under way"), ("SUBMISSIONS_A_DAY", "within a day")]
)
def test_limits_are_of_each_sender_and_of_what_is_under_way_or_of_today(db, settings, limit, words):
    ada, grace = person("ada"), person("grace")
    submission = Submission.objects.create(submitter=ada, form="hub", payload={}, state="accepted")
    setattr(settings, limit, 1)
    with pytest.raises(SubmissionRefused) as refusal:
        intake.refuse_too_many(ada)
    assert words in str(refusal.value.problems)
    intake.refuse_too_many(grace)
    yesterday = timezone.now() - timedelta(hours=25)
    Submission.objects.filter(pk=submission.pk).update(state="cancelled", created_at=yesterday, ended_at=yesterday)
    intake.refuse_too_many(ada)


def send(user: User, **values: Any) -> Submission:
    return intake.submit(user, "hub", {**GOOD, **values})[0]


@pytest.mark.slow
def test_a_good_model_is_queued_at_its_pinned_commit_and_ends_ranked(
    working_stage, sent, django_capture_on_commit_callbacks
):
    user = person()
    with django_capture_on_commit_callbacks(execute=True):
        submission = send(user, revision="main", licence="MIT", family="Plumb", name="Mine", notes="Trained by us.")
    model = submission.model
    assert submission.state == Submission.State.ACCEPTED
    assert (model.source, model.location, model.revision) == ("hub", ID, working_stage.commit)
    assert (model.name, model.family, model.licence, model.notes) == ("Mine", "Plumb", "MIT", "Trained by us.")
    run = model.runs.get()
    assert run.requester == user
    assert [task[0] for task, _ in sent] == ["leaderboard.tasks.fetch_model"]
    working_stage.folder.joinpath("config.json").write_text("{}")
    working_stage.hub.add(ID, working_stage.folder)  # the branch moves on
    fetch_files(run)
    collect.collect(run)
    scoring = submission.scorings.get()
    score.score(scoring)
    assert Standing.objects.filter(model=model, metric_version__metric__slug=METRIC).exists()
    event = AuditEvent.objects.get(verb="submit")
    assert (event.actor, event.detail["model"]) == (user, "Mine")


def test_what_is_left_out_is_filled_in_from_the_card_and_the_configuration(stage):
    stage.spoil(lambda folder: (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n"))
    payload = intake.submit(person(), "hub", {"hub_id": f"https://huggingface.co/{ID}/tree/main"})[0].payload
    assert payload["metrics"] == [METRIC]
    assert (payload["name"], payload["family"], payload["revision"]) == (ID, "GPT-2", "main")
    assert payload["licence"] == "apache-2.0"


def test_the_release_date_is_entered_and_the_context_is_what_the_configuration_says(stage):
    with pytest.raises(SubmissionRefused, match=r"context: The model's configuration says [\d,]+: leave it empty"):
        send(person("grace"), context="7")
    model = send(person(), release_date="2024-05-01").model
    model.refresh_from_db()
    assert (model.release_date, model.context) == (date(2024, 5, 1), 256)


@pytest.mark.slow
def test_a_renamed_model_is_entered_under_the_name_it_has_now(stage):
    stage.hub.aliases["someone/old-name"] = ID
    assert send(person(), hub_id="someone/old-name").model.location == ID


def test_a_licence_in_a_card_that_will_not_do_is_left_out(stage):
    stage.spoil(lambda folder: (folder / "README.md").write_text("---\nlicense: '=cmd()'\n---\n"))
    assert intake.submit(person(), "hub", GOOD)[0].payload["licence"] == ""


@pytest.mark.slow
def test_a_revision_is_entered_once_and_only_metrics_that_it_lacks_are_added(stage, client):
    ada, bob = person(), person("bob")
    first = send(ada)
    problem = by_service(bob, GOOD)["hub_id"][0]
    assert first.model.get_absolute_url() in problem
    assert by_page(bob, GOOD) == {"hub_id": [problem]}
    typed = f"https://huggingface.co/{ID}"
    client.force_login(bob, backend="allauth.account.auth_backends.AuthenticationBackend")
    refused = client.post(reverse("submit_hub"), {**GOOD, "hub_id": typed, "send": ""})
    assert refused.context["form"]["hub_id"].value() == typed  # what was written stands there to be corrected
    Scoring.objects.update(state="cancelled")
    Run.objects.update(state="cancelled")
    second = send(bob, notes="Mine now.")
    assert second.model == first.model
    assert second.model.notes == ""  # whoever entered it said what it is
    starter = Metric.objects.get(slug=METRIC)
    other = Metric.objects.get(slug="safety-toxigen")
    Metric.objects.filter(pk=other.pk).update(protocol=starter.protocol)
    assert "under way already" in by_service(bob, {**GOOD, "metrics": [METRIC, other.slug]})["metrics"][0]
    assert [s.metric_version.metric for s in send(ada, metrics=[other.slug]).scorings.all()] == [other]


def test_a_new_revision_is_a_new_entry(stage):
    first = send(person())
    stage.spoil(lambda folder: (folder / "README.md").write_text("Better now."))
    second = send(first.submitter)
    assert second.model != first.model
    assert second.model.name == first.model.name


def test_what_waits_for_a_moderator_is_not_sent_again(stage, settings, sent):
    settings.BOARD_ACCESS = "moderated"
    submission = send(person())
    assert (submission.state, submission.model) == (Submission.State.MODERATED, None)
    assert "waits for a moderator" in by_service(person("bob"), GOOD)["hub_id"][0]
    assert sent == []
    assert lifecycle.begin(submission)
    assert submission.model.revision == stage.commit


def test_of_two_sent_at_once_one_is_taken(stage, monkeypatch):
    user = person()
    payload = intake.check_hub_model(user, GOOD, None)
    send(user)
    monkeypatch.setitem(intake.CHECKS, "hub", lambda *_: payload)  # as it was before the other came
    assert "on the board already" in by_service(user, GOOD)["hub_id"][0]


def test_of_two_sent_at_once_one_waits_for_a_moderator(stage, settings, monkeypatch):
    settings.BOARD_ACCESS = "moderated"
    user = person()
    payload = intake.check_hub_model(user, GOOD, None)
    send(user)
    monkeypatch.setitem(intake.CHECKS, "hub", lambda *_: payload)  # as it was before the other came
    assert "waits for a moderator" in by_service(user, GOOD)["hub_id"][0]


def test_a_metric_that_cannot_be_had_any_more_is_a_problem_of_its_field(stage, monkeypatch):
    monkeypatch.setitem(intake.CHECKS_AGAIN, "hub", lambda _payload: None)
    checked = intake.check_hub_model

    def gone(*of: Any) -> dict[str, Any]:
        payload = checked(*of)
        Metric.objects.get(slug=METRIC).protocol.evaluation_set.__class__.objects.update(artefact=None)
        return payload

    monkeypatch.setitem(intake.CHECKS, "hub", gone)
    assert "is not here" in by_service(person(), GOOD)["metrics"][0]
    assert not LanguageModel.objects.exists()


def test_where_no_metric_is_left_that_is_said_once(stage):
    EvaluationSet.objects.update(artefact=None)
    (problem,) = by_service(person(), {"hub_id": ID})["metrics"]
    assert problem == "There is no metric here that a causal model can be ranked under now."
    (problem,) = by_service(person("bob"), GOOD)["metrics"]
    assert problem.startswith(f"{METRIC} cannot be chosen. ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lie", "words"),
    [
        ({"tampered": {"model.safetensors": b"\0" * 100}}, "has 100 bytes where the hub declares"),
        ({"endless": {"model.safetensors"}}, "is longer than the"),
        ({"tampered": {"tokenizer.json": b"{}"}}, "has 2 bytes where the hub declares"),
        ({"flipped": "model.safetensors"}, "is not what the hub declares: its hash is"),
    ],
    ids=["short", "endless", "another file", "one bit"],
)
def test_a_hub_that_lies_ends_in_a_failed_run_with_the_reason_and_nothing_half_written(working_stage, lie, words):
    run = send(person()).model.runs.get()
    repository = working_stage.hub.repositories[ID]
    if name := lie.get("flipped"):
        content = bytearray(repository.commits[working_stage.commit][name])
        content[-1] ^= 1
        lie = {"tampered": {name: bytes(content)}}
    for of, value in lie.items():
        setattr(repository, of, value)
    fetch_files(run)
    assert run.state == "failed"
    assert words in run.reason
    left = [path.name for path in Path(constants.HF_HUB_CACHE).rglob("*") if path.is_file()]
    assert not [name for name in left if "incomplete" in name]
    bad = next(iter(lie.get("tampered", lie.get("endless"))))
    assert bad not in left


def test_a_model_that_was_made_private_since_is_fetched_for_operators_only(working_stage, settings):
    settings.HUB_TOKEN = TOKEN
    run = send(person()).model.runs.get()
    working_stage.hub.repositories[ID].private = True
    fetch_files(run)
    assert (run.state, run.fault) == ("failed", "NotOnHub")
    assert "is private" in run.reason
    assert not [path for path in Path(constants.HF_HUB_CACHE).rglob("*") if path.is_file()]
    Submission.objects.update(created_at=from_now(1))  # after an operator had entered it
    Download.objects.all().delete()
    fetch_files(run)
    assert Download.objects.get().state == "done"


def test_a_model_without_room_on_the_disk_is_refused_before_it_is_fetched(working_stage, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _path: SimpleNamespace(free=1))
    with pytest.raises(ModelRefused, match="there is room for"):
        fetch(ID, working_stage.commit, working_stage.hub.endpoint, None)


@pytest.mark.slow
def test_time_is_estimated_from_the_runs_of_the_board_and_else_assumed(working_stage, models):
    starter = Metric.objects.get(slug=METRIC)

    def choice(parameters: int, kind: str = "causal"):
        return next(of for of in list_choices(kind, parameters, ()) if of.metric == starter)

    texts = starter.protocol.evaluation_set.artefact.rows
    small = models[CAUSAL].parameters
    assert choice(small).basis == ASSUMED
    assert choice(small).seconds == pytest.approx(2 * small * 25 * texts / 7e10)
    finish(models[CAUSAL], starter)
    Run.objects.update(seconds=30.0)
    Scoring.objects.update(seconds=2.0)
    assert choice(small).basis == MEASURED
    assert choice(small).seconds == pytest.approx(32.0)
    assert choice(10 * small).seconds == pytest.approx(302.0)
    assert choice(small, "masked").basis == ASSUMED


def test_the_workers_memory_is_the_settings_or_the_machines(settings):
    settings.WORKER_MEMORY_GB = 11.0
    assert memory_of_workers() == 11e9
    assert memory_needed(most_parameters()) == pytest.approx(11e9)
    settings.WORKER_MEMORY_GB = 0.0
    assert 1e8 < memory_of_workers() < 1e14


def test_a_hub_that_trickles_is_not_waited_for(monkeypatch):
    with pytest.raises(HubUnavailable, match="did not answer within"):
        patience.call_within(0.01, lambda: __import__("time").sleep(0.1))
    with pytest.raises(ZeroDivisionError):
        patience.call_within(1, lambda: 1 / 0)
    with pytest.raises(TimeoutError, match="of the call itself"):
        patience.call_within(1, Mock(side_effect=TimeoutError("of the call itself")))
    assert patience.call_within(1, lambda: "found") == "found"


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("org/name", ("org/name", "")),
        ("  gpt2 ", ("gpt2", "")),
        ("https://huggingface.co/org/name", ("org/name", "")),
        ("huggingface.co/org/name/", ("org/name", "")),
        ("https://hf.co/org/name/tree/v1.0", ("org/name", "v1.0")),
        ("https://huggingface.co/org/name/blob/refs%2Fpr%2F3/config.json", ("org/name", "refs/pr/3")),
        ("https://huggingface.co/gpt2/commit/" + 40 * "a" + "?x=1#y", ("gpt2", 40 * "a")),
        ("https://huggingface.co/org/name/discussions/4", ("org/name", "")),
    ],
)
def test_ids_and_addresses_of_models_are_understood(written, found):
    assert read_reference(written) == found


@settings(max_examples=60)
@given(st.text(max_size=120) | st.from_regex(r"[\w.\-/:@%?#\\]{0,60}", fullmatch=True))
def test_whatever_is_written_becomes_a_path_below_the_hub_or_nothing(written):
    try:
        found, revision = read_reference(written)
    except Refused:
        return
    assert found.isascii()
    assert len(found) <= 96
    assert re.fullmatch(r"[\w.-]+(/[\w.-]+)?", found)
    assert ".." not in found + revision
    assert not any(part.startswith(".") or part.endswith(".") for part in found.split("/"))
    assert read_reference(found) == (found, "")


@pytest.mark.slow
def test_the_page_shows_what_the_hub_has_before_anything_is_sent(stage, client):
    user = person()
    client.force_login(user, backend="allauth.account.auth_backends.AuthenticationBackend")
    stage.hub.add("someone/masked", BUNDLED / MASKED)
    before = traces()
    shown = client.post(reverse("submit_hub"), {"hub_id": "someone/masked", "look": ""}).content.decode()
    for words in ("BERT", "Masked", "only causal ones do", "Pinned to commit", METRIC, "a rough guess"):
        assert words in shown
    assert re.search(rf'value="{METRIC}" checked', shown)
    assert re.search(r'name="name" value="someone/masked"', shown)
    assert "Longest text" in shown
    assert 'name="context"' not in shown, "its configuration says it"
    assert re.search(r'value="toxicity-profanity"\s+disabled', shown)
    live = client.post(reverse("submit_hub"), {"hub_id": ID}, headers={"HX-Request": "true"})
    assert live.status_code == 200
    assert stage.commit[:7] in live.content.decode()
    assert "<html" not in live.content.decode()
    assert traces() == before
    response = client.post(
        reverse("submit_hub"), {"hub_id": ID, "revision": stage.commit, "metrics": [METRIC], "licence": "", "send": ""}
    )
    submission = Submission.objects.get()
    assert response.url == submission.get_absolute_url()
    assert submission.payload["licence"] == ""
    duplicate = client.post(reverse("submit_hub"), {"hub_id": ID})
    assert submission.model.get_absolute_url() in duplicate.content.decode()


def test_the_entry_is_for_everyone_and_the_form_for_who_is_signed_in(client, db):
    entry = client.get(reverse("submit")).content.decode()
    for address in ("/submit/hub/", "/submit/outputs/", "/submit/tool/", "/accounts/login/?next=/submit/"):
        assert f'href="{address}"' in entry
    assert client.get(reverse("submit_hub")).url == "/accounts/login/?next=/submit/hub/"
    client.force_login(person(role="viewer"), backend="allauth.account.auth_backends.AuthenticationBackend")
    assert "may not submit" in client.get(reverse("submit_hub")).content.decode()
    assert f'href="{reverse("submit")}"' in client.get(reverse("about")).content.decode()


def test_a_form_from_elsewhere_is_refused(stage):
    client = Client(enforce_csrf_checks=True)
    client.force_login(person(), backend="allauth.account.auth_backends.AuthenticationBackend")
    assert client.post(reverse("submit_hub"), {**GOOD, "send": ""}).status_code == 403


def ask(secret: str, path: str = "", **options: Any):
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    client = Client(headers=headers)
    return client.post("/api/v1/submissions", **options) if options else client.get(f"/api/v1/submissions{path}")


@pytest.mark.slow
def test_by_token_one_submits_and_sees_ones_own(stage, django_assert_max_num_queries):
    ada, bob = person(), person("bob")
    (_, hers), (_, his) = make_token(ada, "nightly"), make_token(bob, "nightly")
    answer = ask(hers, data=json.dumps(GOOD), content_type="application/json")
    assert answer.status_code == 201
    made = answer.json()
    assert (made["state"], made["hub_id"], made["revision"]) == ("accepted", ID, stage.commit)
    assert made["metrics"] == [{"metric": METRIC, "state": "queued", "done": 0, "total": 0, "reason": ""}]
    assert made["url"] == f"http://testserver/submissions/{made['id']}/"
    assert made["model_url"] == f"http://testserver{LanguageModel.objects.get().get_absolute_url()}"
    assert answer["Location"].endswith(f"/api/v1/submissions/{made['id']}")
    assert ask(hers, f"/{made['id']}").json() == made
    assert ask(his, f"/{made['id']}").status_code == 404
    assert ask(hers).json()["items"] == [made]
    assert ask(his).json()["items"] == []
    assert ask("").status_code == 401
    assert ask("")["WWW-Authenticate"] == "Bearer"
    assert ask("plumb_0").status_code == 401
    for n in range(5):
        Submission.objects.create(submitter=ada, form="hub", payload={"n": n}, state="withdrawn")
    with django_assert_max_num_queries(22):  # a dozen are of the count of requests, in the database cache
        assert len(ask(hers).json()["items"]) == 6


def test_a_person_looks_up_a_bounded_number_of_models_a_minute(stage, monkeypatch):
    monkeypatch.setattr(intake, "LOOK_UPS_A_MINUTE", 1)
    monkeypatch.setattr("leaderboard.counting.time", lambda: 30.0)
    monkeypatch.setattr(intake.hub, "find_candidate", lambda *_: None)
    ada = person()
    intake.look_up(ada, GOOD)
    with pytest.raises(SubmissionRefused, match="1 models within a minute, the maximum: try again in 30 s"):
        intake.look_up(ada, GOOD)
    assert "hub_id" in by_service(ada, GOOD)
    intake.look_up(person("bob"), GOOD)


@pytest.mark.slow_cases
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ("{", None),
        pytest.param(100_000 * "[", None, id="deep"),
        ("[]", None),
        ('{"hub_id": 4}', "hub_id"),
        ('{"hub": "a/b"}', "hub"),
        ('{"form": "mail"}', "form"),
    ],
)
def test_a_body_of_another_shape_is_refused_by_field(stage, body, field):
    _, secret = make_token(person(), "nightly")
    answer = ask(secret, data=body, content_type="application/json")
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [field]


def run(*words: str) -> str:
    out = StringIO()
    call_command("submit", *words, stdout=out)
    return out.getvalue()


def test_the_command_submits_for_the_one_who_runs_the_board_where_nobody_is_named(stage):
    person()
    owner = User.objects.create_superuser("olga", "olga@example.org", None)
    assert json.loads(run("hub", ID, "--json"))["state"] == "accepted"
    assert Submission.objects.get().submitter == owner
    User.objects.create_superuser("oleg", "oleg@example.org", None)
    with pytest.raises(CommandError, match="--as USER"):
        run("hub", ID)


def test_the_command_submits_for_somebody_and_says_what_the_api_says(stage):
    user = person()
    with pytest.raises(CommandError, match="--as USER"):
        run("hub", ID)
    made = json.loads(run("hub", ID, "--as", "ada", "--notes", "By night.", "--json"))
    assert (made["hub_id"], made["revision"], made["state"]) == (ID, stage.commit, "accepted")
    assert Submission.objects.get().submitter == user
    with pytest.raises(CommandError, match="cannot be read"):
        run("outputs", "/no/such/file", "--as", "ada")


@pytest.mark.parametrize(("state", "reason"), [("ranked", ""), ("moderated", ""), ("failed", "No such commit.")])
def test_the_command_waits_to_the_end_or_for_somebody(stage, monkeypatch, state, reason):
    person()
    take = lifecycle.take

    def over(submission: Submission) -> None:
        take(submission)
        Submission.objects.filter(pk=submission.pk).update(state=state, reason=reason)

    monkeypatch.setattr(lifecycle, "take", over)
    if reason:
        with pytest.raises(CommandError, match=reason):
            run("hub", ID, "--as", "ada", "--wait")
    else:
        assert Submission(state=state).get_state_display() in run("hub", ID, "--as", "ada", "--wait")


def test_files_are_sent_as_multipart_with_the_checks_of_their_form(stage, settings):
    _, secret = make_token(person(), "nightly")
    body = {"form": "outputs", "metrics": [METRIC], "name": "Closed", "revision": "2026-11", "kind": "causal"}

    def errors(**more: Any) -> Problems:
        answer = ask(secret, data={**body, **more})
        assert answer.status_code == 422
        return {error["field"]: error["message"] for error in answer.json()["errors"]}

    assert set(errors()) == {"file"}
    assert "ends in none of" in errors(file=SimpleUploadedFile("outputs.exe", b"x"))["file"]
    settings.UPLOAD_MOST_BYTES = 10
    assert "too large" in errors(file=SimpleUploadedFile("outputs.jsonl", 100 * b"x"))["file"]
    assert not Submission.objects.exists()
