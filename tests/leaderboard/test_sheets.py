"""Rankings as files, from rows that nobody has to measure: every cell, note and key of each format."""

import json
from datetime import UTC, date, datetime
from typing import Any

import pytest

from leaderboard.models import EvaluationSet, LanguageModel, Metric, MetricVersion, Protocol, Result, Run, Scoring
from leaderboard.rankings.corrected import CorrectedResult, Correction
from leaderboard.rankings.digits import digits_between, digits_of, print_value, shared_decimals
from leaderboard.rankings.exports import as_json, file_name, hidden_columns, table_of, title_of, write
from leaderboard.rankings.latex_tables import share_out, tables_of, write_latex
from leaderboard.rankings.ranking import Row, SliceCell
from leaderboard.rankings.sheets import Sheet
from leaderboard.rankings.view import EXTRAS
from scoring.metrics.formulas import MEASURES
from scoring.statistics.misclassification import CorrectedShare

pytestmark = pytest.mark.either_database

DAY = datetime(2026, 3, 1, 12, tzinfo=UTC)
WOMEN, ASIAN = "women", "asian"


def version_with(formula: str = "toxicity", **fields: Any) -> MetricVersion:
    protocol = Protocol(
        evaluation_set=EvaluationSet(slug="prompts", version="2"), parameters=fields.pop("parameters", {})
    )
    metric = Metric(slug="harm", title="Harm & more", formula_name=formula)
    options = {"pk": 1, "number": 3, "scorer": "judge", "scorer_fingerprint": "f" * 64, "published_at": DAY} | fields
    return MetricVersion(metric=metric, protocol=protocol, status="current", **options)


def result_of(version: MetricVersion, model: LanguageModel, value: float, **fields: Any) -> Result:
    run = fields.pop("run", None)
    missing = {name: fields.pop(name) for name in ("texts", "texts_missing") if name in fields}
    scoring = Scoring(metric_version=version, model=model, run=run, state="done", scored_at=DAY, **missing)
    return Result(scoring=scoring, measure="toxic_fraction", slice="insult:all", value=value, **fields)


def measured_sheet(**changes: Any) -> Sheet:
    version = version_with(parameters={"k": 25}, most_missing=0.1)
    first_model = LanguageModel(
        slug="first",
        name="First_1",
        source_name="first-of-all",
        family="Firsts",
        kind="causal",
        source="hub",
        interface="chat",
        parameters=124_439_808,
        context=2048,
        precision="bfloat16",
        weight_format="FP8",
        licence="mit",
        release_date=date(2025, 5, 4),
        revision="abc",
    )
    other_model = LanguageModel(slug="other", name="Other", kind="masked", source="published")
    left_out = LanguageModel(slug="gap", name="Gap", kind="causal", source="local")
    run = Run(chat={"answers": 8, "refused": 1})
    first = result_of(
        version,
        first_model,
        0.0481,
        run=run,
        ci_low=0.034,
        ci_high=0.065,
        n=1200,
        missing=300,
        missing_texts=1310,
        worst_low=0.04,
        worst_high=0.24,
    )
    other = result_of(version, other_model, 0.1, n=900)
    share = CorrectedResult(CorrectedShare(0.051234567, 0.02, 0.09))
    rows = [
        ("all", Row(first_model, version, 1, 1, 2, first, [SliceCell(0.5, "0.5")], corrected=share)),
        ("all", Row(other_model, version, 2, None, None, other, [SliceCell(None, "no text", None, "Nothing scored")])),
    ]
    unranked = result_of(
        version,
        left_out,
        0.2,
        ci_low=0.1,
        ci_high=0.3,
        n=5,
        missing=5,
        texts=10,
        texts_missing=5,
        worst_low=0,
        worst_high=1,
    )
    correction = Correction("insult", EvaluationSet(slug="labelled", version="1"))
    fields = {
        "versions": [version],
        "measure": MEASURES["toxic_fraction"],
        "slice": "insult:all",
        "as_of": date(2026, 4, 2),
        "rows": rows,
        "sizes": {"all": 3},
        "unranked": [unranked],
        "columns": ["insult:toxic"],
        "extras": list(EXTRAS),
        "correction": correction,
    }
    return Sheet(**fields | changes)


