"""Explanations of a ranking: a sentence for each column, and the order of the rows."""

from leaderboard.rankings.ranking import Ranking
from leaderboard.rankings.view import EXTRAS, Order
from scoring.metrics.formulas import slice_label
from scoring.statistics.correlations import Correlation

RANKS = {
    True: "The place by value among all the models that stand above the table, whatever is filtered, with the places "
    "beneath it that paired tests on the same texts cannot exclude; equal values share a place (=).",
    False: "The place by value among all the models that stand above the table, whatever is filtered; equal values "
    "share a place (=), and nothing is known of other places that it could have.",
}
LEADING = " ◆ marks the leading group: those that cannot be told from the best, where others can."


def explanations(ranking: Ranking) -> list[tuple[str, str]]:
    """A sentence about each column of a ranking, by its key."""
    has_ranges = any(row.rank_low for group in ranking.groups for row in group.rows)
    is_measured = any(version.measured for version in ranking.versions)
    interval = (
        " The line beneath has its 95% interval, which the whisker beside draws." if has_ranges or is_measured else ""
    )
    leading_note = LEADING if any(group.leader_count for group in ranking.groups) else ""
    sentences = {
        "rank": "The place that the source gives." if ranking.carries_ranks else RANKS[has_ranges] + leading_note,
        "model": "The model as it was entered; its page has its pinned revision and every result.",
        "value": f"{ranking.measure.explanation}{interval}",
        "provenance": "Whether the number was measured on this board or is a figure that a paper prints.",
        "family": "The models that this one was released with.",
        "kind": "How the model gives probabilities to texts: numbers of different kinds are different quantities.",
        "parameters": "How many weights the model has, of any kind.",
        "context": "How many tokens the model can read at once.",
        "release_date": "When the model was released, as its card says.",
        "date": "The day on which this value was computed here."
        if is_measured
        else "The day on which the figure was entered here, which is later than its source.",
        "n": "How many texts or prompts the value is of.",
        "missing": "How many of the texts have no score: they are counted here and left out of the value, never taken "
        "for 0.",
        "revision": "The commit or hash of exactly the weights that were run.",
        "slice": "The same measure on another part of the texts; models are not ranked by it in this table.",
    }
    keys = {"rank", "model", "value", *ranking.extras, *(["slice"] if ranking.columns else [])}
    keys |= {"provenance"} if ranking.is_mixed else set()
    keys |= {"kind"} if ranking.metric.formula.by_kind else set()
    return [(key, sentence) for key, sentence in sentences.items() if key in keys]


def order_in_words(order: Order) -> str:
    """The order of the rows, in words."""
    label = slice_label(order.slice) if order.slice else EXTRAS.get(order.key, order.key)
    direction = "largest first" if order.descending else "smallest first"
    return f"Sorted by {label.lower()}, {direction}."


def coefficient(correlation: Correlation) -> str:
    """A coefficient with its interval, after its name."""
    if correlation.value is None:
        return "has no value, as one side never varies"
    return f"is {correlation.value:.2f}" + (
        "" if correlation.low is None else f" (95% {correlation.low:.2f} to {correlation.high:.2f})"
    )
