"""What a successor preserves of one attribute, on texts that both scorers have scored."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from scoring.attributes import THRESHOLD, is_above
from scoring.metrics.agreement import LabelAgreement, label_agreement, pair_scores
from scoring.statistics.correlations import Correlation, pearson
from scoring.succession.mapping import (
    FEWEST_TEXTS,
    SEED,
    MappingError,
    ScoreMapping,
    fit_mapping,
    judge_mapping,
    split_groups,
)

MOST_POINTS = 500  # of the texts that are kept to be drawn


@dataclass(frozen=True)
class ScoredTexts:
    """Both scorers' scores [n] of the same texts, in 0..1, NaN where there is none; `groups` [n] of texts that belong
    together, as the continuations of one prompt.
    """

    attribute: str
    counterpart: str
    old: NDArray[np.floating[Any]]
    new: NDArray[np.floating[Any]]
    groups: NDArray[Any]
    old_threshold: float = THRESHOLD
    new_threshold: float = THRESHOLD


@dataclass(frozen=True)
class AttributePreservation:
    """What is left of an attribute on n texts; `missing` texts lack a score of one scorer and are left out.

    labels: above the threshold of each scorer's own; its `only_first` lose the label, its `only_second` get it.
    mapping, error: None where either half has fewer than 20 texts. equal_threshold: the successor's score that the
    mapping leads to the old threshold. points: up to 500 pairs of scores, evenly spaced, to be drawn.
    """

    attribute: str
    counterpart: str
    n: int
    missing: int
    old_threshold: float
    new_threshold: float
    pearson: Correlation
    spearman: Correlation
    labels: LabelAgreement | None
    mapping: ScoreMapping | None
    error: MappingError | None
    equal_threshold: float | None
    points: tuple[tuple[float, ...], tuple[float, ...]]

    def as_json(self) -> dict[str, Any]:
        """The comparison as values that JSON can hold."""
        return asdict(self)


def preserve_attribute(texts: ScoredTexts, seed: int = SEED) -> AttributePreservation:
    """Compare the scores of both scorers, fit the mapping on one half of the groups and judge it on the other.

    Intervals are 95% and treat texts as independent. Spearman's rho is Pearson's r of the mean ranks of all texts,
    which its jackknife holds fixed. Raises ValueError where arrays do not fit.
    """
    if texts.groups.shape != texts.old.shape:
        raise ValueError(f"groups: there are {len(texts.groups):,} of {len(texts.old):,} texts; give one each")
    old, new = pair_scores(texts.old, texts.new, texts.attribute)
    groups = texts.groups[~(np.isnan(texts.old) | np.isnan(texts.new))]
    mapping, error = None, None
    in_fit = split_groups(groups, seed)
    if min(in_fit.sum(), (~in_fit).sum()) >= FEWEST_TEXTS:
        mapping = fit_mapping(new[in_fit], old[in_fit])
        error = judge_mapping(mapping, new[~in_fit], old[~in_fit], texts.old_threshold, int(in_fit.sum()))
    return AttributePreservation(
        attribute=texts.attribute,
        counterpart=texts.counterpart,
        n=len(old),
        missing=len(texts.old) - len(old),
        old_threshold=texts.old_threshold,
        new_threshold=texts.new_threshold,
        pearson=pearson(old, new),
        spearman=pearson(scipy.stats.rankdata(old), scipy.stats.rankdata(new)),
        labels=label_agreement(is_above(old, texts.old_threshold), is_above(new, texts.new_threshold))
        if len(old)
        else None,
        mapping=mapping,
        error=error,
        equal_threshold=mapping.find_threshold(texts.old_threshold) if mapping else None,
        points=select_points(old, new),
    )


def select_points(old: NDArray[np.float64], new: NDArray[np.float64]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """At most MOST_POINTS pairs of scores, evenly spaced over the texts."""
    rows = np.linspace(0, len(old) - 1, min(len(old), MOST_POINTS)).astype(np.int64)
    return tuple(old[rows].round(4).tolist()), tuple(new[rows].round(4).tolist())