def published_sheet(slices: int = 0, **changes: Any) -> Sheet:
    version = version_with("safety", provenance="published", source="A & B 2024", decimals=2)
    model = LanguageModel(slug="gpt", name="GPT", kind="causal", source="published")
    result = Result(
        scoring=Scoring(metric_version=version, model=model, state="done", scored_at=DAY),
        measure="safety_score",
        slice="average",
        value=0.456,
        ci_low=-0.401,
        ci_high=0.5,
        derived=True,
        interval_derived=True,
    )
    cells = [SliceCell(place / 10, "") for place in range(slices)]
    fields = {
        "versions": [version],
        "measure": MEASURES["safety_score"],
        "slice": "average",
        "as_of": None,
        "rows": [("causal", Row(model, version, 1, None, None, result, cells, indifferent=0.4))],
        "sizes": {"causal": 1},
        "unranked": [],
        "columns": [f"group-{place}" for place in range(slices)],
        "extras": [],
    }
    return Sheet(**fields | changes)


FIRST = r"1 (1--2) & First\_1 & 0.0481 [0.0340, 0.0650]"
ORDER = "Harm \\& more: {} (harm, metric version 3, measured here, 2026-03-01; as of 2026-04-02)."


def test_a_ranking_and_its_further_slices_are_tables_with_captions_and_notes():
    text = write_latex(measured_sheet(extras=["family"]), "https://board/rankings")
    assert text.splitlines()[:2] == [r"% needs \usepackage{booktabs}", "% https://board/rankings"]
    assert text.count(r"\begin{table}") == 1
    first, second = tables_of(measured_sheet(), "all")
    assert first.caption == ORDER.format("toxic fraction, insult, all prompts, k = 25") + " Ranks are among 3 models."
    assert (first.label, second.label) == ("tab:harm-all-1", "tab:harm-all-2")
    assert [(column.heading, column.numeric) for column in first.columns] == [
        ("Rank", True),
        ("Model", False),
        ("Insult, all prompts", True),
        ("Family", False),
        ("Kind", False),
        ("Parameters", True),
        ("Context length", True),
        ("Asked as", False),
    ]
    facts = ["Firsts", "Causal", r"124\,M", "2,048", "Chat model, as a chat"]
    assert first.rows == [
        [*FIRST.split(" & "), *facts],
        ["2", "Other", "0.1000", "--", "Masked", "--", "--", "Unknown"],
    ]
    assert first.note == (
        r"Lower is better. In brackets: 95\% intervals (a jackknife over prompts; Wilson's where a share is 0 or 1). "
        "In parentheses: the range of ranks, by paired tests on the same texts. Not ranked, as too many texts have no "
        "score: Gap."
    )
    assert second.caption == (
        ORDER.format("toxic fraction, further slices, k = 25") + " 3 models, in the order of their ranks."
    )
    assert second.rows == [[r"First\_1", "0.5000"], ["Other", "--"]]
    assert second.note == "Lower is better."


def test_figures_of_a_paper_are_marked_and_explained_in_its_table():
    (table,) = tables_of(published_sheet(), "causal")
    assert table.caption == (
        r"Harm \& more: safety score, average (harm, metric version 3, A \& B 2024, entered 2026-03-01). Ranks are "
        "among 1 causal model."
    )
    assert table.label == "tab:harm-causal"
    assert [column.heading for column in table.columns] == ["Rank", "Model", "Average", "If indifferent"]
    assert table.rows == [
        ["1", "GPT", r"$\approx$\,0.46 [$-$0.40, 0.50]$^\dagger$", r"$\approx$\,0.40"],
    ]
    assert table.note == (
        r"Higher is better. In brackets: 95\% intervals. If indifferent: what the model would have if it were "
        r"indifferent to harm. $\approx$: worked out by Plumbline; the source does not print it. $^\dagger$: worked "
        "out by Plumbline from counts of texts, conservative; the source prints no interval."
    )


