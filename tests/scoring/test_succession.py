"""Succession: what a successor preserves, against scikit-learn, scipy and naive counts, and what always holds."""

from dataclasses import asdict
from itertools import combinations

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import cohen_kappa_score

from scoring.succession import (
    EntryValues,
    Preservation,
    ScoredTexts,
    ScoreMapping,
    ScorerValue,
    compare_orders,
    dominated_pairs,
    exceedance,
    find_reversals,
    fit_mapping,
    judge_labels,
    judge_ranks,
    preserve_attribute,
    split_groups,
)
from scoring.succession.texts import MOST_POINTS, select_points

scores_of_texts = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda pair: (pair[0] / 50, pair[1] / 50)), min_size=1
)


@pytest.fixture(scope="module")
def texts() -> ScoredTexts:
    """600 texts of 120 prompts: the successor sees the same thing on another scale, with noise."""
    generator = np.random.default_rng(5)
    harm = generator.normal(size=600)
    old = scipy.special.expit(2 * harm + generator.normal(size=600) / 2)
    new = scipy.special.expit(3 * harm - 2 + generator.normal(size=600) / 2)
    new[7] = np.nan
    return ScoredTexts("toxicity", "harm", old, new, np.repeat(np.arange(120), 5))


def test_correlations_and_labels_are_those_of_scipy_and_scikit_learn(texts):
    whole = preserve_attribute(texts)
    has_both = ~np.isnan(texts.new)
    old, new = texts.old[has_both], texts.new[has_both]
    assert (whole.n, whole.missing) == (599, 1)
    assert whole.pearson.value == pytest.approx(scipy.stats.pearsonr(old, new).statistic)
    assert whole.spearman.value == pytest.approx(scipy.stats.spearmanr(old, new).statistic)
    assert whole.pearson.low < whole.pearson.value < whole.pearson.high
    assert whole.spearman.low < whole.spearman.value < whole.spearman.high
    assert whole.labels.only_first == ((old > 0.5) & (new <= 0.5)).sum()
    assert whole.labels.only_second == ((old <= 0.5) & (new > 0.5)).sum()
    assert whole.labels.kappa == pytest.approx(cohen_kappa_score(old > 0.5, new > 0.5))


def test_the_mapping_is_scikit_learns_fitted_on_one_half_and_judged_on_the_other(texts):
    whole = preserve_attribute(texts)
    has_both = ~np.isnan(texts.new)
    old, new = texts.old[has_both], texts.new[has_both]
    in_fit = split_groups(texts.groups[has_both])
    reference = IsotonicRegression(out_of_bounds="clip").fit(new[in_fit], old[in_fit])
    expected_scores = reference.predict(new[~in_fit])
    np.testing.assert_allclose(whole.mapping.apply(new[~in_fit]), expected_scores, atol=1e-12)
    distances = expected_scores - old[~in_fit]
    assert whole.error.n + whole.error.fitted_n == whole.n
    assert whole.error.mae == pytest.approx(np.abs(distances).mean())
    assert whole.error.rmse == pytest.approx(np.sqrt((distances**2).mean()))
    assert whole.error.raw_mae == pytest.approx(np.abs(new[~in_fit] - old[~in_fit]).mean())
    assert whole.error.mae < whole.error.raw_mae
    share = ((expected_scores > 0.5) == (old[~in_fit] > 0.5)).mean()
    assert whole.error.labels.share == pytest.approx(share)
    assert ((new > whole.equal_threshold) == (whole.mapping.apply(new) > 0.5)).all()


def test_continuations_of_one_prompt_are_in_one_half_and_the_split_is_the_same_each_time(texts):
    in_fit = split_groups(texts.groups)
    assert (in_fit.reshape(120, 5).all(axis=1) | ~in_fit.reshape(120, 5).any(axis=1)).all()
    assert in_fit.sum() == 300
    assert (split_groups(texts.groups) == in_fit).all()
    assert (split_groups(texts.groups, seed=6) != in_fit).any()


def test_few_texts_have_no_mapping_and_groups_must_fit(texts):
    few = ScoredTexts("a", "b", texts.old[:30], texts.new[:30], texts.groups[:30])
    assert preserve_attribute(few).mapping is None
    assert preserve_attribute(few).error is None
    none = ScoredTexts("a", "b", np.full(3, np.nan), texts.new[:3], texts.groups[:3])
    whole = preserve_attribute(none)
    assert (whole.n, whole.missing, whole.labels, whole.pearson.value) == (0, 3, None, None)
    assert judge_labels(whole) is Preservation.UNKNOWN
    with pytest.raises(ValueError, match="groups: there are 5 of 600 texts"):
        preserve_attribute(ScoredTexts("a", "b", texts.old, texts.new, texts.groups[:5]))
    for new, old in (([0.1, np.nan], [0.2, 0.3]), ([0.1, 0.2], [0.2, np.inf]), ([0.1, 0.2], [0.3]), ([], [])):
        with pytest.raises(ValueError, match="give as many finite ones of both"):
            fit_mapping(np.array(new), np.array(old))


