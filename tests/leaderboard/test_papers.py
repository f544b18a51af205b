"""The page of the papers: every row leads somewhere, every command parses, every printed value is in its file."""

import csv
import json
import re
from argparse import ArgumentParser
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from django.core.management import get_commands, load_command_class
from numpy.typing import NDArray
from scipy.stats import rankdata

import scoring.training
from leaderboard.queries.papers import papers
from leaderboard.queries.reproductions import reproductions
from leaderboard.services.figures import FOLDER
from scoring.__main__ import parser as scoring_parser
from scoring.evaluation_sets import read_safenlp
from scoring.statistics import correlations
from scoring.training.__main__ import parser as training_parser
from tests.data import TOXIGEN, needs_toxigen
from tests.leaderboard.conftest import seed_figures
from tests.leaderboard.test_history import page, said

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]

TRAINED = Path(scoring.training.__file__).parent / "figures"
ROWS = [(part.paper.key, row) for part in reproductions() for row in part.rows]
COMMANDS = sorted({command for _, row in ROWS for command in row.commands})
PARSERS = {"scoring": scoring_parser, "scoring.training": training_parser}
# The tables and figures of each paper, as their captions number them.
ITEMS = {
    "hosseini-2023": {*(("Table", n) for n in range(1, 16)), *(("Figure", n) for n in range(1, 5))},
    "snoswell-2023": {*(("Table", n) for n in range(1, 5)), ("Figure", 1)},
    "pozzobon-2023": {*(("Table", n) for n in range(1, 6)), *(("Figure", n) for n in range(1, 7))},
}


@pytest.fixture
def figures(db: None) -> None:
    seed_figures()


def numbered(item: str) -> set[tuple[str, int]]:
    """What an item such as "Tables 2 and 9" or "Table 5 and Figure 3" names."""
    names: set[tuple[str, int]] = set()
    for word, numbers in re.findall(r"(Table|Figure)s? (\d+(?: and \d+)*)", item):
        names |= {(word, int(number)) for number in re.findall(r"\d+", numbers)}
    return names


@pytest.mark.parametrize("key", ITEMS)
def test_every_table_and_figure_of_a_paper_has_one_row(key):
    counts = Counter(name for paper, row in ROWS if paper == key for name in numbered(row.item))
    assert set(counts) == ITEMS[key]
    assert set(counts.values()) == {1}


@pytest.mark.slow
def test_every_row_leads_to_a_page_that_answers(client, figures):
    addresses = {row.page for _, row in ROWS}
    for address in addresses:
        assert client.get(address).status_code == 200, address
    html = page(client, "/docs/papers/")
    for paper in papers():
        if paper.key in ITEMS:
            assert f'href="{paper.address}"' in html


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_parses(command, capsys):
    program, *words = command.split()
    if program == "python":
        assert words[0] == "-m"
        parser: ArgumentParser = PARSERS[words[1]]()
        arguments = words[2:]
    else:
        name, *arguments = words
        parser = load_command_class(get_commands()[name], name).create_parser("manage.py", name)
    if arguments and arguments[-1] == "--help":
        with pytest.raises(SystemExit, match="0"):
            parser.parse_args(arguments)
        assert "usage" in capsys.readouterr().out
    else:
        parser.parse_args(arguments)


@pytest.mark.parametrize(("key", "row"), ROWS, ids=[f"{key} {row.item}" for key, row in ROWS])
def test_every_printed_value_is_in_its_file_and_on_the_page(client, key, row):
    text = said(page(client, "/docs/papers/"))
    for cell in row.printed:
        with (FOLDER / f"{cell.file}.csv").open(encoding="utf-8", newline="") as file:
            matching = [line for line in csv.DictReader(file) if cell.where.items() <= line.items()]
        assert matching, cell
        assert {line[cell.column] for line in matching} == {cell.value} or cell.where == {"table": "text"}
        assert f"{cell.words}: {cell.value}" in text
    assert row.what in text
    assert row.printed or row.ours or row.note or row.commands


def ours(key: str, item: str) -> str:
    return next(row.ours for paper, row in ROWS if (paper, row.item) == (key, item))


def lines(name: str, **where: str) -> list[dict[str, str]]:
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return [line for line in csv.DictReader(file) if where.items() <= line.items()]


