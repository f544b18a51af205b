"""Openings: a version is opened on a scorer whose noise is known, and on none that is two, or too noisy to watch."""

import time
from datetime import timedelta

import numpy as np
import pytest
from django.core.management import call_command
from django.utils import timezone

from leaderboard.models import ControlCheck, ControlSet, MetricVersion, Opening, Replicate, Rescoring, Scoring, Work
from leaderboard.models.clock import database_now, from_now
from leaderboard.services import artefacts, checks, openings, scorers
from leaderboard.services.checks import due_trigger, perform, request_check
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.leases import Deferred
from leaderboard.services.openings import ensure_control_set
from leaderboard.services.versions import keep_attributes
from scoring.metrics import instruments
from scoring.metrics.formulas import values_of
from scoring.refusals import Refused
from scoring.scorers import ScorerUnavailable
from tests.leaderboard.living import (
    SLUG,
    Killed,
    Stage,
    active,
    deliver,
    drain,
    drift,
    entrant,
    expire,
    hurry,
    small_metric,
    standing_in,
    submit,
)
from tests.leaderboard.test_history import page, said

pytestmark = pytest.mark.django_db

Verdict = ControlCheck.Verdict
REPLICATES = 21


@pytest.fixture(autouse=True)
def stage() -> Stage:
    with standing_in() as found:
        found.attributes = ("toxicity",)
        yield found


@pytest.fixture
def metric(db, tmp_path, settings):
    """A metric whose control set is of 300 texts, scored 21 times at its opening."""
    settings.OPENING_REPLICATES = REPLICATES
    return small_metric(tmp_path, copies=30)


@pytest.fixture
def remote(monkeypatch, settings):
    """Have every scorer watched as one behind a URL: three replicates, an hour apart."""
    settings.OPENING_REPLICATES, settings.OPENING_SPREAD_SECONDS = 3, 7200.0
    original = instruments.scorer_instrument

    def spread(scorer):
        scorer.cost = object()
        return original(scorer)

    monkeypatch.setattr(instruments, "scorer_instrument", spread)


def check(metric) -> ControlCheck:
    found = request_check(metric, "manual", send=False)
    perform(found)
    found.refresh_from_db()
    return found


def normal(deviation: float, rise: float = 0.0):
    """Noise on the score itself, as it is near 0.5; and a rise of every logit."""
    generator = np.random.default_rng(5)
    return lambda scores: rise + generator.normal(0, deviation, scores.shape) / np.clip(scores * (1 - scores), 0.01, 1)


def now_and_then(share: float, jump: float, rise: float = 0.0):
    """A jump of the logit in a share of all answers, and a rise of every one."""
    generator = np.random.default_rng(6)
    return lambda scores: rise + jump * (generator.random((len(scores), 1)) < share)


# Four changes that the largest spread of any text once hid


@pytest.mark.slow
def test_noise_of_3_in_a_thousand_then_two_hundredths_on_every_score_is_found(metric, stage):
    stage.noise = normal(0.003)
    submit(entrant(1, metric), metric)
    assert ControlSet.objects.get().items.rows == 350
    assert ControlSet.objects.get().noise == pytest.approx(0.003, rel=0.1)
    assert check(metric).verdict == Verdict.STABLE
    stage.noise = normal(0.003, rise=0.12)  # 0.02 on average
    found = check(metric)
    assert (found.verdict, found.statistics["scorings"]) == (Verdict.DRIFTED, 5)


@pytest.mark.slow
def test_noise_of_2_in_a_hundred_then_a_whole_logit_is_found(metric, stage):
    stage.noise = normal(0.02)
    submit(entrant(1, metric), metric)
    assert check(metric).verdict == Verdict.STABLE
    stage.noise = normal(0.02, rise=1.0)
    assert check(metric).verdict == Verdict.DRIFTED


@pytest.mark.slow
def test_texts_that_jump_at_the_opening_then_a_whole_logit_is_found(metric, stage):
    stage.noise = now_and_then(0.002, 2.0)
    submit(entrant(1, metric), metric)
    assert check(metric).verdict == Verdict.STABLE
    stage.noise = now_and_then(0.002, 2.0, rise=1.0)
    assert check(metric).verdict == Verdict.DRIFTED


