"""Whatever happens in whatever order: one ranking is current, none mixes versions, and nobody is forgotten."""

from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from leaderboard.models import (
    AuditEvent,
    ControlCheck,
    LanguageModel,
    Metric,
    MetricVersion,
    OutdatedEntry,
    Rescoring,
    Result,
    Scoring,
    Standing,
    Work,
)
from leaderboard.services import checks, rescore, scorers
from leaderboard.services.evaluate import request_evaluation
from scoring.refusals import Refused
from tests.leaderboard.living import (
    Killed,
    Stage,
    active,
    deliver,
    drain,
    drift,
    entrant,
    expire,
    hurry,
    shifts_in,
    small_metric,
    standing_in,
    standings_of,
    submit,
    waiting,
)

pytestmark = pytest.mark.django_db

Status = MetricVersion.Status
ENTRANTS = 3
SHIFTS = (0.0, 0.4, 0.8)  # far enough apart to drift; equal ones are one scorer, whatever its fingerprint


class LivingBoard(RuleBasedStateMachine):
    """One entry is published, two may come; the scorer changes, workers die, and an operator changes his mind."""

    metric: Metric
    stage: Stage
    models: list[LanguageModel]

    @initialize()
    def begin(self) -> None:
        self.saved = transaction.atomic()
        self.saved.__enter__()
        self.fingerprints = count()
        self.submitted = {self.models[0].pk}
        self.results: dict[int, tuple[Any, ...]] = {}
        self.left: dict[int, list[Any]] = {}  # standings of superseded versions
        drift(self.stage, 0.0, "first")
        self.stage.down, self.stage.kill_after = False, None
        scorers.look_again()

    def teardown(self) -> None:
        try:
            self.settle()
        finally:
            transaction.set_rollback(True)
            self.saved.__exit__(None, None, None)

    def settle(self) -> None:
        """In the end everything is done: every model is ranked under the newest version, or there is a reason."""
        self.stage.down, self.stage.kill_after = False, None
        expire()
        if found := active(self.metric):
            rescore.resume(found)
        drain()
        self.all_holds()
        current = self.metric.current_version()
        assert active(self.metric) is None
        ranked = set(current.standings.values_list("model", flat=True))
        reasons = set(OutdatedEntry.objects.filter(metric_version=current).values_list("model", flat=True))
        reasons |= set(
            current.scorings.filter(state=Work.State.FAILED).exclude(reason="").values_list("model", flat=True)
        )
        assert self.submitted == ranked | reasons
        assert not ranked & reasons
        assert not Scoring.objects.unfinished().exists()
        for rescoring in Rescoring.objects.all():
            assert rescoring.done <= rescoring.total
            assert rescoring.state != Rescoring.State.PUBLISHED or rescoring.done == rescoring.total

    @rule(number=st.integers(0, ENTRANTS - 1))
    def submit(self, number: int) -> None:
        request_evaluation(self.models[number], self.metric, send=False)
        self.submitted.add(self.models[number].pk)

    @rule(shift=st.sampled_from(SHIFTS), restart=st.booleans())
    def drift(self, shift: float, restart: bool) -> None:
        drift(self.stage, shift, f"number {next(self.fingerprints)}")
        if restart:
            scorers.look_again()

    @rule(which=st.integers(0, 9))
    def work(self, which: int) -> None:
        if todo := waiting():
            deliver(todo[which % len(todo)])

    @rule(which=st.integers(0, 9), after=st.integers(0, 3))
    def work_is_killed(self, which: int, after: int) -> None:
        if todo := waiting():
            self.stage.kill_after = after
            with suppress(Killed):
                deliver(todo[which % len(todo)])
            self.stage.kill_after = None

    @rule(which=st.integers(0, 99), kind=st.sampled_from([ControlCheck, Scoring]))
    def old_message_arrives(self, which: int, kind: type[Work]) -> None:
        if known := list(kind.objects.order_by("pk")):
            deliver(known[which % len(known)])

    @rule()
    def leases_run_out(self) -> None:
        expire()

    @rule()
    def pauses_pass(self) -> None:
        hurry()

    @rule(down=st.booleans())
    def scorer_goes_or_comes(self, down: bool) -> None:
        self.stage.down = down

    @rule()
    def check_is_requested(self) -> None:
        try:
            checks.request_check(self.metric, ControlCheck.Trigger.MANUAL, send=False)
        except Refused:
            assert active(self.metric)  # by hand, and without a score yet

    @rule()
    def operator_rescores(self) -> None:
        rescore.open_rescoring(self.metric, "an operator's")

    @precondition(lambda self: active(self.metric))
    @rule(act=st.sampled_from([rescore.pause, rescore.resume, rescore.cancel, rescore.advance]))
    def operator_steers(self, act: Any) -> None:
        act(active(self.metric))

    @invariant()
    def all_holds(self) -> None:
        if not hasattr(self, "saved"):
            return
        versions = MetricVersion.objects.filter(metric=self.metric)
        current = versions.get(status=Status.CURRENT)
        found = list(Rescoring.objects.active().filter(metric=self.metric))
        assert len(found) <= 1
        assert ControlCheck.objects.filter(metric=self.metric).unfinished().count() <= 1
        assert set(versions.filter(status=Status.CANDIDATE)) == {rescoring.to_version for rescoring in found}
        for rescoring in found:
            assert rescoring.from_version == current

        of_versions = Standing.objects.values_list("metric_version", "result__scoring__metric_version")
        assert all(version == of_result for version, of_result in of_versions)
        assert not Standing.objects.filter(metric_version__status__in=[Status.CANDIDATE, Status.RETIRED]).exists()
        done = current.scorings.filter(state=Work.State.DONE)
        assert set(current.standings.values_list("model", flat=True)) == set(done.values_list("model", flat=True))
        slices = current.standings.values_list("measure", "slice", "population").distinct().count()
        assert current.standings.count() == slices * done.count()

        for version in versions.filter(status=Status.SUPERSEDED):
            now = standings_of(version)
            assert self.left.setdefault(version.pk, now) == now
        for row in Result.objects.values_list():
            assert self.results.setdefault(row[0], row) == row
        assert len(self.results) == Result.objects.count()  # none is ever removed
        for version in versions:
            assert len(shifts_in(version)) <= 1
        unpublished = {version.number for version in versions if version.published_at is None}
        events = AuditEvent.objects.filter(verb="publish version", subject=f"metric {self.metric.slug}")
        assert sorted(event.detail["version"] for event in events) == sorted(
            {version.number for version in versions} - unpublished
        )


@pytest.mark.slow
def test_any_order_of_submissions_drifts_kills_cancels_and_retries_leaves_a_whole_board(db, tmp_path):
    with standing_in() as stage:
        LivingBoard.stage = stage
        LivingBoard.metric = small_metric(tmp_path)
        LivingBoard.models = [entrant(number, LivingBoard.metric) for number in range(ENTRANTS)]
        submit(LivingBoard.models[0], LivingBoard.metric)
        run_state_machine_as_test(
            LivingBoard,
            settings=settings(
                max_examples=15,
                stateful_step_count=25,
                phases=[Phase.generate],  # the steps are few and have names: nothing to shrink
                deadline=None,
                suppress_health_check=list(HealthCheck),
                derandomize=True,
            ),
        )
