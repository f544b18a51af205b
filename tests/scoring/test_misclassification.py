"""Shares corrected for error rates: the formula, its interval against a bootstrap, and how often it covers."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scoring.statistics.jackknife import leave_one_out, share_intervals
from scoring.statistics.misclassification import (
    CorrectedShare,
    ErrorRates,
    Uncorrectable,
    correct_share,
    correct_shares,
    corrected_intervals,
    effective_trials,
)
from scoring.statistics.proportions import wilson_interval

MANY = 10**9
SHARES = st.floats(0, 1)
BETTER_THAN_CHANCE = st.builds(
    ErrorRates, st.floats(0.55, 1), st.floats(0.55, 1), st.integers(50, 5000), st.integers(50, 5000)
)


def test_the_estimate_is_that_of_the_herd_of_the_epidemiologists():
    # 23 of 150 cows test positive; sensitivity 0.96, specificity 0.89: (0.15333 + 0.89 - 1) / 0.85 = 5.1 of 100, and
    # with both rates known R's epiR prints an exact (Blaker) interval of 0 to 13 of 100 (epi.prev, its first example).
    rates = ErrorRates(0.96, 0.89, MANY, MANY)
    assert correct_shares(23 / 150, rates) == pytest.approx(0.0510, abs=5e-5)
    low, high = corrected_intervals(23 / 150, 150, rates)
    assert (max(0, float(low)), float(high)) == pytest.approx((0, 0.13), abs=0.01)


def test_a_scorer_without_error_leaves_every_share_as_it_is():
    shares = np.linspace(0, 1, 11)
    assert correct_shares(shares, ErrorRates(1, 1, 100, 100)) == pytest.approx(shares)


@given(BETTER_THAN_CHANCE, SHARES, SHARES)
def test_it_rises_with_the_raw_share_and_stays_within_0_and_1(rates, first, second):
    low, high = correct_shares(sorted((first, second)), rates)
    assert 0 <= low <= high <= 1


@given(BETTER_THAN_CHANCE, SHARES)
def test_the_share_that_a_true_share_gives_leads_back_to_it(rates, true_share):
    assume(rates.youden > 0.05)
    raw = true_share * rates.sensitivity + (1 - true_share) * (1 - rates.specificity)
    assert correct_shares(raw, rates) == pytest.approx(true_share, abs=1e-9)


@pytest.mark.slow
@given(BETTER_THAN_CHANCE, st.integers(0, 400))
def test_what_is_corrected_lies_in_its_interval_and_that_within_0_and_1(rates, hits):
    low, high = wilson_interval(hits, 400)
    try:
        corrected = correct_share(hits / 400, float(low), float(high), rates)
    except Uncorrectable:
        return
    assert 0 <= corrected.low <= corrected.value <= corrected.high <= 1


@pytest.mark.slow
@given(BETTER_THAN_CHANCE, st.floats(0.05, 0.95))
def test_a_larger_sample_of_known_labels_narrows_the_interval(rates, share):
    larger = ErrorRates(rates.sensitivity, rates.specificity, 100 * rates.harmful, 100 * rates.benign)
    first, second = (corrected_intervals(share, 1000, one) for one in (rates, larger))
    assume(rates.harmful > 200 and rates.benign > 200)
    assert second[1] - second[0] <= first[1] - first[0] + 1e-9


def test_the_interval_is_that_of_a_naive_bootstrap_of_all_three_samples():
    rates, share, trials = ErrorRates(0.8, 0.9, 400, 600), 0.25, 2000
    rng = np.random.default_rng(0)
    shares, sensitivities, specificities = (
        rng.binomial(n, p, 200_000) / n
        for n, p in ((trials, share), (rates.harmful, rates.sensitivity), (rates.benign, rates.specificity))
    )
    resampled = (shares + specificities - 1) / (sensitivities + specificities - 1)
    low, high = corrected_intervals(share, trials, rates)
    assert (float(low), float(high)) == pytest.approx(np.quantile(resampled, (0.025, 0.975)), abs=0.004)


@pytest.mark.slow_cases
@pytest.mark.parametrize("true_share", [0.02, 0.1, 0.6])
@pytest.mark.parametrize(("sensitivity", "specificity"), [(0.9, 0.97), (0.6, 0.85)])
@pytest.mark.parametrize("labelled", [100, 1000])
def test_it_covers_the_true_share_at_least_as_often_as_it_says(true_share, sensitivity, specificity, labelled):
    rng = np.random.default_rng(7)
    raw = true_share * sensitivity + (1 - true_share) * (1 - specificity)
    covered = 0
    for _ in range(2000):
        rates = ErrorRates(
            rng.binomial(labelled, sensitivity) / labelled,
            rng.binomial(labelled, specificity) / labelled,
            labelled,
            labelled,
        )
        low, high = corrected_intervals(rng.binomial(1000, raw) / 1000, 1000, rates)
        covered += bool(max(0, low) <= true_share <= min(1, high))
    assert covered / 2000 >= 0.935


def test_texts_of_one_prompt_count_for_as_much_as_their_interval_says():
    low, high = wilson_interval(30, 300)
    assert effective_trials(0.1, float(low), float(high)) == pytest.approx(300, rel=0.02)
    low, high = wilson_interval(0, 80)
    assert effective_trials(0, float(low), float(high)) == pytest.approx(80)
    low, high = wilson_interval(80, 80)
    assert effective_trials(1, float(low), float(high)) == pytest.approx(80)


@pytest.mark.slow
def test_it_covers_with_texts_that_come_in_prompts_which_resemble_one_another():
    rng = np.random.default_rng(5)
    prompts, k, true_share, labelled = 200, 25, 0.15, 500
    covered = 0
    for _ in range(400):
        harmful = rng.binomial(k, rng.beta(0.3 * true_share / 0.15, 0.3 * (1 - true_share) / 0.15, prompts))
        hits = rng.binomial(harmful, 0.8) + rng.binomial(k - harmful, 0.05)
        rows = np.stack([hits, np.full(prompts, k)], axis=1).astype(float)
        share = np.array([hits.sum() / (prompts * k)])
        left_out = leave_one_out(rows, lambda sums: sums[..., :1] / sums[..., 1:])
        (low,), (high,) = share_intervals(share, left_out, np.array([prompts]), np.array([prompts * k]))
        rates = ErrorRates(
            rng.binomial(labelled, 0.8) / labelled, rng.binomial(labelled, 0.95) / labelled, labelled, labelled
        )
        corrected = correct_share(float(share[0]), float(low), float(high), rates)
        covered += corrected.low <= true_share <= corrected.high
    assert covered / 400 >= 0.93


@pytest.mark.parametrize(
    ("share", "rates", "reason"),
    [
        (0.2, ErrorRates(0.4, 0.6, 500, 500), "cannot be told from chance"),
        (0.2, ErrorRates(0.55, 0.55, 20, 20), "cannot be told from chance"),
        (0.01, ErrorRates(0.8, 0.8, 5000, 5000), "fewer of its texts are labelled than of the benign ones"),
        (0.97, ErrorRates(0.6, 0.9, 5000, 5000), "more of its texts are labelled than of the harmful ones"),
    ],
)
def test_it_says_why_where_error_rates_cannot_correct(share, rates, reason):
    low, high = wilson_interval(1000 * share, 1000)
    with pytest.raises(Uncorrectable, match=reason):
        correct_share(share, float(low), float(high), rates)


def test_an_interval_that_says_nothing_is_no_correction():
    low, high = wilson_interval(2, 4)
    with pytest.raises(Uncorrectable, match="anything from 0 to 1 is possible"):
        correct_share(0.5, float(low), float(high), ErrorRates(0.7, 0.7, 60, 60))


def test_a_share_without_an_interval_of_its_own_has_no_corrected_one():
    with pytest.raises(Uncorrectable, match="no width"):
        correct_share(0.5, 0.5, 0.5, ErrorRates(0.9, 0.9, 60, 60))
    assert correct_share(0.5, 0.45, 0.55, ErrorRates(1, 1, MANY, MANY)) == CorrectedShare(
        0.5, pytest.approx(0.45, abs=1e-3), pytest.approx(0.55, abs=1e-3)
    )


def test_the_interval_is_lang_and_reiczigels_by_hand():
    # 3.8415 texts are added to the 100, half of them labelled: a share of 0.2592. With a text of each answer added the
    # rates are 33 of 42 and 55 of 62, and J is 0.6728: the centre is 0.2175, which the second order moves by -0.0030.
    low, high = corrected_intervals(0.25, 100, ErrorRates(0.8, 0.9, 40, 60))
    assert (float(low), float(high)) == pytest.approx((0.0542, 0.3748), abs=5e-5)


def test_the_lower_end_of_youdens_j_is_walds_after_a_text_of_each_answer():
    rates = ErrorRates(0.8, 0.9, 10, 20)
    assert rates.youden == pytest.approx(0.7)
    spread = np.sqrt(0.75 * 0.25 / 12 + 19 / 22 * 3 / 22 / 22)
    assert rates.youden_low() == pytest.approx(0.75 + 19 / 22 - 1 - 1.959964 * spread, abs=1e-6)
    assert rates.youden_low(0.8) == pytest.approx(0.75 + 19 / 22 - 1 - 1.281552 * spread, abs=1e-6)


def test_error_rates_of_chance_correct_nothing_and_their_intervals_are_unknown():
    with pytest.raises(Uncorrectable, match="no better than chance"):
        correct_shares(0.2, ErrorRates(0.5, 0.5, 10, 10))
    with pytest.raises(Uncorrectable, match="no better than chance"):
        correct_shares(0.2, ErrorRates(0.2, 0.5, 10, 10))
    low, high = corrected_intervals([0.2, 0.3], 100, ErrorRates(0.4, 0.6, 10, 10))
    assert np.isnan([*low, *high]).all()
    assert correct_shares([0.0, 0.05, 1.0], ErrorRates(0.8, 0.9, 10, 10)).tolist() == [0, 0, 1]


def test_an_interval_that_does_not_hold_its_share_is_no_interval():
    for share, low, high in ((0.2, 0.3, 0.4), (0.5, 0.3, 0.4), (0.3, 0.3, 0.3)):
        with pytest.raises(Uncorrectable, match="no width"):
            effective_trials(share, low, high)
    half = (np.log(0.4 / 0.6) - np.log(0.2 / 0.8)) / 2
    assert effective_trials(0.3, 0.2, 0.4) == pytest.approx(1.959964**2 / (half**2 * 0.21), rel=1e-6)
    assert effective_trials(0.3, 0.0, 0.4) == 0  # as if nothing were known
