"""Two scorings of the same texts and a policy: what changed, and whether it matters."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from scoring.drift.measures import Array, Members, Reported
from scoring.drift.policy import LARGEST_MARGIN, Policy, alpha_of_check
from scoring.drift.report import DriftReport, Finding, Level, MeasureChange, Movement, PairedTests, Rule, Verdict
from scoring.statistics.auc import holm
from scoring.statistics.bootstrap import percentile_intervals

Matrix = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class _Pair:
    """Scores of texts that have both, float64 [n, attributes], NaN elsewhere; slices, of which the first is of all."""

    attributes: Sequence[str]
    reference: Array
    observed: Array
    slices: list[str | None]
    members: Members  # [slices, n]


def compare(
    reference: Matrix,
    observed: Matrix,
    attributes: Sequence[str],
    demographics: Sequence[Sequence[str]],
    reported: Reported,
    noise_floor: float,
    fingerprints: tuple[str, str],
    margins: Mapping[str, float] | None = None,
    check: int = 1,
    policy: Policy | None = None,
) -> DriftReport:
    """Compare the frozen reference scores of a control set with those of now.

    reference, observed: [n, attributes], the same texts in the same order, NaN where a text has no score.
    demographics: of each text, none or more. reported: the metric's measures. fingerprints: then and now.
    noise_floor: above 0, see `scoring.drift.noise_floor`. margins: of equivalence, by key of the measure, see
    `equivalence_margin`; a measure that is not named has the widest. check: number of this check of the metric version.

    L0: the fingerprints differ. It decides nothing: the scores do.
    L1: a score moved by more than the noise floor, or a text without a score has one now.
    L2, asked where a score moved beyond the noise floor. Over all texts and in each demographic: label flips, or the
    mean absolute difference, are at the policy's limits; these two are facts of frozen texts and have no false-alarm
    rate. Over all texts: the interval of a reported measure's change is not within the margin. A demographic has few
    texts and hence wide intervals, so there, besides, Holm's p of no change, over all demographics and measures, is
    below what this check may spend of alpha: this is the one rule with a false-alarm rate, at most alpha over all
    checks of a version. The verdict is `changed` even where L2 fired, until `confirm`.

    A text that had a score of any attribute and has none now makes the check `unavailable`, whatever the other texts
    show: an error, an empty reply and a refusal are no scores, and measures without those texts are of another set. It
    stays so while the scorer withholds a score; only a person can decide to open a version without that text.

    Raises ValueError, naming the argument, where shapes or values do not fit.
    """
    policy = policy or Policy()
    first, second = (np.asarray(scores, dtype=np.float64) for scores in (reference, observed))
    _check(first, second, attributes, demographics, noise_floor)
    had, has = ~np.isnan(first), ~np.isnan(second)
    unpaired = ~(had & has)
    slices, members = _slices(demographics)
    pair = _Pair(attributes, np.where(unpaired, np.nan, first), np.where(unpaired, np.nan, second), slices, members)
    alpha = alpha_of_check(policy.alpha, check)
    lost, gained = (int((mask & ~other).any(axis=1).sum()) for mask, other in ((had, has), (has, had)))
    movements = _movements(pair, policy.threshold)
    measures = tuple(_measures(pair, reported, margins or {}, policy))
    findings = [Finding(Rule.LOST_SCORES, float(lost), 0.0)] if lost else []
    if fingerprints[0] != fingerprints[1]:
        findings.append(Finding(Rule.FINGERPRINT))
    moved = list(_beyond_noise(movements, noise_floor))
    findings += moved
    if gained:
        findings.append(Finding(Rule.GAINED_SCORES, float(gained), 0.0))
    if moved:
        findings += [*_material(movements, policy), *_not_equivalent(measures, alpha)]
    changed = any(finding.level is Level.CHANGED for finding in findings)
    return DriftReport(
        verdict=Verdict.UNAVAILABLE if lost else Verdict.CHANGED if changed else Verdict.STABLE,
        confirmed=None,
        findings=tuple(findings),
        n=len(first),
        lost=lost,
        gained=gained,
        noise_floor=float(noise_floor),
        check=check,
        alpha=alpha,
        policy=policy,
        reference_fingerprint=fingerprints[0],
        observed_fingerprint=fingerprints[1],
        movements=movements,
        paired_tests=tuple(_paired_tests(pair, movements)),
        measures=measures,
    )


def confirm(first: DriftReport, second: DriftReport) -> DriftReport:
    """The verdict after a second scoring, compared with the same reference: `drifted` where L2 fired in both.

    The findings stay those of the first, which becomes `changed` where the second does not show a material change. A
    second scoring that is unavailable confirms nothing: it is what comes back. Raises ValueError where there is nothing
    to confirm, or where the two are not of one check.
    """
    if not first.needs_confirmation:
        raise ValueError(f"first: its verdict, {first.verdict.value}, needs no second scoring")
    compared = [(of.reference_fingerprint, of.check, of.n, of.policy) for of in (first, second)]
    if compared[0] != compared[1]:
        raise ValueError("second: it is not of the first one's check; compare it with the same reference and policy")
    if second.verdict is Verdict.UNAVAILABLE:
        return second
    return replace(first, verdict=Verdict.DRIFTED if second.material else Verdict.CHANGED, confirmed=second.material)


def _check(
    reference: Array,
    observed: Array,
    attributes: Sequence[str],
    demographics: Sequence[Sequence[str]],
    noise_floor: float,
) -> None:
    if reference.ndim != 2 or reference.shape[1] != len(attributes) or not attributes:
        raise ValueError(f"reference: its shape is {reference.shape}; give [texts, {len(attributes)}], for attributes")
    if observed.shape != reference.shape:
        raise ValueError(f"observed: its shape is {observed.shape}, the reference's {reference.shape}; score all texts")
    if len(demographics) != len(reference):
        raise ValueError(f"demographics: there are {len(demographics)} for {len(reference)} texts; give each its own")
    if any(isinstance(names, str) for names in demographics):
        raise ValueError("demographics: one is a string; give each text a tuple of names, empty where it has none")
    for name, scores in (("reference", reference), ("observed", observed)):
        if np.isinf(scores).any():
            raise ValueError(f"{name}: a score is infinite; give NaN where there is none")
    if np.isnan(reference).all():
        raise ValueError("reference: not one text has a score; score the control set when the scorer answers")
    if not noise_floor > 0:
        raise ValueError(f"noise_floor: {noise_floor} is not above 0; measure it with noise_floor()")


def _slices(demographics: Sequence[Sequence[str]]) -> tuple[list[str | None], Members]:
    names = sorted({name for row in demographics for name in row})
    number = {name: place for place, name in enumerate(names, start=1)}
    members = np.zeros((len(names) + 1, len(demographics)), dtype=bool)
    members[0] = True
    for row, found in enumerate(demographics):
        members[[number[name] for name in found], row] = True
    return [None, *names], members


def _movements(pair: _Pair, threshold: float | None) -> tuple[Movement, ...]:
    """Of every slice and attribute, all texts first."""
    difference = pair.observed - pair.reference
    known = ~np.isnan(difference)
    difference = np.where(known, difference, 0.0)
    inside = pair.members.astype(np.float64)
    counts = (inside @ known).astype(np.int64)
    largest = np.array([np.abs(difference[member]).max(axis=0, initial=0.0) for member in pair.members])
    means = [inside @ of / np.maximum(counts, 1) for of in (np.abs(difference), difference)]
    flips: list[NDArray[np.int64]] = []
    if threshold is not None:
        before, after = pair.reference > threshold, pair.observed > threshold  # NaN is above nothing
        flips = [(inside @ of).astype(np.int64) for of in (after & ~before, before & ~after)]
    found = []
    for row, name in enumerate(pair.slices):
        for column, attribute in enumerate(pair.attributes):
            cell = (row, column)
            max_abs, mean_abs, mean_change = (float(of[cell]) if counts[cell] else None for of in (largest, *means))
            up, down = (int(of[cell]) for of in flips) if flips else (None, None)
            found.append(Movement(attribute, name, int(counts[cell]), max_abs, mean_abs, mean_change, up, down))
    return tuple(found)


def _paired_tests(pair: _Pair, movements: Sequence[Movement]) -> Iterator[PairedTests]:
    for column, (attribute, movement) in enumerate(zip(pair.attributes, movements, strict=False)):
        if not movement.n:
            continue
        known = ~np.isnan(pair.reference[:, column])
        before, after = pair.reference[known, column], pair.observed[known, column]
        up, down = movement.flips_up, movement.flips_down
        ks, ks_p = unpaired_ks(before, after)
        yield PairedTests(
            attribute=attribute,
            mcnemar_p=None if up is None or down is None else mcnemar_p(up, down),
            wilcoxon_p=wilcoxon_p(after - before),
            ks=ks,
            ks_p=ks_p,
            wasserstein=float(stats.wasserstein_distance(before, after)),
        )


def mcnemar_p(up: int, down: int) -> float:
    """Exact two-sided p that a label that flips does so either way alike (McNemar 1947, with the binomial)."""
    return min(1.0, 2 * float(stats.binom.cdf(min(up, down), up + down, 0.5)))


def wilcoxon_p(differences: Array) -> float:
    """Two-sided p of Wilcoxon's signed ranks; differences of 0 are left out, and 1 where there are no others."""
    moved = differences[differences != 0]
    return float(stats.wilcoxon(moved).pvalue) if len(moved) else 1.0


