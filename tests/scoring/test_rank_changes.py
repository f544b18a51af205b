"""Rank changes against naive loops, scipy and simulation; and those that Pozzobon et al. 2023 counted in HELM."""

import csv
import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from scoring.statistics.correlations import kendall, spearman
from scoring.statistics.rank_changes import Entry, rank_changes

PUBLISHED = Path(__file__).parent.parent.parent / "leaderboard" / "published"
RELEASED, RESCORED, BOTH_RESCORED = (
    "helm_v0.2.2",
    "rescored_generations_2023_04",
    "rescored_generations_and_prompts_2023_04",
)
CURIE = "openai_text-curie-001"

directions = st.sampled_from(["higher", "lower"])
tie_rules = st.sampled_from(["equal", "first"])
# Few different values, so that ties are common.
boards = st.dictionaries(st.sampled_from("abcdefghij"), st.integers(-3, 3).map(lambda n: n / 8))


def entries(values):
    return {name: Entry(value) for name, value in values.items()}


def by_name(changes):
    return {model.model: model for model in changes.models}


def rows(name):
    with (PUBLISHED / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def helm(metric, split, scoring):
    """The printed values of one column of HELM's table."""
    chosen = [row for row in rows("helm_toxicity.csv") if (row["metric"], row["split"]) == (metric, split)]
    return {row["model"]: Entry(float(row["value"])) for row in chosen if row["scoring"] == scoring}


def helm_with_exact_ranks():
    """Toxic fraction on toxic prompts before and after rescoring, printed values with the ranks the source gives."""
    found = []
    for scoring, column in ((RELEASED, "rank_helm_v0.2.2"), (RESCORED, "rank_rescored_generations")):
        ranks = {row["model"]: int(row[column]) for row in rows("helm_toxic_frac_ranks.csv")}
        values = helm("toxic_frac", "toxic", scoring)
        assert values.keys() == ranks.keys()
        found.append({name: Entry(entry.value, ranks[name]) for name, entry in values.items()})
    return found


def naive_ranks(values, direction, tie_rule):
    """1 and the number of models ahead, counted one by one."""

    def ahead(other, name):
        better = values[other] > values[name] if direction == "higher" else values[other] < values[name]
        return better or (tie_rule == "first" and values[other] == values[name] and other < name)

    return {name: 1 + sum(ahead(other, name) for other in values) for name in values}


@pytest.mark.slow
@given(boards, boards, directions, tie_rules)
def test_ranks_are_those_counted_one_by_one(before, after, direction, tie_rule):
    found = rank_changes(entries(before), entries(after), direction, tie_rule)
    common = before.keys() & after.keys()
    expected = [naive_ranks({n: board[n] for n in common}, direction, tie_rule) for board in (before, after)]
    on_board = [naive_ranks(board, direction, tie_rule) for board in (before, after)]
    models = by_name(found)
    assert models.keys() == common
    for name, model in models.items():
        assert (model.from_rank, model.to_rank) == (expected[0][name], expected[1][name])
        assert (model.from_board_rank, model.to_board_rank) == (on_board[0][name], on_board[1][name])
        assert (model.from_value, model.to_value) == (before[name], after[name])
        assert model.change == expected[0][name] - expected[1][name]
    assert {(of.model, of.rank, of.value) for of in found.only_before} == {
        (name, on_board[0][name], before[name]) for name in before.keys() - after.keys()
    }
    assert {of.model for of in found.only_after} == after.keys() - before.keys()
    assert found.changed_ranks == sum(expected[0][name] != expected[1][name] for name in common)
    assert found.changed_values == sum(before[name] != after[name] for name in common)
    if common:
        differences = [abs(after[name] - before[name]) for name in common]
        assert found.mean_abs_difference == pytest.approx(sum(differences) / len(common))
        assert abs(found.largest_difference.difference) == max(differences)


@pytest.mark.slow
@given(boards, directions, tie_rules)
def test_a_board_does_not_differ_from_itself(board, direction, tie_rule):
    assume(len(set(board.values())) > 1)
    found = rank_changes(entries(board), entries(board), direction, tie_rule)
    assert (found.changed_ranks, found.changed_values, found.mean_abs_difference) == (0, 0, 0)
    assert found.largest_difference.difference == 0
    assert found.kendall.value == found.spearman.value == pytest.approx(1)
    assert found.kendall.high == found.spearman.high == 1


@pytest.mark.slow
@given(boards, boards, directions, tie_rules, st.randoms(use_true_random=False))
def test_the_order_of_models_changes_nothing(before, after, direction, tie_rule, random):
    def shuffled(board):
        return entries(dict(random.sample(sorted(board.items()), len(board))))

    expected = rank_changes(entries(before), entries(after), direction, tie_rule)
    assert rank_changes(shuffled(before), shuffled(after), direction, tie_rule) == expected


@pytest.mark.slow
@given(boards, boards, directions, tie_rules)
def test_from_after_to_before_everything_is_turned_round(before, after, direction, tie_rule):
    there = rank_changes(entries(before), entries(after), direction, tie_rule)
    back = rank_changes(entries(after), entries(before), direction, tie_rule)
    assert {name: -model.change for name, model in by_name(there).items()} == {
        name: model.change for name, model in by_name(back).items()
    }
    assert (there.only_before, there.only_after) == (back.only_after, back.only_before)
    assert (there.changed_ranks, there.changed_values) == (back.changed_ranks, back.changed_values)
    assert there.mean_abs_difference == back.mean_abs_difference
    assert (there.kendall.value, there.kendall.interval) == (back.kendall.value, back.kendall.interval)


@pytest.mark.slow
@given(boards, boards, directions, tie_rules)
def test_the_other_direction_of_negated_values_is_the_same(before, after, direction, tie_rule):
    expected = rank_changes(entries(before), entries(after), direction, tie_rule)
    negated = [entries({name: -value for name, value in board.items()}) for board in (before, after)]
    found = rank_changes(*negated, "lower" if direction == "higher" else "higher", tie_rule)
    assert found.changed_ranks == expected.changed_ranks
    assert [(of.model, of.from_rank, of.to_rank) for of in found.models] == [
        (of.model, of.from_rank, of.to_rank) for of in expected.models
    ]
    assert found.kendall == expected.kendall


@pytest.mark.slow
@given(boards, boards, directions)
def test_changes_cancel_out_where_ties_are_broken(before, after, direction):
    found = rank_changes(entries(before), entries(after), direction, "first")
    assert sum(model.change for model in found.models) == 0
    assert found.changed_ranks != 1
    assert sorted(model.to_rank for model in found.models) == list(range(1, len(found.models) + 1))


def test_a_newcomer_at_the_top_moves_no_other_model():
    before = entries({"a": 0.3, "b": 0.2, "gone": 0.25})
    after = entries({"a": 0.3, "b": 0.2, "new": 0.9})
    found = rank_changes(before, after, "higher")
    assert found.changed_ranks == 0
    # On the boards: a 1, gone 2, b 3; then new 1, a 2, b 3.
    assert [(of.model, of.from_board_rank, of.to_board_rank) for of in found.models] == [("a", 1, 2), ("b", 3, 3)]
    assert [(of.model, of.rank) for of in (*found.only_before, *found.only_after)] == [("gone", 2), ("new", 1)]


def test_changed_values_are_counted_on_what_is_printed():
    before, after = entries({"a": 0.1004, "b": 0.2}), entries({"a": 0.0996, "b": 0.2006})
    assert rank_changes(before, after, "lower").changed_values == 2
    assert rank_changes(before, after, "lower", decimals=3).changed_values == 1  # 0.100, 0.100; 0.200, 0.201
    assert rank_changes(before, after, "lower", decimals=2).changed_values == 0


def test_ranks_that_a_board_carries_are_kept_under_either_rule():
    before = {"a": Entry(0.1, 2), "b": Entry(0.1, 1), "c": Entry(0.2, 3)}
    after = entries({"a": 0.1, "b": 0.1, "c": 0.2})
    for tie_rule, expected in (
        ("equal", {"a": (2, 1), "b": (1, 1), "c": (3, 3)}),
        ("first", {"a": (2, 1), "b": (1, 2)}),
    ):
        found = by_name(rank_changes(before, after, "lower", tie_rule))
        assert {name: (found[name].from_rank, found[name].to_rank) for name in expected} == expected


@pytest.mark.parametrize("tie_rule", ["equal", "first"])
def test_carried_ranks_stay_as_the_source_counts_them_and_changes_count_models(tie_rule):
    counted_by_source = {"a": Entry(0.1, 1), "b": Entry(0.1, 1), "c": Entry(0.2, 2), "d": Entry(0.3, 5)}
    counted_by_board = {"a": Entry(0.1, 1), "b": Entry(0.1, 1), "c": Entry(0.2, 3), "d": Entry(0.3, 4)}
    models = rank_changes(counted_by_source, counted_by_board, "lower", tie_rule).models
    assert [(of.from_board_rank, of.to_board_rank) for of in models] == [(1, 1), (1, 1), (2, 3), (5, 4)]
    assert [(of.from_rank, of.to_rank, of.change) for of in models] == [(1, 1, 0), (1, 1, 0), (3, 3, 0), (4, 4, 0)]


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ({"a": Entry(float("nan"))}, "value of a"),
        ({"a": Entry(0.1, 0)}, "rank of a"),
        ({"a": Entry(0.1, 1), "b": Entry(0.2)}, "b has no rank"),
    ],
)
def test_a_board_that_cannot_be_ranked_is_refused(before, said):
    with pytest.raises(ValueError, match=f"before: .*{said}"):
        rank_changes(before, {}, "lower")