@pytest.mark.slow
def test_in_the_middle_of_a_rollout_no_version_is_opened_and_nothing_is_published_until_it_is_over(
    metric, stage, client
):
    stage.noise = now_and_then(0.5, 0.5)
    scoring = request_evaluation(entrant(1, metric), metric, send=False)
    deliver(scoring)
    scoring.refresh_from_db()
    assert (scoring.state, scoring.attempts) == (Work.State.QUEUED, 0)
    assert scoring.reason.startswith("the version is not opened: the scorer answers as two")
    opening = Opening.objects.get()
    assert (opening.refusals, opening.replicates.count()) == (1, 0)
    assert not ControlSet.objects.exists()
    assert metric.current_version() is None
    text = said(page(client, f"/drift/?metric={SLUG}"))
    assert "Version 1 is not opened: the scorer answers as two" in text
    assert "tried again by itself" in text

    stage.noise = None  # it is over
    drain()
    scoring.refresh_from_db()
    assert (scoring.state, scoring.reason) == (Work.State.DONE, "")
    assert not Opening.objects.exists()
    stage.noise = now_and_then(1.0, 1.5)
    assert check(metric).verdict == Verdict.DRIFTED


# The way to a control set


@pytest.mark.slow
def test_a_refused_opening_is_tried_again_after_a_pause_that_doubles_and_not_before(metric, stage, settings):
    settings.OPENING_REPLICATES = 9
    stage.noise = now_and_then(0.5, 0.5)
    scoring = request_evaluation(entrant(1, metric), metric, send=False)
    for refusals, minutes in ((1, 1), (2, 2), (3, 4)):
        deliver(scoring)
        opening = Opening.objects.get()
        assert opening.refusals == refusals
        left = (opening.not_before - timezone.now()).total_seconds()
        assert 60 * minutes - 30 < left <= 60 * minutes
        asked = len(stage.asked)
        scoring.refresh_from_db()
        assert scoring.not_before == pytest.approx(opening.not_before, abs=timedelta(seconds=5))
        type(scoring).objects.update(not_before=None)
        deliver(scoring)  # too early: nothing is asked
        assert len(stage.asked) == asked
        hurry()


@pytest.mark.slow
def test_replicates_of_a_remote_scorer_are_spread_over_time_while_no_worker_sleeps(tmp_path, db, stage, remote, client):
    metric = small_metric(tmp_path)
    first, second = (request_evaluation(entrant(n, metric), metric, send=False) for n in (1, 2))
    for made in (1, 2):
        deliver(first)
        first.refresh_from_db()
        assert Replicate.objects.count() == made
        assert first.reason == f"the version is being opened: {made} of 3 scorings are made"
        text = said(page(client, f"/drift/?metric={SLUG}"))
        assert f"Version 1 is being opened: {made} of 3 scorings of its control texts are made" in text
        assert 3500 < (first.not_before - timezone.now()).total_seconds() <= 3600
        second.refresh_from_db()
        assert (second.waits_for, second.reason) == (first.waits_for, first.reason), "it would only find the same"
        assert second.not_before == pytest.approx(first.not_before, abs=timedelta(seconds=5))
        Scoring.objects.filter(pk=second.pk).update(not_before=None)
        deliver(second)  # whoever waits for the same version makes no replicate before its time
        assert Replicate.objects.count() == made
        Replicate.objects.update(scored_at=timezone.now() - timedelta(hours=1))
        hurry()
    drain()
    table = artefacts.load(ControlSet.objects.get().reference)
    assert {len(row) for row in table["replicates:toxicity"].to_pylist()} == {3}
    assert metric.current_version().standings.values("model").distinct().count() == 2


@pytest.mark.slow
def test_replicates_of_another_scorer_are_given_up(tmp_path, db, stage, remote):
    metric = small_metric(tmp_path)
    scoring = request_evaluation(entrant(1, metric), metric, send=False)
    deliver(scoring)
    drift(stage)
    Replicate.objects.update(scored_at=timezone.now() - timedelta(hours=1))
    hurry()
    deliver(scoring)
    assert Replicate.objects.count() == 1  # of the scorer of now
    for _ in range(2):
        Replicate.objects.update(scored_at=timezone.now() - timedelta(hours=1))
        drain_once(scoring)
    drain()
    version = metric.current_version()
    assert version.control_set.fingerprint == version.scorer_fingerprint


def drain_once(scoring) -> None:
    hurry()
    deliver(scoring)


