"""What pages hand to their charts and tables: captions, links, moves, orders and sentences. Without a board."""

from datetime import UTC, datetime
from types import SimpleNamespace

import numpy as np
import pytest

from leaderboard.charts import MOST_GROUPS
from leaderboard.charts.figure import Block, Chart, Dots, Line, Ribbon, Spot
from leaderboard.models import Metric, MetricVersion, Protocol
from leaderboard.queries.agreement import MeasureColumn, Origin, Subject, Values
from leaderboard.queries.coefficients import Point
from leaderboard.queries.demographics import BoardModel, HeatMapCell, HeatRow
from leaderboard.queries.scenarios import ScenarioModel
from leaderboard.rankings.history import Absence, HistoryStep, ModelHistory, PastPlace
from leaderboard.views.agreement import best_known, leave_out, most_known
from leaderboard.views.agreement_charts import architecture_chart, limits_of, pair_chart, series_of
from leaderboard.views.comparison import ScorerMove, name_version
from leaderboard.views.demographics import draw_heat_map, populations
from leaderboard.views.history import bump_line, captions
from leaderboard.views.hosseini import grid, not_same
from leaderboard.views.models import history_chart, likelihood_chart
from leaderboard.views.scenarios import chart as scenario_chart
from leaderboard.views.scenarios import describe_change, model_table
from leaderboard.views.scorer_ranks import draw_lines
from leaderboard.views.succession import list_ranks, mapping_chart, rank_chart
from scoring.metrics.formulas import MEASURES
from scoring.statistics.correlations import Correlation

pytestmark = pytest.mark.either_database

METRIC = Metric(slug="one", title="One", formula_name="safety", protocol=Protocol())
SCORE = MEASURES["safety_score"]


def marks(drawing: Chart, kind: type, panel: int = 0) -> list:
    return [mark for mark in drawing.panels[panel].marks if isinstance(mark, kind)]


def subject(slug: str, family: str = "A", layers: int | None = 12, parameters: int | None = None) -> Subject:
    return Subject(slug, slug.capitalize(), family, "causal", layers, None, None, parameters)


def column(slice_name: str) -> MeasureColumn:
    return MeasureColumn((MetricVersion(metric=METRIC, number=1, provenance="measured"),), SCORE, slice_name)


def values_of(columns: list[MeasureColumn], models: list[Subject], rows: list[list[float]]) -> Values:
    origin = Origin(MetricVersion(metric=METRIC, number=1, provenance="measured"), False)
    return Values(columns, models, np.array(rows), np.full((len(columns), len(models)), origin, dtype=object))


def test_the_property_and_the_column_of_which_most_is_known_come_first():
    women, men = column("women"), column("men")
    models = [subject("a", parameters=10), subject("b", layers=None, parameters=20), subject("c", parameters=None)]
    values = values_of([women, men], models, [[0.1, np.nan, 0.3], [0.1, 0.2, np.nan]])
    assert best_known(values) == "layers"
    assert best_known(values_of([women], [subject("a", layers=None, parameters=5)], [[0.1]])) == "parameters"
    assert most_known([women, men], values, "parameters") == [men, women]
    assert most_known([men, women], values, "layers") == [women, men]
    assert leave_out([women, men], women) == [men]


def point(slug: str, family: str, x: float) -> Point:
    return Point(subject(slug, family), x, x / 10, f"{x:g}", f"{x / 10:.2f}", None, None)


def test_points_stand_by_family_the_largest_first_and_lead_to_their_models():
    points = [point("a", "B", 1), point("b", "", 2), point("c", "A", 3), point("d", "B", 4)]
    first, second, third = series_of(points, "layers")
    assert [first.name, second.name, third.name] == ["B", "A", "no family known"]
    assert (first.x, first.y, first.names) == ([1, 4], [0.1, 0.4], ["A", "D"])
    assert first.titles == ["A: 1 layers, 0.10", "D: 4 layers, 0.40"]
    assert first.links == ["/models/a/", "/models/d/"]
    assert series_of(points[:1])[0].titles == ["A: 1, 0.10"]


@pytest.mark.parametrize(("families", "last"), [(MOST_GROUPS, 1), (MOST_GROUPS + 2, 3)])
def test_more_families_than_symbols_share_the_last_one(families, last):
    groups = series_of([point(f"m{n}", f"F{n:02}", n) for n in range(families)])
    assert len(groups) == MOST_GROUPS
    assert (groups[-1].name == "other families", len(groups[-1].x)) == (last > 1, last)