def test_an_unknown_direction_or_rule_for_ties_is_refused():
    with pytest.raises(ValueError, match="direction = 'best': use one of higher, lower"):
        rank_changes({}, {}, "best")
    with pytest.raises(ValueError, match="tie_rule = 'average': use one of equal, first"):
        rank_changes({}, {}, "lower", "average")


def test_boards_without_a_model_in_common_have_no_correlation():
    found = rank_changes(entries({"a": 1.0}), entries({"b": 1.0}), "lower").as_json()
    assert (found["n_models"], found["models"], found["kendall_tau"], found["mean_abs_difference"]) == (
        0,
        [],
        None,
        None,
    )
    assert found["largest_difference"] is None


@pytest.mark.slow
@given(boards, boards, directions, tie_rules)
def test_the_record_is_json_with_the_numbers_of_the_record(before, after, direction, tie_rule):
    found = rank_changes(entries(before), entries(after), direction, tie_rule)
    read = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert read["changed_ranks"] == sum(of["from_rank"] != of["to_rank"] for of in read["models"])
    assert read["changed_values"] == sum(of["from_value"] != of["to_value"] for of in read["models"])
    assert read["n_models"] == len(read["models"]) == len(before.keys() & after.keys())
    assert all(of["change"] == of["from_rank"] - of["to_rank"] for of in read["models"])
    assert [of["model"] for of in read["only_after"]] == [of.model for of in found.only_after]


