"""What stands in a ranking, in words: one sentence for each kind of number, and the order of the rows."""

from leaderboard.queries.ranking_view import EXTRAS, Order
from leaderboard.queries.rankings import Ranking
from scoring.metrics.formulas import slice_label

RANKS = {
    True: "The place by value among all the models that stand above the table, whatever is filtered, with the places "
    "beneath it that paired tests on the same texts cannot exclude; equal values share a place (=).",
    False: "The place by value among all the models that stand above the table, whatever is filtered; equal values "
    "share a place (=), and nothing is known of other places that it could have.",
}
LEADING = " ◆ marks the leading group: those that cannot be told from the best, where others can."


def explanations(ranking: Ranking) -> list[tuple[str, str]]:
    """What each column of a ranking is, by its key."""
    known = any(row.rank_low for group in ranking.groups for row in group.rows)
    measured = any(version.measured for version in ranking.versions)
    interval = " The line beneath has its 95% interval, which the whisker beside draws." if known or measured else ""
    leading = LEADING if any(group.leading for group in ranking.groups) else ""
    found = {
        "rank": "The place that the source gives." if ranking.carries_ranks else RANKS[known] + leading,
        "model": "The model as it was entered; its page has its pinned revision and every result.",
        "value": f"{ranking.measure.explanation}{interval}",
        "provenance": "Whether the number was measured on this board or is a figure that a paper prints.",
        "family": "The models that this one was released with.",
        "kind": "How the model gives probabilities to texts: numbers of different kinds are different quantities.",
        "parameters": "How many weights the model has, of any kind.",
        "date": "The day on which this value was computed here."
        if measured
        else "The day on which the figure was entered here, which is later than its source.",
        "n": "How many texts or prompts the value is of.",
        "missing": "How many of the texts have no score: they are counted here and left out of the value, never taken "
        "for 0.",
        "revision": "The commit or hash of exactly the weights that were run.",
        "slice": "The same measure on another part of the texts; models are not ranked by it in this table.",
    }
    there = {"rank", "model", "value", *ranking.extras, *(["slice"] if ranking.columns else [])}
    there |= {"provenance"} if ranking.mixed else set()
    there |= {"kind"} if ranking.metric.formula.by_kind else set()
    return [(key, sentence) for key, sentence in found.items() if key in there]


def order_in_words(order: Order) -> str:
    """By what the rows are sorted."""
    label = slice_label(order.slice) if order.slice else EXTRAS.get(order.key, order.key)
    direction = "largest first" if order.descending else "smallest first"
    return f"Sorted by {label.lower()}, {direction}."