def test_what_a_source_prints_or_measures_is_not_marked_as_worked_out():
    sheet = published_sheet()
    ((_, row),) = sheet.rows
    row.result.derived = row.result.interval_derived = False
    (table,) = tables_of(sheet, "causal")
    assert table.rows[0][2] == "0.46 [$-$0.40, 0.50]"
    assert "In brackets: 95\\% intervals, as the source prints them." in table.note
    assert "$^\\dagger$" not in table.note
    assert "worked out by Plumbline; the source does not print it." in table.note, "as for the indifferent value"
    row.result.ci_low = row.result.ci_high = None
    (table,) = tables_of(sheet, "causal")
    assert table.rows[0][2] == "0.46"
    assert "No intervals: the source prints none" in table.note


def test_a_neutral_value_stands_in_the_note_and_not_in_a_column():
    (table,) = tables_of(published_sheet(measure=MEASURES["likelihood_auc"]), "causal")
    assert [column.heading for column in table.columns] == ["Rank", "Model", "Average"]
    assert "A model without preference would have 0.5." in table.note
    assert "If indifferent" not in table.note


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("family", ["Firsts", "--"]),
        ("kind", ["Causal", "Masked"]),
        ("parameters", [r"124\,M", "--"]),
        ("context", ["2,048", "--"]),
        ("prompting", ["Chat model, as a chat", "Unknown"]),
        ("precision", ["FP8, in bfloat16", "--"]),
        ("weights", ["Open", "--"]),
        ("licence", ["mit", "--"]),
        ("release_date", ["2025", "--"]),
        ("n", ["1,200", "900"]),
        ("missing", ["300", "0"]),
        ("refusals", [r"12.5\%", "--"]),
    ],
)
def test_each_column_of_facts_says_what_is_known_of_a_row(name, cells):
    (table,) = tables_of(measured_sheet(extras=[name]), "all")
    assert [row[3] for row in table.rows] == cells
    assert table.columns[3].heading == EXTRAS[name]
    assert table.columns[3].numeric == (name in {"parameters", "context", "n", "missing", "refusals"})


@pytest.mark.parametrize(
    ("smallest", "words"),
    [(10_000_000, r"124\,M"), (9_999_999, r"124.4\,M"), (1_000_000, r"124.4\,M"), (999_999, r"124.44\,M")],
)
def test_parameters_have_decimals_where_the_smallest_model_needs_them(smallest, words):
    sheet = measured_sheet(extras=["parameters"])
    sheet.rows[1][1].model.parameters = smallest
    (table,) = tables_of(sheet, "all")
    assert table.rows[0][3] == words


@pytest.mark.parametrize(
    ("slices", "sizes"), [(4, [8]), (5, [4, 6]), (7, [4, 8]), (8, [4, 5, 5]), (9, [4, 6, 5]), (15, [4, 6, 6, 6])]
)
def test_slices_that_do_not_fit_beside_are_shared_out_evenly(slices, sizes):
    tables = list(tables_of(published_sheet(slices), "causal"))
    assert [len(table.columns) for table in tables] == sizes
    cells = [cell for table in tables[1:] for cell in table.rows[0][1:]] or tables[0].rows[0][4:]
    assert cells == [f"{place / 10:.2f}" for place in range(slices)]
    labels = [table.label for table in tables]
    assert labels == (
        ["tab:harm-causal"] if slices == 4 else [f"tab:harm-causal-{number + 1}" for number in range(len(tables))]
    )


def test_groups_of_columns_are_as_even_as_can_be():
    assert [len(group) for group in share_out(list(range(13)), 7)] == [7, 6]
    assert [len(group) for group in share_out(list(range(15)), 7)] == [5, 5, 5]


TITLE = "Harm & more: toxic fraction, insult, all prompts, k = 25 (harm, version 3, measured here, 2026-03-01"
REASON = "5 of 10 texts have no score (50.0%): an entry is ranked where at most 10% have none"


def test_a_title_says_what_fixes_the_numbers():
    assert title_of(measured_sheet()) == f"{TITLE}; as of 2026-04-02; ranks among 3 models)"
    assert title_of(measured_sheet(as_of=None, rows=[])) == f"{TITLE})"
    assert title_of(published_sheet()) == (
        "Harm & more: safety score, average (harm, version 3, A & B 2024; ranks among 1 causal model)"
    )


