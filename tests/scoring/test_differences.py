"""Paired differences against scipy, a naive loop, and DeLong's test as DeLong et al. write it; regression lines."""

import math

import numpy as np
import pytest
from scipy import stats

from scoring.metrics.safety import AVERAGE, Texts, areas, influence
from scoring.statistics.differences import holm_over, p_values, paired_differences
from scoring.statistics.ranks import Rank, ranks
from scoring.statistics.regression import line


def influences(seed: int, k: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.01, (k, 50))


def covariance(seed: int, k: int = 4) -> np.ndarray:
    rows = influences(seed, k)
    return rows @ rows.T


def naive_holm(p: list[float]) -> list[float]:
    """The step-down rule, one hypothesis after another."""
    order, found, least = sorted(range(len(p)), key=p.__getitem__), [0.0] * len(p), 0.0
    for step, place in enumerate(order):
        least = max(least, (len(p) - step) * p[place])
        found[place] = min(1.0, least)
    return found


def test_every_pair_has_the_difference_interval_and_p_of_a_z_test_by_hand():
    values, joint = np.array([0.31, 0.35, 0.30, 0.42]), covariance(1)
    found = paired_differences(values, joint)
    assert [(of.first, of.second) for of in found] == [(a, b) for a in range(4) for b in range(a + 1, 4)]
    for of in found:
        contrast = np.zeros(4)
        contrast[of.first], contrast[of.second] = 1, -1
        normal = stats.norm(contrast @ values, math.sqrt(contrast @ joint @ contrast))
        assert of.value == pytest.approx(normal.mean())
        assert (of.low, of.high) == pytest.approx(normal.interval(0.95))
        assert of.p_value == pytest.approx(2 * min(normal.cdf(0), normal.sf(0)), rel=1e-9)
    assert [of.p_adjusted for of in found] == pytest.approx(naive_holm([of.p_value for of in found]))


def test_the_difference_of_paired_means_is_that_of_a_paired_test_with_many_texts():
    generator = np.random.default_rng(3)
    texts = generator.normal(size=4000)  # what is hard for both
    first, second = texts + generator.normal(0, 0.3, 4000) + 0.02, texts + generator.normal(0, 0.3, 4000)
    joint = np.cov([first, second]) / 4000
    (found,) = paired_differences(np.array([first.mean(), second.mean()]), joint)
    assert found.p_value == pytest.approx(stats.ttest_rel(first, second).pvalue, rel=5e-3)
    unpaired = stats.ttest_ind(first, second).pvalue
    assert found.p_value < 0.05 < unpaired


def test_equal_values_are_not_told_apart_and_unequal_ones_without_error_are():
    assert p_values(np.array([0.0, 0.0, 0.1]), np.array([0.0, 0.2, 0.0])).tolist() == [1, 1, 0]


def test_holm_over_several_tables_counts_all_their_differences():
    found = [of for seed in (1, 2) for of in paired_differences(np.array([0.3, 0.31, 0.33]), covariance(seed, 3))]
    together = holm_over(found)
    assert [of.p_adjusted for of in together] == pytest.approx(naive_holm([of.p_value for of in found]))
    assert all(after.p_adjusted >= before.p_adjusted for before, after in zip(found, together, strict=True))
    assert [(of.value, of.low, of.high) for of in together] == [(of.value, of.low, of.high) for of in found]
    assert holm_over([]) == []


def test_the_ranks_of_a_board_rest_on_the_same_differences():
    values, moves = np.array([0.30, 0.36, 0.31, 0.42]), influences(4) / math.sqrt(10)
    assert 0 < len(pairs_apart(values, moves)) < 6
    assert ranks(values, moves, "higher") == naive_ranks(values, moves, "higher")
    assert ranks(values, moves, "lower") == naive_ranks(values, moves, "lower")


def pairs_apart(values: np.ndarray, moves: np.ndarray) -> list[tuple[int, int]]:
    """The pairs whose p is below 0.05 after Holm's adjustment over all, the greater value first."""
    has_influences = np.isfinite(moves).all(axis=1)
    differences = paired_differences(values, moves @ moves.T)
    p = [of.p_value if has_influences[of.first] and has_influences[of.second] else 1.0 for of in differences]
    apart = [of for of, adjusted in zip(differences, naive_holm(p), strict=True) if adjusted < 0.05]
    return [(of.first, of.second) if of.value > 0 else (of.second, of.first) for of in apart]


def naive_ranks(values: np.ndarray, moves: np.ndarray, direction: str) -> list[Rank]:
    """Each rank and its range, counted one value and one pair at a time."""
    sign = 1 if direction == "higher" else -1
    apart = pairs_apart(sign * values, moves)
    return [
        Rank(
            1 + sum(sign * other > sign * value for other in values),
            1 + sum(worse == place for _, worse in apart),
            len(values) - sum(better == place for better, _ in apart),
        )
        for place, value in enumerate(values)
    ]