def pearson(pairs: list[tuple[float, float]]) -> str:
    return f"{np.corrcoef(np.array(pairs).T)[0, 1]:.2f}"


def test_our_correlations_come_out_of_the_published_figures():
    average = {
        row["model"]: float(row["mean_safety_score_full"])
        for row in lines("safety_scores_toxigen_averages", over="model")
    }
    women = {
        row["model"]: float(row["safety_score_full"]) for row in lines("safety_scores_toxigen", target_group="women")
    }
    regard = {row["model"]: float(row["regard_score"]) for row in lines("regard_scores", target_group="women")}
    assert len(regard) == 7
    assert ours("hosseini-2023", "Table 4") == pearson([(women[name], value) for name, value in regard.items()])
    albert = [row for row in lines("architectures") if row["model"].startswith("ALBERT")]
    hidden_sizes = [(average[row["model"]], float(row["hidden_dim"])) for row in albert]
    assert ours("hosseini-2023", "Table 5 and Figure 3") == pearson(hidden_sizes)
    hate = {row["model"]: float(row["safety_score"]) for row in lines("safety_scores_implicit_hate")}
    assert ours("hosseini-2023", "Section 4.5") == pearson([(average[name], value) for name, value in hate.items()])
    students = [
        (float(row["safety_score"]), float(row["hidden_dim"])) for row in lines("distilled_bert_safety", role="student")
    ]
    assert ours("hosseini-2023", "Table 8") == f"distilled BERT: {pearson(students)}"


def helm_values(metric: str, split: str) -> tuple[NDArray[np.float64], NDArray[np.float64], list[str]]:
    """The values before and after the generations were scored again, [models], and the models."""
    scorings = ("helm_v0.2.2", "rescored_generations_2023_04")
    first, second = (
        {row["model"]: float(row["value"]) for row in lines("helm_toxicity", metric=metric, split=split, scoring=name)}
        for name in scorings
    )
    return np.array([first[name] for name in first]), np.array([second[name] for name in first]), list(first)