def test_an_opening_that_finds_no_scorer_goes_on_where_it_was(tmp_path, db, stage, remote, monkeypatch):
    metric = small_metric(tmp_path)
    scoring = request_evaluation(entrant(1, metric), metric, send=False)
    deliver(scoring)
    Replicate.objects.update(scored_at=timezone.now() - timedelta(hours=1))
    hurry()
    stage.down = True
    deliver(scoring)
    scoring.refresh_from_db()
    assert (scoring.state, scoring.fault) == (Work.State.QUEUED, ScorerUnavailable.__name__)
    stage.down = False
    hurry()
    deliver(scoring)
    assert Replicate.objects.count() == 2


@pytest.mark.slow
def test_a_rescoring_waits_for_the_opening_of_its_version_and_readers_keep_the_old_one(metric, stage, settings):
    settings.OPENING_REPLICATES = 9
    submit(entrant(1, metric), metric)
    old = metric.current_version()
    stage.noise = now_and_then(0.5, 1.0)  # another model is rolled out
    assert check(metric).verdict == Verdict.DRIFTED
    rescoring = active(metric)
    (scoring,) = rescoring.to_version.scorings.all()
    deliver(scoring)
    scoring.refresh_from_db()
    assert "the scorer answers as two" in scoring.reason
    assert metric.current_version() == old
    assert due_trigger(metric) is None
    with pytest.raises(Refused, match="no control set yet"):
        request_check(metric, "manual")
    stage.noise = now_and_then(1.0, 1.0)
    drain()
    assert Rescoring.objects.get().state == "published"
    assert metric.current_version().number == 2
    reference = artefacts.load(metric.current_version().control_set.reference)
    before = artefacts.load(old.control_set.reference)
    assert values_of(reference).mean() > values_of(before).mean() + 0.1


@pytest.mark.slow
def test_the_command_says_what_a_check_can_detect(metric, stage, settings, capsys):
    settings.OPENING_REPLICATES = 9
    submit(entrant(1, metric), metric)
    call_command("check_control", SLUG)
    assert "A check like this one finds, in 99% of cases, a mean shift of 0.005" in capsys.readouterr().out


@pytest.mark.slow
def test_a_control_set_of_the_old_rule_is_not_checked_and_is_opened_anew(metric, stage, settings):
    settings.OPENING_REPLICATES = 2
    submit(entrant(1, metric), metric)
    ControlSet.objects.update(check_version=1)
    assert due_trigger(metric) is None
    with pytest.raises(Refused, match="version 1 of the rule of checks"):
        request_check(metric, "manual")


@pytest.mark.slow
def test_the_margin_follows_the_standard_errors_of_entries(metric, settings):
    settings.OPENING_REPLICATES = 2
    scoring = submit(entrant(1, metric), metric)
    result = scoring.results.get(measure="expected_max_toxicity", slice="toxicity:all")
    expected = 0.25 * (result.ci_high - result.ci_low) / (2 * 1.959964)
    margin = checks.margins_of(metric.current_version())["expected_max_toxicity"]
    assert margin == pytest.approx(min(0.005, expected), rel=1e-6)


@pytest.mark.slow
def test_a_killed_worker_costs_one_replicate_and_others_wait_no_longer_than_its_lease(metric, stage, settings):
    settings.OPENING_REPLICATES = 5
    scoring = request_evaluation(entrant(1, metric), metric, send=False)
    stage.kill_after = 3
    with pytest.raises(Killed):
        deliver(scoring)
    made = Replicate.objects.count()
    left = (Opening.objects.get().not_before - timezone.now()).total_seconds()
    assert left <= settings.LEASE_SECONDS
    expire()
    hurry()
    deliver(scoring)
    scoring.refresh_from_db()
    assert scoring.state == Work.State.DONE
    assert made >= 1


@pytest.fixture
def version(tmp_path, db, settings) -> MetricVersion:
    """A version that waits to be opened, with one replicate."""
    settings.OPENING_REPLICATES = 1
    metric = small_metric(tmp_path)
    return request_evaluation(entrant(1, metric), metric, send=False).metric_version