def test_twenty_texts_in_either_half_have_a_mapping_and_nineteen_have_none():
    scores = np.linspace(0, 1, 40)
    for count, has_mapping in ((40, True), (39, False)):
        row = preserve_attribute(ScoredTexts("a", "b", scores[:count], scores[:count], np.arange(count)))
        assert (row.mapping is not None, row.error is not None) == (has_mapping, has_mapping)
        assert (row.equal_threshold is not None) is has_mapping


def test_a_mapping_has_a_knot_at_both_ends_of_each_level_stretch_and_nowhere_between():
    mapping = fit_mapping(np.array([0.1, 0.2, 0.3, 0.6, 0.7, 0.8]), np.array([0.5, 0.5, 0.5, 0.9, 0.9, 0.9]))
    assert (mapping.x, mapping.y) == ((0.1, 0.3, 0.6, 0.8), (0.5, 0.5, 0.9, 0.9))
    slope = fit_mapping(np.array([0.1, 0.2, 0.3]), np.array([0.2, 0.4, 0.8]))
    assert (slope.x, slope.y) == ((0.1, 0.2, 0.3), (0.2, 0.4, 0.8))


def test_the_equal_threshold_is_where_the_mapped_score_passes_the_old_one():
    mapping = ScoreMapping((0.0, 0.2, 0.4), (0.1, 0.4, 0.8))
    assert mapping.find_threshold(0.5) == pytest.approx(0.25)
    assert mapping.find_threshold(0.8) is None
    assert mapping.find_threshold(0.05) is None
    step = fit_mapping(np.array([0.1, 0.2, 0.6, 0.7]), np.array([0.5, 0.5, 0.9, 0.9]))
    threshold = step.find_threshold(0.5)
    assert threshold == pytest.approx(0.2)  # at 0.2 itself the mapped score is 0.5, which is not above


@settings(max_examples=60, deadline=None)
@given(scores_of_texts)
def test_a_mapping_is_monotone_within_the_old_scores_and_keeps_the_mean(pairs):
    old, new = np.array(pairs).T
    mapping = fit_mapping(new, old)
    grid = np.linspace(-0.5, 1.5, 101)
    mapped_grid = mapping.apply(grid)
    assert (np.diff(mapped_grid) >= -1e-12).all()
    assert old.min() - 1e-12 <= mapped_grid.min()
    assert mapped_grid.max() <= old.max() + 1e-12
    assert mapping.apply(new).mean() == pytest.approx(old.mean())


@settings(max_examples=60, deadline=None)
@given(scores_of_texts)
def test_another_scale_of_the_successor_changes_no_mapped_score(pairs):
    old, new = np.array(pairs).T
    other_scale = np.exp(3 * new) - 2  # strictly increasing
    mapped_scores = fit_mapping(new, old).apply(new)
    np.testing.assert_allclose(fit_mapping(other_scale, old).apply(other_scale), mapped_scores, atol=1e-9)
    assert mapped_scores.max() == pytest.approx(fit_mapping(new, old).apply(new.max(keepdims=True))[0])


def entry(name: str, old: float, new: float, mapped: float | None, half: float = 0.05) -> EntryValues:
    """An entry whose intervals reach `half` to either side."""
    sides = [None if value is None else ScorerValue(value, value - half, value + half) for value in (old, new, mapped)]
    return EntryValues(name, *sides)


