"""A control set's replicates, its scorings of now and a policy: what changed, and whether it matters."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import scipy
from numpy.typing import NDArray

from scoring.attributes import is_above
from scoring.control_sets import BANDS
from scoring.drift.measures import Array, Members, Reported
from scoring.drift.noise import Matrix, Reference
from scoring.drift.policy import FAR, LARGEST_MARGIN, POWER, Policy, alpha_of_check
from scoring.drift.report import (
    Detectable,
    DriftReport,
    Finding,
    Level,
    MeasureChange,
    Movement,
    NoiseTests,
    PairedTests,
    Rule,
    Verdict,
)
from scoring.statistics.auc import holm
from scoring.statistics.bootstrap import percentile_intervals

Slice = tuple[str | None, str | None]  # demographic, stratum (a band of scores, a kind of text); of all texts neither


def _name_bands() -> dict[str, tuple[float, float]]:
    limits = {}
    for low, high in pairwise((-np.inf, *BANDS, np.inf)):
        words = [f"from {low:g}"] * (low > 0) + [f"below {high:g}"] * (high < np.inf)
        limits[f"scores {' '.join(words)}"] = (low, high)
    return limits


BAND_LIMITS = _name_bands()  # a shift in one of these says that something changed, and never that it matters


@dataclass(frozen=True)
class _Pair:
    """What is compared: texts that have scores then and now."""

    reference: Reference
    scorings: Array  # [scorings, n, attributes]
    attributes: Sequence[str]
    policy: Policy
    names: list[str | None]  # of the demographics, all texts first
    members: Members  # [names, n]
    strata: NDArray[np.str_]  # [n], the kind of each text, "" where it is of none
    thresholds: Array  # [attributes]; they mean nothing where the policy has none

    @cached_property
    def observed(self) -> Array:
        """The medians of now, [n, attributes]; the centre where they differ by no more than rounding."""
        medians = np.asarray(np.median(self.scorings, axis=0))
        return np.where(np.abs(medians - self.reference.centre) <= self.reference.floor, self.reference.centre, medians)

    @cached_property
    def variance(self) -> Array:
        """Of a text's change by noise, [n, attributes]."""
        return np.nan_to_num(self.reference.variance_of_change(len(self.scorings)))

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        """Where there is a score then and now, [n, attributes]."""
        return ~np.isnan(self.observed)

    @cached_property
    def change(self) -> Array:
        """Of the medians, [n, attributes], 0 where it is not known."""
        return np.nan_to_num(self.observed - self.reference.centre)

    @cached_property
    def mean_change(self) -> Array:
        """Of the mean of all scorings, [n, attributes]: a rollout that reaches some of them cannot hide from it."""
        means = (self.scorings - self.reference.centre).mean(axis=0)
        change = np.nan_to_num(means - self.reference.deviations.mean(axis=0))
        return np.where(np.abs(change) > self.reference.floor, change, 0.0)

    @cached_property
    def slices(self) -> list[tuple[Slice, Members]]:
        """All texts, demographics and strata, each with whether a text is in it by attribute, [n, attributes]."""
        slices_with_members: list[tuple[Slice, Members]] = [
            ((name, None), member[:, None] & self.known) for name, member in zip(self.names, self.members, strict=True)
        ]
        if self.policy.threshold is not None:
            for name, (low, high) in BAND_LIMITS.items():
                in_band = (self.reference.centre >= low) & (self.reference.centre < high) & self.known
                slices_with_members.append(((None, name), in_band))
        for stratum in sorted({*self.strata.tolist()} - {""}):
            slices_with_members.append(((None, stratum), (self.strata == stratum)[:, None] & self.known))
        return slices_with_members

    def shift_of(self, whole: bool, in_slice: Members) -> tuple[NDArray[np.int64], Array, Array]:
        """Of a slice, or of the whole set, by attribute: texts, mean change, and its standard error by noise."""
        count, change, variance = in_slice.sum(axis=0), self.change, self.variance
        if whole:
            share = 1 / len(self.scorings) + 1 / len(self.reference.replicates)
            change, variance = self.mean_change, np.nan_to_num(self.reference.variance) * share
        with np.errstate(invalid="ignore", divide="ignore"):
            error = np.sqrt((variance * in_slice).sum(axis=0)) / count
            return count, (change * in_slice).sum(axis=0) / count, error

    @cached_property
    def chance_of_flip(self) -> Array:
        """That noise alone puts the label of a text on the other side, [n, attributes]; 1 at the threshold itself."""
        distance = np.nan_to_num(np.abs(self.reference.centre - self.thresholds))
        spread = np.sqrt(self.variance)
        with np.errstate(divide="ignore", invalid="ignore"):
            tail = scipy.stats.t.sf(distance / spread, max(1, len(self.reference.replicates) - 1))
        chance = np.where(spread > 0, tail, 0.0)
        return np.where(distance <= self.reference.floor, 1.0, chance)

    @cached_property
    def is_firm(self) -> Members:
        """Texts whose label noise leaves alone, [n, attributes]."""
        return (self.chance_of_flip < FAR) & self.known

    @cached_property
    def moved_far(self) -> Members:
        """Texts whose median moved farther than noise moves one in 10,000 to that side, [n, attributes]."""
        reach = float(scipy.stats.t.isf(FAR, max(1, len(self.reference.replicates) - 1)))
        return np.abs(self.change) > reach * np.sqrt(self.variance)