@pytest.fixture
def overtaken_at(version, monkeypatch):
    """Have another worker open the version as the first one comes to a function of `openings`, whose hold ran out."""

    def prepare(name: str) -> list[ControlSet]:
        go_on, controls = getattr(openings, name), []

        def open_first(*args):
            monkeypatch.setattr(openings, name, go_on)
            Opening.objects.update(not_before=from_now(-1))
            controls.append(open_elsewhere(version))
            return go_on(*args)

        monkeypatch.setattr(openings, name, open_first)
        return controls

    return prepare


def open_elsewhere(version: MetricVersion) -> ControlSet:
    """Have another worker open the version, and note what the scorer declares before it scores an entry."""
    version = MetricVersion.objects.get(pk=version.pk)
    control = ensure_control_set(version)
    keep_attributes(version, scorers.scorer_of(version).attributes)
    return control


def declared_by(version: MetricVersion) -> list[str]:
    return [attribute.name for attribute in MetricVersion.objects.get(pk=version.pk).declared]


def test_a_worker_that_loads_the_scorer_while_another_opens_the_version_opens_it_no_second_time(
    version, overtaken_at, monkeypatch
):
    score_once, numbers = openings.score_once, []

    def score_and_count(opening, instrument, number, scoring):
        numbers.append(number)
        score_once(opening, instrument, number, scoring)

    monkeypatch.setattr(openings, "score_once", score_and_count)
    controls = overtaken_at("instrument_of")
    assert ensure_control_set(version) == controls[0]
    assert numbers == [0]
    assert not Opening.objects.exists()
    assert declared_by(version) == ["toxicity"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("replicates", "has_texts"),
    [(1, False), (1, True), (2, True)],
    ids=["at the choice of texts", "at the last replicate", "before it"],
)
def test_a_worker_whose_hold_ran_out_leaves_the_version_as_another_opened_it(
    version, stage, settings, replicates, has_texts
):
    settings.OPENING_REPLICATES = replicates
    controls, counts = [], []

    def take_over(values):
        if Opening.objects.filter(items__isnull=not has_texts).update(not_before=from_now(-1)):
            stage.noise = None
            controls.append(open_elsewhere(version))
            counts.append(len(stage.asked))
        return np.zeros_like(values)

    stage.noise = take_over
    with pytest.raises(Deferred):
        ensure_control_set(version)
    assert [*ControlSet.objects.all()] == controls
    assert not Opening.objects.exists()
    assert not Replicate.objects.exists()
    assert has_texts or counts == [len(stage.asked)], "nothing is asked for an opening that has ended"
    assert declared_by(version) == ["toxicity"]


def test_a_control_set_that_another_worker_froze_meanwhile_stays_with_what_is_scored_under_it(version, overtaken_at):
    controls = overtaken_at("store_reference")
    assert ensure_control_set(version) == controls[0]
    assert not Opening.objects.exists()
    assert declared_by(version) == ["toxicity"]


def test_a_worker_that_finds_no_replicates_of_an_opening_that_has_ended_refuses_nothing(version, overtaken_at):
    controls = overtaken_at("freeze")
    with pytest.raises(Deferred) as wait:
        ensure_control_set(version)
    assert (wait.value.seconds, wait.value.reason) == (0, "")
    assert [*ControlSet.objects.all()] == controls


def test_an_opened_version_wakes_what_waited_for_that_and_nothing_else(version):
    causes = ("opening", "steadiness", "check", "")
    scorings = [
        request_evaluation(entrant(number, version.metric), version.metric, send=False)
        for number in range(2, 2 + len(causes))
    ]
    for scoring, waits_for in zip(scorings, causes, strict=True):
        Scoring.objects.filter(pk=scoring.pk).update(not_before=from_now(600), reason="later", waits_for=waits_for)
    ensure_control_set(version)
    for scoring, waits_for in zip(scorings, causes, strict=True):
        scoring.refresh_from_db()
        is_awake = scoring.not_before is None
        assert is_awake == (waits_for in ("opening", "steadiness")), waits_for
        assert (scoring.reason, scoring.waits_for) == (("", "") if is_awake else ("later", waits_for))


@pytest.fixture
def other_version(tmp_path, version) -> MetricVersion:
    """A version of another metric, which waits to be opened, too."""
    metric = small_metric(tmp_path, slug="another-metric")
    return request_evaluation(entrant(2, metric), metric, send=False).metric_version


