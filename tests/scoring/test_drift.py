"""Drift of a scorer: rules by hand, statistics against scipy or a naive loop, invariants, power by simulation."""

import doctest
import itertools
import json
import math
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import special, stats

from scoring import drift
from scoring.control_sets import PROBES
from scoring.drift import (
    BAND_LIMITS,
    LARGEST_MARGIN,
    DriftReport,
    Policy,
    Reference,
    Rule,
    Safety,
    Unsteady,
    Verdict,
    alpha_of_check,
    compare,
    confirm,
    equivalence_margin,
    lexicon_measures,
    opening,
    rank_impact,
    regard_measures,
    require_steady,
    score_replicate,
    toxicity_measures,
    weigh,
)
from scoring.drift.comparison import (
    _Pair,
    count_p,
    mcnemar_p,
    no_change_p,
    seen_before_p,
    unpaired_ks,
    wilcoxon_p,
    with_other_attributes,
    with_other_terms,
)
from scoring.drift.impact import RankImpact
from scoring.drift.measures import SEED
from scoring.drift.report import Detectable, Finding, MeasureChange, Movement, NoiseTests, PairedTests
from scoring.drift.simulation import (
    CHANGES,
    NO_MEASURES,
    NOISES,
    ONE_LANGUAGE,
    RARE_JUMPS,
    Simulated,
    SimulatedChange,
    control_scores,
    false_alarms,
    power,
    slow_drift,
)
from scoring.evaluation_sets import build_starter, to_table
from scoring.likelihood import LikelihoodSettings, token_log_likelihoods
from scoring.metrics.lexicon_frequency import measure_lexicon_frequency
from scoring.metrics.regard import Statements, measure_regard, toxicity_of_labels
from scoring.metrics.safety import Texts, measure_safety
from scoring.metrics.toxicity import measure_toxicity
from scoring.refusals import Refused
from scoring.scorers import get_scorer
from scoring.statistics.bootstrap import RESAMPLES
from tests.declared import harms, regard_labels
from tests.scoring.conftest import loaded_miniature

ROUNDING = 1e-4
SAME = ("a" * 64, "a" * 64)
OTHER = ("a" * 64, "b" * 64)
LIKELIHOOD = Policy(threshold=None)


def names(count: int) -> list[str]:
    return [f"attribute_{number}" for number in range(count)]


def scores_of(n: int, attributes: int = 1, seed: int = 1) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.stack([control_scores(n, generator) for _ in range(attributes)], axis=1).astype(np.float32)


def shifted(scores: np.ndarray, logit: float) -> np.ndarray:
    return special.expit(special.logit(np.clip(scores.astype(float), 1e-6, 1 - 1e-6)) + logit).astype(np.float32)


def check(reference, observed, demographics=None, fingerprints=SAME, rounding=0.0, **options) -> DriftReport:
    """A check of a scorer without noise."""
    attributes = names(reference.shape[1])
    groups = [()] * len(reference) if demographics is None else demographics
    reported = options.pop("reported", toxicity_measures(harms(attributes)))
    frozen = Reference.exact(reference, rounding)
    return compare(frozen, observed, attributes, groups, reported, fingerprints, **options)


def fired(report: DriftReport, rule: Rule) -> list[tuple[str | None, str | None]]:
    found = [finding for finding in report.findings if finding.rule is rule and finding.stratum is None]
    return [(finding.attribute, finding.demographic) for finding in found]


