"""A succession in words and as tables."""

from collections.abc import Mapping
from typing import Any

from leaderboard.formats import Table, TableColumn
from leaderboard.numbers import decimals
from leaderboard.queries.succession import EntryReport, SuccessionReport
from leaderboard.rankings.changes import Record
from leaderboard.rankings.words import coefficient
from leaderboard.services.succession import SuccessionCost
from scoring.metrics.formulas import slice_phrase
from scoring.statistics.correlations import Correlation
from scoring.succession import Preservation, ScorerValue

LABELS = {
    Preservation.PRESERVED: "Labels are preserved",
    Preservation.MAPPED: "Labels are preserved after mapping",
    Preservation.LOST: "Labels are not preserved",
    Preservation.UNKNOWN: "Nobody can tell whether labels are preserved",
}
RANKS = {
    Preservation.PRESERVED: "Ranks are preserved",
    Preservation.MAPPED: "Ranks are preserved after mapping",
    Preservation.LOST: "Ranks are not preserved",
    Preservation.UNKNOWN: "Nobody can tell whether ranks are preserved",
}
RULES = (
    "Labels are preserved where the lower bound of Cohen's kappa is 0.8 or more: above the thresholds of both scorers, "
    "or after the mapping at the old threshold.",
    "Ranks are preserved where no pair of models is reversed whose intervals lie apart under the old scorer: by the "
    "successor, or by its scores after the mapping. It takes three models and one such pair to tell.",
)


def headline(report: SuccessionReport) -> str:
    """The two verdicts."""
    return f"{LABELS[report.labels]}. {RANKS[report.ranks]}."


def sentences(report: SuccessionReport) -> list[str]:
    """What the comparison means, a sentence or two each; the verdicts first."""
    parts = [
        describe_labels(report),
        describe_mapping(report),
        describe_ranks(report),
        describe_yardstick(report.yardstick),
    ]
    return [part for part in parts if part]


def describe_labels(report: SuccessionReport) -> str:
    """The verdict on labels, with the numbers that it rests on."""
    main, labels = report.main, report.main["labels"]
    words = f"{LABELS[report.labels]}: "
    if labels is None:
        return f"{words}no text has scores of both on {slice_phrase(main['attribute'])}."
    words += (
        f"on {attribute_words(main)}, {labels['share']:.1%} of {main['n']:,} texts get the same label from both; "
        f"{labels['only_first']:,} lose it and {labels['only_second']:,} get it."
    )
    if not 0 < labels["both"] + labels["only_first"] < main["n"]:
        words += " The old scorer gives all of them one label, so they cannot tell."
    elif labels["kappa"] is not None:
        kappa, low, high = (decimals(value, 2) for value in (labels["kappa"], *labels["kappa_interval"]))
        words += f" Cohen's kappa is {kappa} (95% {low} to {high})"
        error = main["error"]
        mapped_kappa = error and error["labels"]["kappa"]
        words += "." if mapped_kappa is None else f", and {decimals(mapped_kappa, 2)} after the mapping."
    return f"{words} Pearson's r of the scores {coefficient(Correlation(**main['pearson']))}."


def describe_mapping(report: SuccessionReport) -> str:
    """What the mapping does, on the texts that it was not fitted on."""
    main, error = report.main, report.main["error"]
    if error is None:
        return "There are too few texts for a mapping: it takes 20 on either side of the split."
    words = (
        f"The mapping, fitted on {error['fitted_n']:,} texts, gives the old score of {error['n']:,} others with a mean "
        f"error of {error['mae']:.3f}; without it, the error is {error['raw_mae']:.3f}."
    )
    words += f" It knows old scores from {main['mapping']['y'][0]:.2f} to {main['mapping']['y'][-1]:.2f}."
    if main["equal_threshold"] is None:
        return f"{words} No score of the successor leads to the old threshold of {main['old_threshold']:g}."
    return (
        f"{words} A score of {main['equal_threshold']:.3f} by {report.succession.successor} stands for the old "
        f"threshold of {main['old_threshold']:g}."
    )


def describe_ranks(report: SuccessionReport) -> str:
    """The verdict on ranks, with the numbers that it rests on, or what is missing for one."""
    if report.orders is None and report.shares_models:
        return (
            f"{RANKS[Preservation.UNKNOWN]}: the numbers of {report.succession.metric.title} take more than the "
            "scores of one attribute, which is all that a mapping gives. Compare the scorers for ranks under both."
        )
    if report.orders is None:
        return (
            f"{RANKS[Preservation.UNKNOWN]}: no model has been scored by both here. The mapping still turns scores of "
            "texts to the old scale; values of models take their texts. Ranks come with models that both score."
        )
    orders, comparison = report.orders, report.orders.comparison
    words = (
        f"{RANKS[report.ranks]}: of {comparison.pairs:,} pairs of {len(orders.entries):,} models, the successor "
        f"reverses {comparison.new_reversals:,}"
    )
    if comparison.mapped_reversals is not None:
        words += f", and the mapping {comparison.mapped_reversals:,}"
    if comparison.settled_pairs:
        words += (
            f". Of the {comparison.settled_pairs:,} pairs whose intervals lie apart before, the successor reverses "
            f"{comparison.new_settled_reversals:,}"
        )
        if comparison.mapped_settled_reversals is not None:
            words += f", and the mapping {comparison.mapped_settled_reversals:,}"
    else:
        words += ". The intervals of all pairs overlap before, so no order was certain"
    words += f". Kendall's tau with the old order {coefficient(comparison.new_tau)}"
    words += f", and {coefficient(comparison.mapped_tau)} after the mapping." if comparison.mapped_tau else "."
    if orders.impossible:
        words += (
            f" {len(orders.impossible):,} of the reversed pairs can be restored by no monotone mapping: the texts of "
            "one model score higher throughout."
        )
    return words