def compare(
    reference: Reference,
    scorings: Matrix,
    attributes: Sequence[str],
    demographics: Sequence[Sequence[str]],
    reported_measures: Reported,
    fingerprints: tuple[str, str],
    margins: Mapping[str, float] | None = None,
    check: int = 1,
    policy: Policy | None = None,
    thresholds: Mapping[str, float] | None = None,
    strata: Sequence[str] = (),
) -> DriftReport:
    """Compare the replicates of a control set, made at its opening, with its scorings of now.

    scorings: [scorings, n, attributes], or [n, attributes] of a single one; the same texts in the same order, NaN where
    a text has no score. An odd number, `reference.scorings`. demographics: of each text, none or more.
    reported_measures: those of the metric. fingerprints: then and now. margins: of equivalence, by key of the measure,
    see `equivalence_margin`; a measure that is not named has the widest. check: number of this check of the metric
    version. thresholds: of labels, by attribute; of one that is not named it is the policy's, and without that there
    are none. strata: the kind of each text, "" where it is of none; () where none is of any.

    L0: the fingerprints differ. It decides nothing: the scores do.
    L1: the paired changes are larger than replicate variation explains. The mean shift over all texts, of a demographic
    or of a stratum (a band of scores, a kind of text) by its standard error; the number of texts of which a scoring
    lies beyond their own noise; the distribution of changes beside that of replicates. Or a text without a score has
    one now.
    L2 is asked always. Over all texts, in each demographic and in each kind of text: the mean shift is beyond the
    policy's limit, or so many labels flip, of texts that moved farther than noise moves one in 10,000. Or the interval
    of a reported measure's change is not within the margin, in a demographic by more than its texts' own differences
    explain.
    Every one of these has to be beyond noise: Holm's p, over all tests of scores and over all tests of measures, is
    below what this check may spend of alpha, which the two share alike. Without noise a difference is a fact and has
    p = 0; it is compared exactly, but for rounding. The verdict is `changed` even where L2 fired, until `confirm`.

    A text that had a score of any attribute and has none now makes the check `unavailable`, whatever the other texts
    show: an error, an empty reply and a refusal are no scores, and measures without those texts are of another set. It
    stays so while the scorer withholds a score; only a person can decide to open a version without that text.

    Raises ValueError, naming the argument, where shapes or values do not fit.
    """
    policy = policy or Policy()
    new_scorings = np.asarray(scorings, dtype=np.float64)
    new_scorings = new_scorings[None] if new_scorings.ndim == 2 else new_scorings
    _check(reference, new_scorings, attributes, demographics, strata)
    had = ~np.isnan(reference.centre)
    has = np.asarray(np.isfinite(new_scorings).all(axis=0))
    in_both = had & has
    names, members = _slices(demographics)
    pair = _Pair(
        reference=reference,
        scorings=np.where(in_both, new_scorings, np.nan),
        attributes=attributes,
        policy=policy,
        names=names,
        members=members,
        strata=np.array(strata or [""] * len(demographics), dtype=np.str_),
        thresholds=np.array([(thresholds or {}).get(name, policy.threshold or 0.0) for name in attributes]),
    )
    alpha = alpha_of_check(policy.alpha, check)
    loss_count, gain_count = (int((mask & ~other).any(axis=1).sum()) for mask, other in ((had, has), (has, had)))
    movements, noise = _test_slices(pair)
    measures = tuple(_measures(pair, reported_measures, margins or {}))
    findings = [Finding(Rule.LOST_SCORES, float(loss_count), 0.0)] if loss_count else []
    if fingerprints[0] != fingerprints[1]:
        findings.append(Finding(Rule.FINGERPRINT))
    findings += [*_find_changes(movements, noise, alpha)]
    if gain_count:
        findings.append(Finding(Rule.GAINED_SCORES, float(gain_count), 0.0))
    findings += [*_material(movements, policy, alpha), *_not_equivalent(measures, alpha)]
    is_changed = any(finding.level in (Level.CHANGED, Level.MATERIAL) for finding in findings)
    return DriftReport(
        verdict=Verdict.UNAVAILABLE if loss_count else Verdict.CHANGED if is_changed else Verdict.STABLE,
        confirmed=None,
        findings=tuple(findings),
        n=len(reference.centre),
        lost=loss_count,
        gained=gain_count,
        scorings=len(new_scorings),
        check=check,
        alpha=alpha,
        policy=policy,
        reference_fingerprint=fingerprints[0],
        observed_fingerprint=fingerprints[1],
        movements=movements,
        paired_tests=tuple(_paired_tests(pair, movements)),
        measures=measures,
        noise=noise,
        detectable=tuple(_detectable(pair, movements, alpha)),
    )


