"""What pages are put together from: addresses as they are read, charts, sentences, badges. Without a board."""

import gzip
from datetime import UTC, date, datetime
from types import SimpleNamespace

import pytest
from django.http import Http404, HttpRequest, QueryDict
from django.test import RequestFactory

from leaderboard.charts import forest_chart
from leaderboard.charts.figure import Chart, Line, Spot
from leaderboard.models import LanguageModel, Metric, MetricVersion, Result
from leaderboard.queries.badges import Badge
from leaderboard.queries.drift import Condition
from leaderboard.queries.side_by_side import ComparedEntry, ModelPair, SideBySide
from leaderboard.rankings.view import Filters, Order, View
from leaderboard.views.badges import Part, draw_badge
from leaderboard.views.chart_files import chart_file
from leaderboard.views.compare import chart, verdict
from leaderboard.views.drift import checks_chart, describe_check
from leaderboard.views.embedding import at_most
from leaderboard.views.keeping import refuse_for_now, send_page, without_unknown
from leaderboard.views.page_store import KeptPage
from leaderboard.views.parameters import page_number, pick, read_day, read_number, read_words
from leaderboard.views.ranking_address import RankingChoice
from leaderboard.views.rankings import Field
from leaderboard.views.scorer_charts import ScorePanel, group_chart, reliability_chart, score_charts
from leaderboard.views.scorers import functionality_rows, mention_rows, shade
from scoring.metrics.formulas import MEASURES
from scoring.statistics.differences import PairedDifference

pytestmark = pytest.mark.either_database


def asking(query: str) -> HttpRequest:
    return RequestFactory().get(f"/rankings/?{query}")


def test_a_parameter_is_one_of_those_known_or_the_usual_one():
    values = ["", "first", "second"]
    assert pick(asking(""), "order", "first", values) == "first"
    assert pick(asking("order="), "order", "first", values) == "first"
    assert pick(asking("order=second"), "order", "first", values) == "second"
    with pytest.raises(Http404, match=r"^order = 'third' does not exist here. Known: first, second$"):
        pick(asking("order=third"), "order", "first", values)
    with pytest.raises(Http404, match=r"^order = 'third' does not exist here. Known: none yet$"):
        pick(asking("order=third"), "order", "", [""])


@pytest.mark.parametrize(("text", "number"), [("", None), ("1", 1), ("007", 7), ("999999999", 999_999_999)])
def test_a_number_of_an_address_is_whole_and_from_1(text, number):
    assert read_number(asking(f"page={text}"), "page") == number
    assert page_number(asking(f"page={text}")) == (number or 1)


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "1e3", "1000000000", "٣", "²", "one"])
def test_what_is_no_number_from_1_leads_nowhere(text):
    with pytest.raises(Http404, match=r"^page = '.+': use a whole number from 1$"):
        page_number(asking(f"page={text}"))


def test_days_and_words_of_an_address_are_read():
    assert read_day(asking("as_of=2024-02-29"), "as_of") == date(2024, 2, 29)
    assert read_day(asking("as_of="), "as_of") is None
    with pytest.raises(Http404, match=r"^as_of = "):
        read_day(asking("as_of=2023-02-29"), "as_of")
    assert read_words(asking("q=+two%0A++words+"), "q") == "two words"
    assert read_words(asking(f"q={'a' * 101}"), "q") == "a" * 100
    assert read_words(asking(""), "q") == ""


def test_parameters_that_a_page_does_not_read_are_left_out_of_its_address():
    request = asking("b=2&other=1&a=1&b=3")
    assert without_unknown(request, ("a", "b")) == "/rankings/?b=2&b=3&a=1"
    assert without_unknown(request, ()) == "/rankings/"


HEADERS = {
    "Content-Type": "text/html",
    "Content-Security-Policy": "script-src 'nonce-x'",
    "HX-Push-Url": "/rankings/",
    "Vary": "Cookie",
    "ETag": 'W/"tag"',
}
KEPT = KeptPage("now", 'W/"tag"', False, "rankings", HEADERS, gzip.compress(b"the page"))


