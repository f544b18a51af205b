"""Whether a scorer is steady enough to open a version on: not two scorers in one, and not too noisy to be watched."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scoring.drift.comparison import compare
from scoring.drift.measures import Array, Means
from scoring.drift.noise import Reference
from scoring.drift.policy import Policy
from scoring.drift.report import Detectable

LATE = 100  # number of the check that is still to see what is material
BLIND_SHIFT = 2.0  # times the limit of the mean shift: a version whose checks see no less is not opened
BLIND_FLIPS = 4.0  # times that of label flips
WITHIN = 0.1  # of a text's squared deviations, what lies within two groups: less is clearly two; of normal noise, 0.33
TWO_GROUPS = 0.1  # share of the texts


class Unsteady(RuntimeError):
    """The scorer is not fit to open a version on now; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Groups:
    """How an attribute's replicates fall into two groups: the share of texts that do, and their mean distance."""

    share: float
    distance: float


def require_steady(
    reference: Reference,
    attributes: Sequence[str],
    policy: Policy,
    thresholds: Mapping[str, float] | None = None,
) -> list[Detectable]:
    """What checks of this reference can detect, by attribute; thresholds as of `compare`. Raises Unsteady.

    Bimodal is a scorer of which at least a tenth of the texts has two groups of replicates, each of two or more, that
    are by more than the limit of the mean shift apart on average: what a service does while another model is rolled
    out. Blind is a check that finds neither twice the limit of the mean shift in 99% of cases nor four times that of
    label flips.
    """
    for column, attribute in enumerate(attributes):
        groups = two_groups(reference.replicates[:, :, column])
        if groups.share >= TWO_GROUPS and groups.distance > policy.mean_difference:
            raise Unsteady(
                f"the scorer answers as two: {groups.share:.0%} of the control texts have two groups of {attribute} "
                f"scores, {groups.distance:.2g} apart on average, as while another model is rolled out. No version is "
                "opened on that. It is tried again by itself; if it stays so, ask who runs the scorer, or pin its model"
            )
    n = reference.centre.shape[0]
    same_scorings = np.repeat(reference.centre[None], reference.scorings, axis=0)
    no_measures = Means([], lambda scores: np.empty((len(scores), 0)))
    report = compare(
        reference,
        same_scorings,
        attributes,
        [()] * n,
        no_measures,
        ("", ""),
        check=LATE,
        policy=policy,
        thresholds=thresholds,
    )
    for limits in report.detectable:
        shift, flips = BLIND_SHIFT * policy.mean_difference, BLIND_FLIPS * policy.material_flips(n)
        blind = policy.threshold is not None and (limits.flips is None or limits.flips > flips)
        if limits.material_shift > shift or blind:
            labels = "" if policy.threshold is None else f" or {limits.flips or 'any number of'} label flips"
            raise Unsteady(
                f"the scorer is too noisy: a check of its {n} control texts would miss what matters, as it finds a "
                f"mean shift of {limits.attribute} from {limits.material_shift:.2g} on{labels}, where {shift:g}"
                f"{'' if policy.threshold is None else f' and {flips:.0f} flips'} are to be found. Make it less random "
                "(temperature 0, dropout off, a fixed seed). It is tried again by itself"
            )
    return list(report.detectable)


def two_groups(replicates: Array) -> Groups:
    """How replicates [replicates, n] fall into two groups of at least two each, text by text; fewer than 4 never do."""
    count = len(replicates)
    text_rows = np.flatnonzero(np.isfinite(replicates).all(axis=0))
    if count < 4 or not len(text_rows):
        return Groups(0.0, 0.0)
    values = np.sort(replicates[:, text_rows], axis=0)
    values -= values[:1]  # so that equal replicates have deviations of exactly 0
    values -= values.mean(axis=0)
    sizes = np.arange(2, count - 1)[:, None]
    low = np.cumsum(values, axis=0)[1:-2] / sizes
    high = -low * sizes / (count - sizes)  # as deviations add up to 0
    total = (values**2).sum(axis=0)
    variance_between = sizes * low**2 + (count - sizes) * high**2
    best = variance_between.argmax(axis=0)[None]
    gap = np.take_along_axis(high - low, best, axis=0)[0]
    with np.errstate(invalid="ignore", divide="ignore"):
        share_within = 1 - np.take_along_axis(variance_between, best, axis=0)[0] / total
    split = (total > 0) & (share_within < WITHIN)
    return Groups(float(split.mean()), float(gap[split].mean()) if split.any() else 0.0)