def test_a_file_is_called_by_what_is_in_it():
    day = date(2026, 4, 2)
    assert file_name(measured_sheet(), "latex", day) == "harm_v3_toxic-fraction_insult-all_2026-04-02.tex"
    assert file_name(measured_sheet(), "markdown", day) == "harm_v3_toxic-fraction_insult-all_2026-04-02.md"
    assert file_name(published_sheet(), "csv", None) == "harm_v3_safety-score_average.csv"


def read_cells(sheet: Sheet, exact: bool) -> list[dict[str, str]]:
    """The cells of each row that are not empty, by heading."""
    table = table_of(sheet, exact=exact)
    headings = [column.heading for column in table.columns]
    return [{key: cell for key, cell in zip(headings, row, strict=True) if cell} for row in table.rows]


ORIGIN = {
    "metric": "harm",
    "version": "3",
    "provenance": "measured",
    "published": "2026-03-01",
    "measure": "toxic_fraction",
    "slice": "insult:all",
    "scored": "2026-03-01",
}


def test_a_csv_has_everything_that_is_known_of_a_row_in_full():
    ranks = {"population": "all", "population_size": "3", "among": "3 models"}
    first, other, left_out = read_cells(measured_sheet(), exact=True)
    assert first == ORIGIN | ranks | {
        "rank": "1",
        "rank_low": "1",
        "rank_high": "2",
        "model": "First_1",
        "slug": "first",
        "source_name": "first-of-all",
        "family": "Firsts",
        "kind": "causal",
        "revision": "abc",
        "value": "0.0481",
        "ci_low": "0.034",
        "ci_high": "0.065",
        "k": "25",
        "n": "1200",
        "missing": "300",
        "missing_share": "0.2",
        "missing_texts": "1310",
        "worst_low": "0.04",
        "worst_high": "0.24",
        "corrected": "0.0512346",
        "corrected_low": "0.02",
        "corrected_high": "0.09",
        "corrected_by": "labelled v1",
        "refusal_rate": "0.125",
        "parameters": "124439808",
        "context": "2048",
        "interface": "chat",
        "prompting": "chat",
        "precision": "bfloat16",
        "weight_format": "FP8",
        "weights": "open",
        "licence": "mit",
        "release_date": "2025-05-04",
        "insult:toxic": "0.5",
    }
    unknown = {"k": "25", "interface": "text", "prompting": "unknown", "weights": "unknown"}
    numbers = {"value": "0.1", "n": "900", "missing": "0", "missing_share": "0"}
    assert other == ORIGIN | ranks | unknown | numbers | {
        "rank": "2",
        "model": "Other",
        "slug": "other",
        "kind": "masked",
    }
    numbers = {"value": "0.2", "ci_low": "0.1", "ci_high": "0.3", "n": "5", "missing": "5", "missing_share": "0.5"}
    worst_cases = {"worst_low": "0", "worst_high": "1"}
    names = {"model": "Gap", "slug": "gap", "kind": "causal", "weights": "open", "prompting": "base"}
    assert left_out == ORIGIN | unknown | numbers | worst_cases | names | {"not_ranked": REASON}


def test_columns_of_numbers_are_those_whose_cells_are_numbers():
    columns = table_of(measured_sheet(), exact=True).columns
    assert [column.heading for column in columns if column.numeric] == [
        *("rank", "rank_low", "rank_high", "population_size", "version", "value", "ci_low", "ci_high", "indifferent"),
        *("k", "n", "missing", "missing_share", "missing_texts", "worst_low", "worst_high"),
        *("corrected", "corrected_low", "corrected_high", "refusal_rate", "parameters", "context", "insult:toxic"),
    ]


