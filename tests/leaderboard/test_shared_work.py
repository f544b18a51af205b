"""What workers leave to each other: work that waits, that one of them cannot do, and what they note of it."""

from datetime import timedelta
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.utils import timezone

from leaderboard.models import (
    Artefact,
    AuditEvent,
    Calibration,
    ControlCheck,
    ControlSet,
    Download,
    EvaluationSet,
    LanguageModel,
    Metric,
    MetricVersion,
    Protocol,
    Rescoring,
    Result,
    Run,
    Scoring,
    Work,
    Worker,
)
from leaderboard.services import abilities, artefacts, cages, calibrations, checks, hosts, leases
from leaderboard.services.abilities import (
    hosts_to_ask,
    leave_to_others,
    may_be_elsewhere,
    note_ability,
    other_workers,
    recent_problem,
)
from leaderboard.services.alone import each_alone
from leaderboard.services.artefacts import ArtefactLost, copy_to, note_loss
from leaderboard.services.collect import check_template, count_not_finite, dependencies_of, environment_of, groups_of
from leaderboard.services.control import instrument_environment
from leaderboard.services.downloads import drop_unwanted, fail_runs, require_files
from leaderboard.services.folders import HostLacks
from leaderboard.services.joined_scores import join_tables
from leaderboard.services.leases import (
    Deferred,
    Interrupted,
    OutOfTime,
    claim,
    end_waiting,
    give_back_if_unable,
    note_stuck,
)
from leaderboard.services.openings import growing_pause
from leaderboard.storage import StorageAway, board_storage
from scoring.cage.limits import CageLimits
from scoring.drift import rule
from scoring.generation.continuation import NOT_FINITE
from scoring.language_models import ModelRefused, RevisionChanged
from scoring.likelihood import Unscorable
from scoring.refusals import Refused
from scoring.scorers import ScorerState, ScorerUnavailable
from tests.leaderboard.stored import metric_of, run_of, runs_on, score_all, version_of

pytestmark = pytest.mark.django_db

GB = 2**30


@pytest.fixture
def workers(settings, monkeypatch):
    """Three living workers on as many hosts; this process is the first."""
    now = timezone.now()
    settings.HOST = "alpha"
    for host, queues in (("alpha", ["default", "gpu"]), ("beta", ["default", "gpu"]), ("gamma", ["default"])):
        Worker.objects.create(
            name=f"w@{host}", host=host, queues=queues, started_at=now, beat_at=now, environment={"host": host}
        )
    for module in (abilities, leases):
        monkeypatch.setattr(module, "worker_name", lambda: "w@alpha")


@pytest.fixture
def metric(db):
    return metric_of("rude", "profanity")


def queued_run(metric, slug: str, **model) -> Run:
    """A run that waits for a worker, of a model of its own."""
    place = {"source": "uploaded"} if "source" not in model else {"location": f"plumb/{slug}", "revision": "1"}
    row = LanguageModel.objects.create(slug=slug, name=slug, kind="causal", **place | model)
    return Run.objects.create(model=row, protocol=metric.protocol, state="queued")


# Work that waits


def test_what_waits_for_a_fault_goes_on_once_that_is_over_and_other_work_waits_on(metric):
    later, sent = timezone.now() + timedelta(hours=1), timezone.now() - timedelta(seconds=5)
    waiting = {"fault": "OSError", "waits_since": sent, "not_before": later, "enqueued_at": sent}
    runs = {}
    for slug, values in {
        "waits": waiting,
        "other": waiting | {"fault": "HubUnavailable"},
        "failed": waiting | {"waits_since": None},
        "ended": waiting | {"state": "cancelled"},
    }.items():
        runs[slug] = queued_run(metric, slug)
        Run.objects.filter(pk=runs[slug].pk).update(**values)
    end_waiting("OSError")
    for run in runs.values():
        run.refresh_from_db()
    assert {slug: run.not_before for slug, run in runs.items()} == {
        "waits": None,
        "other": later,
        "failed": later,
        "ended": later,
    }
    assert runs["waits"].enqueued_at > sent, "its message is sent anew, at once"
    assert {runs[slug].enqueued_at for slug in ("other", "failed", "ended")} == {sent}


def test_work_that_was_resumed_already_gets_no_second_message(metric, monkeypatch):
    sweep = Mock()
    monkeypatch.setattr(leases, "sweep", sweep)
    moment = timezone.now() - timedelta(seconds=5)
    run = queued_run(metric, "resumed")
    Run.objects.filter(pk=run.pk).update(fault="OSError", waits_since=moment, not_before=None, enqueued_at=moment)
    end_waiting("OSError")
    run.refresh_from_db()
    assert run.enqueued_at == moment
    assert not sweep.called