def with_other_attributes(report: DriftReport, number: int) -> DriftReport:
    """The report on a scorer that gives `number` attributes only then or only now: a material change, whatever moved.

    `report` is to be of all attributes, then or now, with equal scores where one side has none. Numbers of attributes
    that a version does not have cannot stand under it. Raises ValueError where the number is below 1.
    """
    if number < 1:
        raise ValueError(f"number: {number} is below 1; a scorer of the same attributes needs no such finding")
    verdict = Verdict.UNAVAILABLE if report.verdict is Verdict.UNAVAILABLE else Verdict.CHANGED
    return replace(report, verdict=verdict, findings=(*report.findings, Finding(Rule.ATTRIBUTES, float(number), 0.0)))


def with_other_terms(report: DriftReport) -> DriftReport:
    """The report on a lexicon whose terms changed: a material change, whether or not a control text has one of them."""
    verdict = Verdict.UNAVAILABLE if report.verdict is Verdict.UNAVAILABLE else Verdict.CHANGED
    return replace(report, verdict=verdict, findings=(Finding(Rule.TERMS), *report.findings))


def confirm(first: DriftReport, second: DriftReport) -> DriftReport:
    """The verdict after a second scoring, compared with the same reference: `drifted` where L2 fired in both, over all
    texts or in one demographic or kind of text of an attribute.

    The findings stay those of the first, which becomes `changed` where the second does not show a material change. A
    second scoring that is unavailable confirms nothing: it is what comes back. Raises ValueError where there is nothing
    to confirm, or where the two are not of one check.
    """
    if not first.needs_confirmation:
        raise ValueError(f"first: its verdict, {first.verdict.value}, needs no second scoring")
    checks = [(report.reference_fingerprint, report.check, report.n, report.policy) for report in (first, second)]
    if checks[0] != checks[1]:
        raise ValueError("second: it is not of the first one's check; compare it with the same reference and policy")
    if second.verdict is Verdict.UNAVAILABLE:
        return second
    is_confirmed = bool(_places(first) & _places(second))
    return replace(first, verdict=Verdict.DRIFTED if is_confirmed else Verdict.CHANGED, confirmed=is_confirmed)


def _places(report: DriftReport) -> set[tuple[str | None, str | None, str | None]]:
    """Where a report found a material change."""
    material = [finding for finding in report.findings if finding.level is Level.MATERIAL]
    return {(finding.attribute, finding.demographic, finding.stratum) for finding in material}


def weigh(report: DriftReport, leaver_count: int) -> DriftReport:
    """A drifted report with the number of entries that, by estimate, would leave their rank range.

    Where nothing is material but that a reported measure may have changed, and no entry would leave its range, the
    verdict is `changed`: the estimate is of the entries themselves, and knows better than the control set.
    """
    is_outweighed = report.verdict is Verdict.DRIFTED and report.rests_on_equivalence and not leaver_count
    return replace(report, moved=leaver_count, verdict=Verdict.CHANGED if is_outweighed else report.verdict)