@given(boards, boards, directions)
def test_the_share_of_pairs_that_both_boards_order_alike_is_counted_pair_by_pair(before, after, direction):
    record = rank_changes(entries(before), entries(after), direction)
    sign = np.sign
    alike = [
        sign(before[one] - before[other]) == sign(after[one] - after[other])
        for one, other in combinations(sorted(before.keys() & after.keys()), 2)
    ]
    if record.kendall.value is None:
        assert record.share_alike is None
    else:
        assert record.share_alike == pytest.approx(sum(alike) / len(alike), abs=1e-12)


def test_models_that_were_tied_before_are_not_ordered_alike():
    before, after = dict(zip("abcde", (1.0, 1, 1, 1, 2), strict=True)), dict(zip("abcde", range(1, 6), strict=True))
    assert rank_changes(entries(before), entries(after), "lower").share_alike == 0.4


pairs = st.lists(st.tuples(st.integers(-6, 6), st.integers(-6, 6)), min_size=2, max_size=40)


@pytest.mark.slow
@pytest.mark.parametrize(("of", "reference"), [(kendall, stats.kendalltau), (spearman, stats.spearmanr)])
@given(drawn=pairs)
def test_rank_correlations_and_their_jackknife_are_scipys(of, reference, drawn):
    x, y = np.array(drawn, dtype=float).T
    assume(len(set(x)) > 1 and len(set(y)) > 1)
    found = of(x, y)
    assert found.value == pytest.approx(reference(x, y).statistic, abs=1e-12)
    if found.interval is None or abs(found.value) > 1 - 1e-9:
        return
    # The jackknife's standard error, each pair left out by hand.
    n = len(x)
    left_out = np.array([reference(np.delete(x, i), np.delete(y, i)).statistic for i in range(n)])
    half = stats.t.ppf(0.975, n - 2) * np.sqrt((n - 1) * left_out.var()) / (1 - found.value**2)
    expected = np.tanh(np.arctanh(found.value) + np.array([-half, half]))
    assert found.interval == pytest.approx(list(expected), abs=1e-8)