def test_one_opening_changes_nothing_of_another(version, other_version, stage, settings):
    settings.OPENING_REPLICATES = 5
    Opening.objects.create(metric_version=other_version, wanted=1, fingerprint="0" * 64, reason="It wavers.")
    others = Opening.objects.filter(metric_version=other_version), other_version.scorings.order_by("pk")
    before = [list(rows.values()) for rows in others]
    Scoring.objects.filter(metric_version=version).update(enqueued_at=None)
    stage.down = True
    with pytest.raises(ScorerUnavailable):
        ensure_control_set(version)
    assert [list(rows.values()) for rows in others] == before
    stage.down = False
    generator = np.random.default_rng(1)
    stage.noise = lambda values: generator.normal(0, 3, values.shape)
    with pytest.raises(Deferred) as wait:
        ensure_control_set(version)
    own = Opening.objects.get(metric_version=version)
    assert (wait.value.seconds, wait.value.waits_for, own.refusals) == (60, "steadiness", 1)
    assert wait.value.reason == f"the version is not opened: {own.reason}"
    assert (own.not_before - database_now()).total_seconds() == pytest.approx(60, abs=10)
    scoring = version.scorings.get()
    waits = (scoring.reason, scoring.fault, scoring.waits_for)
    assert waits == (wait.value.reason, "", "steadiness"), "each entry would only find the same"
    assert (scoring.not_before - database_now()).total_seconds() == pytest.approx(60, abs=10)
    assert [list(rows.values()) for rows in others] == before
    stage.noise = None
    Opening.objects.filter(metric_version=version).update(not_before=None)
    control = ensure_control_set(version)
    assert (control.metric_version, control.noise) == (version, 0.0)
    assert [list(rows.values()) for rows in others] == before


@pytest.mark.parametrize(
    ("reason", "waits_for", "words"),
    [("", "opening", "0 of 3 scorings are made"), ("the scorer answers as two", "steadiness", "answers as two")],
)
def test_whoever_finds_an_opening_held_waits_for_that_one_as_long_as_it_is_held(
    version, other_version, reason, waits_for, words
):
    Opening.objects.create(metric_version=other_version, wanted=9, fingerprint="1" * 64, not_before=from_now(5))
    values = {"fingerprint": "0" * 64, "reason": reason, "not_before": from_now(600)}
    Opening.objects.create(metric_version=version, wanted=3, **values)
    with pytest.raises(Deferred, match=words) as wait:
        ensure_control_set(version)
    assert 500 < wait.value.seconds <= 600
    assert wait.value.waits_for == waits_for


def test_what_a_worker_that_died_left_of_an_opening_is_not_shown_once_the_version_is_open(version, client):
    opening = Opening.objects.create(metric_version=version, wanted=1, fingerprint="0" * 64)
    assert "Version 1 is being opened: 0 of 1 scorings" in said(page(client, f"/drift/?metric={SLUG}"))
    opening.delete()
    ensure_control_set(version)
    opening.save()
    assert "is being opened" not in said(page(client, f"/drift/?metric={SLUG}"))


def test_whoever_waits_for_the_choice_of_texts_asks_the_scorer_nothing(version, stage):
    waits = []

    def wait_meanwhile(values):
        stage.noise = None
        count = len(stage.asked)
        with pytest.raises(Deferred) as wait:
            ensure_control_set(MetricVersion.objects.get(pk=version.pk))
        waits.append((wait.value.reason, len(stage.asked) - count))
        return np.zeros_like(values)

    stage.noise = wait_meanwhile
    control = ensure_control_set(version)
    assert waits == [("the version is being opened: 0 of 1 scorings are made", 0)]
    assert artefacts.load(control.items).num_rows > 0


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_an_opening_is_held_for_as_long_as_a_scorer_takes(version, stage, settings):
    settings.LEASE_SECONDS = 1.5
    metric = version.metric
    first, second = version.scorings.get(), request_evaluation(entrant(2, metric), metric, send=False)
    outcomes = []

    def take_longer_than_a_lease(values):
        stage.noise = None
        time.sleep(2.5)
        deliver(second)
        second.refresh_from_db()
        outcomes.append((second.state, second.reason))
        return np.zeros_like(values)

    stage.noise = take_longer_than_a_lease
    deliver(first)
    assert outcomes == [(Work.State.QUEUED, "the version is being opened: 0 of 1 scorings are made")]
    drain()
    assert metric.current_version().standings.values("model").distinct().count() == 2