def test_a_pair_of_measures_is_drawn_with_a_line_within_what_they_can_be():
    drawing = pair_chart(column("women"), column("men"), [point(f"m{n}", "A", n / 10) for n in range(5)], "r is 1")
    assert drawing.name == "agreement"
    assert len(marks(drawing, Ribbon)) == len(marks(drawing, Line)) == 1
    assert drawing.alternative == (
        "One: Safety score, Men, against One: Safety score, Women, of 5 models: r is 1. "
        "The table under it has the same numbers."
    )
    assert limits_of(column("men")) == (0.0, 1.0)
    assert drawing.panels[0].x.ticks[0].at >= 0


@pytest.mark.parametrize(("name", "title"), [("layers", "Layers"), ("parameters", "Parameters, logarithmic scale")])
def test_architecture_is_drawn_on_its_own_scale(name, title):
    models = [subject(f"m{n}", layers=n, parameters=10**n) for n in range(1, 4)]
    women = column("women")
    drawing = architecture_chart(values_of([women], models, [[0.1, 0.2, 0.4]]), women, name)
    assert (drawing.name, drawing.panels[0].x.title) == ("architecture", title)
    assert drawing.panels[0].x.logarithmic is (name == "parameters")
    assert len(marks(drawing, Line)) == (name == "layers")
    assert len(marks(drawing, Spot)) == 3
    one_model = values_of([women], models, [[0.1, np.nan, np.nan]])
    assert architecture_chart(one_model, women, name) is None


def test_a_heat_map_has_a_row_a_model_with_its_link_and_words():
    rows = [
        HeatRow(BoardModel("alpha", "Alpha", "causal"), [HeatMapCell(-0.25, -2, None, None), None]),
        HeatRow(BoardModel("beta", "Beta", "masked"), [HeatMapCell(0.5, 3, None, None)] * 2),
    ]
    version = MetricVersion(metric=METRIC, number=1)
    drawing = draw_heat_map(SimpleNamespace(slices=["women", "muslim"], digits=2, measure=SCORE, version=version), rows)
    assert drawing.name == "one-heat-map"
    assert [(block.text, block.title) for block in marks(drawing, Block)][:2] == [
        ("−0.25", "Alpha, Women: -0.25"),
        ("0.50", "Beta, Women: 0.50"),
    ]
    assert [(tick.lines[0], tick.link) for tick in drawing.panels[0].y.ticks] == [
        ("Alpha", "/models/alpha/"),
        ("Beta", "/models/beta/"),
    ]
    assert drawing.alternative.startswith("Safety score of 2 models by demographic: blue where it is better")
    assert populations({1: rows[1].entry, 2: rows[0].entry}) == ["all", "causal", "masked"]
    assert populations({1: rows[1].entry}) == ["all", "masked"]


def test_a_version_in_a_history_has_its_day_where_it_was_measured_and_its_cause():
    moment = datetime(2026, 5, 6, tzinfo=UTC)
    measured = MetricVersion(provenance="measured", published_at=moment)
    published = MetricVersion(provenance="published", published_at=moment)
    assert captions(SimpleNamespace(version=measured, cause="scorer drifted")) == ("6 May", "2026", "scorer", "drifted")
    assert captions(SimpleNamespace(version=published, cause="")) == ()
    assert captions(SimpleNamespace(version=MetricVersion(provenance="measured"), cause="first")) == ("first",)
    scorers = [MetricVersion(scorer=name) for name in ("a", "a", "b")]
    steps = [HistoryStep(after, before, [], []) for before, after in [(None, scorers[0]), scorers[:2], scorers[1:]]]
    assert [step.other_scorer for step in steps] == ["", "", "a"]


def test_a_line_of_a_history_has_its_ranks_ranges_and_page():
    places = (PastPlace(2, 1, 3, 0.5), PastPlace(1, None, None, 0.5), None)
    line = bump_line(ModelHistory("alpha", "Alpha", "A", places, (None, None, Absence("new", "no"))), [1, None])
    assert (line.key, line.name, line.link) == ("alpha", "Alpha", "/models/alpha/")
    assert (line.ranks, line.moves, line.ranges) == ([2, 1, None], [1, None], [(1, 3), None, None])


