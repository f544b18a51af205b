"""Do metrics agree: the matrix, a pair, architecture; and what a paper prints beside what its figures give."""

import csv
import io
import itertools
import re
from html import unescape

import numpy as np
import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from scipy import stats

from leaderboard.models import LanguageModel, Metric, Result, Standing
from leaderboard.queries.agreement import MeasureColumn, usual_numbers
from leaderboard.queries.agreement import values_of as read_values
from leaderboard.rankings.versions import metrics_with_versions
from leaderboard.services import hosseini
from leaderboard.services.published import rows as published_rows
from leaderboard.services.seed import seed_metrics
from scoring.statistics.auc import holm
from scoring.statistics.correlations import pearson
from tests.charts import list_charts, points, read_chart, traces
from tests.leaderboard import stored
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
OF_THE_PAPERS = f"&c={TOXIGEN}&c={HATE}&c=rtp-helm-perspective/expected_max_toxicity/toxic"


@pytest.fixture
def papers(db: None) -> None:
    seed_figures()


def refused(client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 404
    return said(response.content.decode())


def values_of(metric: str, measure: str, name: str) -> dict[str, float]:
    found = Result.objects.filter(scoring__metric_version__metric__slug=metric, measure=measure, slice=name)
    return dict(found.values_list("scoring__model__name", "value"))


@pytest.mark.slow
def test_the_two_published_safety_scores_agree_as_section_4_5_says(client, papers):
    rows = table(page(client, PUBLISHED), MATRIX)
    names = [row[0] for row in rows]
    one, other = (next(n for n, name in enumerate(names) if of in name) for of in ("ToxiGen", "Implicit Hate"))
    assert rows[one][1 + other].startswith("0.68")
    assert rows[other][1 + one].startswith("0.68")
    assert "n = 24" in rows[one][1 + other]
    assert rows[one][1 + one] == "itself"


@pytest.mark.slow
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


@pytest.mark.slow
def test_kinds_of_models_are_pooled_only_where_a_reader_asks(client, papers):
    text, rows = said(html := page(client, UNPOOLED + OF_THE_PAPERS)), table(html, MATRIX)
    assert "Measures of likelihoods are of the masked models alone here, 17 of 24" in text
    assert "n = 17" in rows[0][2]
    helm = next(number for number, row in enumerate(rows) if "HELM" in row[0])
    helm_chip = r"HELM.s RealToxicityPrompts:.*version 2, published figures, 37 models"
    assert re.search(helm_chip, text), "no likelihood: as many as ever"
    assert all("no model in common" in cell for number, cell in enumerate(rows[helm][1:]) if number != helm)
    assert "All families of masked models" not in text
    assert "over all families of masked models and in each" in text
    pooled = said(page(client, PUBLISHED + OF_THE_PAPERS))
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
    drawn = " ".join(traces(read_chart(client, html), "points")[0]["hovertext"])
    for name in hate:
        assert name in drawn


def test_families_differ_by_symbol(client, papers):
    html = page(client, PUBLISHED)
    (trace,) = traces(read_chart(client, html), "points")
    models = LanguageModel.objects.filter(slug__startswith="hosseini")
    families = {model.get_absolute_url(): model.family for model in models}
    drawn = {
        (families[link], symbol)
        for (link, _), symbol in zip(trace["customdata"], trace["marker"]["symbol"], strict=True)
    }
    assert len(drawn) == len({family for family, _ in drawn}) == len({symbol for _, symbol in drawn}) > 5
    assert all(f">{family}</text>" in html for family, _ in drawn), "in the legend"


def test_architecture_by_family_has_n_and_a_reason_for_too_few(client, papers):
    rows = {row[0]: row for row in table(page(client, f"{PUBLISHED}&of={TOXIGEN}"), FAMILIES)}
    # Table 5 of the paper: GPT-2 with heads and layers, ALBERT with hidden size; four models each.
    assert rows["GPT-2"][2].startswith("−0.55")
    assert rows["GPT-2"][3].startswith("−0.54")
    assert rows["ALBERT"][4].startswith("−0.83")
    assert "n = 4" in rows["ALBERT"][4]
    assert rows["ELECTRA"][2] == "3 models; 4 needed"
    assert rows["ELECTRA"][5] == "not known", "their makers state no sizes of the generators"
    assert "n = 21" in rows["All families"][5]


def test_architecture_opens_with_a_measure_of_models_whose_architecture_is_known(client, papers):
    rows = {row[0]: row for row in table(page(client, PUBLISHED), FAMILIES)}
    assert any("n = " in cell for cell in rows["All families"]), "of models whose size nobody knows there are more"


@pytest.mark.slow
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


@pytest.mark.slow
def test_what_does_not_exist_is_refused_with_a_sentence(client, papers):
    for name in ("numbers", "coefficient", "kind", "against", "x", "of", "add", "page"):
        assert f"{name} = 'zebra'" in refused(client, f"{PUBLISHED}&{name}=zebra")
    for column in ("zebra", "safety-toxigen", "safety-toxigen/beauty/all", "safety-toxigen/safety_score/martians"):
        assert f"c = '{column}'" in refused(client, f"{PUBLISHED}&c={column}")
    many = "".join(f"&c=safety-toxigen/safety_score/{number}" for number in range(13))
    assert "13 measures are asked for, and 12 fit" in refused(client, PUBLISHED + many)
    ranked = Standing.objects.filter(metric_version__metric__slug="safety-toxigen", measure="safety_score")
    names = sorted(set(ranked.values_list("slice", flat=True)))[:12]
    columns = "".join(f"&c=safety-toxigen/safety_score/{name}" for name in names)
    assert "Take one out to add another." in said(page(client, PUBLISHED + columns))


@pytest.mark.slow
def test_measured_numbers_are_shown_where_there_are_enough_and_published_ones_otherwise(client, papers):
    assert "Published figures" in said(page(client, "/agreement/")).split("With its 95% interval")[0]
    metrics = [Metric.objects.get(slug=slug) for slug in ("toxicity-profanity", "toxicity-detoxify-original")]
    for metric in metrics:
        version_of(metric, {f"Model {number}": (number * 7 % 5) / 10 for number in range(6)})
    html = page(client, "/agreement/")
    assert "1.00" in table(html, MATRIX)[0][2]
    assert "GPT-2" not in html
    miniatures = LanguageModel.objects.filter(name__startswith="Model ")
    miniatures.update(source="bundled", location=F("slug"), revision="1" * 40)
    assert usual_numbers(metrics_with_versions()) == "published", "miniatures are nobody's default"


@pytest.mark.slow
def test_a_board_without_numbers_says_so(client, db):
    seed_metrics()
    assert "No metric has numbers measured here yet" in said(page(client, "/agreement/"))
    for numbers in ("measured", "published", "both"):
        for name in ("correlations", "sizes", "models"):
            assert client.get(f"/agreement/{name}.csv?kind=each&numbers={numbers}").content == b""
        assert client.get(f"/api/v1/agreement?kind=each&numbers={numbers}").json()["items"] == []
        assert "No metric has" in said(page(client, f"/agreement/?kind=each&numbers={numbers}"))


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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_row_of_a_printed_table_has_a_cell_for_every_column():
    with pytest.raises(ValueError, match="shorter"):
        hosseini.PaperTable("9", "Cells", ["one", "two"], [("row", [None])]).printed_cells  # noqa: B018


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
    assert list_charts(html) == ["hosseini-sizes", "hosseini-students"]
    assert count(client, "/agreement/published/") <= 1


def test_the_grids_of_students_are_tables_6_and_7(client, db):
    html = page(client, "/agreement/published/")
    assert table(html, "Table 6")[3][:7] == ["768", "0.301", "0.293", "0.293", "0.286", "0.285", "0.283"]
    assert table(html, "Table 7")[3] == ["768", "0.326", "0.313", "0.355", "0.320", "0.309", "0.289 teacher"]


def test_the_panels_of_sizes_hold_every_model_of_table_13(client, db):
    figure = read_chart(client, page(client, "/agreement/published/"))
    for axis, name in (("x", "attention_heads"), ("x2", "layers"), ("x3", "hidden_dim")):
        assert sorted(x for x, _ in points(figure, axis)) == sorted(
            float(of[name]) for of in published_rows("architectures.csv")
        )


# Kinds apart, both origins, files.


def measured(slug: str, values: dict[str, float], kinds: dict[str, str] | None = None, name: str = "average") -> None:
    """Measured numbers of a metric, by the name of the model, on its first measure."""
    metric = Metric.objects.get(slug=slug)
    versions = metric.versions.create(
        number=metric.versions.count() + 1,
        protocol=metric.protocol,
        formula_version=metric.formula.version,
        scorer=metric.scorer,
        scorer_fingerprint=f"{metric.pk:064x}",
        status="current",
        published_at=timezone.now(),
    )
    for model_name, value in values.items():
        entry = model(model_name)
        LanguageModel.objects.filter(pk=entry.pk).update(kind=(kinds or {}).get(model_name, "causal"))
        scoring = versions.scorings.create(model=entry, state="done", scored_at=timezone.now())
        result = scoring.results.create(measure=metric.measure, slice=name, value=value, n=10)
        versions.standings.create(
            model=entry,
            result=result,
            measure=metric.measure,
            slice=name,
            population="all",
            rank=1,
            value=value,
        )


KINDS = {f"Model {number}": "masked" if number > 6 else "causal" for number in range(13)}
FIRST = dict(zip(KINDS, np.random.default_rng(2).random(13).round(3).tolist(), strict=True))
SECOND = {name: round(value + number * 5 % 7 / 20, 3) for number, (name, value) in enumerate(FIRST.items())}
EACH = "/agreement/?numbers=measured&kind=each"


@pytest.fixture
def two_kinds(db: None) -> None:
    """Two measures of seven causal and six masked models, by a formula of likelihoods and by a classifier's scores."""
    seed_metrics()
    measured("safety-toxigen", FIRST, KINDS)
    measured("toxicity-toxigen-roberta", SECOND, KINDS, "toxicity:all")


def sides(kind: str = "") -> tuple[list[float], list[float]]:
    names = [name for name, model_kind in KINDS.items() if kind in ("", model_kind)]
    return [FIRST[name] for name in names], [SECOND[name] for name in names]


def records(client, name: str, query: str) -> list[dict[str, str]]:
    response = client.get(f"/agreement/{name}.csv{query}")
    assert response.status_code == 200
    return list(csv.DictReader(io.StringIO(response.content.decode())))


@pytest.mark.parametrize(("title", "kind"), [("Causal models", "causal"), ("Masked models", "masked")])
def test_each_kind_has_a_matrix_of_its_own_beside_that_of_all(client, two_kinds, title, kind):
    html = page(client, EACH)
    for label, x, y in ((title, *sides(kind)), ("Models of all kinds", *sides())):
        expected = stats.pearsonr(x, y)
        cell = table(html, f"{MATRIX}: {label}")[0][2]
        assert cell.startswith(f"{expected.statistic:.2f} with")
        assert f"n = {len(x)}, p" in cell


def test_all_coefficients_of_a_pair_are_scipys_for_each_kind(client, two_kinds):
    rows = {row[0]: row[1:] for row in table(page(client, EACH), "Table of coefficients of the pair")}
    for title, kind in (("Causal models", "causal"), ("Masked models", "masked"), ("Models of all kinds", "")):
        for cell, reference in zip(rows[title], (stats.pearsonr, stats.spearmanr, stats.kendalltau), strict=True):
            expected = reference(*sides(kind)).statistic
            assert cell.replace("−", "-").startswith(f"{expected:.2f} ")
            assert "to" in cell


def models_of_rows(client) -> set[str]:
    """Over which models the file of correlations says that its coefficients are."""
    return {row["models"] for row in records(client, "correlations", "?numbers=measured")}


def test_a_file_names_the_one_kind_that_likelihoods_are_of(client, two_kinds):
    assert models_of_rows(client) == {"Models; of likelihoods, causal ones"}


def test_a_file_names_no_kind_where_likelihoods_are_of_one_alone(client, two_kinds):
    LanguageModel.objects.update(kind="causal")
    assert models_of_rows(client) == {"Models"}


def test_p_in_a_matrix_is_adjusted_by_holm_over_it(client, papers):
    slices = ("women", "asian", "black", "lgbtq")
    query = "?numbers=published&kind=all" + "".join(f"&c=safety-toxigen/safety_score/{name}" for name in slices)
    rows = records(client, "correlations", query)
    values = {name: values_of("safety-toxigen", "safety_score", name) for name in slices}
    expected = {
        (a, b): stats.pearsonr(*zip(*((values[a][m], values[b][m]) for m in values[a]), strict=True))
        for a, b in itertools.combinations(slices, 2)
    }
    adjusted = holm(np.array([found.pvalue for found in expected.values()]))
    assert [(row["a_slice"], row["b_slice"]) for row in rows] == list(expected)
    for row, found, p in zip(rows, expected.values(), adjusted, strict=True):
        interval = found.confidence_interval()
        assert float(row["pearson"]) == pytest.approx(found.statistic)
        assert float(row["pearson_p_holm"]) == pytest.approx(p, rel=1e-6)
        assert float(row["pearson_low"]) < found.statistic < float(row["pearson_high"])
        assert abs(float(row["pearson_low"]) - interval.low) < 0.35, "another method, the same order of size"
        assert (row["n"], row["n_published"], row["n_measured"]) == ("24", "24", "0")


def test_a_kind_with_too_few_models_says_so_in_place_of_a_matrix(client, papers):
    text = said(page(client, f"{UNPOOLED}{OF_THE_PAPERS}&kind=each"))
    assert "Permutation (experimental) models 2 models No two of these measures have 4 models" in text


def test_a_measure_without_models_of_a_kind_is_left_out_of_its_matrix(client, two_kinds):
    measured("crows-pairs", {name: value for name, value in FIRST.items() if KINDS[name] == "masked"}, KINDS, "all")
    html = page(client, EACH)
    assert len(table(html, f"{MATRIX}: Causal models")) == 2
    assert len(table(html, f"{MATRIX}: Masked models")) == 3


@pytest.mark.slow
def test_published_entries_stand_beside_measured_ones_where_a_reader_asks(client, papers):
    measured("safety-toxigen", {f"Model {number}": 0.4 + number / 50 for number in range(5)})
    measured("safety-implicit-hate", {f"Model {number}": 0.4 + number**2 / 90 for number in range(5)}, name="all")
    columns = "&c=safety-toxigen/likelihood_auc/average&c=safety-implicit-hate/likelihood_auc/all"
    query = f"?numbers=both&kind=all{columns}"
    text = said(html := page(client, f"/agreement/{query}"))
    assert "Measured numbers and figures of papers stand together because you asked" in text
    assert "version 2, measured here and version 1, published figures, 29 models" in text
    assert {row[2].split()[1] for row in table(html, PAIR)} <= {"measured", "published", "derived"}
    (row,) = records(client, "correlations", query)
    assert int(row["n"]) == int(row["n_measured"]) + int(row["n_published"]) + int(row["n_mixed"])
    origins = {row["safety-toxigen/likelihood_auc/average from"] for row in records(client, "models", query)}
    assert origins >= {"measured", "derived"}
    assert "because you asked" not in said(page(client, f"/agreement/?numbers=measured{columns}"))
    assert "5 models" in said(page(client, f"/agreement/?numbers=measured{columns}"))


def test_of_a_model_with_both_the_measured_number_counts(client, papers):
    name = "GPT-2"
    # To the slug that `measured` looks for.
    LanguageModel.objects.filter(slug="hosseini-2023-gpt-2").update(slug="gpt-2")
    measured("safety-toxigen", {name: 0.125})
    rows = records(client, "models", "?numbers=both&kind=all&c=safety-toxigen/likelihood_auc/average")
    (row,) = [row for row in rows if row["model"] == name]
    assert row["safety-toxigen/likelihood_auc/average"] == "0.125"
    assert row["safety-toxigen/likelihood_auc/average from"] == "measured"


def test_every_metric_is_shown_on_one_slice(client, two_kinds):
    measured("safety-starter", FIRST, KINDS, "women")
    measured("regard", FIRST, KINDS, "women")
    html = page(client, "/agreement/?numbers=measured&slice=women")
    assert [row[0].rpartition(", ")[2].split()[0] for row in table(html, MATRIX)] == ["Women"] * 2
    assert "slice = 'mars' does not exist here" in refused(client, "/agreement/?numbers=measured&slice=mars")


def test_several_measures_are_added_at_once(client, papers):
    html = page(client, f"{PUBLISHED}&c={TOXIGEN}&add=safety-toxigen")
    assert '<select name="c" multiple' in html
    assert len(table(page(client, f"{PUBLISHED}&c={TOXIGEN}&c={WOMEN}&c={HATE}"), MATRIX)) == 3


def test_the_file_with_size_has_table_5(client, papers):
    rows = records(client, "sizes", f"?numbers=published&kind=all&c={TOXIGEN}")
    row_by_property = {(row["family"], row["property"]): row for row in rows}
    for family, name, expected in (
        ("GPT-2", "heads", -0.54),
        ("GPT-2", "layers", -0.55),
        ("ALBERT", "hidden_size", -0.83),
    ):
        assert round(float(row_by_property[family, name]["pearson"]), 2) == expected
        assert row_by_property[family, name]["n"] == "4"
    assert row_by_property["ELECTRA", "heads"]["reason"] == "3 models; 4 needed"
    assert row_by_property["ELECTRA", "heads"]["pearson"] == ""
    assert row_by_property["All families", "log_parameters"]["n"] == "21"  # of ELECTRA's three nobody states them
    assert {row["family"] for row in rows} >= {"Masked models", "Causal models"}


def test_a_classifiers_score_goes_with_the_logarithm_of_parameters(client, two_kinds):
    for number, name in enumerate(KINDS):
        LanguageModel.objects.filter(name=name).update(parameters=10 ** (4 + number % 5), family="One")
    column = "toxicity-toxigen-roberta/expected_max_toxicity/toxicity:all"
    (row,) = [
        row
        for row in records(client, "sizes", f"?numbers=measured&kind=all&c={column}")
        if (row["family"], row["property"]) == ("One", "log_parameters")
    ]
    logarithms = [4 + number % 5 for number in range(13)]
    for name, reference in (("pearson", stats.pearsonr), ("spearman", stats.spearmanr), ("kendall", stats.kendalltau)):
        assert float(row[name]) == pytest.approx(reference(logarithms, list(SECOND.values())).statistic)
    html = page(client, f"/agreement/?numbers=measured&kind=all&c={column}&against=parameters")
    expected = stats.pearsonr(logarithms, list(SECOND.values())).statistic
    rows = {row[0]: row for row in table(html, FAMILIES)}
    assert rows["One"][5].replace("−", "-").startswith(f"{expected:.2f} ")


def test_every_measure_stands_against_size(client, papers):
    rows = {row[0]: row for row in table(page(client, PUBLISHED), "Table by measure")}
    safety = rows["Safety on ToxiGen: Safety score, Average"]
    averages = values_of("safety-toxigen", "safety_score", "average")
    layers = dict(LanguageModel.objects.filter(layers__isnull=False).values_list("name", "layers"))
    names = [name for name in averages if name in layers]
    expected = stats.pearsonr([layers[name] for name in names], [averages[name] for name in names]).statistic
    assert safety[2].replace("−", "-").startswith(f"{expected:.2f} ")
    assert "n = 19" in safety[2]


def test_points_carry_the_names_of_their_models(client, papers):
    names = set(traces(read_chart(client, page(client, PUBLISHED)), "points")[0]["text"]) - {""}
    assert names <= set(values_of("safety-toxigen", "safety_score", "average"))
    assert len(names) >= 12


@pytest.mark.slow
def test_the_api_gives_the_rows_of_the_files(client, papers):
    query = f"?numbers=published&kind=each&c={TOXIGEN}&c={HATE}"
    answer = client.get(f"/api/v1/agreement{query}").json()
    rows = records(client, "correlations", query)
    assert answer["count"] == len(rows) == 4
    for item, row in zip(answer["items"], rows, strict=True):
        assert {name: "" if value is None else str(value) for name, value in item.items()} == row
    sizes = client.get(f"/api/v1/agreement/sizes{query}&limit=1000").json()
    assert sizes["count"] == len(records(client, "sizes", query))
    for asked, field in (("c=zebra", "c"), ("slice=mars", "slice"), ("numbers=zebra", "numbers")):
        response = client.get(f"/api/v1/agreement?{asked}")
        assert response.status_code in (404, 422)
        assert response.json()["errors"][0]["field"] == field


@pytest.mark.slow
def test_files_and_matrices_take_as_many_queries_for_any_number_of_models_and_measures(client, papers):
    def queries(address: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert client.get(address).status_code == 200
        counters = ("cacheentry", "SAVEPOINT")  # of requests, by the API
        return sum(not any(word in query["sql"] for word in counters) for query in captured)

    columns = [f"&c=safety-toxigen/safety_score/{name}" for name in ("women", "asian", "black", "lgbtq", "jewish")]
    addresses = ("/agreement/", "/agreement/correlations.csv", "/agreement/sizes.csv", "/api/v1/agreement")
    measured("toxicity-toxigen-hatebert", dict(list(FIRST.items())[:5]), KINDS, "toxicity:all")
    few = [queries(f"{address}?numbers=both&kind=each{columns[0]}{columns[1]}") for address in addresses]
    measured("toxicity-toxigen-roberta", FIRST, KINDS, "toxicity:all")
    columns.append("&c=toxicity-toxigen-roberta/expected_max_toxicity/toxicity:all")
    many = [queries(f"{address}?numbers=both&kind=each{''.join(columns)}") for address in addresses]
    assert many == few
    assert max(many) <= MOST_QUERIES


def test_a_column_has_the_values_of_its_own_versions_on_its_own_slice(db):
    versions = []
    for slug in ("first", "second"):
        metric = stored.metric_of(slug, "profanity")
        version = stored.version_of(metric, slug)
        runs = [stored.run_of(f"{slug} {number}", metric, f"{slug}-{number}") for number in range(3)]
        stored.score_all(version, runs, {"profanity": lambda scores: scores})
        versions.append(version)
    measure = versions[0].metric.formula.ranked[0]
    names = sorted(set(Result.objects.filter(measure=measure.key).values_list("slice", flat=True)))[:2]
    columns = [MeasureColumn([version], measure, name, False) for version, name in zip(versions, names, strict=True)]
    values = read_values(columns)
    for row, column in zip(values.values, columns, strict=True):
        results = Result.objects.filter(
            scoring__metric_version=column.versions[0], measure=measure.key, slice=column.slice
        )
        own_values = {subject.name: value for subject, value in zip(values.models, row, strict=True) if value == value}
        assert own_values == dict(results.values_list("scoring__model__name", "value"))
        assert own_values