def test_a_worker_that_is_stuck_is_noted_with_its_work_until_it_is_free(workers):
    note_stuck("w@beta", 300 * "x")
    stuck = Worker.objects.get(name="w@beta")
    assert stuck.stuck_at == 200 * "x"
    assert stuck.stuck_since is not None
    assert list(Worker.objects.exclude(name="w@beta").values_list("stuck_at", "stuck_since")) == 2 * [("", None)]
    note_stuck("w@beta", "")
    assert set(Worker.objects.values_list("stuck_at", "stuck_since")) == {("", None)}


# What becomes of work that breaks off


class PanicException(BaseException):
    """As libraries in Rust raise it."""


@pytest.fixture
def run(metric):
    return queued_run(metric, "oak")


@pytest.fixture
def longest_pauses(monkeypatch):
    """Pauses without chance: always the longest."""
    monkeypatch.setattr(leases.random, "uniform", lambda low, high: high)


def break_off(work: Work, error: BaseException) -> tuple[object, ...]:
    """What is noted of work that raised an error: state, attempts, reason, fault, and seconds until it may begin."""
    began = timezone.now()
    with claim(work) as lease:
        assert lease
        raise error
    work.refresh_from_db()
    pause = round((work.not_before - began).total_seconds()) if work.not_before else 0
    return work.state, work.attempts, work.reason, work.fault, pause


def test_an_error_of_the_work_is_tried_again_after_pauses_that_double_up_to_the_last_attempt(
    run, settings, longest_pauses
):
    settings.MOST_ATTEMPTS = 4
    for attempt, pause in ((1, 15), (2, 30), (3, 60)):
        Run.objects.update(not_before=None, waits_since=timezone.now())
        assert break_off(run, ValueError("x")) == ("queued", attempt, "ValueError: x", "ValueError", pause)
        assert run.waits_since is None
    Run.objects.update(not_before=None)
    assert break_off(run, ValueError("x")) == ("failed", 4, "ValueError: x (4 attempts)", "ValueError", 0)


def test_the_pause_before_another_attempt_has_an_upper_end(run, settings, longest_pauses):
    settings.MOST_ATTEMPTS = 99
    Run.objects.update(attempts=20)
    assert break_off(run, PanicException("x")) == ("queued", 21, "PanicException: x", "PanicException", 900)


def test_what_another_attempt_cannot_mend_ends_the_work_with_its_own_words(run):
    Run.objects.update(waits_since=timezone.now())
    assert break_off(run, ModelRefused("pickles")) == ("failed", 1, "pickles", "ModelRefused", 0)
    assert run.waits_since is None


def test_a_worker_that_is_ended_leaves_its_work_as_it_is(run):
    with pytest.raises(KeyboardInterrupt), claim(run):
        raise KeyboardInterrupt
    run.refresh_from_db()
    assert (run.state, run.attempts) == ("running", 1)


def test_a_transaction_that_was_in_the_way_costs_no_attempt_and_hardly_any_time(run, longest_pauses):
    error, cause = OperationalError("deadlock detected"), Exception()
    cause.pgcode = "40P01"
    error.__cause__ = cause
    assert break_off(run, error) == ("queued", 0, "", "", 1)


def test_work_waits_the_longer_for_the_board_the_longer_it_has_waited(run, longest_pauses):
    assert break_off(run, OSError("full")) == ("queued", 0, "OSError: full", "OSError", 15)
    since = run.waits_since
    assert since is not None
    Run.objects.update(not_before=None, waits_for="check")
    assert break_off(run, OSError("full"))[4] == 15
    assert (run.waits_since, run.waits_for) == (since, "")
    for waited, pause in ((100, 75), (10_000, 900)):
        Run.objects.update(not_before=None, waits_since=timezone.now() - timedelta(seconds=waited))
        assert break_off(run, OSError("full"))[4] == pytest.approx(pause, abs=2)


def test_deferred_work_says_what_it_waits_for_and_interrupted_work_goes_on_with_that(run):
    Run.objects.update(fault="OSError", waits_since=timezone.now())
    words = "the control check had no answer: soon"
    assert break_off(run, Deferred(60, "soon", "check")) == ("queued", 0, words, "", 60)
    assert (run.waits_for, run.waits_since) == ("check", None)
    Run.objects.update(not_before=None)
    assert break_off(run, Interrupted()) == ("queued", 0, words, "", 0)
    assert run.waits_for == "check"


