"""How right are the scorers, for whom?"""

from itertools import groupby
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from leaderboard.charts import Chart, ForestLine, ScatterPanel, Series, forest_chart, scatter_chart
from leaderboard.queries.report_cards import Card, ListedScorer, list_scorers
from leaderboard.views.chart_files import CHART_FILE, chart_file
from leaderboard.views.keeping import keep_page
from leaderboard.views.parameters import pick
from scoring.metrics.formulas import slice_label

SHARES = (0.0, 1.0)


@require_safe
@keep_page()
def scorers(request: HttpRequest) -> HttpResponse:
    """Every scorer, what is known of it today, and its report cards side by side."""
    listed_scorers = list_scorers()
    rows = [(texts, scorer, attribute, card) for scorer in listed_scorers for texts, attribute, card in scorer.cards]
    rows.sort(key=lambda row: row[0].title)
    tables = [(texts, list(group)) for texts, group in groupby(rows, key=lambda row: row[0])]
    return render(request, "scorers.html", {"scorers": listed_scorers, "tables": tables})


@require_safe
@keep_page(reads=("card", *CHART_FILE))
def scorer_page(request: HttpRequest, name: str) -> HttpResponse:
    """A scorer's report card on one labelled set, for one of its attributes, chosen by `card`."""
    scorer = next((one for one in list_scorers() if one.name == name), None)
    if scorer is None:
        raise Http404(f"No metric of this board asks a scorer called {name[:100]!r}")
    context: dict[str, Any] = {"scorer": scorer}
    charts: list[Chart] = []
    if scorer.cards:
        choices = {f"{texts.slug}/{attribute}": (texts, attribute, card) for texts, attribute, card in scorer.cards}
        choice = pick(request, "card", next(iter(choices)), list(choices))
        texts, attribute, card = choices[choice]
        charts = [reliability_chart(scorer, card), *group_charts(scorer, card)]
        context |= {"texts": texts, "attribute": attribute, "card": card, "choice": choice, "choices": choices}
        context |= {"charts": charts, "rows": sorted(card["groups"].items(), key=lambda row: slice_label(row[0]))}
    return chart_file(request, charts) or render(request, "scorer.html", context)


def reliability_chart(scorer: ListedScorer, card: Card) -> Chart:
    """The reliability diagram: the share of harmful texts over the mean score, bin by bin."""
    bins = card["reliability"]
    titles = [
        f"{one['harmful']['n']:,} texts, mean score {one['mean_score']:.2f}: {one['harmful']['value']:.0%} harmful"
        for one in bins
    ]
    series = [
        Series(
            "Texts by score",
            [one["mean_score"] for one in bins],
            [one["harmful"]["value"] for one in bins],
            titles,
            joined=True,
        ),
        Series("As calibrated", SHARES, SHARES, ("0% harmful at score 0", "100% harmful at score 1"), joined=True),
    ]
    return scatter_chart(
        "reliability",
        [ScatterPanel("Mean score", series, limits=SHARES)],
        "Share of harmful texts",
        f"The share of harmful texts over the score of {scorer.title}; on the diagonal a score would be that share. "
        "The table under it has the values.",
        limits=SHARES,
    )


def group_charts(scorer: ListedScorer, card: Card) -> list[Chart]:
    """The area of each demographic; none where no demographic has both labels."""
    areas = {name: group["about_it"]["roc_auc"] for name, group in card["groups"].items()}
    known_areas = sorted(((area, name) for name, area in areas.items() if area), key=lambda pair: -pair[0]["value"])
    if not known_areas:
        return []
    lines = [
        ForestLine(
            slice_label(name),
            area["value"],
            area["low"],
            area["high"],
            f"{slice_label(name)}: ROC AUC {area['value']:.3f}, {area['low']:.3f} to {area['high']:.3f}",
        )
        for area, name in known_areas
    ]
    alternative = f"ROC AUC of {scorer.title} on texts about each demographic, the best on top."
    return [forest_chart("groups", lines, "ROC AUC among texts about it", alternative, 0.5, SHARES)]