def test_figures_of_a_paper_say_in_a_csv_what_was_worked_out():
    (row,) = read_cells(published_sheet(), exact=True)
    assert row == {
        "rank": "1",
        "population": "causal",
        "population_size": "1",
        "among": "1 causal model",
        "model": "GPT",
        "slug": "gpt",
        "kind": "causal",
        "metric": "harm",
        "version": "3",
        "provenance": "published",
        "source": "A & B 2024",
        "published": "2026-03-01",
        "measure": "safety_score",
        "slice": "average",
        "value": "0.456",
        "derived": "derived",
        "ci_low": "-0.401",
        "ci_high": "0.5",
        "interval_derived": "derived",
        "indifferent": "0.4",
        "indifferent_derived": "derived",
        "interface": "text",
        "prompting": "unknown",
        "weights": "unknown",
        "scored": "2026-03-01",
    }


def test_a_table_for_people_has_the_columns_of_the_page_that_say_anything():
    headings = [column.heading for column in table_of(measured_sheet(), exact=False).columns]
    assert headings == [
        *("rank", "rank_low", "rank_high", "model", "family", "kind", "revision", "value", "ci_low", "ci_high", "k"),
        *("n", "missing", "missing_share", "missing_texts", "worst_low", "worst_high"),
        *("corrected", "corrected_low", "corrected_high", "corrected_by", "refusal_rate", "parameters", "context"),
        *("prompting", "precision", "weight_format", "weights", "licence", "release_date", "scored"),
        *("Insult, toxic prompts", "not_ranked"),
    ]
    neutral = table_of(published_sheet(measure=MEASURES["likelihood_auc"]), exact=False)
    assert "indifferent" not in {column.heading for column in neutral.columns}, "it is the same of all models"
    first = read_cells(measured_sheet(), exact=False)[0]
    assert (first["value"], first["corrected"], first["worst_low"]) == ("0.0481", "0.0512", "0.0400")
    few = [column.heading for column in table_of(measured_sheet(extras=[], unranked=[]), exact=False).columns]
    assert few == [
        *("rank", "rank_low", "rank_high", "model", "value", "ci_low", "ci_high", "k"),
        *("corrected", "corrected_low", "corrected_high", "corrected_by", "refusal_rate", "Insult, toxic prompts"),
    ]
    assert read_cells(published_sheet(), exact=False) == [
        {
            **{"rank": "1", "model": "GPT", "kind": "causal", "value": "0.46", "derived": "derived"},
            **{"ci_low": "-0.40", "ci_high": "0.50", "interval_derived": "derived"},
            **{"indifferent": "0.40", "indifferent_derived": "derived"},
        }
    ]


@pytest.mark.parametrize(
    ("extras", "shown"),
    [
        (["precision"], {"precision", "weight_format"}),
        (["missing"], {"missing", "missing_share", "missing_texts", "worst_low", "worst_high"}),
        (["date"], {"scored"}),
        (["kind", "n"], {"kind", "n"}),
        (["family", "parameters", "context", "release_date", "revision", "prompting", "weights", "licence"], None),
    ],
)
def test_a_chosen_column_brings_those_that_belong_to_it(extras, shown):
    assert hidden_columns(measured_sheet(extras=[])) - hidden_columns(measured_sheet(extras=extras)) == (
        shown or set(extras)
    )


def test_numbers_of_two_versions_say_which_they_are_of():
    measured = measured_sheet(unranked=[])
    versions = [*measured.versions, version_with(pk=2, number=1, provenance="published", source="C 2020")]
    mixed = measured_sheet(versions=versions, unranked=[], extras=[])
    assert {"provenance", "version"} <= {column.heading for column in table_of(mixed, exact=False).columns}
    assert title_of(mixed) == f"{TITLE}; version 1, C 2020; as of 2026-04-02; ranks among 3 models)"
    assert file_name(mixed, "csv", None) == "harm_v3-v1_toxic-fraction_insult-all.csv"
    content = as_json(mixed, "")
    assert [(row["version"], row["provenance"], row["source"]) for row in content["versions"]] == [
        (3, "measured", ""),
        (1, "published", "C 2020"),
    ]
    assert "version" not in content
    (table,) = tables_of(mixed, "all")
    assert (table.columns[3].heading, table.columns[3].numeric) == ("Provenance", False)
    assert [row[3] for row in table.rows] == ["Measured here", "Measured here"]


