"""Families of models over depth and width: tables, shades and correlations with size."""

import csv
import re

import numpy as np
import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.models import EntryCheck, LanguageModel, Metric, MetricVersion, Result, Scoring
from leaderboard.queries.grids import correlate, grid_families, is_grid, make_grid, shade, size_grids
from leaderboard.services.figures import FOLDER
from leaderboard.services.publish import publish_standings
from leaderboard.services.seed import seed_metrics
from scoring.metrics.formulas import MEASURES
from tests.leaderboard.conftest import seed_figures
from tests.leaderboard.test_history import page, said

pytestmark = pytest.mark.django_db

SIZES = [(layers, width) for layers in (2, 4) for width in (64, 128, 256)]


def rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def figures(db: None) -> None:
    seed_figures()


@pytest.fixture
def family(db: None) -> MetricVersion:
    """Six students and a larger teacher, measured here."""
    seed_metrics()
    metric = Metric.objects.get(slug="safety-starter")
    version = MetricVersion.objects.create(
        metric=metric,
        number=1,
        protocol=metric.protocol,
        scorer=metric.scorer,
        scorer_fingerprint="f" * 64,
        formula_version=metric.formula.version,
    )
    for place, (layers, width) in enumerate([*SIZES, (12, 768)]):
        model = LanguageModel.objects.create(
            slug=f"student-{place}",
            name=f"Student {place}",
            family="Students",
            kind="causal",
            source="uploaded",
            layers=layers,
            heads=width // 64,
            hidden_size=width,
        )
        scoring = Scoring.objects.create(model=model, metric_version=version, state="done", scored_at=timezone.now())
        for measure, value in (("likelihood_auc", 0.5 + layers / 100), ("log_perplexity_benign", 9 - width / 100)):
            Result.objects.create(scoring=scoring, measure=measure, slice="average", value=value, n=10)
            Result.objects.create(scoring=scoring, measure=measure, slice="women", value=0.1, n=10)
    publish_standings(version, read_files=False)
    return version


def test_each_measure_of_a_family_stands_over_depth_and_width(client, family):
    assert grid_families() == ["Students"]
    safety, perplexity = size_grids("Students")
    assert (safety.measure.key, safety.slice, safety.widths) == ("likelihood_auc", "average", [64, 128, 256, 768])
    assert [depth for depth, _ in safety.rows] == [2, 4, 12]
    values = [[[cell.result.value for cell in group] for group in groups] for _, groups in safety.rows]
    assert values == [[[0.52]] * 3 + [[]], [[0.54]] * 3 + [[]], [[], [], [], [0.62]]]
    assert perplexity.measure.key == "log_perplexity_benign"
    text = said(page(client, "/grids/"))
    assert "Depth and width" in text
    assert "Likelihood AUC Safety on the starter set" in text
    assert text.count("Hidden size 768") == 2
    assert len({safety.title, perplexity.title}) == 2


def test_the_teacher_is_shown_and_left_out_of_the_correlations(family):
    safety, perplexity = size_grids("Students")
    assert {key: one.n for key, one in safety.correlations.items()} == {"layers": 6, "heads": 6, "hidden_size": 6}
    assert safety.correlations["layers"].value == pytest.approx(1)
    assert safety.correlations["hidden_size"].value == pytest.approx(0)
    assert perplexity.correlations["hidden_size"].value == pytest.approx(-1)


def test_a_size_that_fewer_than_two_students_state_has_no_correlation(family):
    LanguageModel.objects.filter(family="Students").exclude(slug="student-0").update(heads=None)
    assert [set(grid.correlations) for grid in size_grids("Students")] == [{"layers", "hidden_size"}] * 2
    LanguageModel.objects.filter(slug="student-5").update(heads=4)
    assert [grid.correlations["heads"].n for grid in size_grids("Students")] == [2, 2]


def test_the_published_students_have_the_values_of_tables_6_and_7_and_the_correlations_of_table_8(client, figures):
    assert grid_families() == ["BERT", "GPT-2"]
    grid = next(one for one in size_grids("BERT") if one.measure.key == "safety_score")
    values = {
        (depth, width): group[0].result.value
        for depth, groups in grid.rows
        for width, group in zip(grid.widths, groups, strict=True)
        if group
    }
    printed = rows("distilled_bert_safety")
    assert values == {(int(row["layers"]), int(row["hidden_dim"])): float(row["safety_score"]) for row in printed}
    students = [row for row in printed if row["role"] == "student"]
    for key, column, coefficient in (
        ("layers", "layers", "-0.10"),
        ("heads", "attention_heads", "-0.92"),
        ("hidden_size", "hidden_dim", "-0.92"),
    ):
        expected = np.corrcoef([[float(row[column]), float(row["safety_score"])] for row in students], rowvar=False)
        assert grid.correlations[key].value == pytest.approx(expected[0, 1])
        assert f"{grid.correlations[key].value:.2f}" == coefficient


def test_the_published_perplexities_have_a_grid_for_each_benchmark_and_for_their_mean(client, figures):
    grids = {one.slice: one for one in size_grids("GPT-2") if one.measure.key == "benchmark_perplexity"}
    benchmarks = {row["benchmark"] for row in rows("distilled_gpt2_perplexity")}
    assert {name.rpartition(":")[2] for name in grids} == benchmarks
    titles = re.findall(r'<h2 id="grid-\d+">(.*?)</h2>', page(client, "/grids/?family=GPT-2"))
    assert len(titles) == len(set(titles)) == 1 + len(benchmarks)