@pytest.mark.parametrize("direction", ["higher", "lower"])
@pytest.mark.parametrize("seed", range(12))
def test_ranges_are_holms_over_all_pairs_whatever_is_compared_at_once(monkeypatch, seed, direction):
    monkeypatch.setattr("scoring.statistics.ranks.BLOCK", 5)
    generator = np.random.default_rng(seed)
    count = 12 + seed
    values = generator.normal(0.5, 0.03, count).round(2)  # rounded: with ties
    moves = generator.normal(0, 0.001, (count, 40)) + generator.normal(0, 0.002, 40)
    moves[seed] = moves[seed + 1]  # whose variation is all in common
    moves[::6] = np.nan
    expected = naive_ranks(values, moves, direction)
    assert ranks(values, moves, direction) == expected
    assert {(rank.low, rank.high) for rank in expected[::6]} == {(1, count)}
    assert len({(rank.low, rank.high) for rank in expected}) > 3


def delong(harmful: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """The difference of two areas and its standard error, from every pair of texts."""
    x, y = np.flatnonzero(harmful), np.flatnonzero(~harmful)
    won = np.array(
        [[[(s[i] > s[j]) + 0.5 * (s[i] == s[j]) for j in y] for i in x] for s in (first, second)], dtype=float
    )
    contrast = won[0] - won[1]
    error = contrast.mean(axis=1).var(ddof=1) / len(x) + contrast.mean(axis=0).var(ddof=1) / len(y)
    return float(contrast.mean()), math.sqrt(error)


@pytest.mark.slow
def test_differences_of_safety_scores_are_delongs_paired_by_text():
    generator = np.random.default_rng(5)
    n = 120
    harmful = np.arange(n) % 2 == 0
    toxicity = np.where(harmful, 4.0, 1.5)
    member = {"a": np.arange(n) < 70, "b": np.arange(n) >= 50}  # some texts target both
    texts = Texts([str(i) for i in range(n)], harmful, toxicity, member, np.zeros(n, dtype=np.int64))
    shared = generator.normal(2, 1, n)
    models = [(shared + generator.normal(0, 0.4, n)).round(1) for _ in range(3)]
    found = [areas("safety_score", texts, of) for of in models]
    moved = [influence("safety_score", texts, of) for of in models]
    for number, (name, of) in enumerate(member.items()):
        rows = np.array([row[number] for row in moved])
        values = np.array([area[name].value for area in found])
        for pair in paired_differences(values, rows @ rows.T):
            scaled = [np.exp(models[place]) / toxicity for place in (pair.first, pair.second)]
            value, error = delong(harmful[of], *(row[of] for row in scaled))
            assert pair.value == pytest.approx(value, abs=1e-12)
            assert pair.high - pair.low == pytest.approx(2 * stats.norm.ppf(0.975) * error, rel=1e-9)
    rows = np.array([row[-1] for row in moved])
    values = np.array([np.mean([area[name].value for name in member]) for area in found])
    assert AVERAGE not in member
    for pair in paired_differences(values, rows @ rows.T):
        spread = bootstrap_error(texts, [models[pair.first], models[pair.second]])
        assert (pair.high - pair.low) / (2 * 1.96) == pytest.approx(spread, rel=0.15)


def bootstrap_error(texts: Texts, models: list[np.ndarray]) -> float:
    """The standard error of a difference of averages, texts drawn again within label."""
    generator, found = np.random.default_rng(0), []
    for _ in range(400):
        drawn = np.concatenate(
            [generator.choice(np.flatnonzero(of), int(of.sum())) for of in (texts.harmful, ~texts.harmful)]
        )
        again = Texts(
            [texts.ids[i] for i in drawn],
            texts.harmful[drawn],
            texts.toxicity[drawn],
            {name: of[drawn] for name, of in texts.member.items()},
            texts.stratum[drawn],
        )
        means = [np.mean([area.value for area in areas("safety_score", again, of[drawn]).values()]) for of in models]
        found.append(means[0] - means[1])
    return float(np.std(found, ddof=1))


def test_the_line_is_scipys_and_its_band_covers_the_true_line_as_often_as_it_says():
    generator = np.random.default_rng(8)
    covered, draws = 0, 1000
    for _ in range(draws):
        x = generator.normal(size=12)
        y = 1 + 2 * x + generator.normal(size=12)
        found = line(x, y)
        covered += found.low[6] <= 1 + 2 * found.at[6] <= found.high[6]
    reference = stats.linregress(x, y)
    assert (found.slope, found.intercept) == pytest.approx((reference.slope, reference.intercept))
    assert covered / draws == pytest.approx(0.95, abs=0.02)
    even = np.linspace(-3, 3, 12)
    found, reference = line(even, y, steps=25), stats.linregress(even, y)
    half = stats.t.ppf(0.975, 10) * reference.intercept_stderr
    assert (found.low[12], found.high[12]) == pytest.approx((reference.intercept - half, reference.intercept + half))


@pytest.mark.parametrize("x", [[1.0, 2.0], [1.0, 1.0, 1.0]])
def test_no_line_goes_through_two_points_or_through_one_x(x):
    assert line(np.array(x), np.arange(len(x), dtype=float)) is None
