"""Two scorings of the same texts: how far two scorers agree, and how far one scorer's scores moved."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring.attributes import THRESHOLD, is_above
from scoring.statistics.correlations import Correlation, pearson
from scoring.statistics.proportions import wilson_interval

Array = NDArray[np.float64]
# A scoring: [n_texts] of each attribute, NaN where a text has no score. Both scorings have the same texts in one order.
Scoring = Mapping[str, NDArray[np.floating[Any]]]
Thresholds = Mapping[str, float]  # by attribute; THRESHOLD applies to attributes that are not among them
USUAL: Thresholds = MappingProxyType({})

SPELLINGS = {"sexually_explicit": "sexual_explicit"}  # Perspective's name, and Detoxify's


@dataclass(frozen=True, slots=True)
class LabelAgreement:
    """Labels "above the threshold" of two scorers: counts of texts, the share labelled alike, Cohen's kappa.

    Kappa is None where both scorers give every text the same label.
    """

    both: int
    only_first: int
    only_second: int
    neither: int
    share: float
    share_interval: list[float]
    kappa: float | None
    kappa_interval: list[float] | None


@dataclass(frozen=True, slots=True)
class AttributeAgreement:
    """Two scorers' scores of one attribute on n texts; `missing` texts lack a score of one scorer and are left out.

    `labels` is None where no text has both scores.
    """

    attribute: str
    counterpart: str
    n: int
    missing: int
    pearson: Correlation
    labels: LabelAgreement | None

    def as_json(self) -> dict[str, Any]:
        """The agreement as values that JSON can hold."""
        return {
            "attribute": self.attribute,
            "counterpart": self.counterpart,
            "n": self.n,
            "missing": self.missing,
            "pearson": self.pearson.value,
            "pearson_interval": self.pearson.interval,
            "labels": self.labels and asdict(self.labels),
        }


@dataclass(frozen=True, slots=True)
class AttributeShift:
    """How the scores of one attribute moved on n texts; `missing` texts lack one of the scores and are left out.

    wasserstein: first Wasserstein distance between the two distributions, in units of the score.
    mean_shift: mean of the new scores minus the old ones.
    rose, fell: texts whose score rose above the threshold, or fell to or below it.
    """

    attribute: str
    n: int
    missing: int
    wasserstein: float
    mean_shift: float
    rose: int
    fell: int

    @property
    def flips(self) -> int:
        """The number of texts whose label changed."""
        return self.rose + self.fell

    def as_json(self) -> dict[str, Any]:
        """The shift as values that JSON can hold."""
        return asdict(self) | {"flips": self.flips}


def matching_attributes(first: Sequence[str], second: Sequence[str]) -> list[tuple[str, str]]:
    """Pair the two scorers' names of one attribute, in the order of `first`, ignoring case and known spellings."""
    names_by_spelling = {_plain(name): name for name in second}
    return [(name, names_by_spelling[_plain(name)]) for name in first if _plain(name) in names_by_spelling]


def compare_scorers(
    first: Scoring,
    second: Scoring,
    pairs: Sequence[tuple[str, str]] | None = None,
    thresholds: tuple[Thresholds, Thresholds] = (USUAL, USUAL),
) -> list[AttributeAgreement]:
    """Pearson correlation and label agreement of two scorers on the same texts, for each pair of attributes.

    `pairs` are names in `first` and in `second`; None takes `matching_attributes`. A label is "strictly above the
    threshold" that each scorer has for its attribute. Intervals are 95% and treat texts as independent. Pearson's r has
    the jackknife's interval on Fisher's z scale, as scores are far from normal. The share labelled alike has Wilson's.
    Kappa has the same bounds with chance agreement held fixed (Cohen 1960, Educ. Psychol. Meas. 20:37); they cover 93%
    or more even where few texts are above the threshold. `scoring.statistics.rank_changes.rank_changes` compares the
    boards' orders under both scorers. Raises ValueError where a name is unknown or arrays do not fit.
    """
    attribute_pairs = matching_attributes(list(first), list(second)) if pairs is None else pairs
    agreements = []
    for name, counterpart in attribute_pairs:
        x, y = pair_scores(_scores(first, name), _scores(second, counterpart), name)
        missing_count = len(first[name]) - len(x)
        labels = (
            label_agreement(
                is_above(x, thresholds[0].get(name, THRESHOLD)), is_above(y, thresholds[1].get(counterpart, THRESHOLD))
            )
            if len(x)
            else None
        )
        agreements.append(AttributeAgreement(name, counterpart, len(x), missing_count, pearson(x, y), labels))
    return agreements


def distribution_shift(
    old_scores: Scoring, new_scores: Scoring, thresholds: Thresholds = USUAL
) -> list[AttributeShift]:
    """How each attribute's scores moved between two scorings by one scorer, if any text has both scores.

    As both samples have the same size, the Wasserstein distance is the mean distance of the sorted scores. Raises
    ValueError where the scorings have different attributes, or arrays that do not fit.
    """
    if old_scores.keys() != new_scores.keys():
        lone_names = sorted(old_scores.keys() ^ new_scores.keys())
        raise ValueError(
            f"{', '.join(lone_names)}: only one of the two scorings has this attribute; compare what both have"
        )
    shifts = []
    for name in old_scores:
        x, y = pair_scores(old_scores[name], new_scores[name], name)
        if not len(x):
            continue
        threshold = thresholds.get(name, THRESHOLD)
        old_labels, new_labels = is_above(x, threshold), is_above(y, threshold)
        shifts.append(
            AttributeShift(
                name,
                len(x),
                len(old_scores[name]) - len(x),
                wasserstein=float(np.abs(np.sort(x) - np.sort(y)).mean()),
                mean_shift=float((y - x).mean()),
                rose=int((~old_labels & new_labels).sum()),
                fell=int((old_labels & ~new_labels).sum()),
            )
        )
    return shifts


def _plain(name: str) -> str:
    name = name.casefold()
    return SPELLINGS.get(name, name)


def _scores(scoring: Scoring, name: str) -> NDArray[np.floating[Any]]:
    if name not in scoring:
        raise ValueError(f"pairs: no attribute {name!r}; use one of {', '.join(scoring)}")
    return scoring[name]


def pair_scores(first: NDArray[np.floating[Any]], second: NDArray[np.floating[Any]], name: str) -> tuple[Array, Array]:
    """The scores of texts that have both, as float64."""
    if first.ndim != 1 or first.shape != second.shape:
        raise ValueError(f"{name}: scores of shapes {first.shape} and {second.shape}; give [n_texts] of the same texts")
    has_both = ~(np.isnan(first) | np.isnan(second))
    return first[has_both].astype(np.float64), second[has_both].astype(np.float64)


def label_agreement(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> LabelAgreement:
    """The agreement of two scorers' labels of the same texts [n], one or more; intervals as of `compare_scorers`."""
    n = len(first)
    both, neither = int((first & second).sum()), int((~first & ~second).sum())
    only_first, only_second = int(first.sum()) - both, int(second.sum()) - both
    alike = both + neither
    by_chance = (int(first.sum()) * int(second.sum()) + int((~first).sum()) * int((~second).sum())) / n**2
    shares = [alike / n, *(float(limit) for limit in wilson_interval(alike, n))]
    kappas = [max(-1.0, (share - by_chance) / (1 - by_chance)) for share in shares] if by_chance < 1 else None
    return LabelAgreement(
        both,
        only_first,
        only_second,
        neither,
        share=shares[0],
        share_interval=shares[1:],
        kappa=kappas[0] if kappas else None,
        kappa_interval=kappas[1:] if kappas else None,
    )