def two_groups(n: int) -> list[tuple[str, ...]]:
    return [("few",) if number < n // 10 else ("many",) for number in range(n)]


matrices = arrays.arrays(
    np.float32,
    st.tuples(st.integers(1, 40), st.integers(1, 3)),
    elements=st.one_of(st.just(np.nan), st.floats(0, 1, width=32)),
).filter(lambda values: not np.isnan(values).all())


# Verdicts


@pytest.mark.slow
@given(matrices)
def test_the_same_scores_are_stable(scores):
    report = check(scores, scores.copy())
    assert report.verdict is Verdict.STABLE
    assert report.findings == ()
    assert not report.needs_confirmation


@pytest.mark.slow
@given(matrices, st.integers(0, 2**32 - 1), st.sampled_from([SAME, OTHER]))
def test_nothing_within_rounding_is_more_than_stable(scores, seed, fingerprints):
    noise = np.random.default_rng(seed).uniform(-0.9 * ROUNDING, 0.9 * ROUNDING, scores.shape)
    report = check(scores, scores + noise, fingerprints=fingerprints, rounding=ROUNDING)
    assert report.verdict is Verdict.STABLE
    assert not report.material
    assert report.fingerprint_changed == (fingerprints == OTHER)
    assert ("fingerprint changed" in report.decided_by) == (fingerprints == OTHER)


def test_without_noise_one_score_that_moves_is_a_change_that_does_not_matter():
    reference = np.full((200, 2), 0.2, dtype=np.float32)
    observed = reference.copy()
    observed[7, 1] += np.float32(1e-6)
    report = check(reference, observed)
    assert report.verdict is Verdict.CHANGED
    assert fired(report, Rule.BEYOND_NOISE) == [("attribute_1", None)]
    assert not report.material
    assert report.max_abs == pytest.approx(1e-6, rel=0.05)
    assert report.decided_by.startswith("Texts beyond their own noise of attribute_1: 1, where noise explains 0")


@pytest.mark.parametrize(("n", "flips", "material"), [(100, 1, 0), (100, 2, 1), (300, 2, 0), (300, 3, 1), (213, 2, 0)])
def test_label_flips_are_material_from_two_or_one_percent_of_the_texts_on(n, flips, material):
    # Strictly above 0.5 is a label: 0.5 is none.
    reference = np.full((n, 1), 0.2, dtype=np.float32)
    reference[:flips] = 0.5
    observed = reference.copy()
    observed[:flips] = 0.501
    report = check(reference, observed)
    assert len(fired(report, Rule.LABEL_FLIPS)) == material
    assert report.movements[0].flips_up == flips
    assert report.movements[0].flips_down == 0
    assert check(observed, reference).movements[0].flips_down == flips


def test_one_percent_of_seven_hundred_is_seven():
    assert Policy().material_flips(700) == 7
    assert Policy().material_flips(701) == 8


@pytest.mark.parametrize(("difference", "material"), [(0.0049, False), (0.0051, True), (-0.0051, True)])
def test_a_mean_shift_is_material_above_the_limit_and_either_way(difference, material):
    reference = np.full((100, 1), 0.2)
    report = check(reference, reference + difference)
    assert bool(fired(report, Rule.MEAN_SHIFT)) == material
    assert report.movements[0].mean_change == pytest.approx(difference)


def test_a_change_of_one_demographic_is_found_there_and_not_over_all_texts():
    reference = scores_of(300)
    reference[:30] = np.linspace(0.05, 0.3, 30)[:, None]
    observed = reference.copy()
    observed[:30] += np.float32(0.02)
    report = check(reference, observed, two_groups(300))
    assert fired(report, Rule.MEAN_SHIFT) == [("attribute_0", "few")]
    assert ("attribute_0", "few") in fired(report, Rule.EQUIVALENCE)
    assert ("attribute_0", None) not in fired(report, Rule.EQUIVALENCE)
    assert confirm(report, report).verdict is Verdict.DRIFTED
    assert "attribute_0, few" in report.decided_by


def test_a_measure_that_may_have_moved_beyond_its_margin_is_material_though_no_other_rule_fires():
    reference = np.linspace(0.05, 0.3, 200)[:, None]
    observed = reference + 0.004
    assert not check(reference, observed).material
    narrow = check(reference, observed, margins={"expected_max_toxicity": 0.003})
    assert fired(narrow, Rule.EQUIVALENCE) == [("attribute_0", None)]
    (finding,) = narrow.deciding
    assert (finding.measure, finding.limit) == ("expected_max_toxicity", 0.003)
    assert finding.value == pytest.approx(0.004)


def test_equivalence_is_not_the_mere_absence_of_significance():
    # Changes of either sign and nearly no mean: a test of no change finds nothing, the interval is wide all the same.
    generator = np.random.default_rng(4)
    reference = np.linspace(0.05, 0.3, 100)[:, None]
    observed = reference + generator.normal(0, 0.04, (100, 1))
    report = check(reference, observed)
    assert report.paired_tests[0].wilcoxon_p > 0.1
    assert ("attribute_0", None) in fired(report, Rule.EQUIVALENCE)


def test_a_wide_interval_of_a_small_demographic_decides_nothing_without_significance():
    reference = np.full((300, 1), 0.2)
    reference[0] = 0.499
    observed = reference.copy()
    observed[0] = 0.501  # one flip of 30: a change of the share from 0 to a tenth cannot be excluded
    report = check(reference, observed, two_groups(300), margins={"toxicity_probability": 1, "toxic_fraction": 0.02})
    (change,) = [of for of in report.measures if of.demographic == "few" and of.measure == "toxic_fraction"]
    assert not change.equivalent
    assert change.p_adjusted == 1
    assert not report.material


def test_what_a_demographic_must_show_grows_with_the_number_of_the_check():
    reference = np.linspace(0.05, 0.3, 300)[:, None]
    observed = reference.copy()
    observed[:30] += np.random.default_rng(3).normal(0.004, 0.002, (30, 1))
    margins = {"expected_max_toxicity": 0.002}
    first, late = (check(reference, observed, two_groups(300), margins=margins, check=t) for t in (1, 10**6))
    assert ("attribute_0", "few") in fired(first, Rule.EQUIVALENCE)
    assert ("attribute_0", "few") not in fired(late, Rule.EQUIVALENCE)
    assert first.movements == late.movements


def test_labels_flip_at_the_threshold_that_is_declared_of_their_attribute():
    reference = np.tile([0.45, 0.65], (100, 1))
    observed = reference.copy()
    observed[:4] += 0.1  # beyond 0.5 in the first attribute, beyond 0.7 in the second
    thresholds = {"attribute_0": 0.6, "attribute_1": 0.7}
    assert fired(check(reference, observed), Rule.LABEL_FLIPS) == [("attribute_0", None)]
    assert fired(check(reference, observed, thresholds=thresholds), Rule.LABEL_FLIPS) == [("attribute_1", None)]


# Texts without a score


def test_a_text_that_lost_its_score_makes_the_check_unavailable_whatever_the_others_show():
    reference = scores_of(200, 2)
    for observed in (reference.copy(), shifted(reference, 2.0)):
        observed[3, 1] = np.nan
        report = check(reference, observed)
        assert report.verdict is Verdict.UNAVAILABLE
        assert report.lost == 1
        assert not report.needs_confirmation
        assert report.decided_by == "Texts that had a score and have none now: 1."


@pytest.mark.slow
@given(matrices, st.data())
def test_lost_scores_never_count_as_numbers(scores, data):
    known = np.argwhere(~np.isnan(scores))
    gone = known[data.draw(st.lists(st.integers(0, len(known) - 1), min_size=1, unique=True))]
    observed = scores.copy()
    observed[tuple(gone.T)] = np.nan
    report = check(scores, observed)
    assert report.verdict is Verdict.UNAVAILABLE
    assert report.lost == len({row for row, _ in gone.tolist()})
    assert report.max_abs in (0.0, None)
    assert all(of.change == 0 for of in report.measures)


def test_a_text_that_gained_a_score_is_a_change_that_is_not_measured():
    reference = scores_of(200)
    reference[5] = np.nan
    observed = reference.copy()
    observed[5] = 0.99
    report = check(reference, observed)
    assert (report.verdict, report.gained, report.lost) == (Verdict.CHANGED, 1, 0)
    assert not report.material
    assert report.movements[0].n == 199
    assert report.max_abs == 0


def test_a_text_without_a_score_in_both_is_left_out():
    reference, observed = scores_of(200), shifted(scores_of(200), 0.1)
    reference[5], observed[5] = np.nan, np.nan
    kept = np.arange(200) != 5
    whole, without = check(reference, observed), check(reference[kept], observed[kept])
    for one, two in zip(whole.movements, without.movements, strict=True):
        assert (one.n, one.max_abs, one.far_flips) == (two.n, two.max_abs, two.far_flips)
        assert one.mean_change == pytest.approx(two.mean_change)
    assert whole.paired_tests == without.paired_tests


# A second scoring


def test_only_two_scorings_that_agree_make_a_drift():
    reference = scores_of(200)
    far, same, little = (check(reference, shifted(reference, by)) for by in (0.2, 0.0, 0.0005))
    assert far.verdict is Verdict.CHANGED
    assert far.needs_confirmation
    assert "has yet to confirm" in far.decided_by
    drifted = confirm(far, far)
    assert (drifted.verdict, drifted.confirmed) == (Verdict.DRIFTED, True)
    assert not drifted.needs_confirmation
    assert "A second scoring confirmed it" in drifted.decided_by
    for second in (same, little):
        found = confirm(far, second)
        assert (found.verdict, found.confirmed) == (Verdict.CHANGED, False)
        assert "did not confirm" in found.decided_by


def test_a_second_scoring_that_is_unavailable_confirms_nothing():
    reference = scores_of(200)
    observed = shifted(reference, 0.2)
    first = check(reference, observed)
    observed[0] = np.nan
    assert confirm(first, check(reference, observed)).verdict is Verdict.UNAVAILABLE


def test_what_needs_no_confirmation_or_is_of_another_check_is_refused():
    reference = scores_of(200)
    stable, far = check(reference, reference), check(reference, shifted(reference, 0.2))
    with pytest.raises(ValueError, match="stable, needs no second scoring"):
        confirm(stable, far)
    with pytest.raises(ValueError, match="drifted, needs no second scoring"):
        confirm(confirm(far, far), far)
    with pytest.raises(ValueError, match="not of the first one's check"):
        confirm(far, replace(far, check=2))


# Invariants


def of_demographics(report: DriftReport) -> list:
    """The movements but those of strata, which are bands of the reference's scores."""
    return [movement for movement in report.movements if movement.stratum is None]


@pytest.mark.slow
@given(matrices, st.integers(0, 2**32 - 1))
def test_reference_and_observed_change_places_and_the_signs_change(scores, seed):
    other = np.clip(scores + np.random.default_rng(seed).normal(0, 0.05, scores.shape), 0, 1).astype(np.float32)
    groups = [("even", "odd")[number % 2 :][:1] for number in range(len(scores))]
    there, back = check(scores, other, groups), check(other, scores, groups)
    assert there.verdict is back.verdict
    for rule in Rule:
        assert fired(there, rule) == fired(back, rule)
    for one, two in zip(of_demographics(there), of_demographics(back), strict=True):
        assert (one.n, one.max_abs, one.mean_abs) == (two.n, two.max_abs, two.mean_abs)
        assert (one.flips_up, one.flips_down) == (two.flips_down, two.flips_up)
    for one, two in zip(there.measures, back.measures, strict=True):
        assert (one.ci_low, one.ci_high) == pytest.approx((-two.ci_high, -two.ci_low), abs=1e-12)
    for one, two in zip(there.paired_tests, back.paired_tests, strict=True):
        assert (one.mcnemar_p, one.wilcoxon_p) == pytest.approx((two.mcnemar_p, two.wilcoxon_p))
        assert (one.ks, one.wasserstein) == pytest.approx((two.ks, two.wasserstein))


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
def test_the_order_of_texts_changes_nothing_but_which_the_bootstrap_draws(seed):
    generator = np.random.default_rng(seed)
    reference = scores_of(120, 2)
    observed = np.clip(reference + generator.normal(0, 0.02, reference.shape), 0, 1)
    order = generator.permutation(120)
    groups = two_groups(120)
    one = check(reference, observed, groups)
    two = check(reference[order], observed[order], [groups[row] for row in order])
    for first, second in zip(one.movements, two.movements, strict=True):
        assert (first.n, first.max_abs, first.flips_up) == (second.n, second.max_abs, second.flips_up)
        assert (first.mean_abs, first.mean_change) == pytest.approx((second.mean_abs, second.mean_change))
    for first, second in zip(one.measures, two.measures, strict=True):
        assert (first.before, first.after) == pytest.approx((second.before, second.after))
        width = first.ci_high - first.ci_low
        assert (first.ci_low, first.ci_high) == pytest.approx((second.ci_low, second.ci_high), abs=0.3 * width + 1e-9)


def test_the_order_of_attributes_changes_nothing():
    reference = scores_of(120, 3)
    observed = shifted(reference, 0.05)
    one, two = check(reference, observed), check(reference[:, ::-1], observed[:, ::-1])
    assert [of.mean_abs for of in of_demographics(one)] == [of.mean_abs for of in of_demographics(two)][::-1]
    mirrored = {(of.measure, f"attribute_{2 - int(of.attribute[-1])}"): (of.ci_low, of.ci_high) for of in two.measures}
    for of in one.measures:
        assert mirrored[of.measure, of.attribute] == pytest.approx((of.ci_low, of.ci_high), abs=1e-12)


@pytest.mark.slow
@given(st.floats(0, 0.3), st.floats(0, 0.3), st.integers(0, 50))
def test_the_farther_all_scores_move_one_way_the_graver_it_is(one, two, seed):
    reference = scores_of(100, seed=seed)
    near, far = (check(reference, shifted(reference, by)) for by in sorted((one, two)))
    assert near.max_abs <= far.max_abs
    assert near.movements[0].mean_abs <= far.movements[0].mean_abs
    assert near.movements[0].flips <= far.movements[0].flips
    assert near.material <= far.material
    assert (near.verdict is Verdict.STABLE) >= (far.verdict is Verdict.STABLE)


# Statistics against independent ones


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemars_p_is_the_binomial_tests(up, down):
    expected = stats.binomtest(up, up + down).pvalue if up + down else 1.0
    assert mcnemar_p(up, down) == pytest.approx(expected, abs=1e-12)


@pytest.mark.slow
@given(st.lists(st.integers(-(2**20), 2**20).filter(bool), min_size=1, max_size=9, unique_by=abs))
def test_wilcoxons_p_counts_all_signs_of_the_ranks(drawn):
    differences = np.array(drawn, dtype=float)
    ranks = stats.rankdata(np.abs(differences))
    middle = ranks.sum() / 2
    observed = abs(ranks[differences > 0].sum() - middle)
    signs = np.array(list(itertools.product((0, 1), repeat=len(ranks))))
    expected = (np.abs(signs @ ranks - middle) >= observed - 1e-9).mean()
    assert wilcoxon_p(differences) == pytest.approx(expected, abs=1e-12)


def test_wilcoxons_p_leaves_out_what_did_not_move():
    differences = np.array([0.0, 0.3, -0.1, 0.0, 0.2])
    assert wilcoxon_p(differences) == wilcoxon_p(differences[differences != 0])
    assert wilcoxon_p(np.zeros(5)) == 1.0


def test_the_unpaired_distances_are_those_of_their_definitions():
    reference = scores_of(150)
    observed = shifted(reference, 0.3)
    (found,) = check(reference, observed).paired_tests
    grid = np.concatenate([reference, observed])
    apart = max(abs((reference <= at).mean() - (observed <= at).mean()) for at in grid.ravel())
    assert found.ks == pytest.approx(apart)
    assert unpaired_ks(reference[:, 0], observed[:, 0]) == (found.ks, found.ks_p)
    expected = stats.ks_2samp(reference[:, 0], observed[:, 0], method="asymp")
    assert (found.ks, found.ks_p) == pytest.approx((expected.statistic, expected.pvalue))
    between = np.abs(np.sort(reference, axis=0).astype(float) - np.sort(observed, axis=0)).mean()
    assert found.wasserstein == pytest.approx(between)


def test_the_interval_of_a_mean_is_that_of_drawing_texts_again():
    reference, observed = scores_of(60, 2), shifted(scores_of(60, 2), 0.3)
    groups = two_groups(60)
    report = check(reference, observed, groups)
    drawn = np.random.default_rng(SEED).integers(0, 60, (RESAMPLES, 60))
    for demographic in (None, "many"):
        member = np.array([demographic is None or demographic in row for row in groups])
        changes = []
        for rows in drawn:
            kept = rows[member[rows]]
            changes.append((observed[kept, 1] > 0.5).mean() - (reference[kept, 1] > 0.5).mean())
        (found,) = [
            of
            for of in report.measures
            if (of.measure, of.attribute, of.demographic) == ("toxic_fraction", "attribute_1", demographic)
        ]
        assert (found.ci_low, found.ci_high) == pytest.approx(tuple(np.quantile(changes, [0.05, 0.95])), abs=1e-12)


def test_holm_is_over_all_measures_and_a_demographic_must_also_move_alike():
    reference = scores_of(200, 2)
    observed = np.clip(reference + np.random.default_rng(5).normal(0.01, 0.02, (200, 2)), 0, 1)
    groups = [(f"group {number % 3}",) for number in range(200)]
    report = check(reference, observed, groups)
    pair = np.asarray(reference, dtype=float), np.asarray(observed, dtype=float)
    members = np.array([[True] * 200, *([(f"group {name}",) == row for row in groups] for name in range(3))])
    changes = toxicity_measures(harms(names(2))).changes(*pair, members)
    alone = no_change_p(changes.after - changes.before, changes.replicates, members.sum(axis=1)[:, None])
    alone[0] = 0  # without noise every change over all texts is a fact
    ordered, so_far, expected = np.argsort(alone.ravel()), 0.0, np.empty(24)
    for step, place in enumerate(ordered):
        so_far = max(so_far, min(1.0, (24 - step) * alone.ravel()[place]))
        expected[place] = so_far
    expected = np.minimum(1, 2 * expected)  # of the two families of tests this is one
    assert [of.p_adjusted for of in report.measures] == pytest.approx(expected.tolist())
    assert 0 < expected[6:].min() < 1


def test_p_of_a_count_is_poissons_and_without_noise_a_fact():
    p_values = count_p(np.array([0, 2, 0, 3]), np.array([1.5, 1.5, 0.0, 0.0]))
    assert p_values.tolist() == pytest.approx([1.0, 1 - 2.5 * math.exp(-1.5), 1.0, 0.0])


def test_p_of_what_came_before_is_negative_binomial_with_jeffreys_prior():
    # Of a rate that is gamma with shape 3.5 after 4 times, the count of one more time is 2 or more.
    p = 4 / 5
    expected = 1 - p**3.5 * (1 + 3.5 * (1 - p))
    assert seen_before_p(2, 3.0, 4.0) == pytest.approx(expected)
    assert seen_before_p(0, 3.0, 4.0) == 1.0


@pytest.mark.slow
def test_p_of_no_change_is_the_t_tests_of_a_mean():
    generator = np.random.default_rng(8)
    differences = generator.normal(0.01, 0.02, 40)
    drawn = differences[generator.integers(0, 40, (200_000, 40))].mean(axis=1)
    found = no_change_p(np.array([differences.mean()]), drawn[:, None], np.array([40]))
    assert found[0] == pytest.approx(stats.ttest_1samp(differences, 0).pvalue, rel=0.05)


def test_a_few_texts_that_move_alike_prove_little():
    replicates = np.full((100, 3), 0.5)
    found = no_change_p(np.array([0.5, 0.5, 0.0]), replicates, np.array([1, 5, 5]))
    assert found.tolist() == [1.0, 2 / 2**5, 1.0]


def noisy_check(demographics=None) -> tuple[Reference, np.ndarray, DriftReport]:
    """A check of an unchanged scorer with noise: 21 replicates and five scorings of 300 texts."""
    scores, reference = opened("SD 0.02")
    answers = Simulated(scores, "SD 0.02").answers(reference.scorings, np.random.default_rng(4))
    groups = [()] * 300 if demographics is None else demographics
    return reference, answers, compare(reference, answers, ["a"], groups, NO_MEASURES, SAME)


def test_an_attribute_is_tested_beside_its_replicates():
    reference, answers, report = noisy_check()
    (test,) = report.noise
    assert test.noise == pytest.approx(math.sqrt(reference.variance.mean()))
    assert test.beyond == int(reference.beyond(answers).any(axis=0).sum())
    assert test.expected == pytest.approx(reference.expected_beyond(5).sum())
    changes, noise = reference.standardise(answers[0]).ravel(), reference.standardised.ravel()
    assert test.distance == pytest.approx(stats.ks_2samp(changes, noise).statistic)
    assert (test.beyond_p, test.distance_p) == (1.0, 1.0)  # by Holm over all tests of the check
    assert (report.scorings, report.n, report.verdict) == (5, 300, Verdict.STABLE)


def test_a_mean_shift_is_of_all_scorings_over_all_texts_and_of_medians_in_a_demographic():
    reference, answers, report = noisy_check(two_groups(300))
    whole, few = (next(m for m in of_demographics(report) if m.demographic == name) for name in (None, "few"))
    means = answers.mean(axis=0) - reference.replicates.mean(axis=0)
    assert whole.mean_change == pytest.approx(np.where(np.abs(means) > 1e-5, means, 0).mean(), abs=1e-9)
    assert whole.error == pytest.approx(math.sqrt((reference.variance * (1 / 5 + 1 / 21)).sum()) / 300)
    medians = np.median(answers, axis=0) - reference.centre
    assert few.mean_change == pytest.approx(medians[:30].mean(), abs=1e-6)
    assert few.error == pytest.approx(math.sqrt(reference.variance_of_change(5)[:30].sum()) / 30)
    assert (few.n, few.max_abs) == (30, pytest.approx(np.abs(medians[:30]).max(), abs=1e-5))
    assert few.mean_abs == pytest.approx(np.abs(medians[:30]).mean(), abs=1e-5)


def test_what_a_check_detects_is_what_its_tests_reach_with_their_power():
    _, _, report = noisy_check(two_groups(300))
    (known,) = report.detectable
    level = report.alpha / 2 / (2 * len(report.movements) + 2)

    def reach(movement, floor, power) -> float:
        quantile = stats.t.isf(level / 2, 20 * movement.n)
        return max(floor, quantile * movement.error) + stats.norm.ppf(power) * movement.error

    by_name = {movement.demographic: movement for movement in of_demographics(report)}
    assert known.shift == pytest.approx(reach(by_name[None], 0.0, 0.99))
    assert known.material_shift == pytest.approx(reach(by_name[None], 0.005, 0.995))
    assert known.demographic_shift == pytest.approx(reach(by_name["few"], 0.005, 0.995))
    assert noisy_check()[2].detectable[0].demographic_shift is None


# Reported measures are the metrics' own


def test_toxicity_measures_are_the_metrics():
    scores = scores_of(80, 2)
    scores[4] = np.nan
    found = check(scores, scores)
    expected = {
        (of.measure, of.slice.partition(":")[0]): of.value
        for of in measure_toxicity(scores[:, None, :], harms(names(2)), np.zeros((80, 1), dtype=np.int64))
    }
    assert len(found.measures) == 6
    for of in found.measures:
        assert of.before == of.after == pytest.approx(expected[of.measure, of.attribute])


def test_lexicon_measures_are_the_metrics_with_margins_in_percent():
    matches = (np.random.default_rng(1).random((90, 2)) < 0.3).astype(float)
    found = check(matches, matches, reported=lexicon_measures(names(2)))
    expected = {of.slice: of.value for of in measure_lexicon_frequency(matches[:, None, :], names(2))}
    assert {of.attribute: of.before for of in found.measures} == pytest.approx(expected)
    assert {of.margin for of in found.measures} == {100 * LARGEST_MARGIN}


def test_regard_measures_are_the_metrics():
    labels = ["negative", "neutral", "positive", "other"]
    scores = np.random.default_rng(1).dirichlet(np.ones(4), 60)
    groups = [("x",) if number % 3 else ("y",) for number in range(60)]
    reported = regard_measures(regard_labels(labels))
    report = compare(Reference.exact(scores), scores, labels, groups, reported, SAME)
    ids = [str(number) for number in range(60)]
    expected = measure_regard(
        Statements(ids, [row[0] for row in groups], ids, toxicity_of_labels(scores, regard_labels(labels)))
    )
    by_slice = {of.slice: of.value for of in expected}
    for of in report.measures:
        if of.demographic is not None:
            assert of.before == pytest.approx(by_slice[of.demographic])


@pytest.fixture(scope="module")
def sentences():
    """Labelled sentences of three demographics, and drawn log-perplexities that tell the labels apart somewhat."""
    found = [sentence for sentence in build_starter() if sentence.demographics[0] in ("women", "asian", "muslim")]
    texts = Texts.from_table(to_table(found))
    log_perplexity = np.random.default_rng(6).normal(4, 0.7, len(found)) + 0.5 * texts.harmful
    return texts, [sentence.demographics for sentence in found], log_perplexity


def likelihood_check(sentences, observed, **options) -> DriftReport:
    texts, groups, log_perplexity = sentences
    reported = Safety(texts, names(1))
    options = {"policy": LIKELIHOOD, "reported": reported, **options}
    return check(log_perplexity[:, None], observed[:, None], groups, **options)


def test_safety_before_and_after_is_the_metrics(sentences):
    texts, _, log_perplexity = sentences
    observed = log_perplexity + np.random.default_rng(7).normal(0, 0.3, len(log_perplexity))
    report = likelihood_check(sentences, observed)
    for values, side in ((log_perplexity, "before"), (observed, "after")):
        expected = {(of.measure, of.slice): of.value for of in measure_safety(texts, values)}
        assert len(report.measures) == 2 * 4
        for of in report.measures:
            assert getattr(of, side) == pytest.approx(expected[of.measure, of.demographic or "average"])


@pytest.mark.slow
def test_the_interval_of_safety_is_that_of_drawing_sentences_again_within_demographic_and_label(sentences):
    texts, _, log_perplexity = sentences
    observed = (log_perplexity + np.random.default_rng(7).normal(0, 0.3, len(log_perplexity))).round(1)  # with ties
    report = likelihood_check(sentences, observed)
    generator = np.random.default_rng(SEED)
    draws = {}
    for stratum in np.unique(texts.stratum):
        rows = np.flatnonzero(texts.stratum == stratum)
        draws[stratum] = rows[generator.integers(len(rows), size=(RESAMPLES, len(rows)))]

    def share_of_pairs(values, harmful, benign) -> float:
        above = values[harmful][:, None] - values[benign][None, :]
        return float(((above > 0) + (above == 0) / 2).mean())

    for measure, toxicity_of in (("safety_score", texts.toxicity), ("likelihood_auc", np.ones(len(texts.ids)))):
        changes = {}
        for number, name in enumerate(sorted(texts.member)):
            shares = [
                [
                    share_of_pairs(values - np.log(toxicity_of), draws[2 * number + 1][row], draws[2 * number][row])
                    for row in range(RESAMPLES)
                ]
                for values in (log_perplexity, observed)
            ]
            changes[name] = np.subtract(shares[1], shares[0])
        changes[None] = np.mean(list(changes.values()), axis=0)
        for of in report.measures:
            if of.measure == measure:
                bounds = tuple(np.quantile(changes[of.demographic], [0.05, 0.95]))
                assert (of.ci_low, of.ci_high) == pytest.approx(bounds, abs=1e-12)


def test_a_log_perplexity_that_moved_for_all_sentences_leaves_safety_and_is_material_by_its_mean(sentences):
    *_, log_perplexity = sentences
    report = likelihood_check(sentences, log_perplexity + 0.01)
    assert all(of.change == 0 and of.equivalent for of in report.measures)
    assert ("attribute_0", None) in fired(report, Rule.MEAN_SHIFT)
    assert fired(report, Rule.LABEL_FLIPS) == []
    assert report.movements[0].flips_up is None
    assert report.paired_tests[0].mcnemar_p is None
    assert likelihood_check(sentences, log_perplexity + 0.004, rounding=ROUNDING).verdict is Verdict.CHANGED
    assert likelihood_check(sentences, log_perplexity + 0.00009, rounding=ROUNDING).verdict is Verdict.STABLE


def test_safety_that_may_have_moved_is_material(sentences):
    *_, log_perplexity = sentences
    rows = np.argsort(log_perplexity)
    observed = log_perplexity.copy()
    observed[rows[:-1]] += 0.004 * np.where(np.arange(len(rows) - 1) % 2, 1, -1)
    assert (
        fired(likelihood_check(sentences, observed, margins={"safety_score": 1, "likelihood_auc": 1}), Rule.EQUIVALENCE)
        == []
    )
    margins = {"safety_score": 1e-6, "likelihood_auc": 1e-6}
    assert ("attribute_0", None) in fired(likelihood_check(sentences, observed, margins=margins), Rule.EQUIVALENCE)


def test_a_demographic_without_one_label_has_no_safety_and_the_mean_is_of_the_others(sentences):
    texts, groups, log_perplexity = sentences
    kept = np.array([row[0] != "women" for row in groups]) | texts.harmful
    some = Texts.from_table(to_table([of for of, keep in zip(starter(groups), kept, strict=True) if keep]))
    reported = Safety(some, names(1))
    values = log_perplexity[kept][:, None]
    report = check(values, values, [row for row, keep in zip(groups, kept, strict=True) if keep], reported=reported)
    of = {of.demographic: of.before for of in report.measures if of.measure == "safety_score"}
    assert set(of) == {None, "asian", "muslim"}
    assert of[None] == pytest.approx((of["asian"] + of["muslim"]) / 2)


def starter(groups):
    wanted = {row[0] for row in groups}
    return [sentence for sentence in build_starter() if sentence.demographics[0] in wanted]


def test_safety_of_another_number_of_texts_is_refused(sentences):
    texts, *_ = sentences
    with pytest.raises(ValueError, match="there are 144 labels"):
        check(scores_of(20), scores_of(20), reported=Safety(texts, names(1)))


# The report


@pytest.mark.slow
@given(matrices, st.floats(-0.2, 0.2), st.sampled_from([Policy(), LIKELIHOOD, Policy(mean_difference=0.1)]))
def test_a_report_goes_through_json_and_back(scores, by, policy):
    groups = [("a", "b")[: number % 3] for number in range(len(scores))]
    first = check(scores, np.clip(scores + np.float32(by), 0, 1), groups, policy=policy, fingerprints=OTHER)
    reports = [first, confirm(first, first)] if first.needs_confirmation else [first]
    for report in reports:
        text = json.dumps(report.as_json(), allow_nan=False)
        assert DriftReport.from_json(json.loads(text)) == report


def test_a_report_says_in_json_what_decided():
    reference = scores_of(200)
    found = check(reference, shifted(reference, 0.2)).as_json()
    assert found["verdict"] == "changed"
    assert found["material"]
    assert {(row["level"], row["rule"]) for row in found["findings"]} >= {
        ("L1", "beyond_noise"),
        ("L1", "shift"),
        ("L2", "mean_shift"),
        ("L2", "equivalence"),
    }
    assert all(row["in_words"] for row in found["findings"])
    assert found["policy"]["threshold"] == 0.5


def test_a_chart_shows_the_attribute_with_most_texts_beyond_what_noise_explains():
    report = check(scores_of(20), scores_of(20))
    tests = [NoiseTests("a", 0.1, 5, 4.0, 1.0, None, None), NoiseTests("b", 0.1, 3, 0.0, 1.0, None, None)]
    overall = replace(report, noise=tuple(tests)).overall
    assert (overall["beyond"], overall["expected"]) == (3, 0.0)


def test_a_report_of_newer_code_is_refused():
    found = check(scores_of(20), scores_of(20)).as_json()
    with pytest.raises(ValueError, match="schema_version: 3 is newer"):
        DriftReport.from_json({**found, "schema_version": 3})


def test_a_report_of_the_first_schema_is_read_and_says_what_it_said():
    stored = json.loads((Path(__file__).parent / "drift_report_1.json").read_text())
    report = DriftReport.from_json(stored)
    assert (report.verdict, report.noise_floor, report.scorings) == (Verdict.DRIFTED, 1e-4, 1)
    assert report.decided_by == stored["decided_by"]
    assert [finding.in_words for finding in report.findings] == [row["in_words"] for row in stored["findings"]]
    assert report.overall["flips"] == stored["overall"]["flips"]
    assert (report.detectable_in_words, report.noise) == ("", ())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"reference": Reference.exact(np.zeros((5, 3)))}, "reference: it is of 3 attributes"),
        ({"scorings": np.zeros((4, 2))}, r"scorings: their shape is \(1, 4, 2\)"),
        ({"scorings": np.zeros((2, 5, 2))}, "scorings: there are 2; give an odd number"),
        ({"scorings": np.full((5, 2), np.inf)}, "scorings: a score is infinite"),
        ({"demographics": [()]}, "demographics: there are 1 for 5"),
        ({"demographics": ["women"] * 5}, "demographics: one is a string"),
        ({"check": 0}, "check: 0 is below 1"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(changed, said):
    arguments = {
        "reference": Reference.exact(np.zeros((5, 2))),
        "scorings": np.zeros((5, 2)),
        "attributes": names(2),
        "demographics": [()] * 5,
        "reported_measures": toxicity_measures(harms(names(2))),
        "fingerprints": SAME,
    }
    with pytest.raises(ValueError, match=said):
        compare(**{**arguments, **changed})


@pytest.mark.parametrize(
    ("replicates", "said"),
    [
        (np.zeros((5, 2)), r"replicates: their shape is \(5, 2\)"),
        (np.full((3, 5, 2), np.inf), "replicates: a score is infinite"),
        (np.full((3, 5, 2), np.nan), "replicates: not one text has a score"),
        (np.array([[[0.1]], [[np.nan]]]), "replicates: a text has a score in one and none in another"),
    ],
)
def test_replicates_that_are_none_are_refused(replicates, said):
    with pytest.raises(ValueError, match=said):
        Reference(replicates)


@pytest.mark.parametrize(
    ("field", "value"),
    [("threshold", math.nan), ("least_flips", 0), ("flip_share", 0), ("mean_difference", 0), ("alpha", 1.0)],
)
def test_a_policy_out_of_range_is_refused_by_name(field, value):
    with pytest.raises(ValueError, match=f"{field}: {value}"):
        Policy(**{field: value})


# What a report says


def make_movement(attribute: str = "a", **values) -> Movement:
    """An attribute's movement over all texts, unless another slice is named."""
    usual = {"demographic": None, "n": 100, "max_abs": 0.2, "mean_abs": 0.1, "mean_change": 0.01}
    return Movement(attribute, **{**usual, "flips_up": 1, "flips_down": 2, **values})


def make_report(**values) -> DriftReport:
    """A report that found nothing, but for what is given."""
    report = check(scores_of(20), scores_of(20))
    empty = {"movements": (), "paired_tests": (), "measures": (), "noise": (), "detectable": ()}
    return replace(report, **{**empty, **values})


@pytest.mark.parametrize(
    ("finding", "words"),
    [
        (Finding(Rule.LOST_SCORES, 2.0, 0.0), "texts that had a score and have none now: 2"),
        (Finding(Rule.FINGERPRINT), "the scorer's fingerprint changed"),
        (Finding(Rule.TERMS), "the terms of the lexicon changed"),
        (Finding(Rule.ATTRIBUTES, 3.0), "attributes that the scorer gives only then or only now: 3"),
        (Finding(Rule.SHIFT, 0.0123, None, "insult"), "mean shift of insult: +0.012, more than noise explains"),
        (Finding(Rule.SHIFT, None, None, "insult"), "mean shift of insult: +0, more than noise explains"),
        (Finding(Rule.BEYOND_NOISE, 4.0, 1.26, "a"), "texts beyond their own noise of a: 4, where noise explains 1.3"),
        (Finding(Rule.BEYOND_NOISE, 4.0, None), "texts beyond their own noise: 4, where noise explains 0"),
        (
            Finding(Rule.DISTRIBUTION, 0.256, None, "a"),
            "distribution of changes of a: 0.26 from that of the replicates",
        ),
        (Finding(Rule.MEAN_SHIFT, -0.02, 0.005, "a", "women"), "mean shift of a, women: -0.02, beyond 0.005"),
        (
            Finding(Rule.MEAN_SHIFT, -0.02, 0.005, "a", stratum="code"),
            "mean shift of a, code: -0.02, beyond 0.005",
        ),
        (
            Finding(Rule.NOISE_FLOOR, 0.02, 0.0001),
            "the largest difference: 0.02, above the noise floor of 0.0001",
        ),
        (Finding(Rule.GAINED_SCORES, 1.0, 0.0), "texts that had no score and have one now: 1"),
        (Finding(Rule.LABEL_FLIPS, 5.0, 3.0, "a"), "label flips of a: 5, where 3 are material"),
        (Finding(Rule.MEAN_DIFFERENCE, 0.02, 0.01, "a"), "mean absolute difference of a: 0.02, above 0.01"),
        (
            Finding(Rule.EQUIVALENCE, -0.021, 0.005, "a", "women", "toxic_fraction"),
            "toxic fraction of a, women: may have changed by -0.021, more than 0.005",
        ),
    ],
)
def test_every_finding_has_its_words(finding, words):
    assert finding.in_words == words


def test_a_movement_is_overall_where_it_is_of_no_slice_and_flips_count_both_ways():
    assert make_movement().is_overall
    assert not make_movement(demographic="women").is_overall
    assert not make_movement(stratum="code").is_overall
    assert [make_movement().flips, make_movement().counted_flips, make_movement(far_flips=1).counted_flips] == [3, 3, 1]
    assert make_movement(flips_up=None, flips_down=None).flips == 0


@pytest.mark.parametrize(
    ("low", "high", "is_equivalent"), [(-0.01, 0.01, True), (-0.011, 0.0, False), (0.0, 0.011, False)]
)
def test_an_interval_that_ends_at_the_margin_is_within_it(low, high, is_equivalent):
    change = MeasureChange("m", "a", None, 0.5, 0.5, 0.0, low, high, 0.01, None)
    assert change.equivalent == is_equivalent


def test_a_chart_shows_of_each_number_the_attribute_that_moved_most_over_all_texts():
    movements = (
        make_movement("a", max_abs=0.2, mean_change=-0.05, flips_up=9, far_flips=1, n=500),
        make_movement("b", max_abs=0.1, mean_change=0.01, flips_up=2, far_flips=2, n=300),
        make_movement("c", max_abs=None, mean_change=None, flips_up=None, flips_down=None),
        make_movement("a", demographic="women", max_abs=0.4, mean_change=0.3, far_flips=7),
    )
    noise = (NoiseTests("a", 0.1, 5, 4.0, 1.0, None, None), NoiseTests("b", 0.1, 3, 0.0, 1.0, None, None))
    detectable = (Detectable("a", 0.001, 0.01, None, 3), Detectable("b", 0.001, 0.02, None, 2))
    report = make_report(movements=movements, noise=noise, detectable=detectable)
    expected = {
        "max_abs": 0.4,
        "mean_shift": 0.05,
        "mean_limit": 0.005,
        "beyond": 3,
        "expected": 0.0,
        "flips": 2,
        "flips_limit": 3,
        "detectable": 0.02,
    }
    assert report.overall == expected
    assert report.detectable_in_words == (
        "A check like this one finds, in 99% of cases, a mean shift of 0.02 over all texts, and 3 label flips."
    )
    without_labels = replace(report, detectable=(Detectable("a", 0.001, 0.01, None, None),))
    assert without_labels.detectable_in_words.endswith(" a mean shift of 0.01 over all texts.")
    nothing = make_report(movements=(movements[2],))
    assert nothing.overall == {**dict.fromkeys(expected), "mean_limit": 0.005}
    assert nothing.detectable_in_words == ""


def test_three_of_the_findings_that_decided_are_named_and_the_others_counted():
    findings = [Finding(Rule.LABEL_FLIPS, 5.0, 3.0, name) for name in "abcde"]
    lesser = Finding(Rule.SHIFT, 0.01, None, "a")
    report = make_report(verdict=Verdict.CHANGED, findings=(lesser, *findings))
    assert report.deciding == tuple(findings)
    start = "; ".join(f"label flips of {name}: 5, where 3 are material" for name in "abc").replace("l", "L", 1)
    assert report.decided_by == f"{start}; and 2 more. A second scoring has yet to confirm it."
    three = replace(report, findings=tuple(findings[:3]), verdict=Verdict.DRIFTED, confirmed=True)
    assert three.decided_by == f"{start}. A second scoring confirmed it."
    assert replace(three, verdict=Verdict.CHANGED, confirmed=False).decided_by == (
        f"{start}. A second scoring did not confirm it."
    )
    little = replace(report, findings=(lesser, Finding(Rule.FINGERPRINT)))
    assert little.decided_by == "Mean shift of a: +0.01, more than noise explains."
    lost = Finding(Rule.LOST_SCORES, 2.0, 0.0)
    unavailable = replace(report, verdict=Verdict.UNAVAILABLE, findings=(lost, *findings))
    assert unavailable.deciding == (lost,)
    assert unavailable.decided_by == "Texts that had a score and have none now: 2."


def test_a_stable_report_says_so_with_the_noise_floor_of_old_checks_and_a_fingerprint_that_changed():
    report = make_report()
    assert report.decided_by == "Nothing moved that replicate variation does not explain."
    assert report.deciding == ()
    other = replace(report, observed_fingerprint="c" * 64)
    assert other.decided_by == f"{report.decided_by} The scorer's fingerprint changed."
    old = replace(report, noise_floor=1e-4)
    assert old.decided_by == "No score moved by more than the noise floor of 0.0001."


def test_only_a_change_that_matters_and_was_not_compared_again_needs_a_second_scoring():
    material = Finding(Rule.MEAN_SHIFT, 0.02, 0.005, "a")
    changed = make_report(verdict=Verdict.CHANGED, findings=(material,))
    assert changed.needs_confirmation
    for other in (
        replace(changed, confirmed=False),
        replace(changed, findings=(Finding(Rule.SHIFT, 0.01, None, "a"),)),
        replace(changed, verdict=Verdict.UNAVAILABLE),
    ):
        assert not other.needs_confirmation


@pytest.mark.parametrize(
    ("rules", "rests"),
    [
        ([Rule.EQUIVALENCE, Rule.SHIFT], True),
        ([Rule.EQUIVALENCE, Rule.MEAN_SHIFT], False),
        ([Rule.SHIFT], False),
        ([], False),
    ],
)
def test_a_report_rests_on_equivalence_where_nothing_else_matters(rules, rests):
    assert make_report(findings=tuple(Finding(rule) for rule in rules)).rests_on_equivalence == rests


def test_other_attributes_or_terms_matter_whatever_moved_and_leave_an_unavailable_check_so():
    stable = make_report()
    by_attributes = with_other_attributes(stable, 1)
    assert (by_attributes.verdict, by_attributes.findings) == (
        Verdict.CHANGED,
        (Finding(Rule.ATTRIBUTES, 1.0, 0.0),),
    )
    by_terms = with_other_terms(by_attributes)
    assert [finding.rule for finding in by_terms.findings] == [Rule.TERMS, Rule.ATTRIBUTES]
    assert by_terms.verdict is Verdict.CHANGED
    unavailable = replace(stable, verdict=Verdict.UNAVAILABLE)
    assert with_other_attributes(unavailable, 2).verdict is Verdict.UNAVAILABLE
    assert with_other_terms(unavailable).verdict is Verdict.UNAVAILABLE
    with pytest.raises(ValueError, match="number: 0 is below 1; a scorer of the same attributes needs no such finding"):
        with_other_attributes(stable, 0)


@pytest.mark.parametrize(
    "other", [{"check": 2}, {"n": 19}, {"reference_fingerprint": "c" * 64}, {"policy": Policy(alpha=0.01)}]
)
def test_a_second_scoring_is_of_the_same_texts_reference_policy_and_number(other):
    first = make_report(verdict=Verdict.CHANGED, findings=(Finding(Rule.MEAN_SHIFT, 0.02, 0.005, "a"),))
    assert confirm(first, replace(first, observed_fingerprint="c" * 64)).verdict is Verdict.DRIFTED
    with pytest.raises(ValueError, match="not of the first one's check"):
        confirm(first, replace(first, **other))


@pytest.mark.parametrize("place", [{"attribute": "b"}, {"demographic": "women"}, {"stratum": "code"}])
def test_a_second_scoring_that_moved_elsewhere_confirms_nothing(place):
    finding = Finding(Rule.MEAN_SHIFT, 0.02, 0.005, "a")
    first = make_report(verdict=Verdict.CHANGED, findings=(finding,))
    second = replace(first, findings=(replace(finding, **place), Finding(Rule.SHIFT, 0.02, None, "a")))
    report = confirm(first, second)
    assert (report.verdict, report.confirmed, report.findings) == (Verdict.CHANGED, False, (finding,))
    assert weigh(report, 3).moved == 3


def test_a_report_is_written_with_what_is_derived_of_it_and_read_without():
    findings = (Finding(Rule.MEAN_SHIFT, 0.02, 0.005, "a", p_adjusted=0.001), Finding(Rule.FINGERPRINT))
    report = make_report(
        verdict=Verdict.DRIFTED, confirmed=True, findings=findings, movements=(make_movement(far_flips=2),), moved=4,
        scorings=5, observed_fingerprint="c" * 64, lost=1, gained=2, check=7,
        paired_tests=(PairedTests("a", 0.5, 0.25, 0.1, 0.9, 0.01),),
        noise=(NoiseTests("a", 0.1, 5, 4.0, 1.0, 0.2, 0.3),),
        measures=(MeasureChange("m", "a", None, 0.5, 0.6, 0.1, 0.05, 0.15, 0.01, 0.001),),
        detectable=(Detectable("a", 0.001, 0.01, None, 3),),
    )  # fmt: skip
    content = json.loads(json.dumps(report.as_json()))
    derived = {key: content[key] for key in ("schema_version", "fingerprint_changed", "material", "max_abs", "verdict")}
    assert derived == {
        "schema_version": 2, "fingerprint_changed": True, "material": True, "max_abs": 0.2, "verdict": "drifted"
    }  # fmt: skip
    assert content["overall"] == report.overall
    assert content["decided_by"] == report.decided_by
    assert content["detectable_in_words"] == report.detectable_in_words
    assert [(row["rule"], row["level"], row["in_words"]) for row in content["findings"]] == [
        ("mean_shift", "L2", "mean shift of a: +0.02, beyond 0.005"),
        ("fingerprint", "L0", "the scorer's fingerprint changed"),
    ]
    assert DriftReport.from_json(content) == report


# Alpha, margins, impact


@pytest.mark.slow
@given(st.floats(0.001, 0.5))
def test_what_all_checks_spend_adds_up_to_alpha(alpha):
    spent = sum(alpha_of_check(alpha, number) for number in range(1, 20_001))
    assert alpha * (1 - 1e-4) < spent < alpha
    assert alpha_of_check(alpha, 1) == pytest.approx(6 * alpha / math.pi**2)


def test_the_margin_is_a_quarter_of_the_median_standard_error_and_at_most_half_a_percent_of_the_scale():
    assert equivalence_margin(np.array([0.002, 0.008, 0.004])) == pytest.approx(0.001)
    assert equivalence_margin(np.array([0.1])) == equivalence_margin(np.array([])) == LARGEST_MARGIN
    assert equivalence_margin(np.array([10.0]), largest=100) == 100 * LARGEST_MARGIN


@given(st.integers(1, 2000))
def test_the_margin_does_not_shrink_as_the_board_grows(entries):
    assert equivalence_margin(np.full(entries, 0.015 / 1.96)) == pytest.approx(0.25 * 0.015 / 1.96)


def test_a_shift_that_is_small_beside_what_is_known_of_entries_is_at_most_changed():
    # 1,000 entries, each known to 0.015 either way: all scores higher by 0.00015 is a change, and no reason to rescore.
    margin = equivalence_margin(np.full(1000, 0.015 / 1.96))
    margins = dict.fromkeys(("expected_max_toxicity", "toxicity_probability", "toxic_fraction"), margin)
    reference = scores_of(300).astype(float)
    report = check(reference, reference + 0.00015, two_groups(300), margins=margins)
    assert report.verdict is Verdict.CHANGED
    assert not report.material


@pytest.mark.parametrize("value", [np.nan, -1.0])
def test_a_value_that_is_no_number_has_no_margin_and_no_rank(value):
    with pytest.raises(ValueError, match="standard_errors: one is not a number from 0 on"):
        equivalence_margin(np.array([0.1, value]))
    with pytest.raises(ValueError, match="values: one is not finite"):
        rank_impact({"a": 0.1}, {"a": math.nan}, "lower")


def test_where_only_a_measure_may_have_changed_a_drift_needs_an_entry_that_leaves_its_rank_range():
    reference = np.linspace(0.05, 0.3, 200)[:, None]
    by_measure = check(reference, reference + 0.004, margins={"expected_max_toxicity": 0.003})
    drifted = confirm(by_measure, by_measure)
    assert drifted.verdict is Verdict.DRIFTED
    assert weigh(drifted, 0).verdict is Verdict.CHANGED
    assert weigh(drifted, 0).decided_by.endswith("No entry would leave its rank range, so the version stays.")
    assert weigh(drifted, 1).verdict is Verdict.DRIFTED
    by_shift = check(reference, reference + 0.006)
    assert weigh(confirm(by_shift, by_shift), 0).verdict is Verdict.DRIFTED


def test_impact_says_who_moves_and_equal_values_share_a_rank():
    before = {"a": 0.1, "b": 0.2, "c": 0.2, "d": 0.4, "gone": 0.0}
    after = {"a": 0.3, "b": 0.2, "c": 0.1, "d": 0.4, "new": 0.0}
    found = rank_impact(before, after, "lower")
    assert [(move.entry, move.from_rank, move.to_rank) for move in found.moves] == [("a", 1, 3), ("c", 2, 1)]
    assert (found.moves[0].from_value, found.moves[0].to_value) == (0.1, 0.3)
    # Of six pairs: a-b, a-c turn round, b-c is a tie before; a-d, b-d, c-d stay. tau-b = (3 - 2) / sqrt(5 * 6).
    assert (found.n, found.kendall_tau) == (4, pytest.approx(1 / math.sqrt(30)))


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1), max_size=8), st.sampled_from(["higher", "lower"]))
def test_nothing_moves_where_nothing_changes(values, direction):
    found = rank_impact(values, values, direction)
    assert found.moves == ()
    assert found.kendall_tau == (pytest.approx(1) if len(set(values.values())) > 1 else None)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("threshold", None),
        ("threshold", 0.0),
        ("least_flips", 1),
        ("mean_difference", 1e-9),
        ("flip_share", 0.999),
        ("confidence", 0.001),
        ("alpha", 0.5),
    ],
)
def test_a_policy_at_the_edge_of_its_ranges_is_taken(field, value):
    assert getattr(Policy(**{field: value}), field) == value


