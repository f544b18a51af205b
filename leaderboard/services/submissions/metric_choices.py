"""Under which metrics a hub model can be ranked here, and how long each takes."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from math import log

from django.db.models import Avg

from leaderboard.models import (
    LanguageModel,
    Metric,
    MetricVersion,
    Protocol,
    Provenance,
    RetiredScorer,
    Run,
    Scoring,
    Work,
)
from leaderboard.services.scorer_probes import unloadable_scorers
from leaderboard.services.scorers import problem_with

GIVEN_UP = (Work.State.FAILED, Work.State.CANCELLED)
REMEMBERED = 2000  # runs that the pace is taken from, the newest ones
# Where nothing like it was measured here yet: two processor cores, two operations a parameter and token.
OPERATIONS_A_SECOND = 2e10
TOKENS_A_TEXT = 25
MEASURED, ASSUMED = "measured", "assumed"


@dataclass(frozen=True)
class Pace:
    """A finished run: what it collected, of what model, and how long that took."""

    protocol: int
    method: str
    kind: str
    parameters: int
    seconds: float
    texts: int
    model: int


@dataclass(frozen=True)
class Choice:
    """A metric for a model. obstacle: why it cannot be chosen, "" where it can; seconds: what it takes, an estimate.

    basis: whether that follows from runs of this board, scaled by size, or is assumed.
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
    def assumed(self) -> bool:
        """Whether nothing like it was measured here."""
        return self.basis == ASSUMED


def choices_for(kind: str, parameters: int, there: LanguageModel | None) -> list[Choice]:
    """All metrics, in their order, for a hub model; `there` is its row where it is on the board. Six queries."""
    metrics = list(Metric.objects.select_related("protocol__evaluation_set__artefact"))
    ranked = _ranked(there)
    paces = _paces()
    scoring = dict(
        Scoring.objects.filter(state=Work.State.DONE, run__isnull=False)
        .order_by()
        .values_list("metric_version__metric")
        .annotate(Avg("seconds"))
    )
    gone = {scorer.name: scorer for scorer in RetiredScorer.objects.all()}
    unloadable = unloadable_scorers()
    found = []
    for metric in metrics:
        obstacle = ranked.get(metric.pk) or obstacle_of(metric, kind, gone, unloadable)
        seconds, basis = _collecting(metric, kind, parameters, paces, there)
        found.append(Choice(metric, obstacle, seconds + scoring.get(metric.pk, 0.0), basis))
    return found


def obstacle_of(
    metric: Metric, kind: str, gone: Mapping[str, RetiredScorer] | None = None, unloadable: Collection[str] = ()
) -> str:
    """Why no model of this kind can be ranked under the metric now; "" where it can.

    gone: as of `problem_with`; unloadable: the scorers that workers could not load.
    """
    texts = metric.protocol.evaluation_set
    if metric.protocol.method != Protocol.LIKELIHOOD and kind != LanguageModel.Kind.CAUSAL:
        return f"It scores how a model continues texts. This is a {kind} model, and only causal ones do."
    if texts.artefact is None:
        return f"Its texts, {texts.title}, are not on this board. An operator can import them."
    problem = problem_with(metric.scorer, gone)
    if problem:
        return f"Its scorer is {problem.state} here."
    if metric.scorer in unloadable:
        return "Its scorer is unavailable here: the workers could not load it. An operator can mend that."
    return ""


def _ranked(there: LanguageModel | None) -> dict[int, str]:
    """Of the metrics that the model has numbers under or will have: which that is, in words."""
    if there is None:
        return {}
    found = (
        Scoring.objects.filter(model=there, metric_version__provenance=Provenance.MEASURED)
        .exclude(metric_version__status__in=MetricVersion.CLOSED)
        .exclude(state__in=GIVEN_UP)
        .exclude(run__state__in=GIVEN_UP)
        .values_list("metric_version__metric", "state")
    )
    return {
        metric: "It has its numbers already." if state == Work.State.DONE else "It is under way already."
        for metric, state in found
    }


def _paces() -> list[Pace]:
    finished = (
        Run.objects.filter(state=Work.State.DONE, seconds__gt=0, total__gt=0, model__parameters__gt=0)
        .order_by("-finished_at")
        .values_list("protocol", "protocol__method", "model__kind", "model__parameters", "seconds", "total", "model")[
            :REMEMBERED
        ]
    )
    return [
        Pace(protocol, method, kind, parameters or 1, seconds, texts, model)
        for protocol, method, kind, parameters, seconds, texts, model in finished
    ]


def _collecting(
    metric: Metric, kind: str, parameters: int, paces: Iterable[Pace], there: LanguageModel | None
) -> tuple[float, str]:
    """Seconds of collecting the outputs: of the finished run most like it, in proportion to parameters and texts."""
    protocol = metric.protocol
    texts = protocol.evaluation_set.artefact.rows if protocol.evaluation_set.artefact else 0
    same = [pace for pace in paces if pace.protocol == protocol.pk]
    if there and any(pace.model == there.pk for pace in same):
        return 0.0, MEASURED  # its outputs are here already
    like = [pace for pace in same if pace.kind == kind] or [
        pace for pace in paces if pace.method == protocol.method == Protocol.LIKELIHOOD and pace.kind == kind
    ]
    if like:
        nearest = min(like, key=lambda pace: abs(log(pace.parameters / max(1, parameters))))
        each = nearest.seconds / nearest.texts
        return each * texts * parameters / nearest.parameters, MEASURED
    passes = TOKENS_A_TEXT if kind == LanguageModel.Kind.MASKED else 1  # each token masked in turn
    operations = 2 * parameters * TOKENS_A_TEXT * texts * (protocol.k or 1) * passes
    return operations / OPERATIONS_A_SECOND, ASSUMED