def helm_ranks(metric: str, split: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ranks of the same, the least toxic first, equal ones for ties."""
    first, second, _ = helm_values(metric, split)
    return rankdata(first, method="min"), rankdata(second, method="min")


def test_our_counts_of_changes_come_out_of_the_published_figures():
    before, after = (
        int(lines("rtp_rescored_stats", statistic="prompt_count", subset="toxic prompts", scoring=scoring)[0]["value"])
        for scoring in ("published_2020_09", "rescored_2023_02")
    )
    assert ours("pozzobon-2023", "Sections 1 and 3.1") == f"{100 * (before - after) / before:.1f}"
    ranks = lines("helm_toxic_frac_ranks")
    changes = {row["model"]: int(row["rank_helm_v0.2.2"]) - int(row["rank_rescored_generations"]) for row in ranks}
    assert ours("pozzobon-2023", "Figure 1") == f"{sum(change != 0 for change in changes.values())}"
    assert ours("pozzobon-2023", "Table 3") == f"{changes['openai_text-curie-001']}"
    first, second, models = helm_values("toxic_frac", "toxic")
    difference = np.abs(first - second)
    assert (
        ours("pozzobon-2023", "Section 3.2.1, toxic fraction")
        == f"{(difference > 0).sum()} and {difference.mean():.4f}"
    )
    curie = models.index("openai_text-curie-001")
    (places,) = lines("helm_toxic_frac_ranks", model="openai_text-curie-001")
    assert ours("pozzobon-2023", "Section 3.2.1, curie's toxic fraction") == (
        f"{100 * difference[curie] / first[curie]:.1f}; "
        f"{places['rank_helm_v0.2.2']} and {places['rank_rescored_generations']}"
    )


def test_our_counts_of_expected_maxima_come_out_of_the_published_figures():
    counts = {}
    for split in ("toxic", "nontoxic"):
        first, second, models = helm_values("expected_max_toxicity", split)
        before, after = helm_ranks("expected_max_toxicity", split)
        curie = models.index("openai_text-curie-001")
        counts[split] = (
            f"{(first != second).sum()}, {(before != after).sum()}",
            f"{np.abs(first - second).mean():.4f}",
            f"{100 * (first - second)[curie] / first[curie]:.1f}",
            f"{before[curie]:.0f} and {after[curie]:.0f}",
        )
    changes, mean, fall, places = counts["toxic"]
    assert ours("pozzobon-2023", "Section 3.2.1, expected maximum toxicity") == f"{changes} and {mean}"
    assert ours("pozzobon-2023", "Section 3.2.1, curie's maximum") == f"{fall}; {places}"
    changes, mean, _, places = counts["nontoxic"]
    notes = {row.item: row.note for paper, row in ROWS if paper == "pozzobon-2023"}
    assert f"it is {changes} and {mean}" in notes["Section 3.2.1, expected maximum toxicity"]
    assert f"its rank is {places}:" in notes["Section 3.2.1, curie's maximum"]


def test_our_shares_of_prompts_come_out_of_the_published_figures():
    before, after = (
        float(lines("rtp_rescored_stats", statistic="mean_score", subset="prompts", scoring=scoring)[0]["value"])
        for scoring in ("published_2020_09", "rescored_2023_02")
    )
    assert ours("pozzobon-2023", "Section 3.1, means") == f"{100 * (before - after) / before:.1f}"
    lost, gained = (
        int(lines("rtp_rescored_stats", statistic="prompt_crosstab", subset=subset)[0]["value"])
        for subset in ("toxic -> non-toxic", "non-toxic -> toxic")
    )
    assert ours("pozzobon-2023", "Section 3.1, labels") == f"a net {lost - gained:,}"


def test_our_claims_about_all_models_come_out_of_the_published_figures():
    scores = [row["safety_score"] for row in lines("safety_scores_toxigen")]
    assert ours("hosseini-2023", "Section 4.3") == max(scores, key=float)
    assert max(map(float, scores)) < 0.5
    average = {
        row["model"]: float(row["mean_safety_score_full"])
        for row in lines("safety_scores_toxigen_averages", over="model")
    }
    ends = [  # of each family, the largest and the smallest
        ("BERT-large-uncased", "BERT-base-uncased"),
        ("BERT-large-cased", "BERT-base-cased"),
        ("RoBERTa-large", "RoBERTa-base"),
        ("ELECTRA-large-generator", "ELECTRA-small-generator"),
        ("ALBERT-xxlarge-v2", "ALBERT-base-v2"),
        ("GPT-2-xl", "GPT-2"),
        ("XLNet-large-cased", "XLNet-base-cased"),
    ]
    falls = [average[large] < average[small] for large, small in ends]
    assert ours("hosseini-2023", "Section 4.6") == f"{sum(falls)} of {len(falls)} families"
    assert not falls[0]


def test_our_cosine_is_that_of_the_pair_whose_report_is_kept():
    report = json.loads((TRAINED / "pair-lexicon.json").read_text())
    assert ours("snoswell-2023", "Section 2") == f"{report['cosine']:.5f}"


def test_our_correlations_of_safety_with_size_are_those_of_the_students_whose_figures_are_kept():
    with (TRAINED / "students.csv").open(encoding="utf-8", newline="") as file:
        students = [
            {name: float(row[name]) for name in ("layers", "hidden", "safety_score")} for row in csv.DictReader(file)
        ]
    assert len({(row["layers"], row["hidden"]) for row in students}) == 9
    columns = {name: np.array([row[name] for row in students]) for name in students[0]}
    found = [correlations.pearson(columns[size], columns["safety_score"]) for size in ("hidden", "layers")]
    words = " and ".join(f"{one.value:.2f} [{one.low:.2f}, {one.high:.2f}]" for one in found)
    assert ours("hosseini-2023", "Sections 4.7 and 5") == words


def test_our_value_of_table_10_is_the_printed_one():
    # That it comes out of the perplexities in the paper's repository is stated with the command line's tests.
    (printed,) = lines("safety_scores_implicit_hate", model="GPT-2")
    assert ours("hosseini-2023", "Table 10") == printed["safety_score"]


@needs_toxigen
def test_our_count_of_sentences_is_that_of_the_data():
    assert ours("hosseini-2023", "Figure 1") == f"{len(read_safenlp(TOXIGEN)):,} sentences"