@pytest.mark.parametrize("of", [kendall, spearman])
@given(drawn=pairs)
def test_an_interval_holds_its_coefficient_within_bounds(of, drawn):
    found = of(*np.array(drawn, dtype=float).T)
    if found.interval is not None:
        assert -1 <= found.low <= found.value <= found.high <= 1
    assert found.n == len(drawn)


@pytest.mark.parametrize("of", [kendall, spearman])
def test_complete_agreement_has_the_bound_of_disjoint_pairs(of):
    # 18 disjoint pairs of 37 models, all concordant: 0.025 ** (1 / 18) = 0.8147, and 2 x 0.8147 - 1 = 0.6294.
    found = of(np.arange(37.0), np.arange(37.0) ** 3)
    assert (found.value, found.low, found.high) == pytest.approx((1, 0.6294, 1), abs=1e-4)
    turned = of(np.arange(37.0), -np.arange(37.0))
    assert (turned.value, turned.low, turned.high) == pytest.approx((-1, -1, -0.6294), abs=1e-4)


@pytest.mark.parametrize("of", [kendall, spearman])
def test_ties_leave_fewer_pairs_to_show_complete_agreement(of):
    # Seven models tie and two do not: two pairs of different values, 2 x 0.025 ** (1 / 2) - 1 = -0.6838.
    values = np.array([1.0] * 7 + [2.0, 3.0])
    found = of(values, values)
    assert (found.value, found.low, found.high) == pytest.approx((1, -0.6838, 1), abs=1e-4)


@pytest.mark.parametrize("of", [kendall, spearman])
@pytest.mark.parametrize("values", [[], [1.0], [2.0, 2.0, 2.0]])
def test_a_board_in_one_tie_has_no_correlation(of, values):
    found = of(np.array(values), np.arange(float(len(values))))
    assert (found.value, found.interval, found.n) == (None, None, len(values))


def rescored_board(generator, n):
    """A board of which two models in five are scored anew; its true tau and rho are computed from 200,000 models."""
    values = generator.normal(size=n)
    return values, values + (generator.random(n) < 0.4) * 0.3 * generator.normal(size=n)


def two_boards(generator, n):
    """Two normal columns, correlated 0.6, rounded so that a third of neighbours tie."""
    x = generator.normal(size=n)
    return np.round(2 * x), np.round(2 * (0.6 * x + 0.8 * generator.normal(size=n)))


