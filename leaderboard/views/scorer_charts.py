"""The charts of a scorer's report card, and of two scorers on the same texts."""

from collections.abc import Sequence
from dataclasses import dataclass

from leaderboard.charts import Chart, ForestLine, ScatterPanel, Series, forest_chart, scatter_chart
from leaderboard.numbers import decimals
from leaderboard.queries.report_cards import Card, ListedScorer
from scoring.metrics.formulas import slice_label

SHARES = (0.0, 1.0)
PANELS = 3  # of a chart


@dataclass(frozen=True, slots=True)
class ScorePanel:
    """The scores of the same texts by two scorers: of which attribute, its correlation, and points [n]."""

    attribute: str
    correlation: float | None
    points: tuple[list[float], list[float]]


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


def group_chart(scorer: ListedScorer, card: Card) -> Chart | None:
    """The area of each demographic; None where no demographic has both labels."""
    areas = {name: group["about_it"]["roc_auc"] for name, group in card["groups"].items()}
    known_areas = sorted(((area, name) for name, area in areas.items() if area), key=lambda pair: -pair[0]["value"])
    if not known_areas:
        return None
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
    return forest_chart("groups", lines, "ROC AUC among texts about it", alternative, 0.5, SHARES)


def score_charts(first: str, second: str, panels: Sequence[ScorePanel]) -> list[Chart]:
    """Scores of the same texts by the scorer `first`, across, and `second`, up: an attribute a panel, three a chart."""
    plots = []
    for panel in panels:
        x, y = panel.points
        captions = [f"{one:.2f} and {other:.2f}" for one, other in zip(x, y, strict=True)]
        correlation = "" if panel.correlation is None else f", r = {decimals(panel.correlation, 2)}"
        if x:
            series = [Series("texts", x, y, captions, small=True)]
            plots.append(ScatterPanel(f"{panel.attribute}{correlation}", series, limits=SHARES))
    return [
        scatter_chart(
            f"scorers-{start // PANELS + 1}",
            plots[start : start + PANELS],
            second,
            f"Scores of the same texts by {first} (across) and {second} (up): "
            f"{', '.join(plot.title for plot in plots[start : start + PANELS])}. The table has the intervals.",
            SHARES,
        )
        for start in range(0, len(plots), PANELS)
    ]
