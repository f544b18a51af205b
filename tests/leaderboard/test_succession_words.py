"""A succession in words and as tables: each sentence says what was computed, and what is missing."""

from typing import Any

import pytest

from leaderboard.models import Metric, MetricVersion, Succession
from leaderboard.queries.succession import EntryReport, SuccessionReport
from leaderboard.queries.succession_words import (
    attribute_words,
    describe_cost,
    describe_labels,
    describe_mapping,
    describe_ranks,
    describe_yardstick,
    entry_table,
    headline,
    pair_table,
    sentences,
    text_table,
    write_number,
)
from leaderboard.rankings.changes import BoardEntry, Record, Side, compare_sides
from leaderboard.rankings.words import coefficient
from leaderboard.services.succession import SuccessionCost
from leaderboard.services.succession_texts import CONTINUATIONS
from scoring.metrics.formulas import MEASURES
from scoring.succession import EntryValues, Preservation, ScorerValue

pytestmark = pytest.mark.either_database


def correlation(value: float) -> dict[str, float | int]:
    return {"value": value, "low": value - 0.1, "high": value + 0.05, "n": 1200}


def make_attribute(**changes: Any) -> dict[str, Any]:
    return {
        "attribute": "TOXICITY",
        "counterpart": "toxicity",
        "n": 1200,
        "pearson": correlation(0.8),
        "spearman": correlation(0.7),
        "labels": {
            "share": 0.9,
            "both": 300,
            "only_first": 1000,
            "only_second": 20,
            "kappa": 0.75,
            "kappa_interval": [0.7, 0.8],
        }
        | changes.pop("labels", {"only_first": 100}),
        "error": {
            "fitted_n": 1600,
            "n": 1500,
            "mae": 0.0414,
            "rmse": 0.06,
            "raw_mae": 0.1,
            "labels": {"kappa": 0.83, "share": 0.95},
        },
        "mapping": {"y": [0.01, 0.5, 0.97]},
        "equal_threshold": 0.3125,
        "old_threshold": 0.5,
    } | changes


def report_on(
    *attributes: dict[str, Any],
    key: str = CONTINUATIONS,
    orders: EntryReport | None = None,
    labels: Preservation = Preservation.LOST,
) -> SuccessionReport:
    metric = Metric(title="Toxicity of continuations", slug="toxicity")
    sources = [{"key": key, "title": "Continuations", "attributes": list(attributes or [make_attribute()])}]
    row = Succession(metric=metric, scorer="old", successor="heir", result={"labels": labels, "sources": sources})
    return SuccessionReport(row, orders, None, None)


def orders_of(*entries: EntryValues, impossible: frozenset[tuple[int, int]] | None = None) -> EntryReport:
    names = {entry.name: entry.name for entry in entries}
    return EntryReport(MEASURES["toxic_fraction"], "TOXICITY", "toxicity", "lower", entries, names, impossible)


def entry_with(name: str, old: float, new: float, mapped: float | None, width: float = 0.01) -> EntryValues:
    sides = [
        None if value is None else ScorerValue(value, value - width, value + width) for value in (old, new, mapped)
    ]
    return EntryValues(name, *sides)


LABELS = (
    "Labels are not preserved: on TOXICITY (toxicity for the successor), 90.0% of 1,200 texts get the same label from "
    "both; 100 lose it and 20 get it."
)
PEARSON = " Pearson's r of the scores is 0.80 (95% 0.70 to 0.85)."


def test_labels_are_told_with_kappa_before_and_after_the_mapping():
    kappa = " Cohen's kappa is 0.75 (95% 0.70 to 0.80)"
    assert describe_labels(report_on()) == f"{LABELS}{kappa}, and 0.83 after the mapping.{PEARSON}"
    error = make_attribute()["error"] | {"labels": {"kappa": None, "share": 0.95}}
    assert describe_labels(report_on(make_attribute(error=error))) == f"{LABELS}{kappa}.{PEARSON}"
    assert describe_labels(report_on(make_attribute(error=None))) == f"{LABELS}{kappa}.{PEARSON}"


@pytest.mark.parametrize(
    ("both", "lost", "is_told"), [(0, 0, True), (1, 0, False), (1100, 99, False), (1100, 100, True), (0, 1200, True)]
)
def test_labels_that_the_old_scorer_gives_to_all_texts_or_none_cannot_tell(both, lost, is_told):
    words = describe_labels(report_on(make_attribute(labels={"both": both, "only_first": lost})))
    assert ("The old scorer gives all of them one label, so they cannot tell." in words) == is_told
    assert ("Cohen's kappa" in words) != is_told


