"""The progress of the evaluations that a submission asked for."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from leaderboard.models import EntryCheck, Metric, MetricVersion, Provenance, Rescoring, Run, Scoring, Submission, Work
from leaderboard.services.failures import FAULTS, FailureKind

SCORER_FAULTS = FAULTS[FailureKind.SCORER]
GIVEN_UP = (Work.State.FAILED, Work.State.CANCELLED)


class EvaluationStep(StrEnum):
    """The step that an evaluation has reached."""

    NOT_BEGUN = "not begun"
    COLLECTING = "collecting"
    SCORING = "scoring"
    PUBLISHING = "publishing"  # scored, and waiting for all other entries of its new version
    HELD = "held back"  # scored, and waiting for a moderator
    RANKED = "ranked"  # or shown without a rank: see `Evaluation.why_unranked`
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = (EvaluationStep.RANKED, EvaluationStep.FAILED, EvaluationStep.CANCELLED)


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
        """What a moderator should review before the entry is ranked; None if nothing."""
        return getattr(self.scoring, "entry_check", None) if self.scoring else None

    @property
    def work(self) -> Work | None:
        """The work that comes next, or that ended the evaluation: first collecting, then scoring."""
        is_collected = self.run is None or self.run.state == Work.State.DONE
        is_scored = self.scoring is not None and self.scoring.state in (Work.State.DONE, *GIVEN_UP)
        return self.scoring if is_collected or is_scored else self.run

    @property
    def counted_work(self) -> Work | None:
        """The work whose texts show the progress: the scoring if it has texts, else the run."""
        return self.work if self.work and self.work.total else self.run

    @property
    def step(self) -> EvaluationStep:
        work = self.work
        if work is None:
            return EvaluationStep.NOT_BEGUN
        if work.state in GIVEN_UP:
            return EvaluationStep.FAILED if work.state == Work.State.FAILED else EvaluationStep.CANCELLED
        if isinstance(work, Run):
            return EvaluationStep.COLLECTING
        if work.state != Work.State.DONE:
            return EvaluationStep.SCORING
        if self.check is not None and self.check.state == EntryCheck.State.HELD:
            return EvaluationStep.HELD
        if self.check is not None and self.check.state == EntryCheck.State.REFUSED:
            return EvaluationStep.FAILED
        return EvaluationStep.PUBLISHING if self.rescoring else EvaluationStep.RANKED

    @property
    def why_unranked(self) -> str:
        """Why it ended without a rank, though its numbers are shown; "" for all others."""
        return self.scoring.why_unranked if self.scoring and self.step == EvaluationStep.RANKED else ""

    @property
    def waits_for_scorer(self) -> bool:
        """Whether it waits only for its scorer, which is not available now."""
        work = self.work
        return isinstance(work, Scoring) and work.state == Work.State.QUEUED and work.fault in SCORER_FAULTS

    @property
    def percent(self) -> int:
        """The progress, 0 to 100. The formula declares the share of collecting; scoring is the rest."""
        share = self.metric.formula.collecting_share
        if self.step in (EvaluationStep.RANKED, EvaluationStep.PUBLISHING, EvaluationStep.HELD):
            return 100
        if self.scoring is None or self.run is None:
            return 0
        collected_percent = 100 if self.run.state == Work.State.DONE else self.run.percent
        return (share * collected_percent + (100 - share) * self.scoring.percent) // 100


def evaluations(submissions: Iterable[Submission]) -> dict[int, list[Evaluation]]:
    """Return the evaluations of each submission, by its key, in the order of the metrics. Three queries.

    After a drift, an entry is looked up in the new version.
    """
    submissions = list(submissions)
    slugs = {slug for submission in submissions for slug in submission.payload.get("metrics", [])}
    metrics = {metric.slug: metric for metric in Metric.objects.filter(slug__in=slugs)}
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
    evaluations_by_submission = {}
    for submission in submissions:
        evaluations_by_submission[submission.pk] = [
            Evaluation(metric, scoring, leading_to.get(scoring.metric_version_id) if scoring else None)
            for slug, metric in metrics.items()
            if slug in submission.payload.get("metrics", [])
            for scoring in [newest.get((submission.model_id or 0, metric.pk))]
        ]
    return evaluations_by_submission


def is_without_rank(submission_evaluations: Iterable[Evaluation]) -> bool:
    """Return whether some evaluations gave numbers, and none of these a rank."""
    with_numbers = [evaluation for evaluation in submission_evaluations if evaluation.step == EvaluationStep.RANKED]
    return bool(with_numbers) and all(evaluation.why_unranked for evaluation in with_numbers)


def percent(submission_evaluations: list[Evaluation]) -> int:
    """Return the mean progress, 0 to 100."""
    return (
        sum(evaluation.percent for evaluation in submission_evaluations) // len(submission_evaluations)
        if submission_evaluations
        else 0
    )