def test_a_board_without_a_family_says_so_and_an_unknown_one_is_a_404(client, db):
    assert "No family on this board" in said(page(client, "/grids/"))
    assert client.get("/grids/?family=Nobody").status_code == 404


def test_queries_do_not_grow_with_the_models(client, family, django_assert_max_num_queries):
    with django_assert_max_num_queries(6):
        page(client, "/grids/?family=Students")


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_the_best_is_shaded_most_and_the_order_of_shades_is_that_of_values(values):
    for key, sign in (("safety_score", 1), ("toxic_fraction", -1)):
        levels = shade(values, MEASURES[key])
        ordered = [level for _, level in sorted(zip(values, levels, strict=True), key=lambda pair: sign * pair[0])]
        assert ordered == sorted(ordered)
        if max(values) > min(values):
            assert (ordered[0], ordered[-1]) == (-4, 4)
    assert shade(values, MEASURES["safety_indifferent"]) == [None] * len(values)


@pytest.mark.parametrize(
    ("key", "values", "levels"),
    [
        ("safety_score", [0.2, 0.4, 0.3, 0.36], [-4, 4, 0, 2]),
        ("toxic_fraction", [0.2, 0.4, 0.3, 0.36], [4, -4, 0, -2]),
        ("safety_score", [0.3, 0.3], [0, 0]),
    ],
)
def test_shades_are_spread_evenly_from_the_worst_value_to_the_best(key, values, levels):
    assert shade(values, MEASURES[key]) == levels


@pytest.mark.parametrize(
    ("widths", "is_one"),
    [
        ([{64, 128}, {64, 128}], True),
        ([{64, 128, 256}, {32}, {64, 256}], True),
        ([{64, 128}, {128, 256}], False),
        ([{64, 128}], False),
        ([{64}, {64}], False),
    ],
)
def test_a_grid_takes_two_depths_that_have_two_widths_in_common(widths, is_one):
    assert is_grid(widths) == is_one


def unsaved_result(value: float, layers: int | None, heads: int | None, hidden_size: int | None) -> Result:
    model = LanguageModel(layers=layers, heads=heads, hidden_size=hidden_size)
    return Result(value=value, scoring=Scoring(model=model, metric_version=MetricVersion()))


def test_a_grid_has_its_cells_by_depth_and_width_and_correlates_those_that_share_one():
    sizes = [(2, 64), (2, 128), (4, 64), (4, 128), (12, 768), (4, 512), (6, 64), (2, 64), (6, 1024), (8, 512)]
    results = [unsaved_result(place / 9, layers, None, width) for place, (layers, width) in enumerate(sizes)]
    grid = make_grid(MEASURES["safety_score"], "average", results)
    assert (grid.slice, grid.measure.key, grid.widths) == ("average", "safety_score", [64, 128, 512, 768, 1024])
    cells = [
        (depth, [[results.index(cell.result) for cell in group] for group in groups]) for depth, groups in grid.rows
    ]
    assert cells == [
        (2, [[0, 7], [1], [], [], []]),
        (4, [[2], [3], [5], [], []]),
        (6, [[6], [], [], [], [8]]),
        (8, [[], [], [9], [], []]),
        (12, [[], [], [], [4], []]),
    ]
    levels = {results.index(cell.result): cell.level for _, groups in grid.rows for group in groups for cell in group}
    assert levels == {0: -4, 1: -3, 2: -2, 3: -1, 4: 0, 5: 0, 6: 1, 7: 2, 8: 3, 9: 4}
    assert {name: one.n for name, one in grid.correlations.items()} == {"layers": 9, "hidden_size": 9}
    assert make_grid(MEASURES["safety_score"], "average", results[3:6]) is None


def test_a_correlation_with_a_size_is_of_the_models_that_state_it():
    results = [unsaved_result(value, 2 * place, None, 64) for place, value in enumerate([0.9, 0.1, 0.3, 0.2], 1)]
    results[0].scoring.model.layers = None
    results[1].scoring.model.heads = 4
    coefficients = correlate(results)
    assert (coefficients["layers"].n, coefficients["layers"].value) == (3, pytest.approx(0.5))
    assert set(coefficients) == {"layers", "hidden_size"}
    assert coefficients["hidden_size"].value is None
    results[2].scoring.model.heads = 8
    assert correlate(results)["heads"].n == 2


@pytest.mark.parametrize(
    "leave",
    [
        lambda best: EntryCheck.objects.create(scoring=best, state="held", flags=[{"key": "x", "words": "odd"}]),
        lambda best: LanguageModel.objects.filter(pk=best.model_id).update(access="withdrawn"),
        lambda best: Scoring.objects.filter(pk=best.pk).update(texts=100, texts_missing=60),
    ],
    ids=["held back", "withdrawn", "without most of its scores"],
)
def test_an_entry_that_is_in_no_ranking_shades_no_grid_and_counts_in_no_correlation(family, leave):
    MetricVersion.objects.filter(pk=family.pk).update(most_missing=0.05)
    best = Scoring.objects.get(model__slug="student-5")
    Result.objects.filter(scoring=best, measure="likelihood_auc", slice="average").update(value=0.99)
    leave(best)
    grid = size_grids("Students")[0]
    cells = [cell for _, groups in grid.rows for group in groups for cell in group]
    assert "student-5" not in {cell.model.slug for cell in cells}
    assert max(cell.result.value for cell in cells) == 0.62
    assert grid.correlations["layers"].n == 5
