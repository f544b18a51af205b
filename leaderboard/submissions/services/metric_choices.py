"""The metrics under which a hub model can be ranked here, and the time that each takes."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from math import log

from django.db.models import Avg

from leaderboard.models import (
    LanguageModel,
    Metric,
    MetricVersion,
    Provenance,
    RetiredScorer,
    Run,
    Scoring,
    Work,
)
from leaderboard.services.scorer_probes import unloadable_scorers
from leaderboard.services.scorers import problem_with

GIVEN_UP = (Work.State.FAILED, Work.State.CANCELLED)
REMEMBERED = 2000  # newest runs that give the pace
# Used before this board has measured anything similar: two processor cores, two operations a parameter and token.
OPERATIONS_A_SECOND = 2e10
TOKENS_A_TEXT = 25
MEASURED, ASSUMED = "measured", "assumed"


@dataclass(frozen=True)
class RunPace:
    """A finished run: its protocol, its model, and how long it took."""

    protocol: int
    method: str
    kind: str
    parameters: int
    seconds: float
    texts: int
    model: int


@dataclass(frozen=True)
class MetricChoice:
    """A metric for a model. obstacle: why it cannot be chosen, "" if it can. seconds: the estimated duration.

    basis: MEASURED if the estimate follows from runs of this board, scaled by size; else ASSUMED.
    """

    metric: Metric
    obstacle: str
    seconds: float
    basis: str

    @property
    def time(self) -> timedelta:
        """The estimate, to the second."""
        return timedelta(seconds=max(1, round(self.seconds)))

    @property
    def is_assumed(self) -> bool:
        """Whether the board has measured nothing similar."""
        return self.basis == ASSUMED


def list_choices(kind: str, parameters: int, model: LanguageModel | None) -> list[MetricChoice]:
    """All metrics, in their order, for a hub model; `there` is its row where it is on the board. Six queries."""
    metrics = list(Metric.objects.select_related("protocol__evaluation_set__artefact"))
    obstacles = _find_earlier_numbers(model)
    paces = _list_paces()
    scoring = dict(
        Scoring.objects.filter(state=Work.State.DONE, run__isnull=False)
        .order_by()
        .values_list("metric_version__metric")
        .annotate(Avg("seconds"))
    )
    retired_scorers = {scorer.name: scorer for scorer in RetiredScorer.objects.all()}
    unloadable = unloadable_scorers()
    choices = []
    for metric in metrics:
        obstacle = obstacles.get(metric.pk) or find_obstacle(metric, kind, retired_scorers, unloadable)
        seconds, basis = _estimate_collecting(metric, kind, parameters, paces, model)
        choices.append(MetricChoice(metric, obstacle, seconds + scoring.get(metric.pk, 0.0), basis))
    return choices


def find_obstacle(
    metric: Metric,
    kind: str,
    retired_scorers: Mapping[str, RetiredScorer] | None = None,
    unloadable: Collection[str] = (),
) -> str:
    """Say why no model of this kind can be ranked under the metric now; "" if one can.

    retired_scorers: as for `problem_with`. unloadable: the scorers that workers could not load.
    """
    texts = metric.protocol.evaluation_set
    if refusal := metric.protocol.outputs.refuse_kind(kind):
        return refusal
    if texts.artefact is None:
        return f"Its texts, {texts.title}, are not on this board. An operator can import them."
    problem = problem_with(metric.scorer, retired_scorers)
    if problem:
        return f"Its scorer is {problem.state} here."
    if metric.scorer in unloadable:
        return "Its scorer is unavailable here: the workers could not load it. An operator can fix that."
    return ""


def _find_earlier_numbers(model: LanguageModel | None) -> dict[int, str]:
    """Say, by metric, that the model has numbers already or will have them."""
    if model is None:
        return {}
    states = (
        Scoring.objects.filter(model=model, metric_version__provenance=Provenance.MEASURED)
        .exclude(metric_version__status__in=MetricVersion.CLOSED)
        .exclude(state__in=GIVEN_UP)
        .exclude(run__state__in=GIVEN_UP)
        .values_list("metric_version__metric", "state")
    )
    return {
        metric: "It has its numbers already." if state == Work.State.DONE else "It is under way already."
        for metric, state in states
    }


def _list_paces() -> list[RunPace]:
    rows = (
        Run.objects.filter(state=Work.State.DONE, seconds__gt=0, total__gt=0, model__parameters__gt=0)
        .order_by("-finished_at")
        .values_list("protocol", "protocol__method", "model__kind", "model__parameters", "seconds", "total", "model")[
            :REMEMBERED
        ]
    )
    return [
        RunPace(protocol, method, kind, parameters or 1, seconds, texts, model)
        for protocol, method, kind, parameters, seconds, texts, model in rows
    ]


def _estimate_collecting(
    metric: Metric, kind: str, parameters: int, paces: Iterable[RunPace], model: LanguageModel | None
) -> tuple[float, str]:
    """Estimate the seconds of collecting, and the basis: by the most similar run, scaled by parameters and texts."""
    protocol = metric.protocol
    texts = protocol.evaluation_set.artefact.rows if protocol.evaluation_set.artefact else 0
    same = [pace for pace in paces if pace.protocol == protocol.pk]
    if model and any(pace.model == model.pk for pace in same):
        return 0.0, MEASURED  # its outputs are here already
    like = [pace for pace in same if pace.kind == kind] or [
        pace for pace in paces if protocol.outputs.paces_alike(pace.method) and pace.kind == kind
    ]
    if like:
        nearest = min(like, key=lambda pace: abs(log(pace.parameters / max(1, parameters))))
        each = nearest.seconds / nearest.texts
        return each * texts * parameters / nearest.parameters, MEASURED
    passes = TOKENS_A_TEXT if kind == LanguageModel.Kind.MASKED else 1  # each token masked in turn
    operations = 2 * parameters * TOKENS_A_TEXT * texts * (protocol.k or 1) * passes
    return operations / OPERATIONS_A_SECOND, ASSUMED