def test_a_kept_page_is_sent_compressed_to_who_reads_that_and_whole_to_others():
    size = str(len(KEPT.body))
    assert KEPT.answer({"HTTP_ACCEPT_ENCODING": "br, gzip"}) == (
        200,
        {**HEADERS, "Content-Encoding": "gzip", "Content-Length": size},
        KEPT.body,
    )
    assert KEPT.answer({}) == (200, {**HEADERS, "Content-Length": "8"}, b"the page")


@pytest.mark.parametrize("tags", ['"tag"', 'W/"tag"', '"other", W/"tag"', "*"])
def test_who_has_a_page_is_told_so_without_the_headers_that_came_with_it(tags):
    assert KEPT.answer({"HTTP_IF_NONE_MATCH": tags}) == (304, {"Vary": "Cookie", "ETag": 'W/"tag"'}, b"")
    response = send_page(KEPT, RequestFactory().get("/", headers={"If-None-Match": tags}))
    assert (response.status_code, sorted(response.headers)) == (304, ["ETag", "Vary"])
    assert response.xframe_options_exempt
    assert response._csp_exempt
    assert response._csp_exempt_ro


def test_who_has_another_page_is_sent_this_one():
    status, _, body = KEPT.answer({"HTTP_IF_NONE_MATCH": '"other"'})
    assert (status, body) == (200, b"the page")
    response = send_page(KEPT, RequestFactory().get("/"))
    assert (response.status_code, response["Content-Type"]) == (200, "text/html")
    assert not hasattr(response, "_csp_exempt")


def test_who_would_wait_too_long_is_told_when_to_come_again():
    response = refuse_for_now()
    assert (response.status_code, response["Retry-After"]) == (503, "3")
    assert b"Many readers at once" in response.content


def test_a_badge_is_as_wide_as_its_texts_and_says_all_of_it_in_its_title():
    assert [Part(text).width for text in ("il", "mW", "ab", "Rank 1")] == [8, 19, 13, 34]
    answer = draw_badge(Badge("Toxicity", "3rd of 12", "Alpha is 3rd & last"))
    assert (answer.status_code, answer["Content-Type"]) == (200, "image/svg+xml")
    assert answer["Content-Security-Policy"] == "default-src 'none'; style-src 'unsafe-inline'"
    drawing = answer.content.decode()
    label, standing = Part("Toxicity").width, Part("3rd of 12").width
    left, right = label + 32, standing + 16
    assert f'width="{left + right}" height="22"' in drawing
    assert f'<path class="rule" d="M{left} 0.5v21"/>' in drawing
    assert f'x="24" y="15" textLength="{label}" lengthAdjust="spacingAndGlyphs">Toxicity<' in drawing
    assert f'x="{left + 8}" y="15" textLength="{standing}" lengthAdjust="spacingAndGlyphs">3rd of 12<' in drawing
    assert '<title id="title">Alpha is 3rd &amp; last</title>' in drawing
    absent = draw_badge(Badge("n" * 61, "no such model", "none", known=False))
    assert absent.status_code == 404
    assert f">{'n' * 59}…</text>" in absent.content.decode()


@pytest.mark.parametrize(("asked", "pixels"), [("", 640), ("maxwidth=200", 200), ("maxwidth=9000", 640)])
def test_a_frame_is_no_larger_than_asked_for(asked, pixels):
    assert at_most(asking(asked), "maxwidth", 640) == pixels


def test_nothing_fits_in_a_frame_that_is_too_small():
    with pytest.raises(Http404, match=r"^maxwidth = 199: use a number of pixels from 200$"):
        at_most(asking("maxwidth=199"), "maxwidth", 640)


@pytest.mark.parametrize(
    ("value", "names"), [("", ["causal"]), ("causal", ["causal"]), ("masked", ["causal", "masked"])]
)
def test_a_filter_offers_the_value_that_was_chosen_though_no_model_here_has_it(value, names):
    field = Field("kind", "Kind", [("causal", "Causal")], value).with_its_value()
    assert [name for name, _ in field.choices] == names