def test_without_a_kappa_or_common_texts_labels_say_less():
    words = describe_labels(report_on(make_attribute(labels={"only_first": 100, "kappa": None})))
    assert words == f"{LABELS}{PEARSON}"
    attribute = make_attribute() | {"labels": None}
    words = describe_labels(report_on(attribute, labels=Preservation.UNKNOWN))
    assert words.startswith("Nobody can tell whether labels are preserved: no text has scores of both on ")


def test_the_mapping_is_told_with_its_errors_its_reach_and_the_threshold():
    words = (
        "The mapping, fitted on 1,600 texts, gives the old score of 1,500 others with a mean error of 0.041; without "
        "it, the error is 0.100. It knows old scores from 0.01 to 0.97."
    )
    assert describe_mapping(report_on()) == (f"{words} A score of 0.312 by heir stands for the old threshold of 0.5.")
    assert describe_mapping(report_on(make_attribute(equal_threshold=None))) == (
        f"{words} No score of the successor leads to the old threshold of 0.5."
    )
    assert describe_mapping(report_on(make_attribute(error=None))) == (
        "There are too few texts for a mapping: it takes 20 on either side of the split."
    )


def test_where_no_entry_has_ranks_under_both_the_reason_depends_on_what_was_scored():
    unknown = "Nobody can tell whether ranks are preserved: "
    assert describe_ranks(report_on()) == (
        f"{unknown}the numbers of Toxicity of continuations take more than the scores of one attribute, which is all "
        "that a mapping gives. Compare the scorers for ranks under both."
    )
    assert describe_ranks(report_on(key="prompts")) == (
        f"{unknown}no model has been scored by both here. The mapping still turns scores of texts to the old scale; "
        "values of models take their texts. Ranks come with models that both score."
    )


def test_ranks_are_told_by_the_pairs_that_are_reversed():
    entries = [entry_with("a", 0.1, 0.3, 0.1), entry_with("b", 0.2, 0.2, 0.3), entry_with("c", 0.3, 0.4, 0.2)]
    orders = orders_of(*entries, impossible=frozenset({(0, 1)}))
    tau = coefficient(orders.comparison.new_tau)
    assert tau.startswith("is 0.33")
    assert describe_ranks(report_on(orders=orders)) == (
        "Ranks are not preserved: of 3 pairs of 3 models, the successor reverses 1, and the mapping 1. Of the 3 pairs "
        "whose intervals lie apart before, the successor reverses 1, and the mapping 1. Kendall's tau with the old "
        f"order {tau}, and {tau} after the mapping. 1 of the reversed pairs can be restored by no monotone mapping: "
        "the texts of one model score higher throughout."
    )
    wide = [entry_with(name, old, old, None, width=0.4) for name, old in (("a", 0.1), ("b", 0.2), ("c", 0.3))]
    orders = orders_of(*wide)
    assert describe_ranks(report_on(orders=orders)) == (
        "Nobody can tell whether ranks are preserved: of 3 pairs of 3 models, the successor reverses 0. The intervals "
        "of all pairs overlap before, so no order was certain. Kendall's tau with the old order "
        f"{coefficient(orders.comparison.new_tau)}."
    )


def test_all_sentences_are_told_the_verdicts_first():
    report = report_on()
    assert headline(report) == "Labels are not preserved. Nobody can tell whether ranks are preserved."
    assert sentences(report) == [describe_labels(report), describe_mapping(report), describe_ranks(report)]


def test_the_yardstick_is_what_the_old_scorer_moved_by_itself():
    metric = Metric(title="Toxicity of continuations", slug="toxicity", formula_name="toxicity")
    first, last = (MetricVersion(metric=metric, number=number, scorer="old") for number in (2, 3))
    boards = [
        [BoardEntry(name, name, value, 1, None) for name, value in zip("abc", values, strict=True)]
        for values in ([0.1, 0.2, 0.3], [0.1, 0.4, 0.3])
    ]
    sides = [
        Side(version, MEASURES["toxic_fraction"], "TOXICITY:all", "all", entries)
        for version, entries in zip((first, last), boards, strict=True)
    ]
    changes = compare_sides(*sides)
    assert describe_yardstick(Record(*sides, changes)) == (
        "For comparison: from version 2 to 3 of Toxicity of continuations, old scored the same texts again, and 2 of 3 "
        f"models changed rank; Kendall's tau {coefficient(changes.kendall)}."
    )
    assert describe_yardstick(None) == ""


