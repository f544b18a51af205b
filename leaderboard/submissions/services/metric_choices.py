"""The metrics under which a hub model can be ranked here, and the time that each takes."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
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
from leaderboard.services.memory import TOKENS_A_TEXT, seconds_estimated
from leaderboard.services.scorer_probes import unloadable_scorers
from leaderboard.services.scorers import problem_with

GIVEN_UP = (Work.State.FAILED, Work.State.CANCELLED)
REMEMBERED = 2000  # newest runs that give the pace
# Of what no measured figure is at hand for, before this board has measured anything similar: two processor cores.
OPERATIONS_A_SECOND = 2e10
MEASURED, ASSUMED = "measured", "assumed"
NO_CHAT = "It continues raw text and has no protocol for chats: choose raw text as well, or leave it out."
AsRun = tuple[str, str]  # interface and precision of an entry


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
    """A metric for a model. obstacle: why no entry of it can be ranked, "" if one can. seconds: the estimated duration.

    basis: MEASURED if the estimate follows from runs of this board, scaled by size; else ASSUMED. earlier_numbers: why
    an entry cannot be ranked once more, by how it is run.
    """

    metric: Metric
    obstacle: str
    seconds: float
    basis: str
    earlier_numbers: Mapping[AsRun, str] = field(default_factory=dict)

    def obstacle_to(self, interface: str, precision: str) -> str:
        """Why an entry that is run like this cannot be ranked; "" if it can."""
        if self.obstacle:
            return self.obstacle
        if not self.is_generated:  # likelihoods are of raw text, whatever the interface
            interfaces = LanguageModel.Interface.values
            return next(filter(None, (self.earlier_numbers.get((name, precision), "") for name in interfaces)), "")
        if interface == LanguageModel.Interface.CHAT and not self.metric.has_chat_protocol:
            return NO_CHAT
        return self.earlier_numbers.get((interface, precision), "")

    @property
    def is_generated(self) -> bool:
        """Whether it judges texts that the model writes, which depend on how it is asked."""
        return self.metric.protocol.outputs.sampled

    @property
    def earlier_sentences(self) -> list[str]:
        """What the entries on the board have of it, each by how it is run."""
        labels = dict(LanguageModel.Interface.choices)
        return [
            f"{', '.join(filter(None, (str(labels[interface]), precision)))}: {sentence[:1].lower()}{sentence[1:]}"
            for (interface, precision), sentence in self.earlier_numbers.items()
        ]

    @property
    def asks_chats(self) -> bool:
        """Whether it has a protocol for chats."""
        return self.is_generated and self.metric.has_chat_protocol

    @property
    def time(self) -> timedelta:
        """The estimate, to the second."""
        return timedelta(seconds=max(1, round(self.seconds)))

    @property
    def is_assumed(self) -> bool:
        """Whether the board has measured nothing similar."""
        return self.basis == ASSUMED


def list_choices(kind: str, parameters: int, entries: Collection[LanguageModel]) -> list[MetricChoice]:
    """All metrics, in their order, for a hub model; `entries` are its rows on the board. Six queries."""
    metrics = list(Metric.objects.select_related("protocol__evaluation_set__artefact"))
    earlier_numbers = _find_earlier_numbers(entries)
    plain_entry = next((entry for entry in entries if not entry.is_chat and not entry.precision), None)
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
        obstacle = find_obstacle(metric, kind, retired_scorers, unloadable)
        seconds, basis = _estimate_collecting(metric, kind, parameters, paces, plain_entry)
        seconds += scoring.get(metric.pk, 0.0)
        choices.append(MetricChoice(metric, obstacle, seconds, basis, earlier_numbers.get(metric.pk, {})))
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


def _find_earlier_numbers(entries: Collection[LanguageModel]) -> dict[int, dict[AsRun, str]]:
    """Say, by metric and by how an entry is run, that it has numbers already or will have them."""
    if not entries:
        return {}
    states = (
        Scoring.objects.filter(model__in=entries, metric_version__provenance=Provenance.MEASURED)
        .exclude(metric_version__status__in=MetricVersion.CLOSED)
        .exclude(state__in=GIVEN_UP)
        .exclude(run__state__in=GIVEN_UP)
        .values_list("metric_version__metric", "model__interface", "model__precision", "state")
    )
    sentences: dict[int, dict[AsRun, str]] = {}
    for metric, interface, precision, state in states:
        sentence = "It has its numbers already." if state == Work.State.DONE else "It is under way already."
        sentences.setdefault(metric, {})[interface, precision] = sentence
    return sentences


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
    if protocol.k is None and kind != LanguageModel.Kind.MASKED:
        return seconds_estimated(parameters, texts), ASSUMED
    passes = TOKENS_A_TEXT if kind == LanguageModel.Kind.MASKED else 1  # each token masked in turn
    operations = 2 * parameters * TOKENS_A_TEXT * texts * (protocol.k or 1) * passes
    return operations / OPERATIONS_A_SECOND, ASSUMED