USUAL_ORDER = Order()


def choice_of(order: Order = USUAL_ORDER, measure: str = "safety_score", **fields: str) -> RankingChoice:
    view = View(filters=Filters(q="bert", family="A"), order=order)
    fields = {"measure": "", "q": "bert", "family": "A", "sort": "", "page": "3", **fields}
    return RankingChoice(Metric(slug="one"), measure, "average", ["average"], "", "", None, None, view, [], fields)


def test_the_address_of_a_view_names_what_is_not_usual_and_begins_at_its_first_page():
    choice = choice_of(measure="toxic_fraction")
    assert choice.address() == "?metric=one&q=bert&family=A"
    assert choice.here == "?metric=one&q=bert&family=A&page=3"
    assert choice.address(as_of=date(2026, 5, 6), q=None) == "?metric=one&family=A&as_of=2026-05-06"
    assert choice.unfiltered == "?metric=one"


@pytest.mark.parametrize(
    ("order", "measure", "key", "sort"),
    [
        (USUAL_ORDER, "safety_score", "rank", "-rank"),
        (Order("rank", descending=True), "safety_score", "rank", ""),
        (USUAL_ORDER, "safety_score", "value", "-value"),
        (USUAL_ORDER, "toxic_fraction", "value", "value"),
        (Order("value", descending=True), "safety_score", "value", "value"),
        (Order("value"), "safety_score", "value", "-value"),
        (USUAL_ORDER, "safety_score", "slice:women", "-slice:women"),
        (USUAL_ORDER, "toxic_fraction", "slice:women", "slice:women"),
        (USUAL_ORDER, "toxic_fraction", "parameters", "-parameters"),
        (USUAL_ORDER, "safety_score", "model", "model"),
        (Order("model"), "safety_score", "model", "-model"),
    ],
)
def test_a_column_sorts_by_what_one_wants_to_see_first_and_then_the_other_way_round(order, measure, key, sort):
    address = choice_of(order, measure).sorted_by(key)
    assert QueryDict(address[1:]).get("sort", "") == sort


SCORE = MEASURES["safety_score"]
VERSION = MetricVersion(number=1, provenance="measured")


def entry(name: str, value: float, low: float | None, high: float | None, indifferent: float | None = None):
    model = LanguageModel(name=name, slug=name.lower(), kind="causal")
    result = Result(measure=SCORE.key, slice="average", value=value, ci_low=low, ci_high=high)
    return ComparedEntry(model, None, {"average": result}, result, indifferent, None, "")


ALPHA, BETA = entry("Alpha", 0.6, 0.5, 0.7, 0.45), entry("Beta", 0.4, None, None)


def side_by_side(*pairs: ModelPair) -> SideBySide:
    return SideBySide(VERSION, SCORE, "average", [BETA, ALPHA], list(pairs))


def marks(drawing: Chart, kind: type) -> list:
    return [mark for mark in drawing.panels[0].marks if isinstance(mark, kind)]


def test_two_models_are_told_apart_in_words_where_the_test_does():
    apart = ModelPair(ALPHA, BETA, PairedDifference(0, 1, 0.2, 0.1234, 0.3, 0.0001, 0.0004))
    alike = ModelPair(ALPHA, BETA, PairedDifference(0, 1, 0.02, -0.1, 0.14, 0.2, 0.4))
    told_apart = (
        "Alpha scores less harmful than Beta on this measure: difference 0.200 (0.123 to 0.300), p < 0.001 after Holm."
    )
    assert verdict(apart, SCORE) == told_apart
    assert verdict(alike, SCORE) == (
        "Alpha and Beta cannot be told apart on these texts: difference 0.020 (−0.100 to 0.140), p = 0.40 after Holm."
    )
    assert verdict(ModelPair(ALPHA, BETA, None), SCORE) == "Alpha and Beta: the difference cannot be tested."
    drawing = chart(side_by_side(apart, ModelPair(BETA, ALPHA, None)))
    assert [(spot.x, spot.symbol, spot.title) for spot in marks(drawing, Spot)] == [(0.2, "square", told_apart)]
    assert drawing.panels[0].y.ticks[0].lines == ("Alpha", "than Beta")
    assert drawing.alternative.endswith(told_apart)
    assert marks(chart(side_by_side(alike)), Spot)[0].symbol == "square-open"


