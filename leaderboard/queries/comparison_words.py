"""A comparison of two scorers, in words and as a table."""

from leaderboard.formats import Table, TableColumn
from leaderboard.queries.comparison import Comparison
from leaderboard.rankings.words import coefficient


def summary(comparison: Comparison) -> list[str]:
    """What a comparison means, a sentence each."""
    first, second = comparison.first, comparison.second
    runs = f"{comparison.runs} model{'' if comparison.runs == 1 else 's'}"
    of_all = (
        f" (of {comparison.texts_in_all:,} by {comparison.runs_in_all} models)"
        if comparison.texts < comparison.texts_in_all
        else ""
    )
    statements = [
        f"{first.scorer} ({first.metric.slug}, version {first.number}) and {second.scorer} ({second.metric.slug}, "
        f"version {second.number}) have judged the same continuations; {comparison.texts:,} by {runs} are "
        f"compared{of_all}."
    ]
    main = comparison.attributes[0]
    names = main.attribute if main.attribute == main.counterpart else f"{main.attribute} and {main.counterpart}"
    if not comparison.namesakes:
        statements.append("No attribute of one bears the name of one of the other: the main one of each is compared.")
    if main.labels:
        statements.append(
            f"On {names}, {100 * main.labels.share:.1f}% of the texts get the same label, above 0.5 or not; "
            f"Pearson's r of the scores {coefficient(main.pearson)}."
        )
    if comparison.ranks:
        board = comparison.ranks[0].changes
        statements.append(
            f"Of {len(board.models)} models on both boards, {board.changed_ranks} have another rank under the other "
            f"scorer; Kendall's tau of the two orders {coefficient(board.kendall)}."
        )
    else:
        statements.append("The boards rank by measures that have no common order.")
    return statements


def attribute_table(comparison: Comparison) -> Table:
    """A row a pair of attributes; missing: texts that lack a score of one of the two."""
    numbers = ["texts", "missing"]
    numbers += [f"{name}{end}" for name in ("pearson", "label_agreement", "kappa") for end in ("", "_low", "_high")]
    numbers += ["both", "only_a", "only_b", "neither"]
    columns = [TableColumn("a", False), TableColumn("b", False), *map(TableColumn, numbers)]

    def number(value: float | None) -> str:
        return "" if value is None else f"{value:.4f}"

    rows = []
    for pair in comparison.attributes:
        labels = pair.labels
        counts = (labels.both, labels.only_first, labels.only_second, labels.neither) if labels else ("",) * 4
        figures = [pair.pearson.value, pair.pearson.low, pair.pearson.high]
        if labels:
            figures += [labels.share, *labels.share_interval, labels.kappa, *(labels.kappa_interval or (None, None))]
        else:
            figures += [None] * 6
        rows.append(
            [
                pair.attribute,
                pair.counterpart,
                str(pair.n),
                str(pair.missing),
                *map(number, figures),
                *(str(count) for count in counts),
            ]
        )
    return Table(f"Scores of the same texts: a = {comparison.first}, b = {comparison.second}", columns, rows)
