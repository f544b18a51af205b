"""How far the evaluations are that a submission asked for."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from leaderboard.models import EntryCheck, Metric, MetricVersion, Provenance, Rescoring, Run, Scoring, Submission, Work
from leaderboard.services.failure_kinds import FAULTS, FailureKind

SCORER_FAULTS = FAULTS[FailureKind.SCORER]
GIVEN_UP = (Work.State.FAILED, Work.State.CANCELLED)
COLLECTING_SHARE = {True: 50, False: 90}  # percent of the way, where a scorer judges the outputs; where none does


class Step(StrEnum):
    """Where an evaluation is."""

    NOT_BEGUN = "not begun"
    COLLECTING = "collecting"
    SCORING = "scoring"
    PUBLISHING = "publishing"  # scored, and waiting for all other entries of its new version
    HELD = "held back"  # scored, and waiting for a moderator
    RANKED = "ranked"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = (Step.RANKED, Step.FAILED, Step.CANCELLED)


@dataclass(frozen=True)
class Evaluation:
    """One metric of a submission. scoring: the newest one; rescoring: the one under way that decides when it counts."""

    metric: Metric
    scoring: Scoring | None
    rescoring: Rescoring | None

    @property
    def run(self) -> Run | None:
        return self.scoring.run if self.scoring else None

    @property
    def check(self) -> EntryCheck | None:
        """What people should look at before it is ranked; None where nothing is."""
        return getattr(self.scoring, "entry_check", None) if self.scoring else None

    @property
    def work(self) -> Work | None:
        """What has to be done next, or ended it: collecting, and then scoring."""
        collected = self.run is None or self.run.state == Work.State.DONE
        done = self.scoring is not None and self.scoring.state in (Work.State.DONE, *GIVEN_UP)
        return self.scoring if collected or done else self.run

    @property
    def counted(self) -> Work | None:
        """Whose texts tell how far it is: those being scored, where there are such; else those collected."""
        return self.work if self.work and self.work.total else self.run

    @property
    def step(self) -> Step:
        work = self.work
        if work is None:
            return Step.NOT_BEGUN
        if work.state in GIVEN_UP:
            return Step.FAILED if work.state == Work.State.FAILED else Step.CANCELLED
        if isinstance(work, Run):
            return Step.COLLECTING
        if work.state != Work.State.DONE:
            return Step.SCORING
        if self.check is not None and self.check.state == EntryCheck.State.HELD:
            return Step.HELD
        if self.check is not None and self.check.state == EntryCheck.State.REFUSED:
            return Step.FAILED
        return Step.PUBLISHING if self.rescoring else Step.RANKED

    @property
    def waits_for_scorer(self) -> bool:
        """Whether nothing but its scorer is missing, which cannot be had now."""
        work = self.work
        return isinstance(work, Scoring) and work.state == Work.State.QUEUED and work.fault in SCORER_FAULTS

    @property
    def percent(self) -> int:
        """How much of the way is behind it, 0 to 100: half of it is scoring, where a scorer is asked."""
        share = COLLECTING_SHARE[self.metric.formula.asks_scorer]
        if self.step in (Step.RANKED, Step.PUBLISHING, Step.HELD):
            return 100
        if self.scoring is None or self.run is None:
            return 0
        collected = 100 if self.run.state == Work.State.DONE else self.run.percent
        return (share * collected + (100 - share) * self.scoring.percent) // 100


def evaluations(submissions: Iterable[Submission]) -> dict[int, list[Evaluation]]:
    """Of each submission, by its key: what it asked for, in the order of the metrics. Three queries.

    Where a drift moved an entry to a new version, that is where it is looked for.
    """
    submissions = list(submissions)
    asked = {slug for submission in submissions for slug in submission.payload.get("metrics", [])}
    metrics = {metric.slug: metric for metric in Metric.objects.filter(slug__in=asked)}
    newest: dict[tuple[int, int], Scoring] = {}
    for scoring in (
        Scoring.objects.filter(
            model__in={submission.model_id for submission in submissions if submission.model_id},
            metric_version__metric__in=metrics.values(),
            metric_version__provenance=Provenance.MEASURED,
        )
        .exclude(metric_version__status=MetricVersion.Status.RETIRED)
        .select_related(
            "run__protocol__evaluation_set", "metric_version__metric", "metric_version__protocol", "entry_check"
        )
        .order_by("metric_version__number")
    ):
        newest[scoring.model_id, scoring.metric_version.metric_id] = scoring
    leading_to = {
        rescoring.to_version_id: rescoring
        for rescoring in Rescoring.objects.active().filter(metric__in=metrics.values()).select_related("to_version")
    }
    found = {}
    for submission in submissions:
        found[submission.pk] = [
            Evaluation(metric, scoring, leading_to.get(scoring.metric_version_id) if scoring else None)
            for slug, metric in metrics.items()
            if slug in submission.payload.get("metrics", [])
            for scoring in [newest.get((submission.model_id or 0, metric.pk))]
        ]
    return found


def percent(found: list[Evaluation]) -> int:
    """How much of the way of all of them is behind, 0 to 100."""
    return sum(one.percent for one in found) // len(found) if found else 0