@pytest.mark.slow
@pytest.mark.parametrize("draw", [rescored_board, two_boards])
@pytest.mark.parametrize("n", [20, 37])
def test_intervals_of_rank_correlations_cover_as_often_as_they_say(draw, n):
    generator = np.random.default_rng(11)
    population = draw(generator, 200_000)
    for of, true in ((kendall, stats.kendalltau(*population)[0]), (spearman, stats.spearmanr(*population)[0])):
        found = [of(*draw(generator, n)) for _ in range(1000)]
        covered = np.mean([one.low <= true <= one.high for one in found])
        assert 0.92 <= covered <= 0.995
    # Why not the closed form: its variance of atanh(tau), 0.437 / (n - 4), is that of a normal population.
    true = stats.kendalltau(*population)[0]
    taus = np.clip([kendall(*draw(generator, n)).value for _ in range(1000)], -1 + 1e-9, 1 - 1e-9)
    closed = np.mean(np.abs(np.arctanh(taus) - np.arctanh(true)) <= 1.96 * np.sqrt(0.437 / (n - 4)))
    assert closed < (0.85 if draw is rescored_board else 0.94)


def test_rescoring_helm_changed_24_ranks_of_toxic_fraction():
    found = rank_changes(*helm_with_exact_ranks(), "lower", decimals=3)
    assert (len(found.models), found.changed_ranks, found.changed_values) == (37, 24, 15)
    curie = by_name(found)[CURIE]
    assert (curie.from_rank, curie.to_rank, curie.change) == (35, 23, 12)
    assert (curie.from_value, curie.to_value) == (0.107, 0.090)
    assert found.largest_difference == curie
    record = found.as_json()
    ranks = [[of[key] for of in record["models"]] for key in ("from_rank", "to_rank")]
    assert record["kendall_tau"] == pytest.approx(stats.kendalltau(*ranks).statistic, abs=1e-12)
    assert record["spearman"] == pytest.approx(stats.spearmanr(*ranks).statistic, abs=1e-12)
    # Ranks that the source gives are ranks, whatever is done with ties.
    assert rank_changes(*helm_with_exact_ranks(), "lower", "first", 3).models == found.models


def test_every_row_of_the_table_of_rank_changes_is_reproduced():
    models = by_name(rank_changes(*helm_with_exact_ranks(), "lower"))
    table = rows("helm_rank_changes.csv")
    assert len(table) == 10
    for row in table:
        model = models[row["model"]]
        assert (model.change, model.to_rank) == (int(row["rank_change"]), int(row["rank_rescored_generations"]))
        assert f"{model.from_value:.3f}" == row["value_helm_v0.2.2"]
        assert f"{model.to_value:.3f}" == row["value_rescored_generations"]
        assert row["impact"] == ("positive" if model.change > 0 else "negative")


def test_every_exact_rank_agrees_with_the_printed_values():
    for board in helm_with_exact_ranks():
        in_order = [entry.value for entry in sorted(board.values(), key=lambda entry: entry.rank)]
        assert in_order == sorted(in_order)
        assert sorted(entry.rank for entry in board.values()) == list(range(1, 38))


def test_the_printed_values_before_rescoring_tie_by_name_as_the_exact_ranks_do_and_those_after_do_not():
    exact = helm_with_exact_ranks()
    printed = [helm("toxic_frac", "toxic", scoring) for scoring in (RELEASED, RESCORED)]
    found = by_name(rank_changes(*printed, "lower", "first"))
    assert sum(found[name].from_rank == entry.rank for name, entry in exact[0].items()) == 37
    assert sum(found[name].to_rank == entry.rank for name, entry in exact[1].items()) == 26


