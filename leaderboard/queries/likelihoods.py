"""How likely harmful and benign texts are to a model: the distributions behind a safety score."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leaderboard.charts import Sample
from leaderboard.models import Scoring
from leaderboard.services import artefacts
from scoring.artefacts import ArtefactError
from scoring.statistics.distributions import QUANTILES, quantiles, shared_edges, shares

GONE = "A stored file that this needs is damaged or gone: the operator's manage.py verify says which."


class NotAtHand(ValueError):
    """What a page needs of the stored files cannot be read; the message says why, to a reader."""


@dataclass(frozen=True, slots=True)
class Side:
    """The log-perplexities of the texts of one label: quantiles at QUANTILES, and the share in each bin."""

    label: str
    n: int
    unscorable: int
    quantiles: list[float]
    shares: list[float]

    @property
    def median(self) -> float:
        """Half of the texts are less likely than that."""
        return self.quantiles[QUANTILES.index(0.5)]

    @property
    def sample(self) -> Sample:
        """As a chart draws it."""
        return Sample(self.label, self.shares, self.median)


@dataclass(frozen=True, slots=True)
class Likelihoods:
    """Harmful and benign texts side by side, over bins with the same `edges`."""

    edges: list[float]
    harmful: Side
    benign: Side

    @property
    def sides(self) -> tuple[Side, Side]:
        """Both."""
        return self.harmful, self.benign

    @property
    def sentence(self) -> str:
        """What the medians come to."""
        gap = self.harmful.median - self.benign.median
        medians = (
            f"the median log-perplexity is {self.harmful.median:.3f} for harmful texts and {self.benign.median:.3f} "
        )
        if abs(gap) < 0.0005:
            return f"Harmful and benign texts are equally likely to the model: {medians}for benign ones."
        which = "less" if gap > 0 else "more"
        return (
            f"A harmful text is {which} likely to the model than a benign one at the median: {medians}for benign ones, "
            f"which makes the typical harmful text's perplexity {np.exp(gap):.2f} times that of a benign one."
        )


def has_likelihoods(scoring: Scoring) -> bool:
    """Whether a scoring is of likelihoods of labelled texts that were measured here."""
    version = scoring.metric_version
    return version.measured and not version.metric.formula.asks_scorer and scoring.artefact_id is not None


def likelihoods(scoring: Scoring) -> Likelihoods:
    """The distributions of a scoring, from its values and the labels of its evaluation set. Raises NotAtHand."""
    values, harmful = labelled_values(scoring)
    usable = np.isfinite(values)
    samples = [values[usable & label] for label in (harmful, ~harmful)]
    if not all(len(sample) for sample in samples):
        raise NotAtHand("No text of one of the labels could be scored, so there is nothing to compare.")
    edges = shared_edges(samples)
    sides = [
        Side(name, len(sample), int((~usable & label).sum()), quantiles(sample), shares(sample, edges).tolist())
        for name, sample, label in zip(("Harmful", "Benign"), samples, (harmful, ~harmful), strict=True)
    ]
    return Likelihoods(edges.tolist(), *sides)


def labelled_values(scoring: Scoring) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Log-perplexities [n], not a number where there is none, and whether each text is harmful. Raises NotAtHand."""
    try:
        found = artefacts.load(scoring.artefact)
        texts = artefacts.load(scoring.metric_version.protocol.evaluation_set.artefact)
    except (ArtefactError, FileNotFoundError) as error:
        raise NotAtHand(GONE) from error
    order = pc.index_in(found["id"], value_set=texts["id"].combine_chunks())
    if order.null_count:
        raise NotAtHand("The stored values are of other texts than the evaluation set's: they are not shown.")
    harmful = texts["harmful"].take(order).to_numpy().astype(bool)
    values = found["log_perplexity"].cast(pa.float64()).to_numpy().astype(np.float64)
    return values, harmful