def scenario_step(**changes) -> SimpleNamespace:
    record = {
        "changed_ranks": 2,
        "models": [1, 2, 3],
        "mean_abs_difference": 0.0123,
        "largest_difference": SimpleNamespace(model="Alpha", difference=-0.05),
        "kendall": Correlation(0.5, None, None, 3),
        **changes,
    }
    before, after = SimpleNamespace(label="Published"), SimpleNamespace(label="Generations rescored")
    return SimpleNamespace(before=before, after=after, changes=SimpleNamespace(**record))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {},
            "; values changed by 0.0123 on average, and most for Alpha (−0.0500); Kendall's tau is 0.50.",
        ),
        ({"largest_difference": None}, "; Kendall's tau is 0.50."),
        ({"mean_abs_difference": None, "kendall": Correlation(None, None, None, 3)}, "."),
    ],
)
def test_what_changed_between_scenarios_is_said_as_far_as_it_is_known(changes, words):
    sentence = describe_change(scenario_step(**changes), 3)
    assert sentence == f"Published to generations rescored: 2 of 3 ranks changed{words}"


def test_scenarios_are_columns_of_a_chart_and_of_a_table():
    labels = ["Published", "Generations rescored", "Generations and prompts rescored"]
    scenarios = [SimpleNamespace(view=SimpleNamespace(label=label)) for label in labels]
    models = [
        ScenarioModel("alpha", "Alpha", [1, 2, 1], [0.1, 0.2, 0.3]),
        ScenarioModel("b", "B", [2, 1, 2], [0.2] * 3),
    ]
    comparison = SimpleNamespace(scenarios=scenarios, models=models)
    drawing = scenario_chart(METRIC, "safety_score", "women", comparison)
    assert drawing.name == "one-scenarios"
    assert [tick.lines for tick in drawing.panels[0].x.ticks] == [
        ("1", "first"),
        ("2", "generations"),
        ("3", "generations", "and prompts"),
    ]
    spots = {(spot.key, spot.x): spot for spot in marks(drawing, Spot)}
    assert spots["alpha", 1].title == "Alpha: rank 2 of 2 models under “Generations rescored”; down 1"
    assert spots["alpha", 2].symbol == "triangle-up"
    assert spots["b", 0].link == "/models/b/"
    assert drawing.alternative == (
        "Ranks of 2 models by safety score, women, in 3 scenarios, the best on top. The table under it has the same "
        "numbers."
    )
    table = model_table(comparison)
    assert [one.heading for one in table.columns] == [
        *("model", "slug", "rank_1", "value_1", "rank_2", "value_2", "rank_3", "value_3")
    ]
    assert table.rows[0] == ["Alpha", "alpha", "1", "0.1", "2", "0.2", "1", "0.3"]


@pytest.mark.parametrize(("change", "words"), [(3, "up 3"), (-1, "down 1"), (0, "same")])
def test_a_move_between_scorers_is_said_in_words(change, words):
    assert ScorerMove(None, None, change).words == words
    assert name_version(MetricVersion(metric=METRIC, number=2)) == "one@2"


def test_lines_under_several_scorers_are_those_of_the_first_entries():
    rows = [(SimpleNamespace(slug=f"m{n}", name=f"M{n}"), [(n, 0.1), (1, 0.2), (2, 0.3)], 0) for n in range(45)]
    lines = draw_lines(SimpleNamespace(rows=rows))
    assert len(lines) == 40
    assert (lines[3].key, lines[3].name, lines[3].link) == ("m3", "M3", "/models/m3/")
    assert (lines[3].ranks, lines[3].moves) == ([3, 1, 2], [2, -1])


def succession(mapped: tuple[int, ...] | None = (1, 2), mapping: bool = True) -> SimpleNamespace:
    entries = [
        SimpleNamespace(name="alpha", old=0.4, new=0.5, mapped=0.45),
        SimpleNamespace(name="beta", old=0.2, new=0.6, mapped=0.5),
    ]
    orders = SimpleNamespace(
        entries=entries,
        names={"alpha": "Alpha", "beta": "Beta"},
        comparison=SimpleNamespace(old_ranks=(2, 1), new_ranks=(1, 2), mapped_ranks=mapped),
    )
    main = {
        "points": ([0.25, 0.5], [0.1, 0.2]),
        "mapping": {"x": [0.0, 0.5, 1.0], "y": [0.5, 0.75, 1.0]} if mapping else None,
        "counterpart": "toxicity",
        "attribute": "insult",
    }
    row = SimpleNamespace(scorer="old", successor="new")
    return SimpleNamespace(main=main, succession=row, orders=orders)


