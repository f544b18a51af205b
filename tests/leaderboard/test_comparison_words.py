"""A comparison of two scorers in words and as a table."""

from typing import Any

import pytest

from leaderboard.models import Metric, MetricVersion
from leaderboard.queries.comparison import Comparison, RankAgreement
from leaderboard.queries.comparison_words import attribute_table, summary
from leaderboard.rankings.changes import BoardEntry, Side, compare_sides
from leaderboard.rankings.words import coefficient
from scoring.metrics.agreement import AttributeAgreement, LabelAgreement
from scoring.metrics.formulas import MEASURES
from scoring.statistics.correlations import Correlation

pytestmark = pytest.mark.either_database

PEARSON = Correlation(0.8, 0.7, 0.85, 900)
LABELS = LabelAgreement(300, 100, 20, 480, 0.8667, [0.84, 0.89], 0.75, [0.7, 0.8])


def version_of_scorer(scorer: str, number: int) -> MetricVersion:
    return MetricVersion(metric=Metric(slug=f"by-{scorer}", formula_name="toxicity"), number=number, scorer=scorer)


def ranks_of(first: MetricVersion, second: MetricVersion) -> RankAgreement:
    boards = ([0.1, 0.2, 0.3], [0.1, 0.4, 0.3])
    sides = [
        Side(
            version,
            MEASURES["toxic_fraction"],
            "insult:all",
            "all",
            [BoardEntry(name, name, value, 1, None) for name, value in zip("abc", values, strict=True)],
        )
        for version, values in zip((first, second), boards, strict=True)
    ]
    return RankAgreement(*sides, compare_sides(*sides))


def comparison_of(**changes: Any) -> Comparison:
    first, second = version_of_scorer("judge", 2), version_of_scorer("lexicon", 1)
    fields = {
        **{"first": first, "second": second, "runs": 3, "runs_in_all": 3, "texts": 1200, "texts_in_all": 1200},
        "namesakes": True,
        "attributes": [AttributeAgreement("INSULT", "insult", 900, 300, PEARSON, LABELS)],
        "ranks": [ranks_of(first, second)],
        **{"figures": [], "prompts": []},
    }
    return Comparison(**fields | changes)


BOTH = "judge (by-judge, version 2) and lexicon (by-lexicon, version 1) have judged the same continuations; "


def test_a_comparison_is_told_in_a_sentence_each_on_texts_labels_and_ranks():
    comparison = comparison_of()
    tau = f"Kendall's tau of the two orders {coefficient(comparison.ranks[0].changes.kendall)}"
    assert " is 0.33" in tau
    assert summary(comparison) == [
        f"{BOTH}1,200 by 3 models are compared.",
        "On INSULT and insult, 86.7% of the texts get the same label, above 0.5 or not; Pearson's r of the scores is "
        "0.80 (95% 0.70 to 0.85).",
        f"Of 3 models on both boards, 2 have another rank under the other scorer; {tau}.",
    ]


def test_a_comparison_says_what_was_left_out_and_what_is_missing():
    bare = AttributeAgreement("insult", "insult", 0, 1200, Correlation(None, None, None, 0), None)
    changes = {"runs": 1, "runs_in_all": 5, "texts": 1199, "namesakes": False, "attributes": [bare], "ranks": []}
    assert summary(comparison_of(**changes)) == [
        f"{BOTH}1,199 by 1 model are compared (of 1,200 by 5 models).",
        "No attribute of one bears the name of one of the other: the main one of each is compared.",
        "The boards rank by measures that have no common order.",
    ]
    same_name = AttributeAgreement("insult", "insult", 900, 300, PEARSON, LABELS)
    assert summary(comparison_of(attributes=[same_name]))[1].startswith("On insult, 86.7%")


def test_the_table_of_a_comparison_has_a_row_an_attribute_with_empty_cells_for_what_there_is_not():
    bare = AttributeAgreement("insult", "threat", 0, 1200, Correlation(None, None, None, 0), None)
    constant = LabelAgreement(0, 0, 0, 900, 1.0, [0.99, 1.0], None, None)
    attributes = [
        AttributeAgreement("INSULT", "insult", 900, 300, PEARSON, LABELS),
        bare,
        AttributeAgreement("a", "b", 900, 0, PEARSON, constant),
    ]
    table = attribute_table(comparison_of(attributes=attributes))
    assert table.title == "Scores of the same texts: a = by-judge v2, b = by-lexicon v1"
    names = "texts missing pearson pearson_low pearson_high label_agreement label_agreement_low label_agreement_high "
    names += "kappa kappa_low kappa_high both only_a only_b neither"
    assert [(column.heading, column.numeric) for column in table.columns] == [
        *(("a", False), ("b", False)),
        *((name, True) for name in names.split()),
    ]
    correlation = ["0.8000", "0.7000", "0.8500"]
    labels = ["0.8667", "0.8400", "0.8900", "0.7500", "0.7000", "0.8000", "300", "100", "20", "480"]
    assert table.rows == [
        ["INSULT", "insult", "900", "300", *correlation, *labels],
        ["insult", "threat", "0", "1200", *[""] * 13],
        ["a", "b", "900", "0", *correlation, "1.0000", "0.9900", "1.0000", "", "", "", "0", "0", "0", "900"],
    ]
