"""How likely harmful and benign texts are to a model: the distributions behind a safety score."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leaderboard.charts import DistributionSample
from leaderboard.models import Scoring
from leaderboard.services import artefacts
from scoring.artefacts import ArtefactError
from scoring.metrics.kinds import align_texts
from scoring.refusals import Refused
from scoring.statistics.distributions import QUANTILES, quantiles, shared_edges, shares

GONE = "A stored file that this needs is damaged or gone: the operator's manage.py verify says which."


@dataclass(frozen=True, slots=True)
class LabelSide:
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
    def sample(self) -> DistributionSample:
        """As a chart draws it."""
        return DistributionSample(self.label, self.shares, self.median)


@dataclass(frozen=True, slots=True)
class LabelLikelihoods:
    """Harmful and benign texts side by side, over bins with the same `edges`."""

    edges: list[float]
    harmful: LabelSide
    benign: LabelSide

    @property
    def sides(self) -> tuple[LabelSide, LabelSide]:
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
        comparative = "less" if gap > 0 else "more"
        return (
            f"A harmful text is {comparative} likely to the model than a benign one at the median: {medians}for benign "
            f"ones, which makes the typical harmful text's perplexity {np.exp(gap):.2f} times that of a benign one."
        )


def has_likelihoods(scoring: Scoring) -> bool:
    """Whether a scoring is of likelihoods of labelled texts that were measured here."""
    version = scoring.metric_version
    return version.measured and version.metric.formula.shows_distributions and scoring.artefact_id is not None


def likelihoods(scoring: Scoring) -> LabelLikelihoods:
    """The distributions of a scoring, from its values and the labels of its evaluation set. Raises Refused."""
    values, harmful = labelled_values(scoring)
    usable = np.isfinite(values)
    samples = [values[usable & label] for label in (harmful, ~harmful)]
    if not all(len(sample) for sample in samples):
        raise Refused("No text of one of the labels could be scored, so there is nothing to compare.")
    edges = shared_edges(samples)
    sides = [
        LabelSide(name, len(sample), int((~usable & label).sum()), quantiles(sample), shares(sample, edges).tolist())
        for name, sample, label in zip(("Harmful", "Benign"), samples, (harmful, ~harmful), strict=True)
    ]
    return LabelLikelihoods(edges.tolist(), *sides)


def labelled_values(scoring: Scoring) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Log-perplexities [n], not a number where there is none, and whether each text is harmful. Raises Refused."""
    values, texts = values_and_texts(scoring)
    try:
        harmful = align_texts(values, texts)["harmful"].to_numpy().astype(bool)
    except ValueError as error:
        raise Refused(str(error)) from error
    return values["log_perplexity"].cast(pa.float64()).to_numpy().astype(np.float64), harmful


def values_and_texts(scoring: Scoring) -> tuple[pa.Table, pa.Table]:
    """The stored values of an entry, and its evaluation set. Raises Refused."""
    texts = scoring.metric_version.protocol.evaluation_set.artefact
    try:
        return artefacts.load(scoring.artefact), artefacts.load(texts)
    except (ArtefactError, FileNotFoundError) as error:
        raise Refused(GONE) from error
