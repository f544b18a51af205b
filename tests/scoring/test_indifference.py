"""The indifferent value of an area with offsets: against all pairs in fractions, permuted labels and resamples."""

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.statistics.auc import area, level_ties
from scoring.statistics.indifference import indifference

# As perplexities and toxicities: small whole numbers, so that many ratios are equal, and logarithms round them apart.
perplexities = st.lists(st.integers(1, 12), min_size=2, max_size=9)


def share_won(perplexity, toxicity, n, pairs):
    """The share of pairs (a, b) and of n positives with the other negatives in which a wins, ties 1/2; exact."""
    won = total = Fraction(0)
    for a, b in pairs:
        for i in range(n):
            for j in range(n, len(perplexity)):
                first, second = perplexity[a] * toxicity[j], perplexity[b] * toxicity[i]
                won += Fraction(int(first > second)) + Fraction(int(first == second), 2)
                total += 1
    return won / total


@pytest.mark.slow
@given(perplexities, st.data())
def test_it_is_the_share_of_all_ordered_pairs_of_distinct_items_by_exact_fractions(perplexity, data):
    size = len(perplexity)
    toxicity = data.draw(st.lists(st.integers(1, 5), min_size=size, max_size=size))
    n = data.draw(st.integers(1, size - 1))
    logs = np.log(toxicity)
    found = indifference(np.log(perplexity), logs[:n], logs[n:])
    assert found.value == pytest.approx(float(share_won(perplexity, toxicity, n, permutations(range(size), 2))))


@pytest.mark.slow
@given(perplexities, st.data())
def test_each_items_part_of_it_is_that_of_the_pairs_and_offsets_it_is_in(perplexity, data):
    size = len(perplexity)
    toxicity = data.draw(st.lists(st.integers(1, 5), min_size=size, max_size=size))
    n = data.draw(st.integers(1, size - 1))
    logs = np.log(toxicity)
    found = indifference(np.log(perplexity), logs[:n], logs[n:])
    for item in range(size):
        others = [other for other in range(size) if other != item]
        first = share_won(perplexity, toxicity, n, [(item, other) for other in others])
        second = share_won(perplexity, toxicity, n, [(other, item) for other in others])
        assert found.value_effects[item] == pytest.approx(float(first + second))
    assert found.positive_effects.mean() == pytest.approx(found.value)
    assert found.negative_effects.mean() == pytest.approx(found.value)
    assert found.value_effects.sum() == pytest.approx(2 * size * found.value)


def test_it_is_the_mean_area_over_values_dealt_out_at_random():
    generator = np.random.default_rng(8)
    offsets = np.log(np.concatenate([generator.choice([3.67, 4.33, 5], 60), generator.choice([1, 1.67, 3], 40)]))
    values = generator.normal(3, 0.8, 100) + 0.3 * (np.arange(100) < 60)
    dealt = [
        area(shuffled[:60], shuffled[60:]).value
        for shuffled in (generator.permutation(values) - offsets for _ in range(2000))
    ]
    found = indifference(values, offsets[:60], offsets[60:]).value
    assert abs(found - np.mean(dealt)) < 4 * np.std(dealt) / np.sqrt(len(dealt))


def test_without_offsets_it_is_a_half_and_no_item_moves_it():
    found = indifference(np.array([1.0, 5.0, 2.0, 2.0, 9.0]), np.zeros(2), np.zeros(3))
    assert found.value == 0.5
    assert np.allclose(np.concatenate(found.influence), 0)


@pytest.mark.slow
def test_its_influence_gives_the_spread_of_resampled_values():
    generator = np.random.default_rng(9)
    offsets = np.log(np.concatenate([generator.choice([3.67, 4.33, 5], 150), generator.choice([1, 1.67, 3], 250)]))
    values = np.concatenate([generator.normal(3.4, 1.1, 150), generator.normal(3, 0.6, 250)])
    found = indifference(values, offsets[:150], offsets[150:])
    resampled = []
    for _ in range(1000):
        drawn = np.concatenate([generator.integers(150, size=150), 150 + generator.integers(250, size=250)])
        resampled.append(indifference(values[drawn], offsets[drawn[:150]], offsets[drawn[150:]]).value)
    error = np.sqrt(sum((part**2).sum() for part in found.influence))
    assert error == pytest.approx(np.std(resampled), rel=0.1)  # the spread of 1,000 is known to 2.2%


def test_many_distinct_offsets_are_counted_in_parts(monkeypatch):
    generator = np.random.default_rng(10)
    values, offsets = generator.normal(3, 1, 50), generator.normal(0.5, 0.3, 50)
    whole = indifference(values, offsets[:30], offsets[30:])
    monkeypatch.setattr("scoring.statistics.indifference.CELLS", 170)
    parts = indifference(values, offsets[:30], offsets[30:])
    assert parts.value == pytest.approx(whole.value, abs=1e-14)
    np.testing.assert_allclose(parts.value_effects, whole.value_effects, atol=1e-12)


def test_a_class_without_items_is_refused():
    with pytest.raises(ValueError, match="2 positives and 0 negatives"):
        indifference(np.array([1.0, 2.0]), np.zeros(2), np.zeros(0))


def test_equal_ratios_tie_however_their_logarithms_are_rounded():
    toxicity = np.arange(1, 200) / 3
    for ratio in (7.0, 0.1, 1e6):
        values = np.log(ratio * toxicity) - np.log(toxicity)
        assert len(set(values)) > 1  # rounding makes them differ
        assert len(set(level_ties(values))) == 1


def test_levelling_ties_leaves_other_values_and_missing_ones_alone():
    values = np.array([3.0, np.nan, 1.0, 3.0 + 2e-9, np.inf, 1.0 + 1e-13])
    np.testing.assert_array_equal(level_ties(values), [3.0, np.nan, 1.0, 3.0 + 2e-9, np.inf, 1.0])


@pytest.mark.parametrize(
    ("values", "positives", "negatives", "words"),
    [(2, 0, 2, "2 for 0 positives and 2 negatives"), (4, 2, 1, "4 for 2 positives and 1 negatives; give one each")],
)
def test_values_that_do_not_fit_their_classes_are_refused(values, positives, negatives, words):
    with pytest.raises(ValueError, match=words):
        indifference(np.arange(float(values)), np.zeros(positives), np.zeros(negatives))


def test_the_influence_of_single_items_is_finite_and_scaled_by_their_class():
    alone = indifference(np.array([3.0, 1.0, 2.0]), np.array([0.5]), np.array([0.0, 1.5]))
    positive, negative = alone.influence
    # One positive: no spread among one offset, and 1/3 of its value's effect is centred away.
    assert positive.tolist() == pytest.approx([alone.positive_effects[0] - alone.value])
    effects = 2 / 3 * (alone.value_effects[1:] - alone.value_effects[1:].mean()) + alone.negative_effects - alone.value
    assert negative.tolist() == pytest.approx((effects / np.sqrt(2)).tolist())