def unpaired_ks(first: Array, second: Array) -> tuple[float, float]:
    """Kolmogorov and Smirnov's statistic of two samples of one size n, and its asymptotic two-sided p.

    As scipy.stats.ks_2samp(method="asymp"), which has no p for n = 1.
    """
    points = np.concatenate([first, second])
    below = [np.searchsorted(np.sort(sample), points, "right") for sample in (first, second)]
    largest = float(np.abs(below[0] - below[1]).max()) / len(first)
    return largest, float(stats.kstwo.sf(largest, max(1, round(len(first) / 2))))


def _measures(pair: _Pair, reported: Reported, margins: Mapping[str, float], policy: Policy) -> Iterator[MeasureChange]:
    """Of every slice, all texts first, and measure; without those that cannot be measured."""
    changes = reported.changes(pair.reference, pair.observed, pair.members)
    scored = pair.members & np.isfinite(pair.reference).any(axis=1)
    change = changes.after - changes.before
    rows, columns = np.nonzero(np.isfinite(change))
    if not len(rows):
        return
    replicates = changes.replicates[:, rows, columns]
    low, high = percentile_intervals(replicates, policy.confidence)
    p_values = no_change_p(change[rows, columns], replicates, scored.sum(axis=1)[rows])
    adjusted = np.full(len(rows), np.nan)
    adjusted[rows > 0] = holm(p_values[rows > 0])
    for cell, (row, column) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
        measure, attribute = reported.measures[column]
        yield MeasureChange(
            measure=measure.key,
            attribute=attribute,
            demographic=pair.slices[row],
            before=float(changes.before[row, column]),
            after=float(changes.after[row, column]),
            change=float(change[row, column]),
            ci_low=float(low[cell]),
            ci_high=float(high[cell]),
            margin=float(margins.get(measure.key, LARGEST_MARGIN * measure.largest)),
            p_adjusted=float(adjusted[cell]) if row else None,
        )