def test_ranks_tau_and_reversed_pairs_are_those_of_a_naive_count():
    generator = np.random.default_rng(1)
    values = generator.random((3, 12)).round(1)
    entries = [entry(f"m{number}", *column) for number, column in enumerate(values.T)]
    orders = compare_orders(entries, "lower")
    for ranks, row in zip((orders.old_ranks, orders.new_ranks, orders.mapped_ranks), values, strict=True):
        assert ranks == tuple(scipy.stats.rankdata(row, method="min").astype(int))
    assert orders.new_tau.value == pytest.approx(scipy.stats.kendalltau(values[0], values[1]).statistic)
    assert orders.mapped_tau.value == pytest.approx(scipy.stats.kendalltau(values[0], values[2]).statistic)
    naive = dict.fromkeys(("pairs", "settled", "new", "new settled", "mapped", "mapped settled"), 0)
    named_pairs = set()
    for i, j in combinations(range(12), 2):
        difference = values[0, i] - values[0, j]
        apart = abs(difference) > 0.1 + 1e-12
        naive["pairs"] += difference != 0
        naive["settled"] += apart
        for name, row in (("new", values[1]), ("mapped", values[2])):
            is_reversed = difference * (row[i] - row[j]) < 0
            naive[name] += is_reversed
            naive[f"{name} settled"] += is_reversed and apart
            if is_reversed:
                named_pairs.add((f"m{i}", f"m{j}") if difference < 0 else (f"m{j}", f"m{i}"))
    assert orders.pairs == naive["pairs"]
    assert (orders.new_reversals, orders.mapped_reversals) == (naive["new"], naive["mapped"])
    rows = list(find_reversals(entries, "lower"))
    assert {(row.ahead, row.behind) for row in rows} == named_pairs
    assert [row.settled for row in rows] == sorted((row.settled for row in rows), reverse=True)
    assert all(row.old_difference > 0 for row in rows)
    order = [(row.settled, row.old_difference) for row in rows]
    assert order == sorted(order, reverse=True), "settled ones first, then by the difference of the old scorer"
    assert orders.new_settled_reversals == sum(row.settled and row.by_new for row in rows)


def test_higher_values_are_ahead_where_higher_is_better():
    entries = [entry("a", 0.9, 0.1, 0.9), entry("b", 0.1, 0.9, 0.1)]
    (pair,) = find_reversals(entries, "higher")
    assert (pair.ahead, pair.behind) == ("a", "b")
    assert (pair.settled, pair.settled_new, pair.settled_mapped) == (True, True, True)
    assert (pair.by_new, pair.by_mapped, pair.impossible) == (True, False, False)
    assert (pair.old_difference, pair.new_difference) == (pytest.approx(-0.8), pytest.approx(0.8))
    assert pair.mapped_difference == pytest.approx(-0.8)


def test_intervals_that_touch_are_not_apart_and_one_entry_without_a_mapping_leaves_none():
    sides = [ScorerValue(1.0, 0.0, 2.0), ScorerValue(3.0, 2.0, 4.0), ScorerValue(6.0, 5.0, 7.0)]
    entries = [EntryValues(f"m{number}", side, side, side) for number, side in enumerate(sides)]
    assert compare_orders(entries, "lower").settled_pairs == 2
    entries[1] = EntryValues("m1", sides[1], sides[1], None)
    assert compare_orders(entries, "lower").mapped_ranks is None
    equal = [EntryValues(name, sides[0], side, None) for name, side in zip("ab", sides, strict=False)]
    assert compare_orders(equal, "lower").new_reversals == 0
    assert list(find_reversals(equal, "lower")) == [], "entries that were level have no order to reverse"


def test_an_entry_is_the_same_after_it_was_stored():
    for mapped in (0.3, None):
        whole = entry("a", 0.1, 0.2, mapped)
        assert EntryValues.from_json(asdict(whole)) == whole


def test_without_a_mapping_or_intervals_nothing_is_reversed_by_it_or_settled():
    entries = [EntryValues("a", ScorerValue(0.1, None, None), ScorerValue(0.2, None, None), None)]
    entries += [EntryValues("b", ScorerValue(0.2, None, None), ScorerValue(0.1, None, None), None)]
    orders = compare_orders(entries, "lower")
    assert (orders.mapped_ranks, orders.mapped_tau, orders.mapped_reversals) == (None, None, None)
    assert (orders.pairs, orders.settled_pairs, orders.new_reversals) == (1, 0, 1)
    (pair,) = find_reversals(entries, "lower")
    assert (pair.settled, pair.by_mapped, pair.mapped_difference) == (False, False, None)


grid_scores = st.lists(st.integers(0, 10).map(lambda number: number / 10), min_size=4, max_size=12)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(grid_scores, grid_scores, st.lists(st.floats(0, 1), min_size=11, max_size=11))
def test_no_monotone_mapping_restores_the_order_of_a_pair_that_is_called_impossible(first, second, rises):
    x, y = np.array(first), np.array(second)
    grid = np.arange(11) / 10
    curves = {"a": exceedance(x, grid), "b": exceedance(y, grid)}
    entries = [entry("a", 0.1, float(x.mean()), None), entry("b", 0.9, float(y.mean()), None)]
    if not dominated_pairs(entries, "lower", curves):
        return
    mapping = np.cumsum(rises)  # any non-decreasing function of the eleven scores
    means = [mapping[np.rint(scores * 10).astype(int)].mean() for scores in (x, y)]
    assert means[0] >= means[1] - 1e-12


