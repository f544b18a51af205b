"""The outputs that the board's metrics need: what the owner of a model must make to have it ranked."""

from dataclasses import dataclass, field

from leaderboard.models import EvaluationSet, Metric, Protocol, RetiredScorer
from leaderboard.services.evaluate import CannotEvaluate, check_metric
from leaderboard.services.scorer_probes import unloadable_scorers


@dataclass(frozen=True, slots=True)
class RequestedOutputs:
    """Outputs under one protocol, and the metrics that score them. `closed`: metrics that cannot score now, and why."""

    protocol: Protocol
    texts: EvaluationSet
    count: int
    metrics: list[Metric] = field(default_factory=list)
    closed: list[tuple[Metric, str]] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """The number of rows that a file must have."""
        return self.count * (self.protocol.k or 1)

    @property
    def words(self) -> str:
        """The HTML template that explains what a file holds."""
        return f"submit/asked/{self.protocol.outputs.artefact}.html"

    @property
    def template(self) -> str:
        """The slug of the metric whose template file submitters can download."""
        return self.metrics[0].slug

    @property
    def chat_settings(self) -> list[tuple[str, str]]:
        """How answers of a chat are made, in words; empty where the metrics take none."""
        protocol = self.metrics[0].chat_protocol
        words = protocol.outputs.describe(protocol.parameters) if protocol else []
        return [(name, text) for name, text in words if protocol and name not in protocol.outputs.own_parameters]

    @property
    def settings(self) -> list[tuple[str, str]]:
        """How the outputs are made, in words."""
        outputs = self.protocol.outputs
        words = outputs.describe(self.protocol.parameters)
        return [(name, text) for name, text in words if name not in outputs.own_parameters]


def list_requested_outputs() -> list[RequestedOutputs]:
    """List the outputs that metrics need whose texts are on this board, in the order of the metrics; in three queries.

    Outputs that no metric can score now are left out.
    """
    requests: dict[int, RequestedOutputs] = {}
    retired_scorers = {scorer.name: scorer for scorer in RetiredScorer.objects.all()}
    unloadable = unloadable_scorers()
    metrics = Metric.objects.select_related("protocol__evaluation_set__artefact", "chat_protocol")
    for metric in metrics.filter(protocol__evaluation_set__artefact__isnull=False):
        protocol, texts = metric.protocol, metric.protocol.evaluation_set
        if not protocol.outputs.contributed:
            continue
        count = texts.artefact.rows if texts.artefact else 0
        request = requests.setdefault(protocol.pk, RequestedOutputs(protocol, texts, count))
        if metric.scorer in unloadable:
            request.closed.append((metric, f"{metric.slug} has a scorer that the workers could not load."))
            continue
        try:
            check_metric(metric, retired_scorers)
        except CannotEvaluate as error:
            request.closed.append((metric, str(error)))
        else:
            request.metrics.append(metric)
    return [request for request in requests.values() if request.metrics]
