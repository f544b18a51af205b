"""Explanations of a ranking: a sentence for each column, and the order of the rows."""

from leaderboard.glossary import TERMS
from leaderboard.numbers import decimals
from leaderboard.rankings.ranking import Ranking
from leaderboard.rankings.view import EXTRAS, Order
from scoring.metrics.formulas import slice_label
from scoring.statistics.correlations import Correlation

RANKS = {
    True: f"{TERMS['rank'].meaning} Beneath it is its range. {TERMS['rank-range'].meaning}",
    False: f"{TERMS['rank'].meaning} What other places it could have is unknown.",
}
LEADING = f" Leading group: {TERMS['leading-group'].meaning}"


def explanations(ranking: Ranking) -> list[tuple[str, str]]:
    """A sentence about each column of a ranking, by its key."""
    has_ranges = any(row.rank_low for group in ranking.groups for row in group.rows)
    is_measured = any(version.measured for version in ranking.versions)
    interval = (
        f" Beneath it, and drawn as a whisker, is its interval. {TERMS['interval'].meaning}"
        if has_ranges or is_measured
        else ""
    )
    estimate = f" {TERMS['corrected-share'].meaning}" if ranking.correction and ranking.correction.rates else ""
    leading_note = LEADING if any(group.leader_count for group in ranking.groups) else ""
    sentences = {
        "rank": "The place that the source prints." if ranking.carries_ranks else RANKS[has_ranges] + leading_note,
        "model": "Its page has the exact revision that was run, and every result.",
        "value": f"{ranking.measure.explanation}{interval}{estimate}",
        "provenance": TERMS["provenance"].meaning,
        "family": "The models that this one was released with.",
        "kind": TERMS["kind"].meaning,
        "parameters": "How many weights the model has.",
        "context": "How many tokens the model can read at once.",
        "prompting": " ".join(TERMS[key].meaning for key in ("base-model", "chat-as-raw-text", "chat-entry")),
        "precision": TERMS["precision"].meaning,
        "weights": TERMS["open-weights"].meaning,
        "licence": "What its makers permit others to do with it, as its card says.",
        "release_date": "When the model was released, as its card says.",
        "date": "The day on which this value was computed here."
        if is_measured
        else "The day on which the figure was entered here, which is later than its source.",
        "n": "How many texts or prompts went into the value.",
        "missing": TERMS["without-score"].meaning,
        "refusals": "Which share of a chat's answers are refusals: scored like any answer, and mild as a rule.",
        "revision": TERMS["revision"].meaning,
        "slice": "The same measure on another part of the texts; this table does not rank by it.",
    }
    keys = {"rank", "model", "value", *ranking.extras, *(["slice"] if ranking.columns else [])}
    keys |= {"provenance"} if ranking.is_mixed else set()
    keys |= {"kind"} if ranking.metric.formula.by_kind else set()
    keys |= {"prompting"} if ranking.tells_apart else set()
    keys |= {"precision"} if ranking.has_precisions else set()
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
    words = f"is {decimals(correlation.value, 2)}"
    if correlation.low is None or correlation.high is None:
        return words
    return f"{words} (95% {decimals(correlation.low, 2)} to {decimals(correlation.high, 2)})"