def _check(
    reference: Reference,
    scorings: Array,
    attributes: Sequence[str],
    demographics: Sequence[Sequence[str]],
    strata: Sequence[str],
) -> None:
    n, count = reference.centre.shape
    if count != len(attributes):
        raise ValueError(f"reference: it is of {count} attributes; give the {len(attributes)} that are named")
    if scorings.ndim != 3 or scorings.shape[1:] != (n, count):
        raise ValueError(f"scorings: their shape is {scorings.shape}, the reference's {(n, count)}; score all texts")
    if not len(scorings) % 2:
        raise ValueError(f"scorings: there are {len(scorings)}; give an odd number, so that there is a median")
    if len(demographics) != n:
        raise ValueError(f"demographics: there are {len(demographics)} for {n} texts; give each its own")
    if any(isinstance(names, str) for names in demographics):
        raise ValueError("demographics: one is a string; give each text a tuple of names, empty where it has none")
    if strata and len(strata) != n:
        raise ValueError(f"strata: there are {len(strata)} for {n} texts; give each its own, or none")
    if set(strata) & set(BAND_LIMITS):
        raise ValueError("strata: one has the name of a band of scores; name it anew")
    if np.isinf(scorings).any():
        raise ValueError("scorings: a score is infinite; give NaN where there is none")


def _slices(demographics: Sequence[Sequence[str]]) -> tuple[list[str | None], Members]:
    names = sorted({name for row in demographics for name in row})
    number = {name: place for place, name in enumerate(names, start=1)}
    members = np.zeros((len(names) + 1, len(demographics)), dtype=bool)
    members[0] = True
    for row, text_demographics in enumerate(demographics):
        members[[number[name] for name in text_demographics], row] = True
    return [None, *names], members


def _test_slices(pair: _Pair) -> tuple[tuple[Movement, ...], tuple[NoiseTests, ...]]:
    """Every slice of every attribute, all texts first, and every attribute beside its noise; Holm's p over all."""
    replicates = len(pair.reference.replicates)
    raw = np.abs(pair.change)
    flips: Members | None = None
    if pair.policy.threshold is not None:
        old_labels, new_labels = (
            is_above(scores, pair.thresholds) for scores in (pair.reference.centre, pair.observed)
        )
        flips = np.stack([new_labels & ~old_labels, old_labels & ~new_labels])
    places = [place for place, _ in pair.slices]
    in_slice = np.stack([members for _, members in pair.slices])  # [slices, n, attributes]
    shifts = [pair.shift_of(place == (None, None), members) for place, members in pair.slices]
    count, change, error = (np.stack(rows) for rows in zip(*shifts, strict=True))  # [slices, attributes]
    with np.errstate(invalid="ignore", divide="ignore"):
        shift_p = 2 * scipy.stats.t.sf(np.abs(change) / error, np.maximum(1, (replicates - 1) * count))
    shift_p = np.where(np.nan_to_num(change) == 0, 1.0, np.where(error > 0, shift_p, 0.0))
    expected_flips = (in_slice * np.where(pair.variance > 0, np.minimum(pair.chance_of_flip, FAR), 0.0)).sum(axis=1)
    far_flips = (in_slice & pair.moved_far & (False if flips is None else flips.any(axis=0))).sum(axis=1)
    labels_p = count_p(far_flips, expected_flips)
    movements: list[Movement] = []
    p_values: list[float] = []  # of every movement that of its shift and that of its flips, then those of the noise
    for row, (demographic, stratum) in enumerate(places):
        for column, attribute in enumerate(pair.attributes):
            rows = np.flatnonzero(in_slice[row, :, column])
            movement = Movement(attribute, demographic, len(rows), None, None, None, None, None, stratum)
            if len(rows):
                movement = replace(
                    movement,
                    max_abs=float(raw[rows, column].max()),
                    mean_abs=float(raw[rows, column].mean()),
                    mean_change=float(change[row, column]),
                    error=float(error[row, column]),
                )
            if flips is not None:
                up, down = (int(flip_direction[rows, column].sum()) for flip_direction in flips)
                movement = replace(movement, flips_up=up, flips_down=down, far_flips=int(far_flips[row, column]))
            movements.append(movement)
            p_values += [float(shift_p[row, column]), float(labels_p[row, column])]
    tests = [_noise_tests(pair, column) for column in range(len(pair.attributes))]
    p_values += [p for test in tests for p in (test.beyond_p, 1.0 if test.distance_p is None else test.distance_p)]
    adjusted_p = iter(_adjust_together(np.array(p_values)).tolist())
    for place, movement in enumerate(movements):
        shift, labels = next(adjusted_p), next(adjusted_p)
        movements[place] = replace(movement, p_adjusted=shift, flips_p=None if flips is None else labels)
    for place, test in enumerate(tests):
        beyond_p, distance = next(adjusted_p), next(adjusted_p)
        tests[place] = replace(test, beyond_p=beyond_p, distance_p=None if test.distance is None else distance)
    return tuple(movements), tuple(tests)