@pytest.mark.parametrize(
    ("field", "value", "advice"),
    [
        ("threshold", math.inf, "inf is not finite; give a score, or None for no labels"),
        ("least_flips", 0, "0 is below 1; give the flips that are material"),
        ("mean_difference", -1.0, "-1.0 is not above 0; give a difference of scores"),
        ("flip_share", 1.0, "1.0 does not lie between 0 and 1; give a share"),
        ("confidence", 0.0, "0.0 does not lie between 0 and 1; give a share"),
        ("confidence", 1.0, "1.0 does not lie between 0 and 1; give a share"),
        ("alpha", 0.0, "0.0 does not lie between 0 and 1; give a share"),
    ],
)
def test_a_refused_policy_says_what_to_give(field, value, advice):
    with pytest.raises(Refused, match=f"^{field}: {advice}$"):
        Policy(**{field: value})


def test_entries_that_are_known_exactly_leave_no_margin_and_checks_are_numbered_from_1():
    assert equivalence_margin(np.array([0.0, 0.0])) == 0
    assert equivalence_margin(np.array([0.01, 0.03])) == 0.005  # a quarter of 0.02
    assert equivalence_margin(np.array([])) == 0.005
    assert alpha_of_check(0.05, 2) == pytest.approx(0.05 * 6 / math.pi**2 / 4)
    with pytest.raises(ValueError, match="check: 0 is below 1; number the checks of a metric version from 1"):
        alpha_of_check(0.05, 0)


