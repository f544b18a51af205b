"""A comparison of two scorers, in words."""

from leaderboard.services.comparison import Comparison
from scoring.statistics.correlations import Correlation


def summary(found: Comparison) -> list[str]:
    """What a comparison means, a sentence each."""
    first, second = found.first, found.second
    runs = f"{found.runs} model{'' if found.runs == 1 else 's'}"
    of_all = f" (of {found.texts_in_all:,} by {found.runs_in_all} models)" if found.texts < found.texts_in_all else ""
    said = [
        f"{first.scorer} ({first.metric.slug}, version {first.number}) and {second.scorer} ({second.metric.slug}, "
        f"version {second.number}) have judged the same continuations; {found.texts:,} by {runs} are compared{of_all}."
    ]
    main = found.attributes[0]
    names = main.attribute if main.attribute == main.counterpart else f"{main.attribute} and {main.counterpart}"
    if not found.namesakes:
        said.append("No attribute of one bears the name of one of the other: the main one of each is compared.")
    if main.labels:
        said.append(
            f"On {names}, {100 * main.labels.share:.1f}% of the texts get the same label, above 0.5 or not; "
            f"Pearson's r of the scores {coefficient(main.pearson)}."
        )
    if found.ranks:
        board = found.ranks[0].changes
        said.append(
            f"Of {len(board.models)} models on both boards, {board.changed_ranks} have another rank under the other "
            f"scorer; Kendall's tau of the two orders {coefficient(board.kendall)}."
        )
    else:
        said.append("The boards rank by measures that have no common order.")
    return said


def coefficient(found: Correlation) -> str:
    """A coefficient with its interval, after its name."""
    if found.value is None:
        return "has no value, as one side never varies"
    return f"is {found.value:.2f}" + ("" if found.low is None else f" (95% {found.low:.2f} to {found.high:.2f})")