def _adjust_together(p_values: Array) -> Array:
    """Holm's p within one of the two families of tests, of scores and of measures, which share alpha alike."""
    return np.minimum(1.0, 2 * holm(p_values))


def count_p(counts: NDArray[np.int64], expected_counts: Array) -> Array:
    """That noise which is expected to make so many makes the counts or more, by Poisson; 0 or 1 where it makes none."""
    return np.where(
        expected_counts > 0, scipy.stats.poisson.sf(counts - 1, expected_counts), np.where(counts > 0, 0.0, 1.0)
    )


def seen_before_p(count: int, earlier_count: float, times: float) -> float:
    """That `count` or more come in one time, after `earlier_count` in `times`: negative binomial, Jeffreys' prior."""
    return float(scipy.stats.nbinom.sf(count - 1, earlier_count + 0.5, times / (times + 1))) if count else 1.0


def _noise_tests(pair: _Pair, column: int) -> NoiseTests:
    """An attribute's changes beside replicate variation; p values not adjusted yet."""
    reference, is_known = pair.reference, pair.known[:, column]
    attribute, scorings = pair.attributes[column], len(pair.scorings)
    beyond_count = int(reference.beyond(pair.scorings)[:, is_known, column].any(axis=0).sum())
    if reference.is_exact[column] or not is_known.any():
        return NoiseTests(attribute, 0.0, beyond_count, 0.0, float(not beyond_count), None, None)
    expected_count = float(reference.expected_beyond(scorings)[is_known, column].sum())
    times = len(reference.replicates) / scorings
    changes = reference.standardise(pair.scorings[0])[is_known, column]
    noise_changes = reference.standardised[:, is_known, column].ravel()
    distance = largest_gap(changes, noise_changes)
    noise = float(np.sqrt(np.mean(reference.variance[is_known, column])))
    distance_p = float(scipy.stats.kstwo.sf(distance, len(changes)))
    return NoiseTests(
        attribute,
        noise,
        beyond_count,
        expected_count,
        seen_before_p(beyond_count, expected_count * times, times),
        distance,
        distance_p,
    )


def _detectable(pair: _Pair, movements: Sequence[Movement], alpha: float) -> Iterator[Detectable]:
    """Of every attribute. All tests of the check share alpha alike, which is less than Holm leaves them."""
    policy, replicates = pair.policy, len(pair.reference.replicates)
    level = alpha / 2 / (2 * len(movements) + 2 * len(pair.attributes))
    z_once, twice = (float(scipy.stats.norm.ppf(power)) for power in (POWER, (1 + POWER) / 2))
    for column, attribute in enumerate(pair.attributes):
        errors = {}
        for movement in movements:
            if movement.attribute == attribute and movement.error is not None and movement.stratum is None:
                reach = float(scipy.stats.t.isf(level / 2, max(1, (replicates - 1) * movement.n))) * movement.error
                needed_shift = max(policy.mean_difference, reach) + twice * movement.error
                errors[movement.demographic] = (reach + z_once * movement.error, needed_shift)
        if not errors:
            continue
        yield Detectable(
            attribute=attribute,
            shift=max(pair.reference.floor, errors[None][0]),
            material_shift=errors[None][1],
            demographic_shift=max(
                (needed_shift for name, (_, needed_shift) in errors.items() if name is not None), default=None
            ),
            flips=_detectable_flips(pair, column, level),
        )