def test_models_that_cannot_be_tested_stand_with_their_values_and_what_indifference_would_give():
    drawing = chart(side_by_side(ModelPair(ALPHA, BETA, None)))
    assert [(spot.x, spot.title, spot.link) for spot in marks(drawing, Spot)] == [
        (0.6, "Alpha: 0.600; if it were indifferent, 0.450", "/models/alpha/"),
        (0.4, "Beta: 0.400", "/models/beta/"),
    ]
    assert [line.x for line in marks(drawing, Line) if line.dash == "dot"] == [[0.45, 0.45]]
    assert [tick.lines[0] for tick in drawing.panels[0].y.ticks] == ["Alpha", "Beta"]
    assert drawing.alternative.endswith("Dotted ticks are what each model would have if it were indifferent.")


def check(day: int, condition: Condition, overall: dict[str, float | None], version: int = 1) -> SimpleNamespace:
    moment = datetime(2026, 5, day, 7, 8, tzinfo=UTC)
    return SimpleNamespace(
        check=SimpleNamespace(condition=condition, finished_at=moment, version=version), overall=overall
    )


def test_checks_are_drawn_from_the_oldest_with_their_bounds_and_said_in_words():
    old = check(1, Condition.UNAVAILABLE, {})
    new = check(2, Condition.DRIFTED, {"mean_shift": 0.01234, "mean_limit": 0.005, "flips": 3, "flips_limit": 2})
    drawing = checks_chart(Metric(slug="one", title="One"), [new, old])
    assert drawing.name == "one-checks"
    assert [panel.y.title for panel in drawing.panels] == ["Mean shift of scores", "Labels that flipped"]
    assert [(spot.x, spot.title) for spot in marks(drawing, Spot)] == [
        (0, "Unavailable: 1 May 2026, 07:08 UTC; no answer"),
        (1, "Drifted: 2 May 2026, 07:08 UTC; mean shift 0.0123, flips 3"),
    ]
    assert [tick.lines for tick in drawing.panels[1].x.ticks] == [("1 May", "2026"), ("2 May", "2026")]
    assert [line.y for line in marks(drawing, Line) if line.dash == "dash"] == [[0.005, 0.005]]
    assert "2 checks of One, the oldest on the left: 1 drifted, 1 unavailable. Panels" in drawing.alternative
    new.check.finished_at = None
    assert describe_check(new).startswith("Drifted: unknown; ")


def area(value: float) -> dict[str, float]:
    return {"value": value, "low": value - 0.1, "high": value + 0.05}


SCORER = SimpleNamespace(title="A scorer")


def test_the_reliability_of_a_scorer_is_drawn_beside_the_diagonal():
    bins = [
        {"mean_score": 0.1, "harmful": {"value": 0.25, "n": 1234}},
        {"mean_score": 0.9, "harmful": {"value": 0.75, "n": 8}},
    ]
    drawing = reliability_chart(SCORER, {"reliability": bins})
    assert drawing.name == "reliability"
    assert [(spot.x, spot.y, spot.title) for spot in marks(drawing, Spot)] == [
        (0.1, 0.25, "1,234 texts, mean score 0.10: 25% harmful"),
        (0.9, 0.75, "8 texts, mean score 0.90: 75% harmful"),
        (0.0, 0.0, "0% harmful at score 0"),
        (1.0, 1.0, "100% harmful at score 1"),
    ]
    assert [list(line.x) for line in marks(drawing, Line)] == [[0.1, 0.9], [0.0, 1.0]]
    axis = drawing.panels[0].x
    assert (axis.low, axis.high, axis.title) == (0.0, 1.0, "Mean score")


