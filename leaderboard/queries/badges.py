"""Where a model stands in a metric now, in a few words: for a badge in somebody's README."""

from dataclasses import dataclass

from leaderboard.models import LanguageModel, Metric, MetricVersion, Standing
from leaderboard.models.results import DERIVED
from leaderboard.queries.rankings import slices_of
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
    standing, among = standing_of(entered, board)
    if standing is None:
        withdrawn = " any more" if entered.access == LanguageModel.Access.WITHDRAWN else ""
        return Badge(board.title, "not ranked", f"{entered.name} is not ranked by {board.title}{withdrawn}")
    version, measure = standing.metric_version, MEASURES[standing.measure]
    digits = measure.digits if version.decimals is None else version.decimals
    value = f"{DERIVED if standing.result.derived else ''}{standing.value:.{digits}f}"
    said = f"{measure.label.lower()} {value}" if show == "value" else f"rank {standing.rank} of {among}"
    kind = f" {entered.kind}" if board.formula.by_kind else ""
    title = (
        f"{board.title}: {entered.name} has rank {standing.rank} of {among}{kind} models by {measure.label.lower()}, "
        f"{slice_label(standing.slice).lower()}, {value}, under metric version {version.number}"
    )
    return Badge(board.title, f"{said} · v{version.number}", title)


def standing_of(model: LanguageModel, metric: Metric) -> tuple[Standing | None, int]:
    """Where the model stands on the overall slice now, and among how many.

    Under the measured version where it has one; among models of its kind, where the metric ranks kinds apart.
    """
    current = metric.versions.filter(status=MetricVersion.Status.CURRENT).select_related("metric")
    measures = {version.pk: version.first_measure for version in current}
    slices = slices_of(measures)
    population = model.kind if metric.formula.by_kind else Standing.Population.ALL
    rows = Standing.objects.filter(
        measure__in=measures.values(),
        population=population,
        metric_version__in=slices,
        slice__in=[of[0] for of in slices.values()],
    )
    mine = rows.filter(model=model).select_related("metric_version", "result").order_by("metric_version__provenance")
    places = {pk: (measures[pk], names[0]) for pk, names in slices.items()}
    found = next((of for of in mine if (of.measure, of.slice) == places[of.metric_version_id]), None)
    if found is None:
        return None, 0
    among = rows.filter(metric_version=found.metric_version, measure=found.measure, slice=found.slice)
    return found, among.count()