# From the values as printed: changed values, changed ranks with equal ranks for ties, and with ties by name.
@pytest.mark.parametrize(
    ("metric", "split", "scoring", "values", "equal", "first"),
    [
        ("toxic_frac", "toxic", RESCORED, 15, 19, 21),
        ("toxic_frac", "nontoxic", RESCORED, 11, 25, 24),
        ("expected_max_toxicity", "toxic", RESCORED, 16, 22, 19),
        ("expected_max_toxicity", "nontoxic", RESCORED, 24, 16, 15),
        ("max_toxicity_probability", "toxic", RESCORED, 13, 15, 18),
        ("toxic_frac", "toxic", BOTH_RESCORED, 37, 29, 30),
    ],
)
def test_what_the_printed_values_give(metric, split, scoring, values, equal, first):
    boards = helm(metric, split, RELEASED), helm(metric, split, scoring)
    found = {rule: rank_changes(*boards, "lower", rule, 3) for rule in ("equal", "first")}
    assert [of.changed_values for of in found.values()] == [values, values]
    assert (found["equal"].changed_ranks, found["first"].changed_ranks) == (equal, first)


def summary(metric, quantity):
    return [
        row["value"]
        for row in rows("helm_rescoring_summary.csv")
        if (row["metric"], row["quantity"]) == (metric, quantity)
    ]


def test_figures_of_the_papers_summary_that_its_table_gives():
    found = rank_changes(*helm_with_exact_ranks(), "lower", decimals=3)
    curie = by_name(found)[CURIE]
    assert summary("toxic_frac", "models with a changed rank") == [str(found.changed_ranks)]
    assert summary("toxic_frac", f"rank of {CURIE} in HELM v0.2.2") == [str(curie.from_rank)]
    assert summary("toxic_frac", f"rank of {CURIE} rescored") == [str(curie.to_rank)]
    # To as many digits as values of three decimals allow.
    notebook, paper = (float(value) for value in summary("toxic_frac", "mean absolute difference"))
    assert found.mean_abs_difference == pytest.approx(0.067 / 37)
    assert round(found.mean_abs_difference, 4) == round(notebook, 4) == paper / 10
    decrease = -100 * curie.difference / curie.from_value
    assert round(decrease) == float(*summary("toxic_frac", f"relative decrease of {CURIE} (percent)"))


def test_figures_of_the_papers_summary_that_its_table_does_not_give():
    # 13 values: the notebook counted on unrounded values, which it does not print; 15 differ as printed.
    assert summary("toxic_frac", "models with a changed value") == ["13"]
    # Expected maximum toxicity: 18 values, 21 ranks, curie from 34 to 23, mean difference 0.041; in neither split.
    emt = "expected_max_toxicity"
    found = {
        (split, rule): rank_changes(helm(emt, split, RELEASED), helm(emt, split, RESCORED), "lower", rule, 3)
        for split in ("toxic", "nontoxic")
        for rule in ("equal", "first")
    }
    curies = {key: by_name(changes)[CURIE] for key, changes in found.items()}
    assert summary(emt, "models with a changed value") == ["18"]
    assert {changes.changed_values for changes in found.values()} == {16, 24}
    assert summary(emt, "models with a changed rank") == ["21"]
    assert {changes.changed_ranks for changes in found.values()} == {22, 19, 16, 15}
    assert (*summary(emt, f"rank of {CURIE} in HELM v0.2.2"), *summary(emt, f"rank of {CURIE} rescored")) == (
        "34",
        "23",
    )
    assert {(of.from_rank, of.to_rank) for of in curies.values()} == {(15, 15), (18, 16)}
    assert summary(emt, "mean absolute difference") == ["0.041"]
    assert found["toxic", "equal"].mean_abs_difference == pytest.approx(0.147 / 37)  # 0.0040
    assert found["nontoxic", "equal"].mean_abs_difference == pytest.approx(0.144 / 37)  # 0.0039
    assert summary(emt, f"relative decrease of {CURIE} (percent)") == ["10.8"]
    toxic = curies["toxic", "equal"]
    assert -100 * toxic.difference / toxic.from_value == pytest.approx(10.68, abs=0.005)