def _detectable_flips(pair: _Pair, column: int, level: float) -> int | None:
    """So many labels, of texts drawn at random, that enough of them are firm."""
    is_known, firm = pair.known[:, column], pair.is_firm[:, column]
    if pair.policy.threshold is None or not firm.any():
        return None
    noisy = is_known & (pair.variance[:, column] > 0)
    n, expected_flips = int(is_known.sum()), np.minimum(pair.chance_of_flip[noisy, column], FAR).sum()
    counts = np.arange(pair.policy.material_flips(n), n + 1)
    significant = counts[count_p(counts, expected_flips) < level]
    if not len(significant):
        return None
    least_count, counts = significant[0], significant
    enough = np.flatnonzero(scipy.stats.binom.sf(least_count - 1, counts, firm.sum() / n) >= (1 + POWER) / 2)
    return int(counts[enough[0]]) if len(enough) else None


def _paired_tests(pair: _Pair, movements: Sequence[Movement]) -> Iterator[PairedTests]:
    """Of every attribute over all texts, which come first among the movements."""
    for column, (attribute, movement) in enumerate(zip(pair.attributes, movements, strict=False)):
        if not movement.n:
            continue
        is_known = pair.known[:, column]
        old_scores, new_scores = pair.reference.centre[is_known, column], pair.observed[is_known, column]
        up, down = movement.flips_up, movement.flips_down
        ks, ks_p = unpaired_ks(old_scores, new_scores)
        yield PairedTests(
            attribute=attribute,
            mcnemar_p=None if up is None or down is None else mcnemar_p(up, down),
            wilcoxon_p=wilcoxon_p(new_scores - old_scores),
            ks=ks,
            ks_p=ks_p,
            wasserstein=float(scipy.stats.wasserstein_distance(old_scores, new_scores)),
        )


def mcnemar_p(up: int, down: int) -> float:
    """Exact two-sided p that a label that flips does so either way alike (McNemar 1947, with the binomial)."""
    return min(1.0, 2 * float(scipy.stats.binom.cdf(min(up, down), up + down, 0.5)))


def wilcoxon_p(differences: Array) -> float:
    """Two-sided p of Wilcoxon's signed ranks; differences of 0 are left out, and 1 where there are no others."""
    nonzero = differences[differences != 0]
    return float(scipy.stats.wilcoxon(nonzero).pvalue) if len(nonzero) else 1.0


def unpaired_ks(first: Array, second: Array) -> tuple[float, float]:
    """Kolmogorov and Smirnov's statistic of two samples of one size n, and its asymptotic two-sided p.

    As scipy.stats.ks_2samp(method="asymp"), which has no p for n = 1.
    """
    largest = largest_gap(first, second)
    return largest, float(scipy.stats.kstwo.sf(largest, max(1, round(len(first) / 2))))


def largest_gap(first: Array, second: Array) -> float:
    """Kolmogorov and Smirnov's statistic: the largest difference of two samples' cumulative shares."""
    points = np.concatenate([first, second])
    shares = [np.searchsorted(np.sort(sample), points, "right") / len(sample) for sample in (first, second)]
    return float(np.abs(shares[0] - shares[1]).max())


def _measures(pair: _Pair, reported_measures: Reported, margins: Mapping[str, float]) -> Iterator[MeasureChange]:
    """Of every slice, all texts first, and measure; without those that cannot be measured.

    Texts that moved within their noise count as they were: their labels flip either way, and their means are tested.
    """
    if not reported_measures.measures:
        return
    centre = pair.reference.centre
    new_scores = np.where(pair.moved_far, pair.observed, centre)
    old_scores, new_scores = (np.where(pair.known, scores, np.nan) for scores in (centre, new_scores))
    changes = reported_measures.changes(old_scores, new_scores, pair.members)
    is_scored = pair.members & pair.known.any(axis=1)
    change = changes.after - changes.before
    rows, columns = np.nonzero(np.isfinite(change))
    if not len(rows):
        return
    replicates = changes.replicates[:, rows, columns]
    low, high = percentile_intervals(replicates, pair.policy.confidence)
    p_values = _noise_p(pair, reported_measures)[rows, columns]
    difference_p = no_change_p(change[rows, columns], replicates, is_scored.sum(axis=1)[rows])
    adjusted_p = _adjust_together(np.where(rows > 0, np.maximum(p_values, difference_p), p_values))
    for cell, (row, column) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
        measure, attribute = reported_measures.measures[column]
        yield MeasureChange(
            measure=measure.key,
            attribute=attribute,
            demographic=pair.names[row],
            before=float(changes.before[row, column]),
            after=float(changes.after[row, column]),
            change=float(change[row, column]),
            ci_low=float(low[cell]),
            ci_high=float(high[cell]),
            margin=float(margins.get(measure.key, LARGEST_MARGIN * measure.largest)),
            p_adjusted=float(adjusted_p[cell]),
        )