def test_scores_before_are_drawn_over_those_of_the_successor_with_the_mapping():
    drawing = mapping_chart(succession())
    texts, curve = marks(drawing, Dots)
    assert (texts.x, texts.y) == ([0.1, 0.2], [0.25, 0.5])
    assert texts.titles[0] == "0.10 by the successor, 0.25 before"
    assert (len(curve.x), curve.x[0], curve.x[-1], curve.y[0], curve.y[-1]) == (101, 0.0, 1.0, 0.5, 1.0)
    assert curve.titles[50] == "0.50 by the successor stands for 0.75"
    assert len(marks(drawing, Line)) == 1
    panel = drawing.panels[0]
    assert (panel.x.title, panel.y.title) == ("new: toxicity", "old: insult")
    assert (panel.x.low, panel.x.high) == (0.0, 1.0)
    assert len(marks(mapping_chart(succession(mapping=False)), Dots)) == 1
    empty = succession()
    empty.main["points"] = ([], [])
    assert mapping_chart(empty) is None


@pytest.mark.parametrize("mapped", [(1, 2), None])
def test_ranks_under_the_old_scorer_the_new_one_and_the_mapped_one_are_drawn(mapped):
    report = succession(mapped)
    drawing = rank_chart(report)
    shown_columns = ["old", "new", *(["mapped"] if mapped else [])]
    assert [tick.lines for tick in drawing.panels[0].x.ticks] == [
        (str(number), caption) for number, caption in enumerate(shown_columns, start=1)
    ]
    spots = {(spot.key, spot.x): spot for spot in marks(drawing, Spot)}
    assert spots["alpha", 1].title == "Alpha: rank 1 under “new”; up 1"
    assert spots["beta", 0].link == "/models/beta/"
    assert drawing.alternative == (
        f"Ranks of 2 models under {', '.join(shown_columns)}. The table under it has the same numbers."
    )
    assert list_ranks(report.orders) == [
        {
            "slug": "beta",
            "name": "Beta",
            "cells": [(1, 0.2), (2, 0.6), (2 if mapped else None, 0.5)],
        },
        {
            "slug": "alpha",
            "name": "Alpha",
            "cells": [(2, 0.4), (1, 0.5), (1 if mapped else None, 0.45)],
        },
    ]
    report.orders.entries = []
    assert rank_chart(report) is None
    report.orders = None
    assert rank_chart(report) is None


def test_students_stand_by_hidden_size_and_layers_with_gaps_where_there_is_none():
    students = [SimpleNamespace(layers=layers, hidden=hidden) for layers, hidden in [(4, 256), (2, 128), (2, 256)]]
    assert grid(students) == ([2, 4], [(128, [students[1], None]), (256, [students[2], students[0]])])
    assert not_same(SimpleNamespace(outcome="other digits"))
    assert not_same(None)
    assert not not_same(SimpleNamespace(outcome="reproduced"))


def test_the_ranks_of_a_model_are_drawn_and_said_version_by_version():
    place = SimpleNamespace(rank=2, low=1, high=3, population="5 models", words="2nd of 5 models")
    steps = [
        SimpleNamespace(version=SimpleNamespace(number=number), place=where)
        for number, where in ((1, place), (2, None))
    ]
    profile = SimpleNamespace(steps=steps, key="one-1", version=SimpleNamespace(metric=METRIC))
    drawing = history_chart(SimpleNamespace(slug="alpha", name="Alpha"), profile)
    assert drawing.name == "alpha-one-1-ranks"
    assert [(spot.x, spot.y, spot.title) for spot in marks(drawing, Spot)] == [
        (0, 2, "Rank 2 of 5 models under version 1")
    ]
    assert [line.y for line in marks(drawing, Line)] == [[1, 3], [1, 1], [3, 3]]
    assert drawing.alternative == (
        "Rank of Alpha in One: 2nd of 5 models under version 1, none under version 2. The table under it has the same "
        "numbers."
    )


def test_likelihoods_of_harmful_and_benign_texts_are_drawn_as_two_distributions():
    sides = [
        SimpleNamespace(n=n, sample=SimpleNamespace(label=label, shares=[0.25, 0.75], median=1.5))
        for label, n in (("Harmful", 12), ("Benign", 8))
    ]
    profile = SimpleNamespace(key="one-1", scoring=SimpleNamespace(model=SimpleNamespace(slug="alpha")))
    drawing = likelihood_chart(profile, SimpleNamespace(sides=sides, edges=[0, 1, 2], sentence="Harmful ones vary."))
    assert drawing.name == "alpha-one-1-likelihoods"
    assert [key.text for key in drawing.legend] == ["Harmful, median 1.50", "Benign, median 1.50"]
    assert drawing.panels[0].x.title == "Log-perplexity: less likely texts to the right"
    assert drawing.alternative == (
        "Histograms of the log-perplexities of 12 harmful and 8 benign texts. Harmful ones vary. The table under it "
        "has the quantiles."
    )
