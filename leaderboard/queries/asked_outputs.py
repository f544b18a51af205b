"""What outputs the board's metrics are of: what somebody who has a model must make to have it ranked."""

from dataclasses import dataclass, field

from leaderboard.models import EvaluationSet, Metric, Protocol, RetiredScorer
from leaderboard.queries.metric_page import protocol_in_words
from leaderboard.services.evaluate import CannotEvaluate, check_metric
from leaderboard.services.scorer_probes import unloadable_scorers


@dataclass(frozen=True, slots=True)
class Asked:
    """Outputs under one protocol, and the metrics that are of them: those that score now, and why others do not."""

    protocol: Protocol
    texts: EvaluationSet
    count: int
    metrics: list[Metric] = field(default_factory=list)
    closed: list[tuple[Metric, str]] = field(default_factory=list)

    @property
    def of_likelihoods(self) -> bool:
        """Whether log-likelihoods are asked for, or else continuations."""
        return self.protocol.method == Protocol.LIKELIHOOD

    @property
    def rows(self) -> int:
        """How many rows a file has."""
        return self.count * (self.protocol.k or 1)

    @property
    def template(self) -> str:
        """The metric by whose name the template is found."""
        return self.metrics[0].slug

    @property
    def settings(self) -> list[tuple[str, str]]:
        """How the outputs are made, in words."""
        ours = ("k", "seed", "precision", "stride")  # said otherwise, or of how it is computed here
        words = protocol_in_words(self.protocol.method, self.protocol.parameters)
        return [(name, text) for name, text in words if name not in ours]


def asked_outputs() -> list[Asked]:
    """What the metrics are of whose texts are here, in the order of the metrics; in three queries.

    Without a metric that scores now there is nothing to ask for.
    """
    found: dict[int, Asked] = {}
    gone = {scorer.name: scorer for scorer in RetiredScorer.objects.all()}
    unloadable = unloadable_scorers()
    metrics = Metric.objects.select_related("protocol__evaluation_set__artefact")
    for metric in metrics.filter(protocol__evaluation_set__artefact__isnull=False):
        protocol, texts = metric.protocol, metric.protocol.evaluation_set
        count = texts.artefact.rows if texts.artefact else 0
        asked = found.setdefault(protocol.pk, Asked(protocol, texts, count))
        if metric.scorer in unloadable:
            asked.closed.append((metric, f"{metric.slug} has a scorer that the workers could not load."))
            continue
        try:
            check_metric(metric, gone)
        except CannotEvaluate as error:
            asked.closed.append((metric, str(error)))
        else:
            asked.metrics.append(metric)
    return [asked for asked in found.values() if asked.metrics]
