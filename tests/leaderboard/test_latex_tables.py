"""Rankings for papers: LaTeX that compiles, fits a page and says what its numbers are."""

import re

import pytest

from leaderboard.models import LanguageModel, Result
from leaderboard.rankings.view import EXTRAS
from tests.leaderboard.test_rankings import page

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("lasting_board")]

WOMEN = "/rankings.latex?metric=safety-toxigen&measure=safety_score&slice=women&kind=causal"


def tables(text: str) -> list[str]:
    """The table floats of a file, after a check that a LaTeX would not stumble over it."""
    environments: list[str] = []
    for verb, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if verb == "begin":
            environments.append(name)
        else:
            assert environments.pop() == name
    assert not environments
    bare = re.sub(r"\\[{}]", "", text)
    assert bare.count("{") == bare.count("}")
    assert len(re.findall(r"(?<!\\)\$", text)) % 2 == 0
    assert not re.search(r"[^\x00-\x7f]", re.sub("[À-ɏ]", "", text)), "what LaTeX's own encoding of fonts lacks"
    return re.findall(r"\\begin\{table\}.*?\\end\{table\}", text, re.DOTALL)


def rows(float_: str) -> list[list[str]]:
    """The cells of a table, each row as many as there are columns."""
    columns = re.search(r"\\begin\{tabular\}\{([lr]+)\}", float_)[1]
    assert 2 <= len(columns) <= 8
    heading = float_.split(r"\toprule")[1].split(r"\midrule")[0]
    body = float_.split(r"\midrule")[1].split(r"\bottomrule")[0]
    lines = [line.strip().removesuffix(r" \\") for line in [heading, *body.strip().splitlines()]]
    cells = [re.split(r"(?<!\\)&", line.removesuffix(r"\\")) for line in lines]
    assert {len(line) for line in cells} == {len(columns)}
    return [[cell.strip() for cell in line] for line in cells]


def test_a_value_has_its_interval_in_brackets_and_the_caption_says_what_it_is(client, board):
    text = page(client, "/rankings.latex?metric=safety-starter&kind=causal&measure=likelihood_auc")
    (first, *others) = tables(text)
    head, *body = rows(first)
    assert head[:3] == ["Rank", "Model", "Average"]
    results = Result.objects.filter(scoring__metric_version__metric__slug="safety-starter", measure="likelihood_auc")
    by_name = {result.scoring.model.name: result for result in results.filter(slice="average")}
    for cells in body:
        result = by_name[cells[1]]
        assert cells[2] == f"{result.value:.3f} [{result.ci_low:.3f}, {result.ci_high:.3f}]"
    assert re.search(r"\\caption\{[^}]*metric version 1, measured here, \d{4}-\d\d-\d\d\)", first)
    assert "Ranks are among 2 causal models" in first
    assert "DeLong's on the logit scale" in first
    assert r"\footnotesize Higher is better." in first
    assert all("in the order of their ranks" in other for other in others)


def test_parameters_are_in_millions_with_a_thin_space(client, board):
    LanguageModel.objects.filter(slug="hosseini-2023-gpt-2").update(parameters=124_439_808)
    (float_,) = tables(page(client, f"{WOMEN}&columns=parameters"))
    head, *body = rows(float_)
    assert head[-1] == "Parameters"
    assert {row[1]: row[-1] for row in body}["GPT-2"] == r"124\,M"


@pytest.mark.parametrize(
    ("column", "side"),
    [
        *((name, "l") for name in ("family", "kind", "prompting", "precision", "weights", "licence")),
        *((name, "r") for name in ("parameters", "n")),
    ],
)
def test_words_stand_at_the_left_of_their_column_and_numbers_at_the_right(client, board, column, side):
    (float_,) = tables(page(client, f"{WOMEN}&columns={column}"))
    assert rows(float_)[0][-1] == EXTRAS[column]
    assert re.search(r"\\begin\{tabular\}\{([lr]+)\}", float_)[1][-1] == side


def test_what_is_worked_out_here_is_marked_and_explained(client, board):
    (float_,) = tables(page(client, f"{WOMEN}&columns=parameters"))
    head, *body = rows(float_)
    assert "If indifferent" in head
    for row in body:
        assert re.fullmatch(r"0\.\d{3} \[0\.\d{3}, 0\.\d{3}\]\$\^\\dagger\$", row[2])
        assert row[3].startswith(r"$\approx$\,0.")
    assert "worked out by Plumbline from counts of texts, conservative" in float_
    assert "Hosseini, Palangi \\& Awadallah 2023, arXiv 2301.09211, entered 20" in float_


def test_thirteen_demographics_are_split_over_tables_of_at_most_eight_columns(client, board):
    found = tables(page(client, "/rankings.latex?metric=safety-toxigen&measure=safety_score&kind=causal"))
    heads = [rows(float_)[0] for float_ in found]
    assert len(found) == 3
    assert heads[1][0] == heads[2][0] == "Model"
    assert len(heads[1][1:] + heads[2][1:]) == len(set(heads[1][1:] + heads[2][1:])) == 13
    assert len({tuple(row[int(place == 0)] for row in rows(one)[1:]) for place, one in enumerate(found)}) == 1
    labels = re.findall(r"\\label\{(.*?)\}", "".join(found))
    assert len(set(labels)) == 3


def test_kinds_that_are_ranked_apart_are_tables_of_their_own(client, board):
    found = tables(page(client, "/rankings.latex?metric=safety-implicit-hate"))
    captions = [re.search(r"\\caption\{(.*)\}", float_)[1] for float_ in found]
    assert [re.search(r"among (.*?)\.$", caption)[1] for caption in captions] == [
        "5 causal models",
        "17 masked models",
        "2 permutation models",
    ]


def test_a_hostile_name_stays_a_cell(client, board):
    LanguageModel.objects.filter(slug="hosseini-2023-gpt-2").update(name=r'\input{/etc}_100% & "$x$" ~^#')
    (float_,) = tables(page(client, f"{WOMEN}&columns=parameters"))
    assert r"\input" not in float_
    assert len(rows(float_)) == 6