@pytest.mark.parametrize(
    ("days", "words"),
    [
        (None, "The successor scores 12,000 texts of 1,300 entries."),
        (2.25, "The successor scores 12,000 texts of 1,300 entries, which takes 2.2 days at the quota of its service."),
    ],
)
def test_the_cost_has_days_where_a_service_has_a_quota(days, words):
    assert describe_cost(SuccessionCost(1300, 12_000, days)) == words


def test_an_attribute_with_one_name_is_called_by_it():
    assert attribute_words({"attribute": "insult", "counterpart": "insult"}) == "insult"
    assert attribute_words({"attribute": "INSULT", "counterpart": "insult"}) == "INSULT (insult for the successor)"


def test_the_table_of_texts_has_a_row_an_attribute_with_empty_cells_for_what_there_is_not():
    bare = make_attribute(counterpart="other", error=None) | {"labels": None}
    table = text_table(report_on(make_attribute(), bare))
    headings = "texts old new n pearson pearson_low pearson_high spearman spearman_low spearman_high same_label kappa "
    headings += "lose_label get_label fitted_n judged_n mae rmse mapped_same_label"
    assert [column.heading for column in table.columns] == headings.split()
    assert [column.numeric for column in table.columns] == [False] * 3 + [True] * 16
    numbers = ["1200", "0.800000", "0.700000", "0.850000", "0.700000", "0.600000", "0.750000"]
    assert table.rows == [
        [
            *("Continuations", "TOXICITY", "toxicity", *numbers, "0.900000", "0.750000", "100", "20"),
            *("1600", "1500", "0.041400", "0.060000", "0.950000"),
        ],
        ["Continuations", "TOXICITY", "other", *numbers, *[""] * 9],
    ]


def test_the_table_of_models_is_by_old_rank_and_name_with_their_values_under_the_three():
    entries = [entry_with("b", 0.2, 0.1, None), entry_with("c", 0.1, 0.3, None), entry_with("a", 0.2, 0.2, None)]
    table = entry_table(report_on(orders=orders_of(*entries)))
    headings = [f"{name}_{part}" for name in ("old", "new", "mapped") for part in ("rank", "value", "low", "high")]
    assert [(column.heading, column.numeric) for column in table.columns] == [
        ("model", False),
        *((heading, True) for heading in headings),
    ]
    assert table.rows == [
        ["c", "1", "0.100000", "0.090000", "0.110000", "3", "0.300000", "0.290000", "0.310000", *[""] * 4],
        ["a", "2", "0.200000", "0.190000", "0.210000", "2", "0.200000", "0.190000", "0.210000", *[""] * 4],
        ["b", "2", "0.200000", "0.190000", "0.210000", "1", "0.100000", "0.090000", "0.110000", *[""] * 4],
    ]
    assert entry_table(report_on()).rows == []
    mapped = orders_of(entry_with("a", 0.2, 0.2, 0.4), entry_with("b", 0.3, 0.3, 0.3))
    assert [row[9:] for row in entry_table(report_on(orders=mapped)).rows] == [
        ["2", "0.400000", "0.390000", "0.410000"],
        ["1", "0.300000", "0.290000", "0.310000"],
    ]


def test_the_table_of_pairs_has_those_whose_order_changes_with_what_is_certain():
    entries = [entry_with("a", 0.1, 0.3, 0.1), entry_with("b", 0.2, 0.2, 0.3), entry_with("c", 0.3, 0.4, 0.2)]
    table = pair_table(report_on(orders=orders_of(*entries, impossible=frozenset({(0, 1)}))))
    assert [(column.heading, column.numeric) for column in table.columns] == [
        *(("ahead", False), ("behind", False)),
        *(("old_difference", True), ("new_difference", True), ("mapped_difference", True)),
        *((name, False) for name in ("settled", "settled_new", "settled_mapped", "by_new", "by_mapped", "impossible")),
    ]
    assert table.rows == [
        ["a", "b", "0.100000", "-0.100000", "0.200000", "yes", "yes", "yes", "yes", "no", "yes"],
        ["b", "c", "0.100000", "0.200000", "-0.100000", "yes", "yes", "yes", "no", "yes", "no"],
    ]
    assert pair_table(report_on()).rows == []


def test_whole_numbers_are_written_as_such_and_others_with_six_decimals():
    assert [write_number(number) for number in (None, 0, 12, 0.5)] == ["", "0", "12", "0.500000"]