def test_with_an_entry_of_a_rescoring_the_others_of_it_wait_for_the_board(metric):
    first, second = version_of(metric, "one"), version_of(metric, "two")
    other_version = version_of(metric_of("ruder", "detoxify-original"), "other")
    Rescoring.objects.create(metric=metric, from_version=first, to_version=second, reason="to see", state="running")

    def add(slug: str, version: MetricVersion, **values: object) -> Scoring:
        run = queued_run(metric, slug)
        return Scoring.objects.create(model=run.model, run=run, metric_version=version, **{"state": "queued"} | values)

    work = add("oak", second)
    others = {
        "waits too": add("ash", second),
        "paused": add("elm", second, held=True),
        "cancelled": add("fir", second, state="cancelled"),
        "former": add("yew", first),
        "other": add("box", other_version),
    }
    with claim(work):
        raise ScorerUnavailable("down")
    work.refresh_from_db()
    for row in others.values():
        row.refresh_from_db()
    waits = {name: (row.reason, row.fault, row.not_before) for name, row in others.items()}
    assert waits == {
        "waits too": ("ScorerUnavailable: down", "ScorerUnavailable", work.not_before),
        **dict.fromkeys(("paused", "cancelled", "former", "other"), ("", "", None)),
    }
    Scoring.objects.update(not_before=None, waits_since=None, reason="", fault="")
    with claim(work):
        raise FileNotFoundError("one file")
    others["waits too"].refresh_from_db()
    assert others["waits too"].fault == "", "only who needs that file waits for it"


# Work that a worker cannot do


def test_what_this_worker_lacks_is_noted_and_left_to_those_that_may_have_it(workers):
    note_ability("w@gamma", "scorer profanity", problem="it lacks the library")
    with (
        pytest.raises(Deferred) as wait,
        give_back_if_unable(ControlCheck, "scorer profanity"),
    ):
        raise ScorerUnavailable("no files")
    assert wait.value.reason == "w@alpha gave it back (no files): it is for w@beta"
    assert recent_problem(Worker.objects.get(name="w@alpha"), "scorer profanity") == "no files"
    with pytest.raises(Deferred), give_back_if_unable(Run, "model 7"):
        raise MemoryError
    assert recent_problem(Worker.objects.get(name="w@alpha"), "model 7") == "MemoryError"


def test_what_nobody_else_can_do_or_has_ended_for_good_is_not_given_back(workers, monkeypatch):
    with pytest.raises(ScorerUnavailable), give_back_if_unable(Run, "scorer profanity"):
        raise ScorerUnavailable("it is retired", ScorerState.RETIRED)
    assert not Worker.objects.get(name="w@alpha").abilities, "that is no fault of this worker"
    monkeypatch.setattr(leases, "worker_name", lambda: "")
    with pytest.raises(ScorerUnavailable), give_back_if_unable(Run, "scorer profanity"):
        raise ScorerUnavailable("no files")
    monkeypatch.setattr(leases, "worker_name", lambda: "w@alpha")
    note_ability("w@beta", "scorer profanity", problem="it lacks the library")
    with pytest.raises(ScorerUnavailable), give_back_if_unable(Run, "scorer profanity"):
        raise ScorerUnavailable("no files")


def test_other_workers_are_those_of_the_queue_that_live_and_take_work(workers):
    assert [row.name for row in other_workers("gpu")] == ["w@beta"]
    assert [row.name for row in other_workers("default")] == ["w@beta", "w@gamma"]
    Worker.objects.filter(name="w@beta").update(refusal="it has other code")
    assert [row.name for row in other_workers("default")] == ["w@gamma"]
    Worker.objects.filter(name="w@gamma").update(beat_at=timezone.now() - timedelta(days=1))
    assert other_workers("default") == []


def test_a_finding_about_a_worker_keeps_the_fingerprint_and_is_believed_for_a_while(workers):
    note_ability("w@beta", "scorer profanity", fingerprint="abc")
    note_ability("w@beta", "scorer profanity", problem="it lacks the library")
    row = Worker.objects.get(name="w@beta")
    noted_at = row.abilities["scorer profanity"].pop("at")
    assert row.abilities == {"scorer profanity": {"fingerprint": "abc", "problem": "it lacks the library"}}
    row.abilities["scorer profanity"]["at"] = noted_at
    assert recent_problem(row, "scorer profanity") == "it lacks the library"
    assert recent_problem(row, "scorer detoxify-original") == ""
    row.beat_at += timedelta(minutes=9)
    assert recent_problem(row, "scorer profanity")
    row.beat_at += timedelta(minutes=2)
    assert recent_problem(row, "scorer profanity") == "", "it may try again"
    note_ability("w@beta", "scorer profanity")
    row.refresh_from_db()
    assert row.abilities == {"scorer profanity": {"fingerprint": "abc", "problem": ""}}
    note_ability("w@nowhere", "scorer profanity", problem="it is gone")
    note_ability("", "scorer profanity", problem="no worker")
    assert Worker.objects.exclude(abilities={}).count() == 1