def _noise_p(pair: _Pair, reported_measures: Reported) -> Array:
    """That noise alone moves as many texts of a slice beyond their noise, [slices, measures]; 0 or 1 without noise.

    A measure of no single attribute is of texts of which any score moved.
    """
    far, noisy = pair.moved_far, pair.known & (pair.variance > 0)
    places = {name: number for number, name in enumerate(pair.attributes)}
    columns = [places.get(attribute) for _, attribute in reported_measures.measures]
    has_moved = np.stack([far.any(axis=1) if column is None else far[:, column] for column in columns], axis=1)
    chances = [noisy.sum(axis=1) if column is None else noisy[:, column] for column in columns]
    membership = pair.members.astype(np.float64)
    return count_p((membership @ has_moved).astype(np.int64), membership @ np.stack(chances, axis=1) * 2 * FAR)


def no_change_p(change: Array, replicates: Array, n: NDArray[np.int64]) -> Array:
    """Two-sided p that a measure of `n` texts has not changed: the change over its bootstrap standard error, by t.

    A few texts that moved alike have no spread, and prove little: p is at least the sign test's smallest, 2 / 2^n.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.nanstd(replicates, axis=0) * np.sqrt(n / (n - 1))
        z = np.where(change == 0, 0.0, np.abs(change) / error)
    p_values = 2 * scipy.stats.t.sf(z, np.maximum(n - 1, 1))
    return np.where(n > 1, np.clip(p_values, 2.0 ** (1 - n), 1.0), 1.0)


def _find_changes(movements: Sequence[Movement], noise: Sequence[NoiseTests], alpha: float) -> Iterator[Finding]:
    for test in noise:
        if test.beyond_p < alpha:
            yield Finding(
                Rule.BEYOND_NOISE, float(test.beyond), test.expected, test.attribute, p_adjusted=test.beyond_p
            )
        if test.distance_p is not None and test.distance_p < alpha:
            yield Finding(Rule.DISTRIBUTION, test.distance, None, test.attribute, p_adjusted=test.distance_p)
    for movement in movements:
        if movement.p_adjusted is not None and movement.p_adjusted < alpha:
            place = (movement.attribute, movement.demographic, None, movement.p_adjusted, movement.stratum)
            yield Finding(Rule.SHIFT, movement.mean_change, None, *place)


def _material(movements: Sequence[Movement], policy: Policy, alpha: float) -> Iterator[Finding]:
    for movement in movements:
        if movement.stratum in BAND_LIMITS or movement.mean_change is None or movement.p_adjusted is None:
            continue
        place, stratum = (movement.attribute, movement.demographic, None), movement.stratum
        limit = policy.material_flips(movement.n)
        if movement.flips_p is not None and movement.counted_flips >= limit and movement.flips_p < alpha:
            flips = (float(movement.counted_flips), float(limit))
            yield Finding(Rule.LABEL_FLIPS, *flips, *place, movement.flips_p, stratum)
        if abs(movement.mean_change) > policy.mean_difference and movement.p_adjusted < alpha:
            limits = (movement.mean_change, policy.mean_difference)
            yield Finding(Rule.MEAN_SHIFT, *limits, *place, movement.p_adjusted, stratum)


def _not_equivalent(measures: Sequence[MeasureChange], alpha: float) -> Iterator[Finding]:
    for change in measures:
        if not change.equivalent and change.p_adjusted is not None and change.p_adjusted < alpha:
            farthest = change.ci_low if -change.ci_low > change.ci_high else change.ci_high
            place = (change.attribute, change.demographic, change.measure)
            yield Finding(Rule.EQUIVALENCE, farthest, change.margin, *place, change.p_adjusted)
