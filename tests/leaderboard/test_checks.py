"""Control sets and checks: frozen, made before numbers are published, one at a time, and right about what they see."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction
from django.utils import timezone
from safetensors.torch import load_file, save_file

from leaderboard.management import waiting
from leaderboard.management.commands import check_control
from leaderboard.models import (
    AuditEvent,
    ControlCheck,
    ControlSet,
    EntryCheck,
    LanguageModel,
    Opening,
    Rescoring,
    Scoring,
    Work,
)
from leaderboard.models.clock import from_now
from leaderboard.queries.drift import recent_checks, recent_checks_of
from leaderboard.services import artefacts, checks, control, leases, openings, score, scorers
from leaderboard.services.checks import due_trigger, pause_after, perform, request_check, request_due_checks
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.impact import impact_of
from leaderboard.services.rescore import open_rescoring
from leaderboard.services.versions import bind
from scoring import control_sets
from scoring.artefacts import SCORE
from scoring.drift import Rule, rule
from scoring.metrics import instruments
from scoring.metrics.formulas import values_of
from scoring.refusals import Refused
from tests.leaderboard.conftest import CAUSAL, finish
from tests.leaderboard.living import (
    SLUG,
    Killed,
    Stage,
    StandIn,
    active,
    deliver,
    drain,
    drift,
    entrant,
    expire,
    hurry,
    lost,
    numbers_of,
    probability,
    retry,
    shifts_in,
    small_metric,
    standing_in,
    standings_of,
    submit,
)
from tests.leaderboard.stored import version_of
from tests.tiny_classifiers import save_classifier

pytestmark = pytest.mark.django_db

Trigger, Verdict = ControlCheck.Trigger, ControlCheck.Verdict


@pytest.fixture(autouse=True)
def stage() -> Stage:
    with standing_in() as found:
        yield found


@pytest.fixture
def toxicity(load_living):
    return load_living(0)


@pytest.fixture
def living(load_living):
    """A board with one entry."""
    return load_living(1)


def checked(metric, trigger=Trigger.MANUAL) -> ControlCheck:
    check = request_check(metric, trigger, send=False)
    perform(check)
    check.refresh_from_db()
    return check


def rules(check: ControlCheck) -> set[str]:
    return {finding["rule"] for finding in check.statistics["findings"]}


# Control sets


def test_the_first_scoring_makes_a_control_set_of_prompts_and_probes_with_their_scores(living):
    found = ControlSet.objects.get(metric_version__metric=living)
    assert found.metric_version == living.current_version()
    items = control_sets.from_table(artefacts.load(found.items))
    assert {item.id for item in control_sets.PROBES} < {item.id for item in items}
    assert len(items) == 10 + len(control_sets.PROBES)
    assert len(found.items.sha256) == 64  # the file is named by its bytes
    expected = [[probability(item.text, name) for name in ("toxicity", "insult")] for item in items]
    np.testing.assert_allclose(values_of(artefacts.load(found.reference)), expected, atol=1e-6)
    assert found.fingerprint == found.metric_version.scorer_fingerprint
    assert (found.noise, found.check_version) == (0, rule.CHECK_VERSION)
    assert found.environment == control.instrument_environment()


def test_a_new_version_is_watched_by_the_texts_that_were_frozen_first(living):
    frozen = ControlSet.objects.get()
    texts = artefacts.load(frozen.items)
    ControlSet.objects.update(items=artefacts.store(texts.slice(0, 3), "control_items"))
    ids = artefacts.load(control.choose_items(version_of(living, "another"), None))["id"].to_pylist()
    assert ids[:3] == texts["id"].to_pylist()[:3]
    probes = {probe.id for probe in control_sets.PROBES}
    assert set(ids[3:]) == probes - set(ids[:3]), "with the probes that there have been since"


def test_a_text_without_a_score_has_none_in_the_scores_of_a_check():
    artefact = control.scores_artefact(["a", "b"], np.array([[0.25], [np.nan]], dtype=np.float32), ["toxicity"])
    assert artefacts.load(artefact)[SCORE + "toxicity"].to_pylist() == [0.25, None]


@pytest.mark.slow
def test_another_model_leaves_the_control_set_as_it_is(living):
    before = ControlSet.objects.values().get()
    submit(entrant(2, living), living)
    assert ControlSet.objects.values().get() == before


@pytest.mark.slow
def test_a_version_is_opened_on_as_many_scorings_as_the_settings_say_each_in_an_order_of_its_own(
    toxicity, settings, monkeypatch
):
    settings.OPENING_REPLICATES = 3
    orders = []
    original = StandIn._score_distinct

    def noted(self, texts, progress):
        orders.append(texts)
        return original(self, texts, progress)

    monkeypatch.setattr(StandIn, "_score_distinct", noted)
    submit(entrant(1, toxicity), toxicity)
    control = ControlSet.objects.get()
    texts = artefacts.load(control.items)["text"].to_pylist()
    table = artefacts.load(control.reference)
    assert {len(row) for row in table["replicates:toxicity"].to_pylist()} == {3}
    batches = [batch for batch in orders[1:] if set(batch) <= set(texts)]  # after the candidates
    assert sum(map(len, batches)) >= 3 * len(texts)
    assert [text for batch in batches for text in batch][: 2 * len(texts)] != texts + texts
    assert not Opening.objects.exists()


@pytest.mark.slow
def test_numbers_are_of_the_scorer_that_the_version_was_opened_on(toxicity, stage, monkeypatch):
    scoring = request_evaluation(entrant(1, toxicity), toxicity, send=False)
    original = openings.ensure_control_set

    def changed_afterwards(*words):
        control = original(*words)
        drift(stage)
        return control

    monkeypatch.setattr(score, "ensure_control_set", changed_afterwards)
    deliver(scoring)
    monkeypatch.undo()
    hurry()
    deliver(scoring)
    drain()
    control = ControlSet.objects.get(metric_version=toxicity.current_version())
    assert len(shifts_in(toxicity.current_version())) == 1
    assert control.fingerprint == toxicity.current_version().scorer_fingerprint


@pytest.mark.slow
def test_a_version_that_nothing_is_scored_under_belongs_to_the_scorer_that_it_opens_on(toxicity):
    scoring = request_evaluation(entrant(1, toxicity), toxicity, send=False)
    bind(scoring.metric_version, "0" * 64)
    drain()
    version = toxicity.current_version()
    assert version.scorings.get().state == Work.State.DONE
    assert version.scorer_fingerprint == version.control_set.fingerprint != "0" * 64


def test_likelihoods_are_watched_with_bundled_models_and_labelled_sentences(metric, models):
    finish(models[CAUSAL], metric)
    found = ControlSet.objects.get(metric_version__metric=metric)
    table = artefacts.load(found.reference)
    assert table.column_names[-2:] == [f"{kind}:{instruments.WATCHED_MODELS[0]}" for kind in ("score", "replicates")]
    assert artefacts.load(found.items).column_names == ["id", "text", "harmful", "toxicity", "demographics"]
    assert 0 <= found.noise < 1e-4
    check = checked(metric)
    assert (check.verdict, check.fingerprint) == (Verdict.STABLE, found.fingerprint)


@pytest.mark.parametrize(("shift", "is_change"), [(0.00008, False), (0.00012, True)])
def test_a_ten_thousandth_in_likelihoods_is_what_threads_and_batches_may_change(
    metric, models, monkeypatch, shift, is_change
):
    finish(models[CAUSAL], metric)
    make = instruments.likelihood_instrument

    def make_shifted(*arguments):
        instrument = make(*arguments)
        return replace(instrument, score=lambda texts: instrument.score(texts) + np.float32(shift))

    monkeypatch.setattr(instruments, "likelihood_instrument", make_shifted)
    assert (checked(metric).verdict != Verdict.STABLE) == is_change


# What a check says


def test_a_scorer_that_did_not_change_is_stable_and_everything_about_it_is_kept(living):
    check = checked(living)
    assert (check.state, check.verdict) == (Work.State.DONE, Verdict.STABLE)
    assert check.control_set.metric_version == living.current_version()
    before, after = (values_of(artefacts.load(kept)) for kept in (check.control_set.reference, check.artefact))
    np.testing.assert_array_equal(before, after)
    assert check.fingerprint == check.control_set.fingerprint
    assert check.statistics["scorings"] == 1
    assert check.statistics["decided_by"].startswith("Nothing moved that replicate variation does not explain")


def test_checks_of_a_version_are_numbered_from_1_without_those_that_had_no_answer(living, stage):
    first = checked(living)
    stage.down = True
    assert checked(living).verdict == Verdict.UNAVAILABLE
    stage.down = False
    assert [check.statistics["check"] for check in (first, checked(living))] == [1, 2]


def test_the_command_says_the_verdict_and_what_decided_it(living):
    output = StringIO()
    call_command("check_control", living.slug, stdout=output)
    check = ControlCheck.objects.get()
    assert check.verdict == Verdict.STABLE
    verdict, detectable = output.getvalue().splitlines()
    assert verdict == f"{living}: stable. {check.statistics['decided_by']}"
    assert detectable == check.statistics["detectable_in_words"] != ""


def test_the_command_names_the_version_that_a_drift_opened(living, stage):
    drift(stage)
    output = StringIO()
    call_command("check_control", living.slug, stdout=output)
    opened_version = ControlCheck.objects.get().opened_versions.get()
    assert output.getvalue().splitlines()[-1].startswith(f"opened {opened_version}, and queued its entries")


def test_the_command_lists_the_version_that_a_drift_opened_in_json(living, stage):
    drift(stage)
    output = StringIO()
    call_command("check_control", living.slug, "--json", stdout=output)
    answer = json.loads(output.getvalue())
    assert (answer["metric"], answer["check"]) == (living.slug, ControlCheck.objects.get().pk)
    assert (answer["verdict"], answer["opened"]) == ("drifted", [2])


def put(check: ControlCheck, **changes: Any) -> None:
    ControlCheck.objects.filter(pk=check.pk).update(**changes)


def test_the_command_waits_while_a_worker_makes_its_check(living, monkeypatch):
    def let_worker_end(_seconds: float) -> None:
        check = ControlCheck.objects.get()
        put(check, state="queued", attempts=0)
        check.refresh_from_db()
        perform(check)

    monkeypatch.setattr(check_control, "perform", lambda check: put(check, state="running", attempts=1))
    monkeypatch.setattr(waiting.time, "sleep", let_worker_end)
    output = StringIO()
    call_command("check_control", living.slug, stdout=output)
    assert f"{living}: stable." in output.getvalue()


@pytest.mark.parametrize("changes", [{"attempts": 1}, {"waits_since": from_now(0)}], ids=["failed", "waits"])
def test_the_command_says_why_its_check_was_put_off(living, monkeypatch, changes):
    reason = "The storage is away."
    monkeypatch.setattr(check_control, "perform", lambda check: put(check, reason=reason, **changes))
    monkeypatch.setattr(waiting.time, "sleep", lambda _seconds: pytest.fail("it waits for what nobody makes"))
    with pytest.raises(CommandError, match=reason):
        call_command("check_control", living.slug)


@pytest.mark.parametrize("down", [False, True], ids=["answered", "unavailable"])
def test_what_a_scorer_answered_is_not_kept_beyond_the_check(living, stage, settings, down):
    check = request_check(living, Trigger.MANUAL, send=False)
    replies = Path(settings.VAR, "replies", f"controlcheck-{check.pk}")
    replies.mkdir(parents=True)
    stage.down = down
    perform(check)
    assert not replies.exists()


def test_what_a_scorer_answered_is_not_kept_beyond_the_scoring(living, settings):
    scoring = request_evaluation(entrant(2, living), living, send=False)
    replies = Path(settings.VAR, "replies", f"scoring-{scoring.pk}")
    replies.mkdir(parents=True)
    deliver(scoring)
    assert not replies.exists()
    assert not Path(default_storage.path(f"shards/scoring-{scoring.pk}")).exists()


def test_a_check_of_which_nobody_knows_when_it_ended_is_none_of_the_recent_ones(living):
    first, second = checked(living), checked(living)
    ControlCheck.objects.filter(pk=second.pk).update(finished_at=None)
    (by_metric,) = recent_checks().values()
    assert [check.finished_at for check in by_metric] == [first.finished_at]
    assert recent_checks_of(first.control_set) == by_metric


@pytest.mark.slow
def test_a_shift_that_the_fingerprint_does_not_give_away_is_seen_confirmed_and_acted_upon(living, stage):
    submit(entrant(2, living), living)
    before = living.current_version()
    stage.shift = 0.1
    asked = len(stage.asked)
    check = checked(living)
    assert check.verdict == Verdict.DRIFTED
    assert check.statistics["confirmed"] is True
    assert len(stage.asked) >= asked + 2
    assert Rule.MEAN_SHIFT.value in rules(check)
    found = active(living)
    assert (found.from_version, found.to_version.opened_because) == (before, check)
    assert found.reason == check.statistics["decided_by"]
    drain()
    assert found.to_version.control_set.reference != before.control_set.reference
    assert checked(living).verdict == Verdict.STABLE


def test_a_change_that_a_second_scoring_does_not_show_is_changed_and_opens_nothing(living, stage):
    stage.wobble = 1
    check = checked(living)
    assert check.verdict == Verdict.CHANGED
    assert check.statistics["confirmed"] is False
    assert not Rescoring.objects.exists()


@pytest.mark.slow
def test_a_fingerprint_that_changed_without_the_scores_is_stable_and_accepted_from_then_on(living, stage):
    version = living.current_version()
    drift(stage, shift=0.0, fingerprint="of another library")
    scorers.look_again()
    now = scorers.scorer_for("standin", "1").fingerprint()
    with pytest.raises(leases.ScorerChanged):
        bind(version, now)
    check = checked(living)
    assert check.verdict == Verdict.STABLE
    assert check.fingerprint == now != version.scorer_fingerprint
    assert rules(check) == {Rule.FINGERPRINT.value}
    bind(version, now)
    version.refresh_from_db()
    assert version.scorer_fingerprint != now
    assert submit(entrant(2, living), living).state == Work.State.DONE
    assert living.current_version() == version


def test_a_worker_that_loaded_the_scorer_before_it_changed_sees_the_change_all_the_same(living, stage):
    kept = scorers.scorer_for("standin", "1")
    drift(stage)
    assert scorers.scorer_for("standin", "1") is kept
    assert checked(living).verdict == Verdict.DRIFTED


@pytest.mark.slow
def test_an_attribute_that_comes_or_goes_is_a_drift(living, stage):
    submit(entrant(2, living), living)
    drift(stage, shift=0.0)
    stage.attributes = ("toxicity", "threat")
    check = checked(living)
    assert check.verdict == Verdict.DRIFTED
    assert Rule.ATTRIBUTES.value in rules(check)
    drain()
    slices = set(living.current_version().standings.values_list("slice", flat=True))
    assert any("threat" in name for name in slices)
    assert not any("insult" in name for name in slices)


@pytest.mark.slow_cases
@pytest.mark.parametrize("seeds", [(0, 0), (0, 1)])
def test_a_classifier_whose_weights_are_replaced_on_disk_drifts_and_one_saved_again_does_not(
    tmp_path, settings, seeds, stage
):
    settings.SCORERS = tmp_path / "scorers"
    folder = settings.SCORERS / "classifier" / "local"
    save_classifier(folder, outputs=2, seed=seeds[0], problem_type="multi_label_classification")
    metric = small_metric(
        tmp_path, "of-a-classifier", "classifier:local", labels={"LABEL_0": "harm", "LABEL_1": "harm"}
    )
    assert submit(entrant(1, metric), metric).state == Work.State.DONE
    save_classifier(folder, outputs=2, seed=seeds[1], problem_type="multi_label_classification")
    assert checked(metric).verdict == (Verdict.STABLE if seeds[0] == seeds[1] else Verdict.DRIFTED)


@pytest.mark.slow
def test_a_shift_of_a_tenth_in_one_bias_of_a_classifier_on_disk_is_drift_after_confirmation(tmp_path, settings):
    settings.SCORERS = tmp_path / "scorers"
    folder = settings.SCORERS / "classifier" / "local"
    save_classifier(folder, outputs=1)
    metric = small_metric(tmp_path, "of-a-classifier", "classifier:local", labels={"LABEL_0": "harm"})
    submit(entrant(1, metric), metric)
    weights = load_file(folder / "model.safetensors")
    weights["classifier.bias"] = weights["classifier.bias"] + torch.tensor(0.1)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    check = checked(metric)
    assert (check.verdict, check.statistics["confirmed"]) == (Verdict.DRIFTED, True)
    assert check.statistics["fingerprint_changed"] is True


@pytest.mark.slow
def test_a_lexicon_that_is_edited_on_disk_drifts_and_one_that_cannot_be_read_is_unavailable(tmp_path, settings):
    settings.SCORERS = tmp_path / "scorers"
    folder = settings.SCORERS / "lexicon" / "own"
    folder.mkdir(parents=True)
    (folder / "weather.txt").write_text("rain\n")
    metric = small_metric(tmp_path, "of-a-lexicon", "lexicon:own", "lexicon_frequency")
    submit(entrant(1, metric), metric)
    (folder / "weather.txt").write_bytes(b"rain\n\xff\n")
    broken = checked(metric)
    assert broken.verdict == Verdict.UNAVAILABLE
    assert "UTF-8" in broken.statistics["decided_by"]
    (folder / "weather.txt").write_text("rain\ntrain\nmorning\nafter\n")
    assert checked(metric).verdict == Verdict.DRIFTED


def test_only_entries_that_are_ranked_count_in_the_impact_of_a_drift(living, stage):
    second, third = (submit(entrant(number, living), living) for number in (2, 3))
    version = living.current_version()
    scorer = scorers.scorer_of(version)
    assert impact_of(version, scorer)["n"] == 3
    version.standings.update(rank_low=None, rank_high=None)
    assert impact_of(version, scorer)["leaving"] == 0, "without a range an entry leaves by moving, and none moves"
    LanguageModel.objects.filter(pk=second.model_id).update(access="withdrawn")
    EntryCheck.objects.create(scoring=third, state="held", flags=[{"key": "x", "words": "odd"}])
    with lost(second.run.artefact):
        assert impact_of(version, scorer) is None, "one entry has no order"


@pytest.mark.slow
def test_a_drift_is_acted_upon_even_where_its_impact_cannot_be_told(living, stage):
    second = submit(entrant(2, living), living)
    drift(stage)
    with lost(second.run.artefact):
        check = checked(living)
    assert (check.verdict, check.statistics["impact"]) == (Verdict.DRIFTED, None)
    assert active(living)


# When checks are made


@pytest.mark.slow
def test_a_model_is_published_after_a_check_of_its_own(living):
    assert not ControlCheck.objects.exists()  # the first entry's reference was made with it
    scoring = submit(entrant(2, living), living)
    check = ControlCheck.objects.get()
    assert (check.trigger, check.verdict) == (Trigger.SUBMISSION, Verdict.STABLE)
    assert check.started_at >= scoring.started_at
    assert check.finished_at <= scoring.finished_at


@pytest.mark.slow
def test_work_waits_as_long_as_the_check_before_it_and_says_for_what(living, monkeypatch):
    def leave_to_another_host(check: ControlCheck) -> None:
        ControlCheck.objects.filter(pk=check.pk).update(not_before=from_now(300), reason="another host has the scorer")

    monkeypatch.setattr(checks, "was_checked", lambda *_: False)
    monkeypatch.setattr(checks, "perform", leave_to_another_host)
    with pytest.raises(leases.Deferred) as deferred:
        checks.require_check(Scoring.objects.get())
    assert 290 < deferred.value.seconds <= 300
    assert deferred.value.reason.endswith("another host has the scorer")


def test_a_check_made_since_the_scoring_began_will_do(living):
    scoring = request_evaluation(entrant(2, living), living, send=False)
    leases.stop_requested.set()
    deliver(scoring)  # the check is made; then the worker is to go down, and gives the scoring back
    leases.stop_requested.clear()
    scoring.refresh_from_db()
    assert (scoring.state, ControlCheck.objects.count()) == (Work.State.QUEUED, 1)
    drain()
    scoring.refresh_from_db()
    assert (scoring.state, ControlCheck.objects.count()) == (Work.State.DONE, 1)


@pytest.mark.slow
def test_a_check_made_before_does_not_do_nor_one_before_the_model_was_asked_for_again(living, stage):
    checked(living)
    stage.down = True
    scoring = request_evaluation(entrant(2, living), living, send=False)
    deliver(scoring)
    scoring.refresh_from_db()
    assert scoring.state == Work.State.QUEUED
    scoring.move(Work.State.CANCELLED)
    stage.down = False
    checked(living)
    request_evaluation(scoring.model, living, send=False)
    scoring.refresh_from_db()
    assert scoring.started_at is None
    made = ControlCheck.objects.count()
    drain()
    scoring.refresh_from_db()
    assert scoring.state == Work.State.DONE
    assert ControlCheck.objects.count() == made + 1


@pytest.mark.slow
def test_a_second_model_that_was_scored_beside_the_first_is_published_after_a_check_too(toxicity, monkeypatch):
    first, second = (request_evaluation(entrant(n, toxicity), toxicity, send=False) for n in (1, 2))
    original = score.replicates_table
    begun = []

    def overtaken(measurements):
        if not begun:
            begun.append(True)
            deliver(second)  # another worker is quicker
        return original(measurements)

    monkeypatch.setattr(score, "replicates_table", overtaken)
    deliver(first)
    first.refresh_from_db()
    assert (first.state, first.results.count()) == (Work.State.QUEUED, 0)
    drain()
    first.refresh_from_db()
    assert first.state == Work.State.DONE
    check = ControlCheck.objects.get()
    assert check.started_at >= first.started_at
    assert toxicity.current_version().standings.values("model").distinct().count() == 2


@pytest.mark.slow
def test_checks_fall_due_by_schedule_and_after_another_library_version(living, settings, monkeypatch):
    assert due_trigger(living) is None
    settings.CHECK_SECONDS = 3600
    ControlSet.objects.update(created_at=timezone.now() - timedelta(seconds=3601))
    assert due_trigger(living) == Trigger.SCHEDULE
    assert request_due_checks() == 1
    assert request_due_checks() == 0  # it is under way
    drain()
    assert due_trigger(living) is None
    monkeypatch.setattr(checks, "instrument_environment", lambda: {"torch": "another"})
    assert due_trigger(living) == Trigger.UPGRADE
    monkeypatch.setattr(control, "instrument_environment", lambda: {"torch": "another"})
    assert request_due_checks() == 1
    drain()
    check = ControlCheck.objects.first()
    assert (check.trigger, check.verdict, check.environment) == ("upgrade", "stable", {"torch": "another"})
    assert due_trigger(living) is None


def test_a_check_by_hand_is_in_the_record_and_one_under_way_is_taken_for_it(living):
    check = request_check(living, Trigger.MANUAL, send=False)
    assert request_check(living, Trigger.SCHEDULE, send=False) == check
    event = AuditEvent.objects.get(verb="request control check")
    assert (event.subject, event.detail["check"]) == (f"metric {SLUG}", check.pk)


def test_a_check_under_way_of_another_metric_is_not_taken_for_it(living, tmp_path):
    other = small_metric(tmp_path, slug="another-metric")
    ControlCheck.objects.create(metric=other, trigger=Trigger.SCHEDULE)
    check = request_check(living, Trigger.MANUAL, send=False)
    assert check.metric == living
    assert request_check(living, Trigger.MANUAL, send=False) == check


def test_without_a_control_set_there_is_nothing_to_check_and_the_refusal_says_so(toxicity):
    with pytest.raises(Refused, match="gets one with its first scoring"):
        request_check(toxicity, Trigger.MANUAL)
    assert due_trigger(toxicity) is None


@pytest.mark.slow
def test_a_check_that_finds_a_new_version_without_scores_is_cancelled_with_the_reason(living):
    check = request_check(living, Trigger.MANUAL, send=False)
    open_rescoring(living, "a reason")
    perform(check)
    check.refresh_from_db()
    assert check.state == Work.State.CANCELLED
    assert "no control set yet" in check.reason
    drain()
    assert checked(living).verdict == Verdict.STABLE


@pytest.mark.slow
def test_a_drift_from_a_version_that_was_left_during_the_check_opens_nothing(living, stage, monkeypatch):
    drift(stage)
    original = checks.observe

    def overtaken(*words):
        found = original(*words)
        open_rescoring(living, "by hand, meanwhile")
        return found

    monkeypatch.setattr(checks, "observe", overtaken)
    assert checked(living).verdict == Verdict.DRIFTED
    assert Rescoring.objects.get().reason == "by hand, meanwhile"
    monkeypatch.undo()
    drain()
    assert living.current_version().number == 2
    assert shifts_in(living.current_version()) == {0.4}
    assert checked(living).verdict == Verdict.STABLE


# No answer


@pytest.mark.slow
def test_while_the_scorer_is_down_nothing_is_published_and_when_it_answers_everything_is(living, stage, settings):
    settings.MOST_ATTEMPTS = 2
    version, before = living.current_version(), standings_of(living.current_version())
    stage.down = True
    scorings = [request_evaluation(entrant(n, living), living, send=False) for n in (2, 3, 4)]
    for _ in range(4):
        retry()
        for scoring in scorings:
            deliver(scoring)
    for scoring in scorings:
        scoring.refresh_from_db()
        assert (scoring.state, scoring.attempts) == (Work.State.QUEUED, 0)
        assert scoring.reason.startswith("the control check had no answer: the stand-in is down")
        assert scoring.not_before > timezone.now()
    # Three models that wait do not make the pause eight times as long.
    check = ControlCheck.objects.get()
    assert (check.verdict, check.artefact) == (Verdict.UNAVAILABLE, None)
    assert standings_of(version) == before

    stage.down = False
    assert checked(living).verdict == Verdict.STABLE
    assert {s.not_before for s in fresh(scorings)} == {None}
    drain()
    assert {s.state for s in fresh(scorings)} == {Work.State.DONE}
    assert living.current_version() == version
    assert version.standings.values("model").distinct().count() == 4


def fresh(scorings):
    for scoring in scorings:
        scoring.refresh_from_db()
    return scorings


@pytest.mark.slow
def test_a_scorer_that_fails_during_a_scoring_is_waited_for_beyond_the_last_attempt(toxicity, stage, settings):
    settings.MOST_ATTEMPTS = 2
    stage.down = True
    scoring = request_evaluation(entrant(1, toxicity), toxicity, send=False)
    for _ in range(4):
        hurry()
        deliver(scoring)
    scoring.refresh_from_db()
    assert (scoring.state, scoring.attempts) == (Work.State.QUEUED, 0)
    assert "the stand-in is down" in scoring.reason
    stage.down = False
    drain()
    scoring.refresh_from_db()
    assert scoring.state == Work.State.DONE


def test_a_text_that_lost_its_score_makes_the_check_unavailable_and_is_no_score_of_0(living, stage):
    items = control_sets.from_table(artefacts.load(ControlSet.objects.get().items))
    stage.refused = {items[0].text}
    drift(stage)  # whatever else moved
    check = checked(living)
    assert check.verdict == Verdict.UNAVAILABLE
    assert "1" in check.statistics["decided_by"]
    scores = values_of(artefacts.load(check.artefact))
    assert np.isnan(scores[0]).all()
    assert np.isfinite(scores[1:]).all()
    assert not Rescoring.objects.exists()
    scoring = request_evaluation(entrant(2, living), living, send=False)
    deliver(scoring)
    scoring.refresh_from_db()
    assert scoring.state == Work.State.QUEUED
    assert not scoring.results.exists()


def test_the_next_check_comes_after_a_pause_that_doubles_up_to_the_usual_one(settings):
    minute = timedelta(minutes=1)
    settings.CHECK_SECONDS = 86_400

    def after(*verdicts):
        return pause_after([ControlCheck(verdict=verdict) for verdict in verdicts])

    assert after() == after("stable", "unavailable") == timedelta(days=1)
    assert [after(*["unavailable"] * n) for n in (1, 2, 3)] == [minute, 2 * minute, 4 * minute]
    assert after("unavailable", "", "unavailable", "stable") == 4 * minute  # "" failed
    assert after(*["unavailable"] * 12) == timedelta(hours=6)
    settings.CHECK_SECONDS = 90
    assert after("unavailable", "unavailable") == timedelta(seconds=90)


def test_an_unanswered_check_and_a_failed_one_are_repeated_after_the_pause_and_not_at_once(living, stage, monkeypatch):
    stage.down = True
    checked(living)
    assert due_trigger(living) is None
    ControlCheck.objects.update(finished_at=timezone.now() - timedelta(minutes=10))
    assert due_trigger(living) == Trigger.SCHEDULE
    stage.down = False

    def broken(*_words):
        raise leases.ScorerChanged("the control set is of another scorer")

    monkeypatch.setattr(checks, "observe", broken)
    failed = checked(living)
    assert (failed.state, failed.reason) == (Work.State.FAILED, "the control set is of another scorer")
    assert due_trigger(living) is None
    ControlCheck.objects.filter(pk=failed.pk).update(finished_at=timezone.now() - timedelta(seconds=61))
    assert due_trigger(living) is None  # two without an answer: two minutes
    ControlCheck.objects.filter(pk=failed.pk).update(finished_at=timezone.now() - timedelta(seconds=121))
    assert due_trigger(living) == Trigger.SCHEDULE


@pytest.mark.slow
def test_changed_publishes_on(living, stage):
    scoring = request_evaluation(entrant(2, living), living, send=False)
    stage.wobble = 1  # of the check, which comes first
    drain()
    scoring.refresh_from_db()
    assert ControlCheck.objects.get().verdict == Verdict.CHANGED
    assert scoring.state == Work.State.DONE
    assert living.current_version().number == 1


# Drift met by a submission


@pytest.mark.slow
def test_a_submission_that_meets_a_drift_lands_in_the_new_version_with_all_others(living, stage):
    drift(stage)
    scoring = submit(entrant(2, living), living)
    assert scoring.state == Work.State.CANCELLED
    assert scoring.reason.startswith(f"moved to {SLUG} v2: ")
    assert not scoring.results.exists()
    assert ControlCheck.objects.get().trigger == Trigger.SUBMISSION
    current = living.current_version()
    assert current.number == 2
    assert set(current.standings.values_list("model__slug", flat=True)) == {"entrant-1", "entrant-2"}
    assert shifts_in(current) == {0.4}
    assert numbers_of(living.versions.get(number=1))


# One at a time


def test_the_database_refuses_a_second_check_under_way(living):
    request_check(living, Trigger.MANUAL, send=False)
    with pytest.raises(IntegrityError), transaction.atomic():
        ControlCheck.objects.create(metric=living, trigger=Trigger.SCHEDULE)


def at_once(number, act):
    """What `act` returns in so many threads that begin together, each with a database connection of its own."""
    gate = threading.Barrier(number)

    def one(place):
        try:
            gate.wait()
            return act(place)
        finally:
            connection.close()

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(one, range(number)))


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_of_many_requests_at_once_one_makes_a_check_and_all_get_it(living):
    for _ in range(3):
        found = at_once(6, lambda _place: request_check(living, Trigger.MANUAL, send=False).pk)
        assert len(set(found)) == 1
        assert ControlCheck.objects.filter(state=Work.State.QUEUED).count() == 1
        drain()
    assert AuditEvent.objects.filter(verb="request control check").count() == 3


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_of_many_workers_at_once_one_performs_the_check(living, stage):
    drift(stage)
    check = request_check(living, Trigger.MANUAL, send=False)
    asked = len(stage.asked)
    at_once(6, lambda _place: perform(ControlCheck.objects.get(pk=check.pk)))
    check.refresh_from_db()
    assert check.verdict == Verdict.DRIFTED
    assert len(stage.asked) <= asked + 2  # a scoring and its confirmation; one entry has no impact to estimate
    assert Rescoring.objects.count() == 1
    drain()
    assert living.versions.count() == 2


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_submissions_at_once_are_all_published_and_checks_never_overlap(living):
    scorings = [request_evaluation(entrant(n, living), living, send=False) for n in (2, 3, 4, 5)]
    for _ in range(8):
        hurry()
        at_once(4, lambda place: deliver(scorings[place]))
    drain()
    assert {s.state for s in fresh(scorings)} == {Work.State.DONE}
    made = sorted(ControlCheck.objects.values_list("started_at", "finished_at"))
    assert all(before[1] <= after[0] for before, after in pairwise(made))
    assert living.current_version().standings.values("model").distinct().count() == 5


def test_a_killed_check_is_taken_over_and_says_the_same(living, stage):
    drift(stage)
    check = request_check(living, Trigger.MANUAL, send=False)
    stage.kill_after = 1  # in the confirmation
    with pytest.raises(Killed):
        perform(check)
    check.refresh_from_db()
    assert check.state == Work.State.RUNNING
    assert not Rescoring.objects.exists()
    perform(check)  # the lease still stands
    assert ControlCheck.objects.get(pk=check.pk).state == Work.State.RUNNING
    expire()
    perform(ControlCheck.objects.get(pk=check.pk))
    check.refresh_from_db()
    assert (check.state, check.verdict) == (Work.State.DONE, Verdict.DRIFTED)
    assert Rescoring.objects.count() == 1