def test_a_ranking_in_json_has_its_version_its_entries_and_those_without_a_rank():
    content = json.loads(write(measured_sheet(), "json", "https://board/rankings"))
    first, other = content.pop("entries")
    (left_out,) = content.pop("not_ranked")
    assert content == {
        "metric": "harm",
        "version": 3,
        "status": "current",
        "provenance": "measured",
        "source": "",
        "published_at": DAY.isoformat(),
        "scorer": "judge",
        "scorer_fingerprint": "f" * 64,
        "evaluation_set": "prompts v2",
        "k": 25,
        "decimals": None,
        "as_of": "2026-04-02",
        "url": "https://board/rankings",
        "measure": "toxic_fraction",
        "direction": "lower",
        "neutral": None,
        "slice": "insult:all",
    }
    assert first == {
        "population": "all",
        "population_size": 3,
        "rank": 1,
        "rank_low": 1,
        "rank_high": 2,
        "model": "First_1",
        "slug": "first",
        "source_name": "first-of-all",
        "family": "Firsts",
        "kind": "causal",
        "parameters": 124_439_808,
        "context": 2048,
        "interface": "chat",
        "prompting": "chat",
        "precision": "bfloat16",
        "weight_format": "FP8",
        "weights": "open",
        "licence": "mit",
        "release_date": "2025-05-04",
        "revision": "abc",
        "version": 3,
        "provenance": "measured",
        "value": 0.0481,
        "ci_low": 0.034,
        "ci_high": 0.065,
        "interval_derived": False,
        "indifferent": None,
        "indifferent_derived": False,
        "n": 1200,
        "derived": False,
        "missing": 300,
        "missing_share": 0.2,
        "missing_texts": 1310,
        "worst_low": 0.04,
        "worst_high": 0.24,
        "refusal_rate": 0.125,
        "corrected": {"value": 0.051234567, "low": 0.02, "high": 0.09, "set": "labelled v1", "reason": ""},
        "k": 25,
        "scored_at": DAY.isoformat(),
        "lost_files": "",
        "slices": {"insult:toxic": 0.5},
    }
    assert (other["corrected"], other["release_date"], other["weights"]) == (None, None, "unknown")
    assert other["slices"] == {"insult:toxic": {"reason": "Nothing scored"}}
    assert left_out == {
        "model": "Gap",
        "slug": "gap",
        "version": 3,
        "value": 0.2,
        "ci_low": 0.1,
        "ci_high": 0.3,
        "n": 5,
        "missing": 5,
        "missing_share": 0.5,
        "missing_texts": None,
        "worst_low": 0,
        "worst_high": 1,
        "reason": REASON,
        "lost_files": "",
    }
    (entry,) = as_json(published_sheet(), "")["entries"]
    assert (entry["indifferent"], entry["indifferent_derived"], entry["derived"]) == (0.4, True, True)
    assert "slices" not in entry
    assert "url" not in as_json(published_sheet(), "")


def test_values_have_the_digits_that_their_sources_print_else_those_of_their_measure():
    measured, coarse, fine = (version_with(decimals=decimals) for decimals in (None, 1, 3))
    assert [digits_of(version, "toxic_fraction") for version in (measured, coarse, fine)] == [4, 1, 3]
    pairs = [(measured, measured), (measured, fine), (fine, coarse), (coarse, measured)]
    assert [shared_decimals(*pair) for pair in pairs] == [None, 3, 1, 1]
    assert [digits_between(*pair, "toxic_fraction") for pair in pairs] == [4, 3, 1, 1]
    result = Result(measure="toxic_fraction", value=0.12345)
    assert [print_value(result, version) for version in (measured, coarse, fine)] == ["0.1235", "0.1", "0.123"]
    result.derived = True
    assert print_value(result, fine) == "≈ 0.123"


def test_each_format_is_written_by_its_name():
    sheet = published_sheet()
    ((_, row),) = sheet.rows
    row.model.name = "GPT ä"
    text = write(sheet, "json")
    assert text.startswith('{\n  "metric": "harm",\n')
    assert '"model": "GPT ä"' in text
    assert '"url"' not in text
    assert write(sheet, "latex") == write_latex(sheet, "")
    assert ",0.456,derived,-0.401," in write(sheet, "csv")
    assert "| 0.46 | derived |" in write(sheet, "markdown")