def test_whom_to_ask_are_other_hosts_that_may_be_able(workers):
    assert hosts_to_ask("default", "scorer profanity") == ["beta", "gamma"]
    assert may_be_elsewhere("gpu", "scorer profanity")
    note_ability("w@beta", "scorer profanity", problem="it lacks the library")
    assert hosts_to_ask("default", "scorer profanity") == ["gamma"]
    assert not may_be_elsewhere("gpu", "scorer profanity")
    Worker.objects.filter(name="w@gamma").update(host="alpha")
    assert hosts_to_ask("default", "scorer profanity") == []


def test_runs_that_this_worker_could_not_do_lately_are_left_to_another_that_may(workers, metric):
    parameters = metric.protocol.parameters | {"precision": "float16"}
    Protocol.objects.filter(pk=metric.protocol.pk).update(parameters=parameters)
    for slug, precision in (("slow", "bfloat16"), ("as-protocol", ""), ("other", "float32"), ("half", "float16")):
        queued_run(metric, slug, precision=precision)

    def list_left() -> set[str]:
        return set(Run.objects.filter(leave_to_others(Run)).values_list("model__slug", flat=True))

    assert list_left() == set()
    note_ability("w@alpha", "precision bfloat16", problem="it is slow")
    assert list_left() == {"slow"}
    note_ability("w@beta", "precision bfloat16", problem="it is slow")
    assert list_left() == set(), "nobody else is able"
    note_ability("w@alpha", "precision float16", problem="it is slow")
    assert list_left() == {"as-protocol", "half"}
    assert Run.objects.filter(leave_to_others(Download)).count() == 0
    Worker.objects.filter(name="w@alpha").delete()
    assert list_left() == set()


def test_work_that_needs_a_scorer_which_this_worker_lacks_is_left_to_another(workers, metric):
    check = ControlCheck.objects.create(metric=metric, trigger="manual")
    other = ControlCheck.objects.create(metric=metric_of("ruder", "detoxify-original"), trigger="manual")
    note_ability("w@alpha", "scorer profanity", problem="it lacks the library")
    assert list(ControlCheck.objects.filter(leave_to_others(ControlCheck))) == [check]
    note_ability("w@alpha", "nothing known", problem="it lacks that")
    assert list(ControlCheck.objects.exclude(leave_to_others(ControlCheck))) == [other]


def test_models_too_large_for_this_worker_are_left_to_one_that_holds_them(workers, metric):
    for slug, parameters in (("small", 10**6), ("large", 10**9), ("giant", 10**12), ("unknown", None)):
        queued_run(metric, slug, parameters=parameters)
    Worker.objects.filter(name="w@alpha").update(memory=2 * GB)
    Worker.objects.filter(name="w@beta").update(memory=100 * GB)

    def list_left() -> set[str]:
        return set(Run.objects.filter(leave_to_others(Run)).values_list("model__slug", flat=True))

    assert list_left() == {"large"}
    Worker.objects.filter(name="w@beta").update(memory=2 * GB)
    assert list_left() == set()
    Worker.objects.filter(name="w@beta").update(memory=None)
    assert list_left() == set()


def test_what_a_worker_can_do_is_noted_again_until_it_goes_down_whatever_fails(monkeypatch, caplog):
    notes = []

    def note(worker: str) -> None:
        notes.append(worker)
        if len(notes) == 3:
            leases.stop_requested.set()
        raise OSError("the disk is away")

    monkeypatch.setattr(hosts, "note_abilities", note)
    monkeypatch.setattr(hosts, "connection", Mock())
    monkeypatch.setattr(hosts, "NOTED_EVERY", 0.001)
    hosts.keep_noting_abilities("w@alpha")
    assert notes == 3 * ["w@alpha"]
    assert hosts.connection.close.call_count == 3, "its connection is its thread's own"
    assert "the disk is away" in caplog.text


def test_a_run_has_the_time_that_is_left_to_it_and_the_memory_of_the_worker(settings, monkeypatch):
    settings.RUN_SECONDS, settings.NO_PROGRESS_SECONDS, settings.WORKER_MEMORY_GB = 100.0, 7.0, 2.0
    monkeypatch.setattr(cages, "has_gpu", lambda: True)
    assert cages.limits_of_run(30.0) == CageLimits(seconds=70.0, idle_seconds=7.0, memory=2 * 10**9, address_space=None)
    monkeypatch.setattr(cages, "has_gpu", lambda: False)
    assert cages.limits_of_run(99.0).seconds == 1.0
    assert cages.limits_of_run(0.0).address_space >= 2 * 10**9
    with pytest.raises(OutOfTime, match=r"^it took 100 s, and RUN_SECONDS = 100 is what a run may take$"):
        cages.limits_of_run(100.0)


# Tasks beside each other