def describe_yardstick(record: Record | None) -> str:
    """How much the old scorer moved ranks when it was itself asked again."""
    if record is None:
        return ""
    changes, first, last = record.changes, record.before.version, record.after.version
    return (
        f"For comparison: from version {first.number} to {last.number} of {first.metric.title}, {last.scorer} scored "
        f"the same texts again, and {changes.changed_ranks} of {len(changes.models)} models changed rank; Kendall's "
        f"tau {coefficient(changes.kendall)}."
    )


def describe_cost(cost: SuccessionCost) -> str:
    """What it takes to let the successor take over, in a sentence."""
    days = "" if cost.api_days is None else f", which takes {cost.api_days:.1f} days at the quota of its service"
    return f"The successor scores {cost.texts:,} texts of {cost.entries:,} entries{days}."


def attribute_words(attribute: Mapping[str, Any]) -> str:
    """The attribute by both names, as in "TOXICITY (toxicity for the successor)"."""
    old, new = attribute["attribute"], attribute["counterpart"]
    return old if old == new else f"{old} ({new} for the successor)"


def text_table(report: SuccessionReport) -> Table:
    """A row an attribute of each source."""
    headings = ["n", "pearson", "pearson_low", "pearson_high", "spearman", "spearman_low", "spearman_high"]
    headings += [
        "same_label",
        "kappa",
        "lose_label",
        "get_label",
        "fitted_n",
        "judged_n",
        "mae",
        "rmse",
        "mapped_same_label",
    ]
    columns = [TableColumn(name, False) for name in ("texts", "old", "new")] + [TableColumn(name) for name in headings]
    rows = []
    for source in report.sources:
        for one in source["attributes"]:
            labels, error = one["labels"] or {}, one["error"] or {}
            correlations = [one[name][part] for name in ("pearson", "spearman") for part in ("value", "low", "high")]
            cells = [one["n"], *correlations, labels.get("share"), labels.get("kappa")]
            cells += [labels.get("only_first"), labels.get("only_second"), error.get("fitted_n"), error.get("n")]
            cells += [error.get("mae"), error.get("rmse"), (error.get("labels") or {}).get("share")]
            rows.append([source["title"], one["attribute"], one["counterpart"], *map(write_number, cells)])
    return Table("Texts that both have scored", columns, rows)


def entry_table(report: SuccessionReport) -> Table:
    """A row a model: its ranks and values under the three."""
    columns = [TableColumn("model", False)]
    for name in ("old", "new", "mapped"):
        columns += [TableColumn(f"{name}_{part}") for part in ("rank", "value", "low", "high")]
    return Table(
        "Models under the old scorer, the new one and the mapped one", columns, list(list_entries(report.orders))
    )


def list_entries(orders: EntryReport | None) -> list[list[str]]:
    """The cells of `entry_table`, by old rank."""
    if orders is None:
        return []
    comparison = orders.comparison
    ranks = [comparison.old_ranks, comparison.new_ranks, comparison.mapped_ranks or (None,) * len(orders.entries)]
    rows = []
    for entry, *places in zip(orders.entries, *ranks, strict=True):
        cells: list[str] = []
        for rank, side in zip(places, (entry.old, entry.new, entry.mapped), strict=True):
            part = side or ScorerValue(float("nan"), None, None)
            cells += map(write_number, (rank, part.value if side else None, part.low, part.high))
        rows.append([entry.name, *cells])
    return sorted(rows, key=lambda row: (int(row[1]), row[0]))


def pair_table(report: SuccessionReport) -> Table:
    """A row a pair of models whose order changes."""
    names = ("ahead", "behind")
    numbers = ("old_difference", "new_difference", "mapped_difference")
    flags = ("settled", "settled_new", "settled_mapped", "by_new", "by_mapped", "impossible")
    columns = [TableColumn(name, False) for name in names] + [TableColumn(name) for name in numbers]
    columns += [TableColumn(name, False) for name in flags]
    rows = [
        [
            *(getattr(pair, name) for name in names),
            *(write_number(getattr(pair, name)) for name in numbers),
            *("yes" if getattr(pair, name) else "no" for name in flags),
        ]
        for pair in (report.orders.pairs if report.orders else [])
    ]
    return Table("Pairs of models whose order changes", columns, rows)


def write_number(number: float | None) -> str:
    """A number as files have it; empty where there is none."""
    return "" if number is None else str(number) if isinstance(number, int) else f"{number:.6f}"