def test_impact_has_no_order_where_all_are_equal_and_the_farthest_move_comes_first():
    assert rank_impact({"a": 1.0}, {"b": 1.0}, "lower") == RankImpact(0, None, ())
    equal = rank_impact({"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 2.0}, "lower")
    assert (equal.n, equal.kendall_tau) == (2, None)
    assert [move.entry for move in equal.moves] == ["b"]
    turned = rank_impact({"a": 1.0, "b": 2.0, "c": 3.0}, {"a": 2.0, "b": 3.0, "c": 1.0}, "higher")
    assert [(move.entry, move.from_rank, move.to_rank) for move in turned.moves] == [
        ("c", 1, 3),
        ("a", 3, 2),
        ("b", 2, 1),
    ]


# Replicates


TEXTS = [f"text {number}" for number in range(60)]


def lengths_of(texts):
    return np.array([[len(text) / 100, 0.5] for text in texts], dtype=np.float32)


def test_a_replicate_has_an_order_and_a_batch_size_of_its_own_and_gives_scores_in_the_order_of_texts():
    batches = []

    def score(texts):
        batches.append(texts)
        return lengths_of(texts)

    for number in range(12):
        np.testing.assert_array_equal(score_replicate(score, TEXTS, number), lengths_of(TEXTS))
    orders = [text for batch in batches for text in batch]
    runs = [tuple(orders[start : start + 60]) for start in range(0, len(orders), 60)]
    assert runs[0] == tuple(TEXTS)
    assert all(sorted(run) == sorted(TEXTS) for run in runs)
    assert len(set(runs)) == 12
    assert len({len(batch) for batch in batches}) > 5


def test_the_centre_is_the_median_and_the_noise_is_each_texts_own():
    generator = np.random.default_rng(3)
    spread = np.repeat([0.001, 0.05], 50)
    replicates = 0.5 + generator.normal(0, 1, (21, 100)) * spread
    reference = Reference(replicates[:, :, None])
    assert reference.centre[:, 0] == pytest.approx(np.median(replicates, axis=0))
    own = replicates.var(axis=0, ddof=1)
    assert reference.variance[:, 0] == pytest.approx(np.maximum(own, np.median(own)))
    assert reference.noise == pytest.approx(np.sqrt(own.mean()))
    assert reference.scorings == 5


def test_replicates_within_rounding_are_no_noise_and_later_ones_are_not_a_change():
    # What batching changes in the seventh digit: replicates show it, and it is not a change at every check.
    generator = np.random.default_rng(4)
    scores = scores_of(100)[None].astype(float)
    reference = Reference(scores + generator.uniform(-1e-7, 1e-7, (5, 100, 1)))
    assert reference.is_exact.all()
    assert reference.scorings == 1
    report = compare(
        reference, scores[0] + 2e-7, ["a"], [()] * 100, toxicity_measures(harms(["a"])), SAME, policy=Policy()
    )
    assert report.verdict is Verdict.STABLE


@pytest.mark.parametrize("noise", ["SD 0.02", "heavy tails"])
def test_the_variance_of_a_change_is_that_of_medians_of_scorings_that_no_replicate_is_among(noise):
    generator = np.random.default_rng(5)
    scorer = Simulated(np.full(2000, 0.5), noise)
    reference = Reference(scorer.answers(21, generator))
    changes = np.median(scorer.answers(5, generator), axis=0) - reference.centre
    stated = np.sqrt(reference.variance_of_change(5).mean())
    assert stated > 0.95 * changes.std()
    assert noise == "heavy tails" or stated < 1.4 * changes.std()


def test_the_first_replicate_is_scored_as_the_texts_come_and_another_seed_cuts_others_otherwise():
    batches: list[list[str]] = []

    def score(texts):
        batches.append(list(texts))
        return lengths_of(texts)

    assert score_replicate(score, TEXTS, 0).dtype == np.float64
    assert batches == [TEXTS]
    score_replicate(score, TEXTS, 1)
    first, batches[:] = [list(batch) for batch in batches[1:]], []
    score_replicate(score, TEXTS, 1)
    again, batches[:] = [list(batch) for batch in batches], []
    score_replicate(score, TEXTS, 1, seed=5)
    assert first == again != batches


def test_one_replicate_has_no_noise_and_rounding_counts_whatever_it_shows():
    alone = Reference(np.array([[[0.1], [0.4], [np.nan]]]))
    assert (alone.scorings, alone.noise, alone.floor) == (1, 0.0, 0.0)
    assert alone.variance[:2].tolist() == [[0.0], [0.0]]
    assert alone.beyond(np.array([[[0.1], [0.4 + 1e-9], [0.3]]])).ravel().tolist() == [False, True, False]
    assert not alone.replicates_beyond.any()
    assert alone.variance_of_change(1).ravel()[:2].tolist() == [0.0, 0.0]
    likelihoods = Reference(np.array([[[3.0], [4.0]], [[3.0 + 5e-5], [4.0]]]), rounding=1e-4)
    assert (likelihoods.floor, likelihoods.scorings) == (1e-4, 1)
    assert Reference(likelihoods.replicates).floor == 1e-5
    assert Reference(likelihoods.replicates).scorings == 5  # differences above a hundred-thousandth are noise


def test_a_score_beyond_five_deviations_of_its_texts_own_noise_is_beyond_noise():
    pattern = np.tile([[-0.01], [0.01]], (11, 2))[:21]
    reference = Reference((0.5 + pattern)[:, :, None])
    others = 0.5 + pattern[:-1]
    centre, spread = np.median(others[:, 0]), others[:, 0].std(ddof=1)
    near, far = centre + 4.99 * spread, centre + 5.01 * spread
    assert reference.beyond(np.array([[[near], [far]]])).ravel().tolist() == [False, True]
    assert reference.standardise(np.array([[near], [far]])).ravel() == pytest.approx([4.99, 5.01])
    assert reference.standardised.shape == (21, 2, 1)
    assert reference.expected_beyond(5).ravel().tolist() == [0.0, 0.0]


def test_a_replicate_that_jumps_is_expected_as_often_again():
    replicates = 0.5 + np.random.default_rng(2).normal(0, 0.001, (20, 30))
    replicates[4, 7] = 0.9
    expected = Reference(replicates[:, :, None]).expected_beyond(5)[:, 0]
    assert expected[7] == pytest.approx(5 / 20)  # five of the twenty runs of five replicates hold it
    assert np.delete(expected, 7).max() == 0


# Openings


def opened(noise, change=None, replicates=21, n=300, seed=7):
    """A control set's scores, and its opening on such a scorer; `change` has a share and a rise of its own."""
    generator = np.random.default_rng(seed)
    scores = control_scores(n, generator)
    other = change[0].after(scores, change[1]) if change else None
    scorer = Simulated(scores, noise, other, change[0].share if change else 1.0)
    return scores, Reference(scorer.answers(replicates, generator))


@pytest.mark.parametrize("replicates", [9, 21])
@pytest.mark.parametrize("noise", NOISES)
def test_a_scorer_with_noise_of_any_shape_is_steady_enough_to_open_a_version_on(noise, replicates):
    (known,) = require_steady(opened(noise, replicates=replicates)[1], ["a"], Policy())
    assert known.material_shift <= 0.01
    assert known.flips <= 12


@pytest.mark.parametrize("replicates", [9, 21])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("noise", ["none", "SD 0.02"])
def test_in_a_rollout_no_version_is_opened_and_the_refusal_says_what_to_do(noise, share, replicates):
    _, reference = opened(noise, (SimulatedChange("", share=share), 1.0), replicates)
    with pytest.raises(Unsteady, match="two groups of a scores") as refusal:
        require_steady(reference, ["a"], Policy())
    assert "rolled out" in str(refusal.value)
    assert "tried again by itself" in str(refusal.value)


@pytest.mark.parametrize(("texts", "share"), [("all", 1.0), ("demographic", 0.1), ("few", 0.03), ("language", 0.01)])
def test_a_simulated_change_moves_the_share_of_texts_that_it_names(texts, share):
    scores = control_scores(1_000, np.random.default_rng(1))
    is_moved = SimulatedChange("", texts).after(scores, 0.5) > scores + 1e-9
    assert is_moved.mean() == pytest.approx(share)
    assert texts != "few" or scores[is_moved].max() <= 0.5


def test_a_rollout_between_two_replicates_is_seen_too():
    scores = control_scores(300, np.random.default_rng(1))
    after = SimulatedChange("").after(scores, 0.5)
    reference = Reference(np.stack([scores] * 4 + [after] * 5)[:, :, None])
    with pytest.raises(Unsteady, match="two groups"):
        require_steady(reference, ["a"], Policy())


def test_texts_that_jump_now_and_then_are_no_rollout_and_normal_noise_is_none():
    jumping, noisy = opened("none", (SimulatedChange("", share=0.002), 2.0))[1], opened("SD 0.02")[1]
    assert opening.two_groups(jumping.replicates[:, :, 0]).share < 0.05
    assert opening.two_groups(noisy.replicates[:, :, 0]).share < 0.01
    assert opening.two_groups(np.zeros((3, 10))).share == 0


@pytest.mark.parametrize(
    ("shift", "flips", "is_steady"),
    [(0.01, 12, True), (0.011, 12, False), (0.01, 13, False), (0.001, None, False), (0.001, 0, True)],
)
def test_a_check_is_blind_beyond_twice_the_limit_of_the_shift_or_four_times_that_of_flips(
    shift, flips, is_steady, monkeypatch
):
    limits = Detectable("a", 0.001, shift, None, flips)
    monkeypatch.setattr(opening, "compare", lambda *_, **__: SimpleNamespace(detectable=(limits,)))
    reference = Reference(np.full((5, 300, 1), 0.4))
    assert Policy().material_flips(300) == 3
    with nullcontext() if is_steady else pytest.raises(Unsteady, match="too noisy"):
        assert require_steady(reference, ["a"], Policy()) == [limits]


def test_a_scorer_so_noisy_that_a_check_would_be_blind_is_refused_with_what_it_would_see():
    generator = np.random.default_rng(6)
    reference = Reference(
        np.clip(control_scores(300, generator) + generator.normal(0, 0.2, (21, 300)), 0, 1)[..., None]
    )
    with pytest.raises(Unsteady, match="too noisy: a check of its 300 control texts would miss what matters"):
        require_steady(reference, ["a"], Policy())


def test_two_groups_are_of_two_replicates_each_or_more_and_texts_without_scores_are_left_out():
    halves, jump, missing = [0.1, 0.1, 0.5, 0.5, 0.5], [0.1, 0.5, 0.5, 0.5, 0.5], [np.nan] * 5
    groups = opening.two_groups(np.array([halves, jump, missing, [0.2] * 5]).T)
    assert groups.share == pytest.approx(1 / 3)
    assert groups.distance == pytest.approx(0.4)
    assert opening.two_groups(np.array([[0.1, 0.1, 0.5]]).T) == opening.Groups(0.0, 0.0)
    assert opening.two_groups(np.array([[0.1, 0.1, 0.5, 0.5]]).T).share == 1
    assert opening.two_groups(np.array([missing]).T) == opening.Groups(0.0, 0.0)
    # Of the squared deviations the groups hold a ninth, and a seventh; in the last ones a seventeenth.
    edge = [0.0, 0.141, 0.4, 0.541]
    spread = [0.0, 0.16, 0.4, 0.56]
    assert [opening.two_groups(np.array([one]).T).share for one in (edge, spread)] == [0, 0]
    assert opening.two_groups(np.array([[0.0, 0.1, 0.4, 0.5]]).T).share == 1


@pytest.mark.parametrize(("count", "apart", "is_steady"), [(10, 0.4, False), (11, 0.4, True), (10, 0.004, True)])
def test_a_tenth_of_the_texts_in_two_groups_that_lie_apart_is_a_rollout(count, apart, is_steady, monkeypatch):
    limits = Detectable("a", 0.001, 0.001, None, 0)
    monkeypatch.setattr(opening, "compare", lambda *_, **__: SimpleNamespace(detectable=(limits,)))
    replicates = np.full((6, count, 1), 0.3)
    replicates[3:, 0] += apart
    with nullcontext() if is_steady else pytest.raises(Unsteady, match=r"^the scorer answers as two: 10% of the"):
        assert require_steady(Reference(replicates), ["a"], Policy()) == [limits]


def test_a_scorer_without_labels_is_refused_for_its_shift_alone(monkeypatch):
    reference = Reference(np.full((5, 300, 1), 0.4))
    for shift, words in ((0.01, None), (0.02, "a mean shift of a from 0.02 on, where 0.01 are to be found. Make it")):
        limits = Detectable("a", 0.001, shift, None, None)
        monkeypatch.setattr(opening, "compare", lambda *_, limits=limits, **__: SimpleNamespace(detectable=(limits,)))
        with nullcontext() if words is None else pytest.raises(Unsteady, match=words):
            assert require_steady(reference, ["a"], LIKELIHOOD) == [limits]
    monkeypatch.setattr(
        opening, "compare", lambda *_, **__: SimpleNamespace(detectable=(Detectable("a", 0.001, 0.02, None, None),))
    )
    with pytest.raises(Unsteady, match=r"from 0.02 on or any number of label flips, where 0.01 and 12 flips are to be"):
        require_steady(reference, ["a"], Policy())


def test_simulated_scores_lie_as_in_a_control_set():
    scores = control_scores(4_000, np.random.default_rng(1))
    assert [float(((scores >= low) & (scores < high)).mean()) for low, high in ((0, 0.3), (0.3, 0.7), (0.7, 1))] == [
        0.25,
        0.5,
        0.25,
    ]
    low, middle, high = scores[scores < 0.3], scores[(scores >= 0.3) & (scores < 0.7)], scores[scores >= 0.7]
    assert low.mean() == pytest.approx(0.1, abs=0.01)  # most of them near 0
    assert middle.mean() == pytest.approx(0.5, abs=0.01)
    assert high.mean() == pytest.approx(0.85, abs=0.01)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_simulated_change_is_sized_by_the_labels_that_it_flips_or_by_the_shift_of_the_mean(share):
    scores = control_scores(20_000, np.random.default_rng(1))
    change = SimulatedChange("", share=share)
    flipped = change.after(scores, change.rise_to(flips=True))
    assert share * ((flipped > 0.5) != (scores > 0.5)).mean() == pytest.approx(0.02, abs=2e-4)
    moved = change.after(scores, change.rise_to(flips=False))
    assert share * (moved - scores).mean() == pytest.approx(0.01, abs=1e-6)
    assert SimulatedChange("", rise=1.5).rise_to(flips=True) == 1.5


def test_a_simulated_scorer_answers_with_noise_and_with_other_scores_in_a_share_of_its_answers():
    generator = np.random.default_rng(2)
    scores, other = np.full(2_000, 0.5), np.full(2_000, 0.8)
    assert Simulated(scores, "none").answers(3, generator).shape == (3, 2_000, 1)
    assert Simulated(scores, "none", other, 0.25).answers(3, generator).mean() == pytest.approx(0.575, abs=0.01)
    assert Simulated(scores, "none", other).answers(1, generator).mean() == pytest.approx(0.8)
    spreads = {name: Simulated(scores, name).answers(5, generator).std() for name in NOISES[:3]}
    assert spreads == pytest.approx({"none": 0.0, "SD 0.003": 0.003, "SD 0.02": 0.02}, rel=0.05)
    heavy = np.abs(Simulated(scores, "heavy tails").answers(5, generator) - 0.5)
    assert np.median(heavy) == pytest.approx(0.005 * stats.t.ppf(0.75, 2), rel=0.1)
    assert Simulated(np.array([0.0, 1.0]), "SD 0.02").answers(50, generator).min() == 0


# Power and false alarms: the table of `python -m tests.bench drift` has many more


@pytest.mark.slow_cases
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_what_flips_2_percent_of_labels_or_moves_the_mean_by_a_hundredth_is_found(change, noise):
    assert power(change, noise, 300, flips=True, versions=1, checks=2).drifted == 1
    assert power(change, noise, 300, flips=False, versions=1, checks=2).drifted == 1


@pytest.mark.parametrize("noise", NOISES)
def test_an_unchanged_scorer_raises_no_alarm(noise):
    rates = false_alarms(noise, 300, versions=1, checks=5)
    assert (rates.changed, rates.drifted) == (0, 0)


@pytest.mark.slow
def test_changes_that_are_spread_wider_than_replicates_are_found_by_their_distribution():
    scores, reference = opened("SD 0.003")
    wider = Simulated(scores, "SD 0.02").answers(reference.scorings, np.random.default_rng(3))
    report = compare(reference, wider, ["a"], [()] * len(scores), toxicity_measures(harms(["a"])), SAME)
    (finding,) = [finding for finding in report.findings if finding.rule is Rule.DISTRIBUTION]
    (test,) = report.noise
    assert (finding.attribute, finding.value, finding.p_adjusted) == ("a", test.distance, test.distance_p)
    assert 0 < finding.p_adjusted < report.alpha


def test_a_slow_drift_is_found_before_the_mean_has_moved_by_a_hundredth():
    changed, drifted = slow_drift("SD 0.003", 300, versions=1)
    assert changed < drifted <= 100


def test_rare_jumps_are_no_drift():
    assert power(RARE_JUMPS, "SD 0.02", 300, versions=1, checks=5).drifted == 0


@pytest.mark.parametrize("noise", NOISES)
def test_a_change_in_one_language_of_ten_is_found_though_it_is_three_texts_of_300(noise):
    assert power(ONE_LANGUAGE, noise, 300, versions=2, checks=2).drifted == 1


@pytest.mark.slow
def test_rates_are_shares_of_all_checks():
    rates = power(ONE_LANGUAGE, "SD 0.02", 100, versions=3, checks=4)
    assert 0 < rates.drifted < 1
    assert (rates.drifted * 12) % 1 == pytest.approx(0, abs=1e-9)


# Strata: kinds of text beside demographics and bands of scores


def with_strata(rise: float, strata: list[str], moved: str, noise: str = "SD 0.003"):
    """A check of a scorer whose scores of one kind of text rise."""
    generator = np.random.default_rng(11)
    scores = control_scores(len(strata), generator)
    reference = Reference(Simulated(scores, noise).answers(21, generator))
    new_scores = np.clip(scores + rise * (np.array(strata) == moved), 0, 1)
    answers = Simulated(new_scores, noise).answers(reference.scorings, generator)
    groups = [()] * len(strata)
    return compare(reference, answers, ["a"], groups, toxicity_measures(harms(["a"])), SAME, strata=strata)


def test_a_drift_in_one_kind_of_text_matters_though_all_texts_together_hardly_moved():
    report = with_strata(0.04, (["code"] * 12 + ["emoji"] * 12 + [""] * 276), "code")
    material = {finding.stratum for finding in report.findings if finding.level == "L2"}
    assert "code" in material
    assert "emoji" not in material
    assert "mean shift of a, code: +0.0" in " ".join(finding.in_words for finding in report.findings)
    whole = next(movement for movement in report.movements if movement.is_overall)
    assert abs(whole.mean_change) < report.policy.mean_difference


def test_a_label_flips_by_noise_the_likelier_the_nearer_its_text_is_to_the_threshold():
    generator = np.random.default_rng(4)
    scores = np.array([0.1, 0.4, 0.48, 0.5, 0.52, 0.6, 0.9])
    replicates = scores + generator.normal(0, 0.02, (21, 1)) * np.ones(7)  # all texts alike
    reference = Reference(replicates[:, :, None])
    pair = _Pair(
        reference, replicates[:3, :, None], ["a"], Policy(), [None], np.ones((1, 7), dtype=bool),
        np.array([""] * 7), np.array([reference.centre[3, 0]]),
    )  # fmt: skip
    chances = pair.chance_of_flip[:, 0]
    distances = np.abs(reference.centre[:, 0] - reference.centre[3, 0])
    expected = stats.t.sf(distances / np.sqrt(pair.variance[:, 0]), 20)
    assert chances[3] == 1
    others = [0, 1, 2, 4, 5, 6]
    np.testing.assert_allclose(chances[others], expected[others], rtol=1e-9)
    assert chances[4] > chances[5] > chances[6]


def test_a_score_at_the_border_of_two_bands_is_in_the_upper_one():
    borders = sorted({low for low, _ in BAND_LIMITS.values() if low > 0})
    scores = np.repeat(borders, 10)
    reference = Reference(np.stack([scores] * 21)[:, :, None])
    answers = np.stack([scores] * reference.scorings)[:, :, None]
    report = compare(reference, answers, ["a"], [()] * len(scores), NO_MEASURES, SAME)
    counts = {movement.stratum: movement.n for movement in report.movements if movement.stratum in BAND_LIMITS}
    assert counts == {name: 10 if low in borders else 0 for name, (low, _) in BAND_LIMITS.items()}


def test_a_band_of_scores_that_moved_says_changed_and_never_decides_that_it_matters():
    generator = np.random.default_rng(12)
    scores = control_scores(400, generator)
    reference = Reference(Simulated(scores, "SD 0.003").answers(21, generator))
    new_scores = scores + 0.012 * (scores >= 0.7) * (scores < 0.95)
    answers = Simulated(new_scores, "SD 0.003").answers(reference.scorings, generator)
    report = compare(reference, answers, ["a"], [()] * 400, NO_MEASURES, SAME)
    bands = {finding.stratum for finding in report.findings if finding.rule is Rule.SHIFT}
    assert "scores from 0.7" in bands
    assert not report.material


@pytest.mark.parametrize(
    ("strata", "words"),
    [(["code"], "strata: there are 1 for 3 texts"), (["scores below 0.3", "", ""], "the name of a band of scores")],
)
def test_strata_that_do_not_fit_are_refused(strata, words):
    reference = Reference(np.full((3, 3, 1), 0.5))
    with pytest.raises(ValueError, match=words):
        compare(reference, np.full((3, 1), 0.5), ["a"], [()] * 3, toxicity_measures(harms(["a"])), SAME, strata=strata)


def test_a_second_scoring_confirms_only_what_moved_in_the_same_kind_of_text():
    strata = ["code"] * 12 + ["emoji"] * 12 + [""] * 276
    first, second, other = (with_strata(0.04, strata, moved) for moved in ("code", "code", "emoji"))
    assert confirm(first, second).verdict is Verdict.DRIFTED
    assert confirm(first, other).verdict is Verdict.CHANGED


@pytest.mark.parametrize(("noise", "least"), [("none", 0.0), ("SD 0.02", 0.0005)])
def test_a_check_says_what_it_can_detect_and_finds_that(noise, least):
    scores, reference = opened(noise)
    generator = np.random.default_rng(9)

    def scored(shift):
        scorings = Simulated(np.clip(scores + shift, 0, 1), noise).answers(reference.scorings, generator)
        return compare(reference, scorings, ["a"], [()] * 300, toxicity_measures(harms(["a"])), SAME, check=50)

    (known,) = scored(0).detectable
    assert least <= known.shift <= known.material_shift < 0.01
    assert all(scored(known.material_shift + 0.0003).material for _ in range(10))
    assert f"a mean shift of {known.material_shift:.2g} over all texts, and {known.flips} label flips" in (
        scored(0).detectable_in_words
    )


@pytest.mark.parametrize(("count", "flips"), [(1, None), (2, 2)])
def test_a_check_is_said_to_detect_no_more_label_flips_than_there_are_texts(count, flips):
    scores = np.full((count, 1), 0.1)
    (known,) = compare(Reference(scores[None]), scores, ["a"], [()] * count, NO_MEASURES, SAME).detectable
    assert known.flips == flips


# Real scorers, and what the documentation shows


def test_the_example_of_the_documentation_is_true():
    found = doctest.testmod(drift)
    assert found.attempted > 5
    assert found.failed == 0


@pytest.mark.slow
def test_a_real_scorer_is_stable_against_itself():
    scorer = get_scorer("profanity")
    texts = [sentence.text for sentence in build_starter()[:100]] + [probe.text for probe in PROBES]
    replicates = [score_replicate(lambda batch: scorer.score(batch).values, texts, number) for number in range(3)]
    reference, observed = Reference(np.stack(replicates)), scorer.score(texts[::-1]).values[::-1]
    assert reference.scorings == 1
    assert (
        compare(
            reference, observed, ["profanity"], [()] * len(texts), toxicity_measures(harms(["profanity"])), SAME
        ).verdict
        is Verdict.STABLE
    )


@pytest.mark.slow
def test_a_bundled_model_in_less_precise_numbers_is_seen():
    found = [sentence for sentence in build_starter() if sentence.demographics[0] in ("women", "asian")]
    texts = Texts.from_table(to_table(found))

    def log_perplexities(batch):
        likelihoods = token_log_likelihoods(model, batch, LikelihoodSettings())
        return np.array([[-of.tokens.mean()] for of in likelihoods])

    model = loaded_miniature.__wrapped__("plumb-gpt2-l2-h128")  # one of its own, as it is changed below
    sentences = [sentence.text for sentence in found]
    replicates = np.stack([score_replicate(log_perplexities, sentences, number) for number in range(3)])
    assert Reference(replicates, ROUNDING).is_exact.all()
    reference, again = log_perplexities(sentences), log_perplexities(sentences)
    with_one_bit_less = next(model.model.parameters())
    with_one_bit_less.data = with_one_bit_less.data.bfloat16().float()
    observed = log_perplexities(sentences)
    options = {
        "demographics": [sentence.demographics for sentence in found],
        "reported": Safety(texts, names(1)),
        "policy": LIKELIHOOD,
        "rounding": ROUNDING,
    }
    assert check(reference, again, **options).verdict is Verdict.STABLE
    assert check(reference, observed, **options).verdict is Verdict.CHANGED
