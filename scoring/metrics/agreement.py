"""Two scorings of the same texts: how far two scorers agree, and how one scorer's scores moved."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring.attributes import THRESHOLD
from scoring.statistics.correlations import Correlation, pearson
from scoring.statistics.proportions import wilson_interval

Array = NDArray[np.float64]
# A scoring: [n_texts] of each attribute, NaN where a text has no score; the same texts in the same order in both.
Scoring = Mapping[str, NDArray[np.floating[Any]]]
Thresholds = Mapping[str, float]  # by attribute; of one that is not among them the usual one
USUAL: Thresholds = MappingProxyType({})

SPELLINGS = {"sexually_explicit": "sexual_explicit"}  # Perspective's name, and Detoxify's


@dataclass(frozen=True, slots=True)
class LabelAgreement:
    """Labels "above the threshold" of two scorers: counts of texts, the share labelled alike, Cohen's kappa.

    Kappa is None where both scorers give every text one and the same label.
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
    """Two scorers' scores of one attribute on n texts; `missing` texts have no score by one of them and are left out.

    `labels` is None where no text has both scores.
    """

    attribute: str
    counterpart: str
    n: int
    missing: int
    pearson: Correlation
    labels: LabelAgreement | None

    def as_json(self) -> dict[str, Any]:
        """The agreement as JSON can hold it."""
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
    mean_shift: mean of after less before.
    rose, fell: texts whose label changed, to above the threshold and from above it.
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
        """Texts whose label changed."""
        return self.rose + self.fell

    def as_json(self) -> dict[str, Any]:
        """The shift as JSON can hold it."""
        return asdict(self) | {"flips": self.flips}


def matching_attributes(first: Sequence[str], second: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of names of one attribute, in the order of `first`: equal without regard to case, or known spellings."""
    known = {_plain(name): name for name in second}
    return [(name, known[_plain(name)]) for name in first if _plain(name) in known]


def compare_scorers(
    first: Scoring,
    second: Scoring,
    pairs: Sequence[tuple[str, str]] | None = None,
    thresholds: tuple[Thresholds, Thresholds] = (USUAL, USUAL),
) -> list[AttributeAgreement]:
    """Pearson correlation and label agreement of two scorers on the same texts, for each pair of attributes.

    `pairs` are names in `first` and in `second`; None takes `matching_attributes`. A label is "strictly above the
    threshold" that each scorer has for its attribute. Intervals are 95% and treat texts as independent: that of
    Pearson's r is the jackknife's on Fisher's z scale, as scores are far from normal; Wilson's of the share labelled
    alike, and of kappa the same bounds with agreement by chance as it is (Cohen 1960, Educ. Psychol. Meas. 20:37), that
    cover 93% or more also where few texts are above the threshold. How the board's order agrees under both scorers is
    what `scoring.statistics.rank_changes.rank_changes` says of its two boards. Raises ValueError where a name is
    unknown or arrays do not fit.
    """
    chosen = matching_attributes(list(first), list(second)) if pairs is None else pairs
    found = []
    for name, counterpart in chosen:
        x, y = _paired(_scores(first, name), _scores(second, counterpart), name)
        missing = len(first[name]) - len(x)
        above = x > thresholds[0].get(name, THRESHOLD), y > thresholds[1].get(counterpart, THRESHOLD)
        labels = _labels(*above) if len(x) else None
        found.append(AttributeAgreement(name, counterpart, len(x), missing, pearson(x, y), labels))
    return found


def distribution_shift(before: Scoring, after: Scoring, thresholds: Thresholds = USUAL) -> list[AttributeShift]:
    """How each attribute's scores moved between two scorings by one scorer; without those that no text has in both.

    With as many scores before as after, the Wasserstein distance is the mean distance of the sorted scores. Raises
    ValueError where the two have other attributes than each other, or arrays that do not fit.
    """
    if before.keys() != after.keys():
        odd = sorted(before.keys() ^ after.keys())
        raise ValueError(f"{', '.join(odd)}: only one of the two scorings has this attribute; compare what both have")
    found = []
    for name in before:
        x, y = _paired(before[name], after[name], name)
        if not len(x):
            continue
        threshold = thresholds.get(name, THRESHOLD)
        above, now_above = x > threshold, y > threshold
        found.append(
            AttributeShift(
                name,
                len(x),
                len(before[name]) - len(x),
                wasserstein=float(np.abs(np.sort(x) - np.sort(y)).mean()),
                mean_shift=float((y - x).mean()),
                rose=int((~above & now_above).sum()),
                fell=int((above & ~now_above).sum()),
            )
        )
    return found


def _plain(name: str) -> str:
    name = name.casefold()
    return SPELLINGS.get(name, name)


def _scores(scoring: Scoring, name: str) -> NDArray[np.floating[Any]]:
    if name not in scoring:
        raise ValueError(f"pairs: no attribute {name!r}; use one of {', '.join(scoring)}")
    return scoring[name]


def _paired(first: NDArray[np.floating[Any]], second: NDArray[np.floating[Any]], name: str) -> tuple[Array, Array]:
    """The scores of texts that have both, as float64."""
    if first.ndim != 1 or first.shape != second.shape:
        raise ValueError(f"{name}: scores of shapes {first.shape} and {second.shape}; give [n_texts] of the same texts")
    known = ~(np.isnan(first) | np.isnan(second))
    return first[known].astype(np.float64), second[known].astype(np.float64)


def _labels(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> LabelAgreement:
    n = len(first)
    both, neither = int((first & second).sum()), int((~first & ~second).sum())
    only_first, only_second = int(first.sum()) - both, int(second.sum()) - both
    alike = both + neither
    by_chance = (int(first.sum()) * int(second.sum()) + int((~first).sum()) * int((~second).sum())) / n**2
    shares = [alike / n, *(float(bound) for bound in wilson_interval(alike, n))]
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