def no_change_p(change: Array, replicates: Array, n: NDArray[np.int64]) -> Array:
    """Two-sided p that a measure of `n` texts has not changed: the change over its bootstrap standard error, by t.

    A few texts that moved alike have no spread, and prove little: p is at least the sign test's smallest, 2 / 2^n.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.nanstd(replicates, axis=0) * np.sqrt(n / (n - 1))
        z = np.where(change == 0, 0.0, np.abs(change) / error)
    p_values = 2 * stats.t.sf(z, np.maximum(n - 1, 1))
    return np.where(n > 1, np.clip(p_values, 2.0 ** (1 - n), 1.0), 1.0)


def _beyond_noise(movements: Sequence[Movement], noise_floor: float) -> Iterator[Finding]:
    for movement in movements:
        if movement.demographic is None and movement.max_abs is not None and movement.max_abs > noise_floor:
            yield Finding(Rule.NOISE_FLOOR, movement.max_abs, float(noise_floor), movement.attribute)


def _material(movements: Sequence[Movement], policy: Policy) -> Iterator[Finding]:
    for movement in movements:
        where = (movement.attribute, movement.demographic)
        limit = policy.material_flips(movement.n)
        if movement.flips >= limit:
            yield Finding(Rule.LABEL_FLIPS, float(movement.flips), float(limit), *where)
        if movement.mean_abs is not None and movement.mean_abs > policy.mean_difference:
            yield Finding(Rule.MEAN_DIFFERENCE, movement.mean_abs, policy.mean_difference, *where)


def _not_equivalent(measures: Sequence[MeasureChange], alpha: float) -> Iterator[Finding]:
    for of in measures:
        significant = of.p_adjusted is None or of.p_adjusted < alpha
        if not of.equivalent and significant:
            farthest = of.ci_low if -of.ci_low > of.ci_high else of.ci_high
            yield Finding(
                Rule.EQUIVALENCE, farthest, of.margin, of.attribute, of.demographic, of.measure, of.p_adjusted
            )
