"""Where a model stands in a metric now, in a few words: for a badge in somebody's README."""

from dataclasses import dataclass

from leaderboard.models import LanguageModel, Metric, MetricVersion
from leaderboard.models.results import DERIVED
from leaderboard.services.places import Place, places_of
from scoring.metrics.formulas import MEASURES, slice_label


@dataclass(frozen=True, slots=True)
class Badge:
    """`label` says what of, `said` what; `title` all of it in a sentence. known: whether there is such a model."""

    label: str
    said: str
    title: str
    known: bool = True


def badge_of(model: str, metric: str, show: str) -> Badge:
    """The badge of a model and a metric by their slugs; show: rank or value. In a constant number of queries."""
    entered = LanguageModel.objects.listed().filter(slug=model).first()
    board = Metric.objects.filter(slug=metric).first()
    if entered is None or board is None:
        what = f"model {model}" if entered is None else f"metric {metric}"
        return Badge("Plumbline", f"no such {what.partition(' ')[0]}", f"There is no {what} on this board", known=False)
    place = place_now(entered, board)
    if place is None:
        withdrawn = " any more" if entered.access == LanguageModel.Access.WITHDRAWN else ""
        return Badge(board.title, "not ranked", f"{entered.name} is not ranked by {board.title}{withdrawn}")
    standing, version = place.standing, place.standing.metric_version
    measure = MEASURES[standing.measure]
    digits = measure.digits if version.decimals is None else version.decimals
    value = f"{DERIVED if standing.result.derived else ''}{place.value:.{digits}f}"
    said = f"{measure.label.lower()} {value}" if show == "value" else f"rank {place.words}"
    title = (
        f"{board.title}: {entered.name} has rank {place.words} by {measure.label.lower()}, "
        f"{slice_label(standing.slice).lower()}, {value}, under metric version {version.number}"
    )
    return Badge(board.title, f"{said} · v{version.number}", title)


def place_now(model: LanguageModel, metric: Metric) -> Place | None:
    """Where the model stands now: under the measured version where it has one."""
    current = metric.versions.filter(status=MetricVersion.Status.CURRENT).select_related("metric")
    places = places_of(model, current)
    return min(places.values(), key=lambda place: place.standing.metric_version.provenance, default=None)
