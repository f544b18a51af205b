"""Where a model stands in a metric now, in a few words: for a badge in somebody's README."""

from dataclasses import dataclass

from leaderboard.models import LanguageModel, Metric
from leaderboard.models.results import describe_missing
from leaderboard.rankings.places import place_now
from scoring.metrics.formulas import MEASURES, slice_phrase


@dataclass(frozen=True, slots=True)
class Badge:
    """`label` says what of, `said` what; `title` all of it in a sentence. known: whether there is such a model."""

    label: str
    said: str
    title: str
    known: bool = True


def badge_of(model: str, metric: str, show: str) -> Badge:
    """The badge of a model and a metric by their slugs; show: rank or value. In a constant number of queries."""
    entrant = LanguageModel.objects.listed().filter(slug=model).first()
    board = Metric.objects.filter(slug=metric).first()
    if entrant is None or board is None:
        subject = f"model {model}" if entrant is None else f"metric {metric}"
        return Badge(
            "Plumbline", f"no such {subject.partition(' ')[0]}", f"There is no {subject} on this board", known=False
        )
    place = place_now(entrant, board)
    if place is None:
        suffix = " any more" if entrant.access == LanguageModel.Access.WITHDRAWN else ""
        return Badge(board.title, "not ranked", f"{entrant.name} is not ranked by {board.title}{suffix}")
    standing, version = place.standing, place.standing.metric_version
    label = MEASURES[standing.measure].label.lower()
    result = standing.result
    value_text = ", ".join(
        filter(None, (place.value_text, describe_missing(result.n, result.missing, result.missing_texts)))
    )
    words = f"{label} {value_text}" if show == "value" else f"rank {place.words}"
    title = (
        f"{board.title}: {entrant.name} has rank {place.words} by {label}, "
        f"{slice_phrase(standing.slice)}, {value_text}, under metric version {version.number}"
    )
    return Badge(board.title, f"{words} · v{version.number}", title)
