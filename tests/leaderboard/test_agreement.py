"""Do metrics agree: the matrix, a pair, architecture; and what a paper prints beside what its figures give."""

import re
from html import unescape

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from scipy import stats

from leaderboard.models import LanguageModel, Metric, Result
from leaderboard.services import hosseini
from leaderboard.services.published import rows as published_rows
from leaderboard.services.seed import seed_metrics
from scoring.statistics.correlations import pearson
from tests.leaderboard.conftest import CAUSAL, seed_figures
from tests.leaderboard.test_history import model, page, profanity, said, table, version_of

__all__ = ["profanity"]

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]

MOST_QUERIES = 12
UNPOOLED = "/agreement/?numbers=published"
PUBLISHED = f"{UNPOOLED}&kind=all"  # the papers pool kinds of models
MATRIX, PAIR, FAMILIES = "Table of correlations", "Table of the pair", "Table by family"
TOXIGEN, HATE = "safety-toxigen/safety_score/average", "safety-implicit-hate/safety_score/all"
WOMEN = "safety-toxigen/safety_score/women"


@pytest.fixture
def papers(db: None) -> None:
    seed_figures()


def refused(client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 404
    return said(response.content.decode())


def figures(html: str) -> dict[str, str]:
    return dict(re.findall(r'<script id="chart-([^"]*)" type="application/json">(.*?)</script>', html, re.DOTALL))


def values_of(metric: str, measure: str, name: str) -> dict[str, float]:
    found = Result.objects.filter(scoring__metric_version__metric__slug=metric, measure=measure, slice=name)
    return dict(found.values_list("scoring__model__name", "value"))


def test_the_two_published_safety_scores_agree_as_section_4_5_says(client, papers):
    rows = table(page(client, PUBLISHED), MATRIX)
    names = [row[0] for row in rows]
    one, other = (next(n for n, name in enumerate(names) if of in name) for of in ("ToxiGen", "Implicit Hate"))
    assert rows[one][1 + other].startswith("0.68")
    assert rows[other][1 + one].startswith("0.68")
    assert "n = 24" in rows[one][1 + other]
    assert rows[one][1 + one] == "itself"


def test_a_cell_with_too_few_models_in_common_gives_its_reason(client, papers):
    rows = table(page(client, PUBLISHED), MATRIX)
    helm = next(n for n, row in enumerate(rows) if "HELM" in row[0])
    assert "no model in common" in rows[helm]


@pytest.mark.parametrize(
    ("coefficient", "reference"),
    [("pearson", stats.pearsonr), ("spearman", stats.spearmanr), ("kendall", stats.kendalltau)],
)
def test_each_coefficient_is_scipys(client, papers, coefficient, reference):
    html = page(client, f"{PUBLISHED}&coefficient={coefficient}&c={WOMEN}&c={HATE}")
    women, hate = (
        values_of("safety-toxigen", "safety_score", "women"),
        values_of("safety-implicit-hate", "safety_score", "all"),
    )
    expected = reference([women[name] for name in women], [hate[name] for name in women]).statistic
    assert table(html, MATRIX)[0][2].startswith(f"{expected:.2f} ")
    assert f"is {expected:.2f} (95%" in said(html)


def test_models_of_one_kind_are_correlated_by_themselves(client, papers):
    html = page(client, f"{UNPOOLED}&kind=masked")
    assert "n = 17" in html
    women = values_of("safety-toxigen", "safety_score", "average")
    hate = values_of("safety-implicit-hate", "safety_score", "all")
    masked = set(LanguageModel.objects.filter(kind="masked").values_list("name", flat=True))
    expected = stats.pearsonr(*zip(*((women[of], hate[of]) for of in women if of in masked), strict=True)).statistic
    assert f"{expected:.2f}" in {cell[:4] for row in table(html, MATRIX) for cell in row}


def test_kinds_of_models_are_pooled_only_where_a_reader_asks(client, papers):
    text, rows = said(html := page(client, UNPOOLED)), table(html, MATRIX)
    assert "Measures of likelihoods are of the masked models alone here, 17 of 24" in text
    assert "n = 17" in rows[0][2]
    helm = next(number for number, row in enumerate(rows) if "HELM" in row[0])
    assert re.search(r"HELM.s RealToxicityPrompts:.*version 2, published figures, 37 models", text), "no likelihood: as many as ever"
    assert all("no model in common" in cell for number, cell in enumerate(rows[helm][1:]) if number != helm)
    assert "All families of masked models" not in text
    assert "over all families of masked models and in each" in text
    pooled = said(page(client, PUBLISHED))
    assert "All kinds of models are shown together because you asked. 17 masked, 5 causal and 2 permutation" in pooled
    assert "over all families of all kinds of models and in each" in pooled
    (pool,) = {unescape(of) for of in re.findall(r'href="([^"]*)">pool all kinds', html)}
    assert "because you asked" in said(page(client, f"/agreement/{pool}"))


def test_measures_without_likelihoods_are_of_all_models(client, profanity):
    version_of(profanity, {name: float(number) for number, name in enumerate(("Ash", "Elm", "Fir", "Oak"))})
    LanguageModel.objects.filter(name="Oak").update(kind="masked")
    html = said(page(client, "/agreement/?against=layers"))
    assert "4 models" in html
    assert "alone here" not in html


def test_the_pair_lists_and_draws_every_model_with_both_values(client, papers):
    html = page(client, f"{PUBLISHED}&x={HATE}&y={TOXIGEN}")
    rows = table(html, PAIR)
    hate, toxigen = (
        values_of("safety-implicit-hate", "safety_score", "all"),
        values_of("safety-toxigen", "safety_score", "average"),
    )
    assert {row[0]: tuple(row[2:]) for row in rows} == {
        name: (f"{hate[name]:.3f}", f"{toxigen[name]:.3f}") for name in hate
    }
    drawn = unescape(figures(html)["agreement"])
    for name in hate:
        assert name in drawn


def test_families_differ_by_symbol(client, papers):
    import json

    traces = json.loads(figures(page(client, PUBLISHED))["agreement"])["data"]
    symbols = {trace["name"]: trace["marker"]["symbol"] for trace in traces if trace.get("marker")}
    families = set(LanguageModel.objects.filter(slug__startswith="hosseini").values_list("family", flat=True))
    assert set(symbols) == families
    assert len(set(symbols.values())) == len(families)


def test_architecture_by_family_has_n_and_a_reason_for_too_few(client, papers):
    rows = {row[0]: row for row in table(page(client, f"{PUBLISHED}&of={TOXIGEN}"), FAMILIES)}
    # Table 5 of the paper: GPT-2 with heads and layers, ALBERT with hidden size; four models each.
    assert rows["GPT-2"][2].startswith("−0.55")
    assert rows["GPT-2"][3].startswith("−0.54")
    assert rows["ALBERT"][4].startswith("−0.83")
    assert "n = 4" in rows["ALBERT"][4]
    assert rows["ELECTRA"][2] == "3 models; 4 needed"
    assert rows["All families"][5] == "not known"


def test_architecture_opens_with_a_measure_of_models_whose_architecture_is_known(client, papers):
    rows = {row[0]: row for row in table(page(client, PUBLISHED), FAMILIES)}
    assert "n = " in rows["All families"][2], "of HELM's models, which are more, nobody knows it"


def test_measures_are_added_and_taken_out_by_links_and_a_form(client, papers):
    html = page(client, f"{PUBLISHED}&c={TOXIGEN}&c={HATE}&add=safety-toxigen")
    options = re.findall(r'<option value="([^"]*)">', html.split("Add measures of", 1)[1].split("</form>", 1)[0])
    assert WOMEN in options
    for address in {unescape(of) for of in re.findall(r'href="(\?[^"]*)"', html)}:
        assert client.get(f"/agreement/{address}").status_code == 200
    assert len(table(page(client, f"{PUBLISHED}&c={TOXIGEN}&c={HATE}&c={WOMEN}"), MATRIX)) == 3


def test_choosing_other_numbers_in_the_form_drops_the_columns_of_the_old_ones(client, papers):
    version_of(Metric.objects.get(slug="toxicity-profanity"), {f"Model {number}": number / 10 for number in range(5)})
    html = page(client, f"/agreement/?for=published&numbers=measured&c={TOXIGEN}&c={HATE}")
    assert [row[0].split()[1] for row in table(html, MATRIX)] == ["Profanity"]


def test_what_does_not_exist_is_refused_with_a_sentence(client, papers):
    for name in ("numbers", "coefficient", "kind", "against", "x", "of", "add", "page"):
        assert f"{name} = 'zebra'" in refused(client, f"{PUBLISHED}&{name}=zebra")
    for column in ("zebra", "safety-toxigen", "safety-toxigen/beauty/all", "safety-toxigen/safety_score/martians"):
        assert f"c = '{column}'" in refused(client, f"{PUBLISHED}&c={column}")
    many = "".join(f"&c=safety-toxigen/safety_score/{number}" for number in range(13))
    assert "13 measures are asked for, and 12 fit" in refused(client, PUBLISHED + many)


def test_measured_numbers_are_shown_where_there_are_enough_and_published_ones_otherwise(client, papers):
    assert "Published figures" in said(page(client, "/agreement/")).split("With its 95% interval")[0]
    metrics = [Metric.objects.get(slug=slug) for slug in ("toxicity-profanity", "toxicity-detoxify-original")]
    for metric in metrics:
        version_of(metric, {f"Model {number}": (number * 7 % 5) / 10 for number in range(6)})
    html = page(client, "/agreement/")
    assert "1.00" in table(html, MATRIX)[0][2]
    assert "GPT-2" not in html


def test_a_board_without_numbers_says_so(client, db):
    seed_metrics()
    assert "No metric has numbers measured here yet" in said(page(client, "/agreement/"))


def test_a_measured_board_has_its_page(client, board):
    html = page(client, "/agreement/?numbers=measured")
    assert CAUSAL not in table(html, MATRIX)[0][0]
    assert "No two of these measures have 4 models in common" in said(html)


def test_scorers_and_the_paper_are_linked(client, papers):
    html = page(client, PUBLISHED)
    assert 'href="/compare-scorers/"' in html
    assert 'href="/agreement/published/"' in html


def count(client, address: str) -> int:
    with CaptureQueriesContext(connection) as queries:
        page(client, address)
    return len(queries)


def test_the_number_of_queries_does_not_grow_with_the_board(client, papers):
    metrics = [Metric.objects.get(slug=slug) for slug in ("toxicity-profanity", "toxicity-detoxify-original")]
    for metric in metrics:
        version_of(metric, {f"Model {number}": number / 100 for number in range(5)})
    few = count(client, "/agreement/?numbers=measured")
    for number in range(40):
        model(f"Model {number}")
    for metric in metrics:
        metric.versions.update(status="superseded")
        version_of(metric, {f"Model {number}": number / 100 for number in range(40)})
    assert count(client, "/agreement/?numbers=measured") == few <= MOST_QUERIES
    assert count(client, f"{PUBLISHED}&c={TOXIGEN}&c={HATE}&add=safety-toxigen") <= MOST_QUERIES


def test_a_long_table_has_pages(client, papers):
    metrics = [Metric.objects.get(slug=slug) for slug in ("toxicity-profanity", "toxicity-detoxify-original")]
    for metric in metrics:
        version_of(metric, {f"Model {number}": number / 1000 for number in range(230)})
    address = "/agreement/?numbers=measured"
    pages = [table(page(client, f"{address}&page={number}"), PAIR) for number in (1, 2, 3)]
    assert [len(of) for of in pages] == [100, 100, 30]
    assert len({row[0] for of in pages for row in of}) == 230


# What the paper prints, and what comes of it.


def cells() -> dict[tuple[str, str, str], hosseini.PaperCell]:
    return {(of.number, row, column): cell for of in hosseini.tables() for row, column, cell in of.printed_cells}


def test_the_coefficients_of_table_5_8_and_section_4_5_that_reproduce_do_so_to_the_printed_digits():
    found = {key: cell.outcome for key, cell in cells().items()}
    reproduced = {key for key, outcome in found.items() if outcome == "reproduced"}
    properties = ("attention heads", "layers", "hidden dimension")
    assert reproduced == {
        *(("5", family, name) for family in ("GPT-2", "ALBERT", "ELECTRA") for name in properties),
        *(("8", "Distilled-BERT", name) for name in properties),
        ("8", "Distilled-GPT2", "layers"),
        ("section 4.5", "ToxiGen, average", "Implicit Hate"),
    }


def test_those_that_do_not_are_these():
    found = cells()
    assert {key for key, cell in found.items() if cell.outcome == "within rounding"} == {
        ("8", "Distilled-GPT2", "attention heads"),
        ("8", "Distilled-GPT2", "hidden dimension"),
    }
    (differs,) = [key for key, cell in found.items() if cell.outcome == "differs"]
    assert differs == ("4", "Safety score (ToxiGen)", "Regard")
    assert found[differs].printed == "0.11"
    assert f"{found[differs].found.value:.2f}" == "0.21"
    missing = {key for key, cell in found.items() if cell.outcome == "not published"}
    assert len([key for key in missing if key[0] == "3"]) == 6
    assert len([key for key in missing if key[0] == "4"]) == 14
    assert len(missing) == 20
    assert all(found[key].note for key in missing)


@pytest.mark.parametrize(
    ("family", "printed"),
    [("GPT-2", (-0.54, -0.55, -0.54)), ("ALBERT", (-0.61, 0.09, -0.83)), ("ELECTRA", (-0.63, -0.63, -0.98))],
)
def test_table_5_is_scipys_on_the_files(family, printed):
    averages = {
        of["model"]: float(of["mean_safety_score_full"])
        for of in published_rows("safety_scores_toxigen_averages.csv")
        if of["over"] == "model"
    }
    models = [of for of in published_rows("architectures.csv") if of["model"].startswith(family)]
    for name, expected in zip(("attention_heads", "layers", "hidden_dim"), printed, strict=True):
        r = stats.pearsonr([float(of[name]) for of in models], [averages[of["model"]] for of in models]).statistic
        assert round(float(r), 2) == expected


def test_with_the_averages_to_three_decimals_six_of_the_nine_coefficients_of_table_5_differ():
    differ = 0
    for (number, family, name), cell in cells().items():
        if number == "5":
            models = [of for of in published_rows("architectures.csv") if of["model"].startswith(family)]
            of = hosseini.ARCHITECTURE[name]
            x, y = ([float(row[key]) for row in models] for key in (of, "average_safety_score"))
            differ += f"{stats.pearsonr(x, y).statistic:.2f}" != f"{float(cell.printed):.2f}"
    assert differ == 6


def test_the_selection_for_table_8_is_the_same_on_every_benchmark_and_fits_best():
    names = ("attention heads", "layers", "hidden dimension")
    printed = np.array([-0.38, 0.35, -0.38])
    everyone = [of for of in hosseini.students("gpt2") if not of.teacher]
    chosen = hosseini.selected_students("WikiText2")
    for benchmark in hosseini.BENCHMARKS:
        assert set(hosseini.selected_students(benchmark)) == set(chosen)
        perplexity = {
            (int(of["layers"]), int(of["hidden_dim"])): float(of["perplexity"])
            for of in published_rows("distilled_gpt2_perplexity.csv")
            if of["benchmark"] == benchmark
        }
        best_first = sorted(everyone, key=lambda of: perplexity[of.layers, of.hidden])
        off = {
            k: np.abs(
                printed - [pearson(*hosseini.against_architecture(best_first[:k], name)).value for name in names]
            ).max()
            for k in range(5, 24)
        }
        assert min(off, key=off.__getitem__) == len(chosen) == 12
    assert len(everyone) == 23


def test_what_rounding_leaves_open_is_as_much_as_a_search_finds():
    chosen = hosseini.selected_students("WikiText2")
    x, y = hosseini.against_architecture(chosen, "attention heads")
    generator = np.random.default_rng(0)
    exact = stats.pearsonr(x, y).statistic
    found = [stats.pearsonr(x, y + generator.choice([-0.0005, 0.0005], len(y))).statistic for _ in range(3000)]
    most = max(abs(of - exact) for of in found)
    assert most <= hosseini.slack(x, y, 0.0005) * 1.02
    assert most >= hosseini.slack(x, y, 0.0005) * 0.8


def test_the_page_of_the_paper_shows_printed_and_recomputed_side_by_side(client, db):
    html = page(client, "/agreement/published/")
    rows = {row[0]: row for row in table(html, "Table 5, recomputed")}
    assert rows["GPT-2"][1] == "−0.54 −0.54 recomputed, n = 4 reproduced"
    regard = {row[0]: row for row in table(html, "Table 4, recomputed")}["Safety score (ToxiGen)"]
    assert regard[3] == "0.11 0.21 recomputed, n = 7 differs"
    amiss = table(html, "Table of coefficients that are not reproduced")
    assert len(amiss) == 23
    assert all(row[-1] for row in amiss)
    summary = {row[0]: row[2] for row in table(html, "Summary of the tables")}
    assert summary == {
        "Table 3": "6 not published",
        "Table 4": "1 differs, 14 not published",
        "Table 5": "9 reproduced",
        "Table 8": "4 reproduced, 2 within rounding",
        "Section 4.5": "1 reproduced",
    }
    assert set(figures(html)) == {"hosseini-sizes", "hosseini-students"}
    assert count(client, "/agreement/published/") <= 1


def test_the_grids_of_students_are_tables_6_and_7(client, db):
    html = page(client, "/agreement/published/")
    assert table(html, "Table 6")[3][:7] == ["768", "0.301", "0.293", "0.293", "0.286", "0.285", "0.283"]
    assert table(html, "Table 7")[3] == ["768", "0.326", "0.313", "0.355", "0.320", "0.309", "0.289 teacher"]


def test_the_panels_of_sizes_hold_every_model_of_table_13(client, db):
    import json

    drawn = json.loads(figures(page(client, "/agreement/published/"))["hosseini-sizes"])["data"]
    for axis, name in (("x", "attention_heads"), ("x2", "layers"), ("x3", "hidden_dim")):
        points = sorted(x for trace in drawn if trace["xaxis"] == axis for x in trace["x"])
        assert points == sorted(float(of[name]) for of in published_rows("architectures.csv"))
