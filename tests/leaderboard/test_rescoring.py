"""Rescorings: all entries or an honest reason, the old ranking whole until the new one is, and a record of it all."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from io import StringIO

import numpy as np
import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.urls import reverse
from django.utils import timezone

from leaderboard.management.commands.rescore import in_words
from leaderboard.models import (
    Artefact,
    AuditEvent,
    ControlCheck,
    ControlSet,
    LanguageModel,
    Metric,
    MetricVersion,
    OutdatedEntry,
    Rescoring,
    Result,
    Run,
    Scoring,
    Work,
)
from leaderboard.operations.services.restore import request_restoration
from leaderboard.operations.services.work import cancel_work, retry
from leaderboard.services import artefacts, publish, rescore, scorers
from leaderboard.services.artefacts import ArtefactLost
from leaderboard.services.checks import perform, request_check
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.failures import redact
from leaderboard.services.publish import publish_standings
from leaderboard.services.rescore import (
    CostEstimate,
    cancel,
    estimate,
    leave_behind,
    note_progress,
    open_rescoring,
    pause,
    resume,
    waits_on,
)
from leaderboard.services.score import record_entry
from leaderboard.services.scorers import cost_of
from leaderboard.services.shards import Shards
from leaderboard.views.rankings import work_under_way
from scoring.metrics import instruments
from scoring.refusals import Refused
from tests.leaderboard.conftest import CAUSAL, OTHER_CAUSAL, finish
from tests.leaderboard.living import (
    SLUG,
    Stage,
    active,
    deliver,
    drain,
    drift,
    entrant,
    hurry,
    lost,
    malformed,
    names_of,
    numbers_of,
    shifts_in,
    small_metric,
    standing_in,
    standings_of,
    submit,
    waiting,
)

pytestmark = pytest.mark.django_db

Status = MetricVersion.Status


@pytest.fixture(autouse=True)
def stage() -> Iterator[Stage]:
    with standing_in() as found:
        yield found


@pytest.fixture
def board(load_living) -> Metric:
    """Three entries under the first version."""
    return load_living(3)


def test_the_record_tells_a_first_scoring_from_a_later_one_outside_a_rescoring(board):
    event = AuditEvent.objects.filter(detail__model="entrant-1").latest("pk")
    assert (event.verb, event.detail["version"]) == ("add entry", 1)
    open_rescoring(board, "to be sure")
    drain()
    scoring = board.current_version().scorings.get(model__slug="entrant-1")
    record_entry(scoring)
    event = AuditEvent.objects.latest("pk")
    assert (event.verb, event.detail) == ("score entry again", {"model": "entrant-1", "version": 2})


def test_a_ranking_says_beside_a_rescoring_which_entries_wait_under_another_version(board):
    rescoring = open_rescoring(board, "to be sure")
    assert set(rescoring.to_version.scorings.values_list("state", flat=True)) == {Work.State.QUEUED}
    assert work_under_way(board, rescoring) == [], "it says itself how many of its own are done"
    scoring = board.current_version().scorings.get(model__slug="entrant-1")
    board.current_version().scorings.filter(pk=scoring.pk).update(state=Work.State.QUEUED)
    assert work_under_way(board, rescoring) == [scoring]


def check_by_hand(metric: Metric) -> ControlCheck:
    check = request_check(metric, "manual", send=False)
    perform(check)
    check.refresh_from_db()
    return check


@pytest.mark.slow
def test_readers_see_the_old_ranking_whole_at_every_step_until_the_new_one_is_whole(board, stage):
    old = board.current_version()
    before, results = standings_of(old), list(Result.objects.order_by("pk").values())
    drift(stage)
    check_by_hand(board)
    found = active(board)
    assert (found.total, found.done) == (3, 0)
    steps = 0
    while todo := waiting():
        assert board.current_version() == old
        assert standings_of(old) == before
        assert not found.to_version.standings.exists()
        deliver(todo[0])
        steps += 1
        found.refresh_from_db()
        assert found.done == steps
    assert steps == 3
    new = board.current_version()
    assert (new, found.state) == (found.to_version, Rescoring.State.PUBLISHED)
    assert names_of(new) == names_of(old) == {"entrant-1", "entrant-2", "entrant-3"}
    old.refresh_from_db()
    assert old.status == Status.SUPERSEDED
    assert standings_of(old) == before
    assert list(Result.objects.filter(pk__in=[row["id"] for row in results]).order_by("pk").values()) == results
    assert (shifts_in(old), shifts_in(new)) == ({0.0}, {0.4})


def release_brake(metric: Metric) -> None:
    """Let the metric be opened again however often its scorer drifts in a day."""
    Metric.objects.filter(pk=metric.pk).update(brake_after=0)


@pytest.mark.slow
def test_the_superseded_version_stays_browsable(board, stage, client):
    old = numbers_of(board.current_version())
    drift(stage)
    check_by_hand(board)
    drain()
    page = client.get("/rankings/", {"metric": SLUG, "version": 1})
    assert page.status_code == 200
    assert old == numbers_of(board.versions.get(number=1))


@pytest.mark.slow
def test_a_superseded_version_cannot_be_published_again(board, stage):
    old = board.current_version()
    drift(stage)
    check_by_hand(board)
    drain()
    before = standings_of(old)
    with pytest.raises(ValueError, match="superseded"):
        publish_standings(old)
    assert standings_of(old) == before
    assert board.current_version().number == 2


def test_ranges_of_a_version_that_is_superseded_as_they_are_renewed_stay_as_they_are(board, monkeypatch):
    version, before = board.current_version(), standings_of(board.current_version())
    MetricVersion.objects.filter(pk=version.pk).update(ranges_due=True)
    lock_version = publish.lock_version

    def supersede_first(pk: int) -> MetricVersion:
        MetricVersion.objects.filter(pk=pk).update(status=Status.SUPERSEDED)
        return lock_version(pk)

    monkeypatch.setattr(publish, "lock_version", supersede_first)
    publish.renew_ranges(version)
    assert standings_of(version) == before


@pytest.mark.parametrize("state", sorted(set(Work.State) - {Work.State.DONE}))
def test_publishing_takes_in_only_scorings_that_are_done(board, stage, state):
    version = board.current_version()
    scoring = version.scorings.get(model__slug="entrant-2")
    Scoring.objects.filter(pk=scoring.pk).update(state=state, reason="one of its own")
    assert scoring.results.exists(), "its numbers of before are still there"
    publish_standings(version)
    assert names_of(version) == {"entrant-1", "entrant-3"}


@pytest.mark.slow
def test_rescored_numbers_are_those_of_a_fresh_board_of_the_new_scorer(board, stage, tmp_path):
    drift(stage)
    check_by_hand(board)
    drain()
    fresh = small_metric(tmp_path, "fresh")
    for model in LanguageModel.objects.filter(source="local"):
        request_evaluation(model, fresh, send=False)
    drain()
    assert fresh.current_version().number == 1
    assert numbers_of(fresh.current_version()) == numbers_of(board.current_version())
    first, second = (
        Result.objects.filter(scoring__metric_version=of.current_version()).order_by(
            "scoring__model", "measure", "slice"
        )
        for of in (board, fresh)
    )
    columns = ("scoring__model", "measure", "slice", "value", "ci_low", "ci_high", "n", "missing")
    assert list(first.values_list(*columns)) == list(second.values_list(*columns))
    assert first[0].scoring.metric_version.prompt_scores == second[0].scoring.metric_version.prompt_scores


@pytest.mark.slow
def test_everything_is_in_the_record(board, stage):
    operator = User.objects.create_user("operator")
    drift(stage)
    check = check_by_hand(board)
    rescoring = active(board)
    assert pause(rescoring, operator)
    assert resume(rescoring, operator)
    assert cancel(rescoring, operator)
    open_rescoring(board, "by hand", user=operator)
    drain()
    events = list(AuditEvent.objects.filter(verb__endswith="rescoring").order_by("pk"))
    assert [(event.verb, event.actor) for event in events] == [
        ("open rescoring", None),
        ("pause rescoring", operator),
        ("resume rescoring", operator),
        ("cancel rescoring", operator),
        ("open rescoring", operator),
    ]
    assert events[0].detail == {"from": 1, "to": 2, "reason": check.statistics["decided_by"], "entries": 3}
    published = AuditEvent.objects.filter(verb="publish version").order_by("pk")
    assert [event.detail["version"] for event in published] == [1, 3]
    assert published[1].detail == {"version": 3, "entries": 3, "outdated": 0}


# Entries that cannot be rescored


@pytest.mark.slow
def test_an_entry_whose_outputs_are_lost_is_waited_for_and_the_version_says_so(board, stage, settings):
    settings.MOST_ATTEMPTS = 2
    scoring = Scoring.objects.get(model__slug="entrant-2")
    old = board.current_version()
    drift(stage)
    with lost(scoring.run.artefact):
        check_by_hand(board)
        for _ in range(4):
            hurry()
            for work in waiting():
                deliver(work)
        rescoring = active(board)
        note_progress(rescoring)
        assert (rescoring.done, rescoring.total) == (2, 3)
        assert waits_on(rescoring) == ["1 entry waits: a stored file is missing or damaged."]
        assert board.current_version() == old
        waits = rescoring.to_version.scorings.get(model=scoring.model)
        assert (waits.state, waits.attempts) == (Work.State.QUEUED, 0)
        assert waits.waits_since
    drain()
    assert names_of(board.current_version()) == {"entrant-1", "entrant-2", "entrant-3"}
    assert not OutdatedEntry.objects.exists()


@pytest.mark.slow
def test_a_version_is_not_published_while_a_file_of_its_scores_is_lost(board, stage, monkeypatch):
    old_version = board.current_version()
    drift(stage)
    check_by_hand(board)
    rescoring = active(board)
    deliver(waiting()[0])
    scoring = rescoring.to_version.scorings.get(state=Work.State.DONE)
    with lost(scoring.replicates or scoring.artefact):
        while works := waiting():
            deliver(works[0])
        assert not rescoring.to_version.scorings.exclude(state=Work.State.DONE).exists()
        rescore.advance_all()
        assert board.current_version() == old_version
        scoring.refresh_from_db()
        assert "missing" in scoring.lost_files  # which opens an incident
        with monkeypatch.context() as patch:
            patch.setattr(rescore, "publish_standings", pytest.fail)  # it would read the files of all other entries
            with pytest.raises(ArtefactLost):
                rescore.advance(rescoring)
    drain()
    assert names_of(board.current_version()) == {"entrant-1", "entrant-2", "entrant-3"}
    assert not OutdatedEntry.objects.exists()


@pytest.mark.slow
def test_a_lost_file_that_a_publication_does_not_read_keeps_no_version_from_readers(board, stage):
    drift(stage)
    check_by_hand(board)
    deliver(waiting()[0])
    scoring = active(board).to_version.scorings.get(state=Work.State.DONE)
    Artefact.objects.filter(pk=scoring.artefact_id).update(state=Artefact.State.MISSING)
    with lost(scoring.artefact):
        drain()
        assert board.current_version() == scoring.metric_version


@pytest.mark.slow
def test_an_operator_publishes_without_an_entry_that_is_lost_for_good(board, stage):
    scoring = Scoring.objects.get(model__slug="entrant-2")
    drift(stage)
    with lost(scoring.run.artefact):
        check_by_hand(board)
        for _ in range(2):
            hurry()
            for work in waiting():
                deliver(work)
        cancel_work(active(board).to_version.scorings.get(model=scoring.model))
        drain()
    new = board.current_version()
    assert names_of(new) == {"entrant-1", "entrant-3"}
    entry = OutdatedEntry.objects.get()
    assert (entry.metric_version, entry.model, entry.last_scoring) == (new, scoring.model, scoring)


@pytest.mark.slow
def test_an_entry_that_failed_is_tried_under_the_next_version_and_outdated_by_its_published_numbers(
    board, stage, settings
):
    settings.MOST_ATTEMPTS = 1
    last = Scoring.objects.get(model__slug="entrant-2")
    with malformed(last.run.artefact):
        drift(stage)
        check_by_hand(board)
        drain()
        first = OutdatedEntry.objects.get(metric_version__number=2)
        open_rescoring(board, "again")
        drain()
        second = OutdatedEntry.objects.get(metric_version__number=3)
    assert first.last_scoring == second.last_scoring == last
    open_rescoring(board, "once more")
    drain()
    assert names_of(board.current_version()) == {"entrant-1", "entrant-2", "entrant-3"}
    assert not OutdatedEntry.objects.filter(metric_version__number=4).exists()


@pytest.mark.slow
def test_an_entry_that_is_left_behind_shows_its_newest_published_numbers(board, stage, settings):
    settings.MOST_ATTEMPTS = 1
    open_rescoring(board, "a second version")
    drain()
    scoring = Scoring.objects.get(model__slug="entrant-2", metric_version__number=2)
    with malformed(scoring.run.artefact):
        open_rescoring(board, "a third, without one")
        drain()
    entry = OutdatedEntry.objects.get()
    assert (entry.metric_version.number, entry.last_scoring) == (3, scoring)
    failed_scoring = Scoring.objects.get(model=scoring.model, metric_version=entry.metric_version)
    assert entry.reason == redact(failed_scoring.reason) != ""


@pytest.mark.slow
def test_numbers_that_were_never_published_are_nobodys_last(board, stage, settings):
    settings.MOST_ATTEMPTS = 1
    open_rescoring(board, "to be given up")
    deliver(next(work for work in waiting() if work.model.slug == "entrant-2"))
    given_up = Scoring.objects.get(model__slug="entrant-2", metric_version__number=2)
    assert given_up.state == Work.State.DONE
    with malformed(given_up.run.artefact):
        open_rescoring(board, "the one that counts")
        drain()
    entry = OutdatedEntry.objects.get()
    assert entry.metric_version.number == 3
    assert entry.last_scoring.metric_version.number == 1


def test_the_reason_of_an_outdated_entry_names_no_path_of_the_server(board, stage):
    scoring = Scoring.objects.get(model__slug="entrant-2")
    new = open_rescoring(board, "to leave one behind").to_version
    leave_behind(new, scoring, "OSError: [Errno 5] cannot read '/srv/plumbline/var/artefacts/ab/abcd.parquet'")
    reason = OutdatedEntry.objects.get().reason
    assert "cannot read" in reason
    assert "/srv" not in reason


@pytest.mark.slow
def test_a_withdrawn_model_is_left_out_and_a_restricted_one_is_rescored_from_what_is_kept(board, stage):
    LanguageModel.objects.filter(slug="entrant-1").update(access="withdrawn")
    LanguageModel.objects.filter(slug="entrant-2").update(access="restricted")
    drift(stage)
    check_by_hand(board)
    drain()
    assert names_of(board.current_version()) == {"entrant-2", "entrant-3"}
    assert not OutdatedEntry.objects.exists()
    assert "entrant-1" in names_of(board.versions.get(number=1))


@pytest.mark.slow
def test_where_not_one_entry_can_be_rescored_the_old_version_stays_current(board, stage, settings):
    settings.MOST_ATTEMPTS = 1
    old, before = board.current_version(), standings_of(board.current_version())
    found = open_rescoring(board, "in vain")
    with malformed(*(run.artefact for run in Run.objects.select_related("artefact"))):
        drain()
    found.refresh_from_db()
    assert found.state == Rescoring.State.CANCELLED
    assert board.current_version() == old
    assert standings_of(old) == before
    event = AuditEvent.objects.get(verb="cancel rescoring")
    assert event.detail["reason"].startswith("not one entry could be scored")


def add_version(metric: Metric, number: int, **fields) -> MetricVersion:
    """A version of the metric with nothing under it."""
    values = {"protocol": metric.protocol, "scorer": metric.scorer, "scorer_fingerprint": "e" * 64}
    return MetricVersion.objects.create(
        metric=metric, number=number, formula_version=metric.formula.version, **(values | fields)
    )


def add_scoring(version: MetricVersion, run: Run | None, model: LanguageModel, state: str = "done") -> Scoring:
    reason = "It broke." if state == "failed" else ""
    row = {"metric_version": version, "run": run, "model": model, "state": state, "reason": reason}
    return Scoring.objects.create(**row, scored_at=timezone.now() if state == "done" else None)


def test_the_last_numbers_of_an_entry_are_its_own_of_a_version_that_was_measured_and_published(board, tmp_path):
    last = board.current_version().scorings.get(model__slug="entrant-2")
    model, run = last.model, last.run
    for number, state in ((2, "failed"), (3, "done"), (4, "done")):
        status = {2: Status.SUPERSEDED, 3: Status.RETIRED, 4: Status.CANDIDATE}[number]
        add_scoring(add_version(board, number, status=status), run, model, state)
    papers = add_version(board, 5, status=Status.CURRENT, provenance="published", source="A paper")
    add_scoring(papers, None, model)
    superseded = add_version(board, 6, status=Status.SUPERSEDED)
    add_scoring(superseded, None, entrant(7, board))
    elsewhere = add_version(small_metric(tmp_path, "elsewhere"), 9, status=Status.CURRENT)
    add_scoring(elsewhere, run, model)
    version = add_version(board, 8, status=Status.SUPERSEDED)
    own = add_scoring(version, run, model)
    leave_behind(version, own, "its outputs are gone")
    entry = OutdatedEntry.objects.get()
    assert (entry.metric_version, entry.model, entry.last_scoring) == (version, model, last)
    assert entry.reason == "its outputs are gone"
    leave_behind(version, own, "and again")
    assert OutdatedEntry.objects.get().reason == "its outputs are gone"
    leave_behind(version, add_scoring(version, None, entrant(8, board)), "it never had numbers")
    assert OutdatedEntry.objects.count() == 1


def test_outputs_that_nobody_waits_for_since_a_rescoring_was_given_up_are_collected_no_longer(board, tmp_path):
    first, protocol = board.current_version(), board.protocol
    given_up, same_epoch = add_version(board, 2, epoch=2), add_version(board, 3)
    elsewhere = add_version(small_metric(tmp_path, "elsewhere"), 1)
    models = [entrant(number, board) for number in (4, 5, 6, 7)]
    runs = [Run.objects.create(model=model, protocol=protocol, epoch=2) for model in models]
    add_scoring(given_up, runs[0], models[0], "cancelled")
    add_scoring(given_up, runs[1], models[1], "cancelled")
    add_scoring(elsewhere, runs[1], models[1], "queued")  # another metric waits for this one
    add_scoring(same_epoch, runs[3], models[3], "cancelled")
    rescore.drop_runs([given_up, same_epoch], first)
    rows = {run.pk: (run.state, run.reason) for run in Run.objects.filter(pk__in=[run.pk for run in runs])}
    assert [rows[run.pk] for run in runs] == [
        ("cancelled", f"collected anew for {first}"),
        ("queued", ""),
        ("queued", ""),
        ("queued", ""),
    ]


def test_a_message_goes_out_for_all_that_can_begin_under_a_version_until_the_broker_is_away(board, monkeypatch):
    version = add_version(board, 2)
    done_run = Run.objects.get(model__slug="entrant-1")
    waiting_runs = [Run.objects.create(model=entrant(n, board), protocol=board.protocol, epoch=2) for n in (4, 5)]
    scorings = [add_scoring(version, run, run.model, "queued") for run in (done_run, *waiting_runs)]
    second = add_scoring(version, Run.objects.get(model__slug="entrant-2"), LanguageModel.objects.get(slug="entrant-2"))
    Scoring.objects.filter(pk=second.pk).update(state="queued")
    stray = Run.objects.create(model=entrant(6, board), protocol=board.protocol, epoch=2)
    messages: list[Work] = []
    monkeypatch.setattr(rescore, "enqueue", lambda work: messages.append(work) or True)
    rescore.send(version)
    assert set(messages[:2]) == set(waiting_runs), "new runs first"
    assert set(messages[2:]) == {scorings[0], second}
    assert stray not in messages
    messages.clear()
    monkeypatch.setattr(rescore, "enqueue", lambda work: messages.append(work) and False)
    rescore.send(version)
    assert len(messages) == 1
    Run.objects.filter(pk__in=[run.pk for run in waiting_runs]).update(held=True)
    messages.clear()
    rescore.send(version)
    assert len(messages) == 1


def test_only_a_control_set_of_these_outputs_and_of_the_rule_of_now_is_kept(board, monkeypatch):
    first = board.current_version()
    for number, fields in enumerate(({"epoch": 2}, {}), 2):
        rescore.keep_control_set(first, add_version(board, number, **fields))
    control = ControlSet.objects.get(metric_version__number=3)
    columns = ("items", "reference", "noise", "check_version", "fingerprint", "environment")
    assert ControlSet.objects.values(*columns).get(pk=control.pk) == (
        ControlSet.objects.values(*columns).get(metric_version=first)
    )
    assert not ControlSet.objects.filter(metric_version__number=2).exists()
    rescore.keep_control_set(add_version(board, 4), add_version(board, 5))
    monkeypatch.setattr(rescore.rule, "CHECK_VERSION", rescore.rule.CHECK_VERSION + 1)
    rescore.keep_control_set(first, add_version(board, 6))
    assert set(ControlSet.objects.values_list("metric_version__number", flat=True)) == {1, 3}


# Drift during a rescoring


@pytest.mark.slow
def test_a_drift_during_a_rescoring_restarts_it_against_the_newest_version(board, stage):
    release_brake(board)
    old, before = board.current_version(), standings_of(board.current_version())
    drift(stage)
    check_by_hand(board)
    first = active(board)
    deliver(waiting()[0])
    late = request_evaluation(entrant(4, board), board, send=False)  # lands in the version under way
    assert late.metric_version == first.to_version
    drift(stage, shift=0.9, fingerprint="third")
    check = check_by_hand(board)
    assert check.verdict == "drifted"
    assert check.control_set.metric_version == first.to_version
    first.refresh_from_db()
    second = active(board)
    assert (first.state, first.to_version.status) == (Rescoring.State.CANCELLED, Status.RETIRED)
    assert (second.from_version, second.to_version.number, second.total) == (old, 3, 4)
    assert set(first.to_version.scorings.values_list("state", flat=True)) == {Work.State.DONE, Work.State.CANCELLED}
    drain()
    assert standings_of(old) == before
    assert not first.to_version.standings.exists()
    new = board.current_version()
    assert (new, shifts_in(new)) == (second.to_version, {0.9})
    assert names_of(new) == {"entrant-1", "entrant-2", "entrant-3", "entrant-4"}
    assert Rescoring.objects.filter(state=Rescoring.State.PUBLISHED).count() == 1


@pytest.mark.slow
def test_a_scorer_that_changes_during_a_rescoring_is_met_by_the_next_entry_and_nothing_is_mixed(board, stage):
    release_brake(board)
    drift(stage)
    check_by_hand(board)
    deliver(waiting()[0])
    drift(stage, shift=0.9, fingerprint="third")
    scorers.look_again()  # as in a worker that was started again
    drain()
    new = board.current_version()
    assert (new.number, shifts_in(new)) == (3, {0.9})
    assert names_of(new) == {"entrant-1", "entrant-2", "entrant-3"}
    assert not OutdatedEntry.objects.exists()


@pytest.mark.slow
def test_another_fingerprint_with_the_same_scores_during_a_rescoring_is_checked_and_goes_on(board, stage):
    drift(stage)
    check_by_hand(board)
    deliver(waiting()[0])
    drift(stage, shift=0.4, fingerprint="of another library")
    scorers.look_again()
    drain()
    assert board.current_version().number == 2
    assert names_of(board.current_version()) == {"entrant-1", "entrant-2", "entrant-3"}
    assert ControlCheck.objects.filter(control_set__metric_version__number=2, verdict="stable").count() == 1


@pytest.mark.slow
def test_a_scorer_that_is_down_during_a_rescoring_is_waited_for(board, stage, settings):
    settings.MOST_ATTEMPTS = 2
    drift(stage)
    check_by_hand(board)
    stage.down = True
    for _ in range(4):
        hurry()
        for work in waiting():
            deliver(work)
    assert active(board)
    stage.down = False
    drain()
    assert names_of(board.current_version()) == {"entrant-1", "entrant-2", "entrant-3"}
    assert not OutdatedEntry.objects.exists()


@pytest.mark.slow
def test_a_model_submitted_meanwhile_lands_in_the_new_version_only(board, stage):
    drift(stage)
    check_by_hand(board)
    scoring = submit(entrant(4, board), board)
    assert (scoring.state, scoring.metric_version.number) == (Work.State.DONE, 2)
    assert board.current_version() == scoring.metric_version
    assert len(names_of(board.current_version())) == 4
    assert len(names_of(board.versions.get(number=1))) == 3


# Pause, resume, cancel


@pytest.mark.slow
def test_a_paused_rescoring_stops_between_two_shards_and_goes_on_where_it_stopped(board, stage, settings, monkeypatch):
    settings.SHARD_SCORES = 5
    drift(stage)
    check_by_hand(board)
    found = active(board)
    scoring = found.to_version.scorings.order_by("pk").first()
    original, written = Shards.write, []

    def put(shards, number, table):
        original(shards, number, table)
        written.append(number)
        if len(written) == 2:
            pause(Rescoring.objects.get(pk=found.pk))

    with monkeypatch.context() as patch:
        patch.setattr(Shards, "write", put)
        deliver(scoring)
    scoring.refresh_from_db()
    assert (scoring.state, scoring.held, scoring.done) == (Work.State.QUEUED, True, 10)
    assert waiting() == []
    deliver(scoring)  # a message that was under way
    scoring.refresh_from_db()
    assert scoring.done == 10
    found.refresh_from_db()
    assert rescore.time_left(found) is None
    assert not rescore.advance(found)
    asked = len(stage.asked)
    assert resume(found)
    deliver(scoring)
    scoring.refresh_from_db()
    assert scoring.state == Work.State.DONE
    assert len(stage.asked) == asked + -(-scoring.total // 5) - 2  # none twice
    drain()
    assert board.current_version() == found.to_version
    assert not pause(found)
    assert not resume(found)
    assert not cancel(found)


@pytest.mark.slow
def test_a_pause_after_the_last_entry_holds_publication_back_until_it_ends(board, stage, monkeypatch):
    drift(stage)
    check_by_hand(board)
    found = active(board)
    with monkeypatch.context() as patch:
        patch.setattr(rescore, "publish_standings", lambda _version: pytest.fail("published while paused"))
        for work in waiting()[:2]:
            deliver(work)
        Rescoring.objects.filter(pk=found.pk).update(state=Rescoring.State.PAUSED)
        deliver(waiting()[0])
    assert board.current_version().number == 1
    found.refresh_from_db()
    assert resume(found)
    assert board.current_version().number == 2


@pytest.mark.slow
def test_a_change_during_a_pause_is_met_by_the_opening_and_leaves_nothing_held(board, stage):
    drift(stage)
    check_by_hand(board)
    rescoring = active(board)
    assert pause(rescoring)
    drift(stage, shift=0.9, fingerprint="third")
    with pytest.raises(Refused, match="no control set yet"):
        check_by_hand(board)
    assert resume(rescoring)
    drain()
    assert board.current_version().number == 2
    assert {slug for _, _, _, slug, *_ in standings_of(board.current_version())} == {f"entrant-{n}" for n in (1, 2, 3)}
    assert not Scoring.objects.filter(held=True).exists()


def test_a_model_that_joins_a_paused_rescoring_waits_for_it_and_so_does_what_is_retried(board):
    rescoring = open_rescoring(board, "by hand")
    waiting_entry = rescoring.to_version.scorings.unfinished().first()
    assert pause(rescoring)
    newcomer = entrant(4, board)
    newcomer.runs.update(state=Work.State.QUEUED, artefact=None)
    late_entry = request_evaluation(newcomer, board, send=False)
    cancel_work(waiting_entry)
    retry(waiting_entry)
    assert not rescoring.to_version.scorings.unclaimed().exists()
    assert Run.objects.unclaimed().filter(pk=late_entry.run_id).exists(), "other metrics may wait for its outputs"
    assert resume(rescoring)
    assert {late_entry, waiting_entry} <= set(rescoring.to_version.scorings.unclaimed())


def test_a_model_that_joins_a_paused_rescoring_of_a_new_epoch_is_not_run_meanwhile(board):
    rescoring = open_rescoring(board, "by hand")
    MetricVersion.objects.filter(pk=rescoring.to_version_id).update(epoch=2)
    rescoring = active(board)
    assert pause(rescoring)
    late_entry = request_evaluation(entrant(4, board), board, send=False)
    assert late_entry.run.epoch == 2
    assert not Run.objects.unclaimed().filter(pk=late_entry.run_id).exists()
    assert resume(rescoring)
    assert Run.objects.unclaimed().filter(pk=late_entry.run_id).exists()


@pytest.mark.slow
def test_a_cancelled_rescoring_leaves_the_old_version_and_gives_back_the_models_that_came_meanwhile(board, stage):
    old, before = board.current_version(), standings_of(board.current_version())
    found = open_rescoring(board, "a mistake")
    deliver(waiting()[0])
    late = entrant(4, board)
    request_evaluation(late, board, send=False)
    assert cancel(found)
    found.refresh_from_db()
    assert (found.state, found.to_version.status) == (Rescoring.State.CANCELLED, Status.RETIRED)
    assert board.current_version() == old
    assert standings_of(old) == before
    drain()
    assert board.current_version() == old
    assert names_of(old) == {"entrant-1", "entrant-2", "entrant-3", "entrant-4"}
    assert not found.to_version.standings.exists()
    scoring = Scoring.objects.get(model=late, metric_version=old)
    assert ControlCheck.objects.get(control_set__metric_version=old, started_at__gte=scoring.started_at)


@pytest.mark.slow
def test_what_was_moved_to_a_rescoring_goes_back_when_it_is_cancelled(board):
    scoring = request_evaluation(entrant(4, board), board, send=False)
    found = open_rescoring(board, "a mistake")
    scoring.refresh_from_db()
    assert scoring.state == Work.State.CANCELLED
    cancel(found)
    scoring.refresh_from_db()
    assert (scoring.state, scoring.reason) == (Work.State.QUEUED, "")
    drain()
    scoring.refresh_from_db()
    assert scoring.state == Work.State.DONE


def test_cancelling_a_rescoring_leaves_alone_what_somebody_cancelled_and_says_so_before(board, client):
    operator = User.objects.create_superuser("operator")
    before_it = request_evaluation(entrant(4, board), board, send=False)
    cancel_work(before_it, operator)
    found = open_rescoring(board, "a mistake")
    assert not found.to_version.scorings.filter(model=before_it.model).exists()  # nobody waits for it
    meanwhile = request_evaluation(entrant(5, board), board, send=False)
    cancel_work(meanwhile, operator)
    late = request_evaluation(entrant(6, board), board, send=False)
    client.force_login(operator)
    page = client.get(reverse("steer_rescoring", args=[found.pk, "cancel"])).content.decode()
    assert f"{late.model.name} waits for a place in version 1 again" in page
    assert f"{meanwhile.model.name} was cancelled by somebody, and stays cancelled" in page
    assert cancel(found, operator)
    states = {of.model_id: of.state for of in Scoring.objects.filter(metric_version=board.current_version())}
    assert (states[before_it.model_id], states[late.model_id]) == (Work.State.CANCELLED, Work.State.QUEUED)
    assert states.get(meanwhile.model_id, Work.State.CANCELLED) == Work.State.CANCELLED


@pytest.mark.parametrize("table", [Run, Scoring])
def test_a_newcomer_that_failed_under_a_rescoring_is_not_tried_again_as_that_is_cancelled(board, table):
    rescoring = open_rescoring(board, "a mistake")
    scoring = request_evaluation(entrant(4, board), board, send=False)
    failed_work = scoring.run if table is Run else scoring
    table.objects.filter(pk=failed_work.pk).update(state=Work.State.FAILED, reason="it broke")
    assert rescore.going_back(rescoring) == rescore.GoingBack([], [])
    assert cancel(rescoring)
    assert not board.current_version().scorings.filter(model=scoring.model).exists()


def test_the_estimate_counts_what_is_scored_and_nothing_else(board):
    cancel_work(request_evaluation(entrant(4, board), board, send=False))
    request_evaluation(entrant(5, board), board, send=False)
    withdrawn = Scoring.objects.filter(metric_version=board.current_version()).first().model
    LanguageModel.objects.filter(pk=withdrawn.pk).update(access=LanguageModel.Access.WITHDRAWN)
    expected = estimate(board)
    rescoring = open_rescoring(board, "to count")
    assert expected.entries == rescoring.total == 3
    assert expected.texts > 0


def test_a_scoring_under_way_as_its_rescoring_is_cancelled_writes_nothing(board, monkeypatch):
    found = open_rescoring(board, "a mistake")
    scoring = waiting()[0]
    original = Shards.write

    def put(shards, number, table):
        original(shards, number, table)
        cancel(Rescoring.objects.get(pk=found.pk))

    monkeypatch.setattr(Shards, "write", put)
    deliver(scoring)
    scoring.refresh_from_db()
    assert (scoring.state, scoring.results.count()) == (Work.State.CANCELLED, 0)
    assert board.current_version().number == 1


def test_a_scoring_left_under_a_retired_version_never_makes_it_current(board):
    found = open_rescoring(board, "a mistake")
    scoring = found.to_version.scorings.first()
    cancel(found)
    Scoring.objects.filter(pk=scoring.pk).update(state=Work.State.QUEUED, finished_at=None)
    deliver(scoring)
    scoring.refresh_from_db()
    assert scoring.state == Work.State.FAILED
    assert "retired" in scoring.reason
    assert board.current_version().number == 1


# By hand


def test_workers_are_told_of_a_rescoring_at_once(board, monkeypatch, django_capture_on_commit_callbacks):
    messages: list[Work] = []
    monkeypatch.setattr(rescore, "enqueue", lambda work: messages.append(work) or True)
    with django_capture_on_commit_callbacks(execute=True):
        rescoring = open_rescoring(board, "to count")
    assert len(messages) == rescoring.total == 3
    assert set(messages) == set(rescoring.to_version.scorings.all())


@pytest.mark.parametrize("reason", ["", "  \n"])
def test_a_rescoring_without_a_reason_is_refused(board, reason):
    with pytest.raises(Refused, match="say why"):
        open_rescoring(board, reason)
    assert not Rescoring.objects.exists()


def test_a_metric_without_numbers_cannot_be_rescored(db, tmp_path):
    metric = small_metric(tmp_path)
    for act in (lambda: open_rescoring(metric, "why not"), lambda: estimate(metric)):
        with pytest.raises(Refused, match="evaluate a model under it first"):
            act()


@pytest.mark.slow
def test_a_forced_rescoring_of_an_unchanged_scorer_gives_the_same_numbers_and_a_control_set_of_its_own(board):
    user = User.objects.create_user("operator")
    found = open_rescoring(board, "to be sure", user=user)
    assert (found.requested_by, found.reason) == (user, "to be sure")
    drain()
    first, second = board.versions.order_by("number")
    assert (first.status, second.status) == (Status.SUPERSEDED, Status.CURRENT)
    assert numbers_of(first) == numbers_of(second)
    assert second.scorer_fingerprint == first.scorer_fingerprint
    assert second.control_set.items == first.control_set.items
    assert second.control_set.reference == first.control_set.reference


def test_the_estimate_is_of_distinct_texts_and_of_the_seconds_they_took(board):
    found = estimate(board)
    scorings = list(board.current_version().scorings.all())
    distinct = sum(len(set(artefacts.load(scoring.run.artefact)["text"].to_pylist())) for scoring in scorings)
    assert (found.entries, found.texts) == (3, distinct + 10)  # and the prompts, once
    assert found.seconds == pytest.approx(sum(scoring.seconds for scoring in scorings))
    assert found.seconds > 0
    assert found.api_days is None
    request_evaluation(entrant(4, board), board, send=False)
    larger = estimate(board)
    assert (larger.entries, larger.texts) == (4, round(found.texts * 4 / 3)), "it counts as the average"
    assert larger.seconds == pytest.approx(found.seconds * 4 / 3)


def test_the_estimate_of_a_remote_scorer_is_in_days_of_its_quota(board, settings):
    settings.PERSPECTIVE_REQUESTS_PER_SECOND = 0.5
    MetricVersion.objects.filter(metric=board).update(scorer="perspective")
    found = estimate(board)
    assert found.api_days == pytest.approx(found.texts * 2 / 86_400)
    assert found.api_days == pytest.approx(found.texts * cost_of("perspective").seconds / 86_400)
    assert found.usd is None


def test_the_estimate_of_another_scorer_has_the_quota_of_that_one(board):
    assert estimate(board).api_days is None
    output = StringIO()
    call_command("rescore", board.slug, "--estimate", "--scorer", "perspective", stdout=output)
    assert "days at the quota of its service" in output.getvalue()


def test_the_estimate_has_the_fee_that_an_operator_declared(board, settings):
    settings.AZURE_CONTENT_SAFETY_URL = "https://name.cognitiveservices.azure.com"
    MetricVersion.objects.filter(metric=board).update(scorer="azure-content-safety:2024-09-01")
    assert estimate(board).usd is None
    settings.AZURE_CONTENT_SAFETY_USD_PER_1000_TEXTS = 0.5
    cost = estimate(board)
    assert cost.usd == pytest.approx(cost.texts * 0.0005)
    assert f"{cost.usd:,.2f} US dollars" in in_words(cost)


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        (CostEstimate(6, 0, 0.4, None, None), "6 entries, less than a second of scoring"),  # likelihoods are stored
        (CostEstimate(3, 12_500, 90.2, 0.25, None), "3 entries, 12,500 texts, about 90 s of scoring, 0.2 days at"),
    ],
)
def test_an_estimate_in_words_and_on_the_page_speaks_of_texts_where_texts_are_scored(
    board, cost, words, admin_client, monkeypatch
):
    assert in_words(cost).startswith(words)
    monkeypatch.setattr(rescore, "estimate", lambda _metric: cost)
    page = admin_client.get(reverse("rescore", args=[board.slug])).content.decode()
    assert ("counting identical ones" in page) is bool(cost.texts)
    assert ("less than a second" if cost.seconds < 1 else "90 s") in page


def test_time_left_follows_the_pace(board):
    found = open_rescoring(board, "to be sure")
    assert rescore.time_left(found) is None
    Rescoring.objects.filter(pk=found.pk).update(created_at=timezone.now() - timedelta(seconds=60), done=1)
    found.refresh_from_db()
    assert rescore.time_left(found).total_seconds() == pytest.approx(120, abs=2)


# Likelihoods


@pytest.fixture
def likelihoods(metric, models, monkeypatch) -> Metric:
    """Two models measured; whose watched model then computes otherwise, as after another version of a library."""
    finish(models[CAUSAL], metric)
    finish(models[OTHER_CAUSAL], metric)
    original = instruments.likelihood_instrument

    def otherwise(parameters, environment):
        instrument = original(parameters, environment)
        return replace(
            instrument,
            fingerprint="f" * 64,
            score=lambda texts: instrument.score(texts) + np.float32(0.05) * (len(texts) > 1),
        )

    monkeypatch.setattr(instruments, "likelihood_instrument", otherwise)
    return metric


@pytest.mark.slow
def test_drift_of_likelihoods_collects_everything_anew_and_leaves_behind_what_may_not_be_run(likelihoods, models):
    old = likelihoods.current_version()
    before = standings_of(old)
    LanguageModel.objects.filter(pk=models[OTHER_CAUSAL].pk).update(access="restricted")
    assert check_by_hand(likelihoods).verdict == "drifted"
    found = active(likelihoods)
    assert (found.to_version.epoch, found.total) == (2, 1)
    run = found.to_version.scorings.get().run
    assert (run.epoch, run.state, run.artefact) == (2, Work.State.QUEUED, None)
    drain()
    new = likelihoods.current_version()
    assert (new.number, names_of(new)) == (2, {models[CAUSAL].slug})
    entry = OutdatedEntry.objects.get()
    assert (entry.metric_version, entry.model) == (new, models[OTHER_CAUSAL])
    assert entry.reason == "its outputs cannot be collected anew: the model is restricted"
    assert standings_of(old) == before
    assert set(old.scorings.values_list("run__epoch", flat=True)) == {1}
    # It is not forgotten under the version after that, nor when it may be run again.
    open_rescoring(likelihoods, "by hand")
    drain()
    assert OutdatedEntry.objects.get(metric_version__number=3).model == models[OTHER_CAUSAL]
    LanguageModel.objects.filter(pk=models[OTHER_CAUSAL].pk).update(access="open")
    open_rescoring(likelihoods, "by hand, again")
    drain()
    assert names_of(likelihoods.current_version()) == {models[CAUSAL].slug, models[OTHER_CAUSAL].slug}


@pytest.mark.slow
def test_an_epoch_is_used_once_so_that_no_run_of_a_rescoring_given_up_is_taken_for_a_new_one(likelihoods):
    release_brake(likelihoods)
    check_by_hand(likelihoods)
    found = active(likelihoods)
    pause(found)
    assert Run.objects.filter(epoch=2, held=True).count() == 2
    cancel(found)
    assert set(Run.objects.filter(epoch=2).values_list("state", "held")) == {(Work.State.CANCELLED, False)}
    check_by_hand(likelihoods)
    assert active(likelihoods).to_version.epoch == 3
    drain()
    assert set(likelihoods.current_version().scorings.values_list("run__epoch", flat=True)) == {3}
    assert not Run.objects.unfinished().exists()


@pytest.mark.slow
def test_a_rescoring_that_takes_the_place_of_a_paused_one_is_not_paused(likelihoods):
    release_brake(likelihoods)
    check_by_hand(likelihoods)
    pause(active(likelihoods))
    open_rescoring(likelihoods, "by hand")
    assert not Run.objects.unfinished().filter(held=True).exists()
    drain()
    assert likelihoods.current_version().number == 3


@pytest.mark.slow
def test_outputs_that_were_collected_again_for_a_lost_file_are_not_taken_for_those_after_a_drift(likelihoods, models):
    run = Run.objects.get(model=models[CAUSAL])
    request_restoration(run.artefact)
    drain()
    repeat = Run.objects.exclude(pk=run.pk).get(model=models[CAUSAL])
    assert (repeat.epoch, repeat.state) == (2, Work.State.DONE)
    check_by_hand(likelihoods)
    assert active(likelihoods).to_version.epoch == 3
    drain()
    new = likelihoods.current_version()
    assert set(new.scorings.values_list("run__epoch", "run__state")) == {(3, Work.State.DONE)}
    assert not new.scorings.filter(run=repeat).exists()


@pytest.mark.slow
def test_a_rescoring_of_likelihoods_by_hand_keeps_what_was_collected(likelihoods):
    open_rescoring(likelihoods, "by hand")
    drain()
    first, second = likelihoods.versions.filter(provenance="measured").order_by("number")
    assert numbers_of(first) == numbers_of(second)
    assert Run.objects.count() == 2


def test_a_pause_of_a_metric_that_shares_its_runs_leaves_the_runs_alone(board, models):
    scoring = request_evaluation(models[CAUSAL], board, send=False)
    found = open_rescoring(board, "by hand")
    pause(found)
    scoring.run.refresh_from_db()
    assert not scoring.run.held