def test_a_task_that_fails_is_counted_and_the_others_are_done(caplog):
    done = []

    def divide(item: int) -> None:
        done.append(12 // item)

    assert each_alone(divide, [4, 0, 3, 0, 2]) == 2
    assert done == [3, 4, 6]
    assert "divide failed with 0: the others go on" in caplog.text


# Two hosts and one scorer


@pytest.fixture
def check(workers, metric):
    """A check of a version that is to be made here."""
    version = version_of(metric, "one")
    MetricVersion.objects.filter(pk=version.pk).update(status="current")
    frozen = Artefact.objects.create(sha256=64 * "a", kind="scores", rows=1, size=1, schema_version=1)
    control_set = ControlSet.objects.create(
        metric_version=version, items=frozen, reference=frozen, noise=0.0, check_version=1, fingerprint=64 * "1"
    )
    return ControlCheck.objects.create(metric=metric, control_set=control_set, trigger="schedule")


def test_the_first_host_that_finds_a_drift_asks_the_others_once(check):
    version = check.control_set.metric_version
    other = ControlCheck.objects.create(metric=metric_of("ruder", "detoxify-original"), trigger="manual")
    with pytest.raises(Deferred) as wait:
        checks.ask_another_host(check, version, "the mean moved")
    assert wait.value.reason == "alpha found a drift: beta or gamma scores the texts, too"
    check.refresh_from_db()
    assert (check.first_host, check.first_finding) == ("alpha", "the mean moved")
    assert ControlCheck.objects.get(pk=other.pk).first_host == ""
    with pytest.raises(Deferred, match=r"^alpha found a drift: beta or gamma scores the texts, too$"):
        checks.leave_to_another_host(check, version)
    assert checks.ask_another_host(check, version, "the mean moved") is None, "it was asked before"
    Worker.objects.exclude(name="w@alpha").delete()
    assert checks.leave_to_another_host(check, version) is None, "there is nobody else by now"
    check.first_host = ""
    assert checks.ask_another_host(check, version, "the mean moved") is None


def test_a_check_about_the_libraries_of_another_host_is_for_that_host(check):
    version = check.control_set.metric_version
    check.environment = {"host": "beta"}
    assert checks.leave_to_another_host(check, version) is None, "it is about no upgrade"
    check.trigger = "upgrade"
    with pytest.raises(Deferred, match=r"^it is about the libraries of another host$"):
        checks.leave_to_another_host(check, version)
    check.environment = {"host": "nowhere"}
    assert checks.leave_to_another_host(check, version) is None, "nobody has them"
    check.environment = {}
    assert checks.leave_to_another_host(check, version) is None


def test_hosts_that_disagree_are_recorded_and_the_one_at_fault_gets_no_work_of_the_scorer(check):
    check.first_host, check.first_finding = "beta", "the mean moved"
    checks.note_disagreement(check, check.control_set.metric_version)
    event = AuditEvent.objects.get(verb="find disagreement")
    reason = "beta found a drift that alpha does not see: the mean moved"
    assert (event.subject, event.detail) == ("metric rude", {"check": check.pk, "reason": reason})
    problems = {row.host: recent_problem(row, "scorer profanity") for row in Worker.objects.all()}
    assert problems == {"alpha": "", "beta": reason, "gamma": ""}


# When a scorer is checked


def test_a_control_set_that_lacks_files_or_is_of_another_rule_cannot_be_checked(check):
    ControlCheck.objects.all().delete()
    metric, control_set = check.metric, ControlSet.objects.get()
    opens = "`manage.py rescore rude` opens a version with one"

    def ask() -> str:
        with pytest.raises(Refused) as refusal:
            checks.request_check(metric, "manual")
        return str(refusal.value)

    assert ask() == f"rude lost files of its control set, which a backup may have: {opens} of its own"
    Artefact.objects.filter(pk=control_set.items_id).update(state="absent")
    assert ask() == f"rude was imported without the files of its control set: {opens} of its own"
    own_artefact = metric.protocol.evaluation_set.artefact
    ControlSet.objects.update(items=own_artefact, check_version=99)
    assert ask() == f"rude was imported without the files of its control set: {opens} of its own"
    ControlSet.objects.update(reference=own_artefact)
    words = f"rude: its control set was measured for version 99 of the rule of checks; {opens} for this rule"
    assert ask() == words
    assert not ControlCheck.objects.exists()


def test_a_check_is_asked_for_once_and_what_people_ask_is_on_record(check):
    own_artefact = check.metric.protocol.evaluation_set.artefact
    ControlSet.objects.update(items=own_artefact, reference=own_artefact, check_version=rule.CHECK_VERSION)
    ControlCheck.objects.create(metric=metric_of("ruder", "detoxify-original"), trigger="manual")
    assert checks.request_check(check.metric, "manual") == check, "it is under way"
    assert not AuditEvent.objects.filter(verb="request control check").exists()
    ControlCheck.objects.filter(pk=check.pk).update(state="cancelled")
    person = User.objects.create_user("olga")
    request = checks.request_check(check.metric, "manual", user=person)
    event = AuditEvent.objects.get(verb="request control check")
    assert (event.subject, event.actor) == ("metric rude", person)
    assert event.detail == {"check": request.pk, "before": {"check": None}, "after": {"check": "queued"}}
    assert (request.metric, request.trigger, request.environment) == (check.metric, "manual", {})
    ControlCheck.objects.filter(pk=request.pk).update(state="cancelled")
    upgrade = checks.request_check(check.metric, "upgrade")
    assert (upgrade.trigger, upgrade.environment) == ("upgrade", instrument_environment())
    assert AuditEvent.objects.filter(verb="request control check").count() == 1


def test_a_measure_may_change_by_a_quarter_of_the_standard_error_of_its_entries(metric):
    """Of the measures that rank, on the first slice, in this version, of what was scored to its end."""
    version, other = version_of(metric, "one"), version_of(metric, "another")
    runs = runs_on(metric)
    score_all(version, runs, {"profanity": lambda scores: scores})
    score_all(other, runs, {"profanity": lambda scores: scores})
    Result.objects.update(ci_low=0.3, ci_high=0.9)
    for number, scoring in enumerate(version.scorings.order_by("pk")):
        width = (0.001, 0.002, 0.004, 0.9)[number]
        first_slice = Result.objects.filter(scoring=scoring, slice__endswith=":all")
        first_slice.update(ci_low=0.5, ci_high=0.5 + width)
    version.scorings.filter(pk=scoring.pk).update(state="cancelled")
    margins = checks.margins_of(version)
    ranked_measures = {measure.key for measure in metric.formula.ranked}
    assert set(margins) == ranked_measures
    assert list(margins.values()) == pytest.approx(len(margins) * [0.25 * 0.002 / (2 * 1.959964)], rel=1e-6)
    Result.objects.update(ci_low=None, ci_high=None)
    assert checks.margins_of(version) == {}


def test_the_pause_grows_with_the_checks_in_a_row_that_had_no_answer(settings):
    settings.CHECK_SECONDS = 777_000
    silent, failed, stable = (ControlCheck(verdict=verdict) for verdict in ("unavailable", "", "stable"))
    assert checks.pause_after([]) == checks.pause_after([stable, silent]) == timedelta(seconds=777_000)
    assert checks.pause_after([silent]) == growing_pause(1)
    assert checks.pause_after([silent, failed, stable, silent]) == growing_pause(2)
    assert growing_pause(1) < growing_pause(2)


def test_drifts_open_versions_by_themselves_up_to_as_many_a_day_as_the_metric_says(check):
    metric = check.metric
    scores = Artefact.objects.create(sha256=64 * "e", kind="scores", rows=1, size=1, schema_version=1)

    def add(hours: float, verdict: str = "drifted", opens: bool = True) -> ControlCheck:
        ended = {"state": "done", "verdict": verdict, "finished_at": timezone.now() - timedelta(hours=hours)}
        place = {"metric": metric, "control_set": check.control_set, "trigger": "manual", "artefact": scores}
        row = ControlCheck.objects.create(**place, **ended)
        if opens:
            MetricVersion.objects.filter(pk=version_of(metric, str(row.pk)).pk).update(opened_because=row)
        return row

    def brakes_at(limit: int) -> bool:
        Metric.objects.update(brake_after=limit)
        return checks.must_brake(ControlCheck.objects.get(pk=last.pk), check.control_set)

    add(25)
    add(3, "stable", opens=False)
    last = add(0, opens=False)
    assert not brakes_at(2), "the first of this day"
    assert brakes_at(1)
    assert checks.is_braked(check.control_set), "nothing is opened after it yet"
    second = add(2)
    add(1, "unavailable", opens=False)
    assert brakes_at(2), "the second of this day"
    assert not brakes_at(3)
    MetricVersion.objects.filter(opened_because=second).update(opened_because=None)
    assert brakes_at(3), "nothing was opened after the one before"
    assert not brakes_at(0), "it never brakes"


# Files


def test_a_file_is_copied_to_where_it_is_wanted_and_a_damaged_one_is_lost(metric, tmp_path):
    artefact = run_of("Alder", metric).artefact
    copy_to(artefact, tmp_path / "copy")
    with board_storage().open(artefact.storage_name) as file:
        assert (tmp_path / "copy").read_bytes() == file.read()
    draft = Artefact.objects.create(sha256=64 * "b", kind="scores", rows=1, size=1, schema_version=1)
    with pytest.raises(ArtefactLost):
        copy_to(draft, tmp_path / "lost")
    draft.refresh_from_db()
    assert draft.state == Artefact.State.MISSING


def test_a_file_that_arrives_otherwise_than_it_is_stored_is_no_lost_file(metric, tmp_path, monkeypatch):
    artefact = run_of("Alder", metric).artefact
    monkeypatch.setattr(artefacts, "_pieces", lambda *_: iter([b"half"]))
    with pytest.raises(StorageAway, match=r"\.parquet did not arrive whole$"):
        copy_to(artefact, tmp_path / "copy")
    artefact.refresh_from_db()
    assert artefact.state == Artefact.State.WHOLE


def test_a_loss_that_was_rolled_back_is_marked_again(metric):
    artefact = run_of("Alder", metric).artefact
    found_lost = Artefact.objects.get(pk=artefact.pk)
    found_lost.state = Artefact.State.DAMAGED
    note_loss(ArtefactLost(found_lost, "its bytes changed"))
    artefact.refresh_from_db()
    assert artefact.state == Artefact.State.DAMAGED
    note_loss(ArtefactLost(Artefact(pk=0, sha256=64 * "c"), "it is gone with its row"))


# Outputs


def test_outputs_whose_likelihood_is_not_finite_are_counted_in_both_kinds_of_tables():
    reasons = [Unscorable.NOT_FINITE.value, None, Unscorable.EMPTY.value, Unscorable.NOT_FINITE.value]
    assert count_not_finite(pa.table({"unscorable": reasons})) == 2
    assert count_not_finite(pa.table({"error": [NOT_FINITE, None, "it is too long"]})) == 1
    assert count_not_finite(pa.table({"error": pa.nulls(3, pa.string())})) == 0
    assert count_not_finite(pa.table({"error": pa.array([], pa.string())})) == 0


def test_another_chat_template_than_the_one_entered_is_refused_by_its_start():
    model = LanguageModel(slug="oak", chat_template=64 * "a")
    assert check_template(model, {}) is None
    assert check_template(model, {"template": 64 * "a"}) is None
    with pytest.raises(RevisionChanged, match=r"of oak has changed .* was aaaaaaaaaaaa, now it is bbbbbbbbbbbb. Enter"):
        check_template(model, {"template": 64 * "b"})
    with pytest.raises(RevisionChanged, match="its sha256 was of none, now"):
        check_template(LanguageModel(slug="oak"), {"template": 64 * "b"})


def test_texts_are_grouped_by_harm_and_by_whom_they_are_about_where_their_set_says_so():
    table = pa.table(
        {
            "text": ["one", "two", "three"],
            "harmful": [True, None, False],
            "demographics": [["women"], [], ["women", "men"]],
        }
    )
    groups = {name: members.tolist() for name, members in groups_of(table).items()}
    assert groups == {
        "harmful": [True, False, False],
        "benign": [False, True, True],
        "men": [False, False, True],
        "women": [True, False, True],
    }
    assert groups_of(table.select(["text"])) == {}


def test_outputs_depend_on_model_protocol_texts_and_libraries(metric):
    run = queued_run(metric, "oak", source="hub", location="plumb/oak", revision="1")
    expected = {
        "model": ["hub", "plumb/oak", "1", "causal"],
        "protocol": metric.protocol.sha256,
        "texts": metric.protocol.evaluation_set.artefact.sha256,
        "epoch": 1,
        "environment": {"python": "3"},
    }
    assert dependencies_of(run, {"python": "3"}) == expected
    run.model.precision = "bfloat16"
    assert dependencies_of(run, {"python": "3"}) == expected | {"model": [*expected["model"], "bfloat16"]}
    assert environment_of(run.model)["precision"] == "bfloat16"
    assert "precision" not in environment_of(LanguageModel(source="hub"))
    assert environment_of(LanguageModel(source="server", location="http://10.0.0.8/v1#oak")) == {
        "server": "http://10.0.0.8/v1"
    }


# Downloads


def test_runs_that_wait_for_files_which_cannot_be_fetched_fail_with_the_reason(metric):
    run, other = queued_run(metric, "oak", source="hub"), queued_run(metric, "ash", source="hub")
    Run.objects.filter(pk=run.pk).update(held=True, not_before=timezone.now() + timedelta(hours=1))
    ended = Run.objects.create(model=run.model, protocol=run.protocol, epoch=2, state="cancelled")
    fail_runs(Download.objects.create(model=run.model, state="failed", reason="it is gone", fault="NotOnHub"))
    rows = {row.pk: (row.state, row.reason, row.fault) for row in Run.objects.all()}
    assert rows == {
        run.pk: ("failed", "it is gone", "NotOnHub"),
        other.pk: ("queued", "", ""),
        ended.pk: ("cancelled", "", ""),
    }


def test_downloads_that_no_run_waits_for_are_cancelled(metric):
    run, other = queued_run(metric, "oak", source="hub"), queued_run(metric, "ash", source="hub")
    Run.objects.filter(pk=other.pk).update(state="cancelled")
    for row in (run, other):
        Download.objects.create(model=row.model)
    drop_unwanted()
    assert dict(Download.objects.values_list("model__slug", "state")) == {"oak": "queued", "ash": "cancelled"}
    assert Download.objects.get(model=other.model).reason == "no run waits for it"


def test_files_that_are_gone_from_this_host_are_fetched_again_unless_another_may_have_them(workers, metric):
    model = queued_run(metric, "oak", source="hub", location="plumb/oak").model
    other = Download.objects.create(model=queued_run(metric, "ash", source="hub").model, state="done")
    with pytest.raises(HostLacks, match=r"^the files of oak are not in the cache of this host$"):
        require_files(model)
    Worker.objects.filter(name="w@beta").delete()
    Download.objects.create(model=model, state="done", attempts=3)
    with pytest.raises(Deferred, match=r"^Its files are not on this host any more: they are fetched again$") as wait:
        require_files(model)
    assert wait.value.seconds == 0
    assert Download.objects.values_list("state", "attempts").get(model=model) == ("queued", 0)
    assert Download.objects.get(pk=other.pk).state == "done"


# Scores of two scorers


def test_scores_in_another_order_are_joined_by_their_texts_and_thinned_evenly(metric):
    runs = runs_on(metric)[:1]
    (first,) = score_all(version_of(metric, "one"), runs, {"profanity": lambda x: x})
    other_metric = metric_of("ruder", "detoxify-original")
    (second,) = score_all(version_of(other_metric, "two"), runs, {"toxicity": lambda x: x / 2})
    table = artefacts.load(second.artefact)
    order = np.random.default_rng(7).permutation(table.num_rows)[:-4]
    second.artefact = artefacts.store(table.take(order), "scores")
    one, other = join_tables((first, second))
    assert one.num_rows == other.num_rows == table.num_rows - 4
    assert one["id"].equals(other["id"])
    assert one["index"].equals(other["index"])
    assert np.allclose(one["score:profanity"], 2 * other["score:toxicity"].to_numpy())
    keys = list(zip(one["id"].to_pylist(), one["index"].to_pylist(), strict=True))
    whole = artefacts.load(first.artefact)
    all_keys = list(zip(whole["id"].to_pylist(), whole["index"].to_pylist(), strict=True))
    assert keys == [key for key in all_keys if key in set(keys)], "in the order of the first"
    thinned = join_tables((first, second), 3)
    assert [part.num_rows for part in thinned] == [3, 3]
    assert thinned[0]["id"].to_pylist() == [keys[0][0], keys[len(keys) // 2 - 1][0], keys[-1][0]]
    assert join_tables((first, second), table.num_rows)[0].num_rows == table.num_rows - 4


# Calibrations


def test_a_calibration_that_failed_or_lost_its_scores_is_queued_anew_and_another_is_left(metric, settings):
    version = version_of(metric, "one")
    artefact = Artefact.objects.create(sha256=64 * "d", kind="scores", rows=1, size=1, schema_version=1)
    texts = EvaluationSet.objects.create(
        slug="labelled", version="1", title="Labelled", kind="labelled_texts", artefact=artefact
    )
    ended = {"fault": "OSError", "attempts": 3, "finished_at": timezone.now(), "done": 5, "total": 5, "seconds": 9.0}
    row = Calibration.objects.create(
        metric_version=version, evaluation_set=texts, state="failed", reason="it broke", **ended
    )

    def ask() -> tuple[object, ...]:
        calibration = calibrations.request_calibration(version, texts, send=False)
        assert calibration.pk == row.pk
        fields = ("state", "reason", "fault", "attempts", "finished_at", "done", "seconds")
        return Calibration.objects.values_list(*fields).get()

    assert ask() == ("queued", "", "", 0, None, 5, 9.0)
    Calibration.objects.update(state="done", artefact=artefact, fingerprint=64 * "1", **ended)
    assert ask()[:2] == ("done", "")
    assert ask()[4:] == (ended["finished_at"], 5, 9.0)
    Artefact.objects.filter(pk=artefact.pk).update(state="damaged")
    assert ask() == ("queued", "", "", 0, None, 0, 0.0), "its speed is measured anew"
    prompts = metric.protocol.evaluation_set
    with pytest.raises(Refused, match="it holds no labelled texts; use one that does"):
        calibrations.request_calibration(version, prompts)
    EvaluationSet.objects.filter(pk=texts.pk).update(artefact=None)
    with pytest.raises(Refused, match="it holds no labelled texts; use one that does"):
        calibrations.request_calibration(version, EvaluationSet.objects.get(pk=texts.pk))