def test_demographics_of_a_scorer_stand_in_the_order_of_their_areas():
    groups = {
        "women": {"about_it": {"roc_auc": area(0.6)}},
        "muslim": {"about_it": {"roc_auc": area(0.8)}},
        "latino": {"about_it": {"roc_auc": None}},
    }
    drawing = group_chart(SCORER, {"groups": groups})
    spots = marks(drawing, Spot)
    assert [spot.x for spot in spots] == [0.8, 0.6]
    assert spots[1].title == "Women: ROC AUC 0.600, 0.500 to 0.650"
    assert [line.x for line in marks(drawing, Line) if line.dash == "dot"] == [[0.5, 0.5]]
    assert group_chart(SCORER, {"groups": {"latino": groups["latino"]}}) is None


def test_scores_of_two_scorers_are_drawn_three_attributes_a_chart():
    panels = [ScorePanel(f"harm {n}", None if n == 1 else -0.5, ([0.1], [0.25])) for n in range(4)]
    drawings = score_charts("one", "other", [*panels, ScorePanel("empty", 0.1, ([], []))])
    assert [drawing.name for drawing in drawings] == ["scorers-1", "scorers-2"]
    assert [[panel.x.title for panel in drawing.panels] for drawing in drawings] == [
        ["harm 0, r = −0.50", "harm 1", "harm 2, r = −0.50"],
        ["harm 3, r = −0.50"],
    ]
    assert drawings[1].panels[0].marks[0].titles == ["0.10 and 0.25"]
    assert drawings[1].alternative == (
        "Scores of the same texts by one (across) and other (up): harm 3, r = −0.50. The table has the intervals."
    )


def test_pass_rates_are_shaded_around_one_half_the_lowest_first():
    assert [shade(rate) for rate in (0.0, 0.25, 0.5, 0.8, 1.0)] == [-4, -2, 0, 2, 4]
    card = {
        "passes": {"slurs": {"value": 0.9}, "negation": {"value": 0.1}},
        "passes_by_group": {"women": {"slurs": {"value": 1.0}}, "muslim": {"negation": {"value": 0.5}}},
    }
    assert functionality_rows(card) == [
        {
            "name": "negation",
            "rate": {"value": 0.1},
            "level": -3,
            "cells": [None, {"rate": {"value": 0.5}, "level": 0}],
        },
        {"name": "slurs", "rate": {"value": 0.9}, "level": 3, "cells": [{"rate": {"value": 1.0}, "level": 4}, None]},
    ]


def test_mentions_stand_after_what_names_no_identity_the_most_often_labelled_first():
    shares = {"women": 0.2, "no identity": 0.1, "muslim": 0.4, "asian": 0.2}
    groups = {name: {"about_it": {"false_positives": {"value": share}}} for name, share in shares.items()}
    assert mention_rows({"groups": groups}) == [
        ("no identity", {"value": 0.1}),
        ("muslim", {"value": 0.4}),
        ("asian", {"value": 0.2}),
        ("women", {"value": 0.2}),
    ]
    assert mention_rows(None) == []


def test_a_chart_of_a_page_is_sent_as_the_file_that_was_asked_for():
    drawing = forest_chart("forest", [], "x", "words")
    assert chart_file(asking(""), [drawing]) is None
    svg = chart_file(asking("chart=forest"), [None, drawing])
    assert (svg["Content-Type"], svg["Content-Disposition"]) == ("image/svg+xml", 'inline; filename="forest.svg"')
    png = chart_file(asking("chart=forest&format=png"), [drawing])
    assert (png["Content-Type"], png["Content-Disposition"]) == ("image/png", 'inline; filename="forest.png"')
    with pytest.raises(Http404, match=r"^This page has no chart for these choices$"):
        chart_file(asking("chart=forest"), [None])
    with pytest.raises(Http404, match=r"^chart = 'other' does not exist here. Known: forest$"):
        chart_file(asking("chart=other"), [drawing])