def test_a_pair_is_called_impossible_exactly_where_one_curve_lies_above_the_other():
    grid = np.linspace(0, 1, 101)
    generator = np.random.default_rng(3)
    low, crossing = generator.random(400) * 0.5, np.where(generator.random(400) < 0.5, 0.0, 1.0)
    curves = {"worse": exceedance(low + 0.3, grid), "better": exceedance(low, grid), "wide": exceedance(crossing, grid)}
    entries = [entry("worse", 0.1, 0.55, None), entry("better", 0.2, 0.25, None), entry("wide", 0.3, 0.5, None)]
    assert dominated_pairs(entries, "lower", curves) == frozenset({(0, 1)})  # not (0, 2), whose curves cross
    turned = {"worse": 0.7 - low, "better": 1 - low, "wide": 1 - crossing}
    turned_curves = {name: exceedance(scores, grid) for name, scores in turned.items()}
    turned_entries = [entry("worse", 0.9, 0.45, None), entry("better", 0.8, 0.75, None), entry("wide", 0.7, 0.5, None)]
    assert dominated_pairs(turned_entries, "higher", turned_curves) == frozenset({(0, 1)})
    (pair, *_) = [row for row in find_reversals(entries, "lower", frozenset({(0, 1)})) if row.behind == "better"]
    assert pair.impossible
    np.testing.assert_allclose(curves["better"], [(low > point).mean() for point in grid])


def test_verdicts_follow_their_rules(texts):
    whole = preserve_attribute(texts)
    assert whole.labels.kappa_interval[0] < 0.8 <= whole.error.labels.kappa
    same = preserve_attribute(ScoredTexts("a", "a", texts.old, texts.old, texts.groups))
    assert judge_labels(same) is Preservation.PRESERVED
    inverse = preserve_attribute(ScoredTexts("a", "a", texts.old, 1 - texts.old, texts.groups))
    assert judge_labels(inverse) is Preservation.LOST
    moved = preserve_attribute(ScoredTexts("a", "a", texts.old, texts.old / 4, texts.groups))
    assert judge_labels(moved) is Preservation.MAPPED
    all_labelled = preserve_attribute(ScoredTexts("a", "a", texts.old / 2 + 0.5, texts.old, texts.groups))
    assert judge_labels(all_labelled) is Preservation.UNKNOWN
    none_labelled = preserve_attribute(ScoredTexts("a", "a", texts.old / 2, texts.old, texts.groups))
    assert judge_labels(none_labelled) is Preservation.UNKNOWN
    few = preserve_attribute(ScoredTexts("a", "a", texts.old[:30], 1 - texts.old[:30], texts.groups[:30]))
    assert judge_labels(few) is Preservation.LOST, "without a mapping, which could have kept them"
    orders = [entry("a", 0.1, 0.3, 0.1), entry("b", 0.4, 0.5, 0.4), entry("c", 0.8, 0.9, 0.8)]
    assert judge_ranks(compare_orders(orders, "lower")) is Preservation.PRESERVED
    restored = [entry("a", 0.1, 0.6, 0.1), *orders[1:]]
    assert judge_ranks(compare_orders(restored, "lower")) is Preservation.MAPPED
    lost = [entry("a", 0.1, 0.6, 0.5), *orders[1:]]
    assert judge_ranks(compare_orders(lost, "lower")) is Preservation.LOST
    within_noise = [entry("a", 0.1, 0.6, 0.5, half=0.2), entry("b", 0.4, 0.5, 0.4, half=0.2), entry("c", 0.9, 0.9, 0.9)]
    assert judge_ranks(compare_orders(within_noise, "lower")) is Preservation.PRESERVED
    assert judge_ranks(compare_orders(orders[:2], "lower")) is Preservation.UNKNOWN
    assert judge_ranks(None) is Preservation.UNKNOWN


def test_the_points_of_a_chart_are_spread_over_the_texts_and_have_four_digits():
    scores = np.linspace(0, 1, 3 * MOST_POINTS) / 3
    old, new = select_points(scores, 1 - scores)
    assert len(old) == len(new) == MOST_POINTS
    assert (old[0], old[-1], new[-1]) == (0.0, 0.3333, 0.6667)
    assert all(round(value, 4) == value for value in (*old, *new))
