"""The address of a ranking page: what it asks for, and the addresses of views like it."""

from dataclasses import dataclass
from datetime import date, datetime
from urllib.parse import urlencode

from django.http import Http404, HttpRequest

from leaderboard.models import LanguageModel, Metric, MetricVersion, Provenance, Standing
from leaderboard.queries.ranking_view import (
    EXTRAS,
    RANK,
    ROWS,
    SIZES,
    SLICE,
    SORTED,
    UNKNOWN,
    Filters,
    Order,
    View,
)
from leaderboard.queries.rankings import WITHIN_KIND, Wanted, current_versions, slices_of, usual_columns
from leaderboard.services.past import current_at, end_of
from leaderboard.views.parameters import choose_metric, page_number, pick, read_day, read_words
from scoring.metrics.formulas import MEASURES, slices_in_order
from scoring.metrics.safety import AVERAGE

BOTH = "both"
NO_COLUMNS = "none"
LARGEST_FIRST = ("parameters", "date", "n", "missing")  # what one wants to see first of these
Tables = list[tuple[Metric, list[MetricVersion]]]  # a metric, and the versions that stand in one ranking


@dataclass(frozen=True)
class Choice:
    """What the address asks for; every value is one that exists. `asked` holds what is not as it would be unasked."""

    metric: Metric
    measure: str
    slice: str
    slices: list[str]  # those to choose from
    provenance: str
    kind: str
    version: MetricVersion | None  # one that is chosen by its number; None for the current ones
    as_of: date | None
    view: View
    wanted: list[Wanted]
    asked: dict[str, str]

    def address(self, **changes: object) -> str:
        """The query of this view with `changes`, without what is as it would be unasked; from the first page on."""
        asked = {"metric": self.metric.slug, **self.asked, "page": "", **changes}
        return "?" + urlencode({name: value for name, value in asked.items() if value not in ("", None)})

    @property
    def here(self) -> str:
        """The query of this very page."""
        return self.address(page=self.asked["page"])

    @property
    def unfiltered(self) -> str:
        """The query of this view without filters."""
        return self.address(**dict.fromkeys(self.view.filters.active, ""))

    def sorted_by(self, key: str) -> str:
        """The query of this view by a column: what one wants to see first on top, or where it is already, reversed."""
        order = self.view.order
        descending = not order.descending if order.key == key else self.begins_descending(key)
        return self.address(sort="" if key == RANK and not descending else f"{'-' * descending}{key}")

    def begins_descending(self, key: str) -> bool:
        """Whether the largest come first where a column is chosen: of values, the best do."""
        if key == "value" or key.startswith(SLICE):
            return MEASURES[self.measure].direction == "higher"
        return key in LARGEST_FIRST

    def of_ranking(self, wanted: Wanted) -> dict[str, object]:
        """Changes that leave one ranking of the page alone."""
        of_version = wanted.versions[0].provenance
        changes: dict[str, object] = {
            "metric": wanted.metric.slug,
            "provenance": BOTH if wanted.mixed else "" if self.version else of_version,
        }
        if wanted.metric != self.metric:  # it has slices of its own
            changes |= {"slice": "", "columns": ""} | ({"sort": ""} if self.view.order.slice else {})
        return changes


PARAMETERS = (
    *("metric", "measure", "provenance", "kind", "version", "as_of", "slice", "q", "family", "model_kind", "size"),
    *("access", "source", "page", "rows", "sort", "columns"),
)


def parse(request: HttpRequest, metrics: list[Metric]) -> Choice:
    """Read the address. Raises Http404 with a sentence where it names something that does not exist."""
    metric = choose_metric(request, metrics)
    asked_measure = pick(request, "measure", "", ["", *(measure.key for measure in metric.formula.ranked)])
    provenance = pick(request, "provenance", "", ["", *Provenance.values, BOTH])
    kind = pick(request, "kind", WITHIN_KIND, [WITHIN_KIND, *Standing.Population.values])
    numbers = {str(version.number): version for version in published_versions(metric)}
    as_of = read_day(request, "as_of")
    version = numbers.get(pick(request, "version", "", ["", *numbers])) if as_of is None else None
    end = None if as_of is None else end_of(as_of)

    own, borrowed = tables(metric, metrics, provenance, version, end)
    usual = {version: first_measure(versions) for _, versions in own + borrowed for version in versions}
    measures = {version: asked_measure or first for version, first in usual.items()}
    slices = slices_of(measures)
    asked_slice = request.GET.get("slice")
    if asked_slice and not asked_measure and not any(asked_slice in names for names in slices.values()):
        usual = usual | {version: version.measure_on(asked_slice) for _, versions in own for version in versions}
        measures = measures | usual
        slices = slices_of(measures)
    known = known_slices(metric, own, slices)
    name = slice_asked(request, metric, known)
    view = view_of(request, metric, name, known)
    unasked = not (provenance or version or end)
    shown = [
        (of, versions, name)
        for of, versions in own
        if has(versions, name, slices) or versions[0].measured or not unasked
    ]
    if unasked and all(versions[0].measured for _, versions, _ in shown):
        first = next(((of, found) for of, found in borrowed if any(slices.get(v.pk) for v in found)), None)
        shown += [(*first, slices[first[1][0].pk][0])] if first else []
    wanted = [
        Wanted(of, versions, MEASURES[measures[versions[0]]], chosen, slices, populations(of, kind), end)
        for of, versions, chosen in shown
    ]
    measure = wanted[0].measure.key if wanted else asked_measure or metric.measure
    unchosen = usual[wanted[0].versions[0]] if wanted else metric.measure
    order, filters = view.order, view.filters
    asked = {
        "measure": "" if asked_measure == unchosen else asked_measure,
        "slice": "" if name == known[0] else name,
        "kind": kind,
        "provenance": provenance,
        "version": str(version.number) if version else "",
        "as_of": as_of.isoformat() if as_of else "",
        **filters.active,
        "sort": "" if order == Order() else f"{'-' * order.descending}{order.key}",
        "columns": "" if view.columns is None else ",".join(view.columns) or NO_COLUMNS,
        "rows": "" if view.rows == usual_rows(metric) else str(view.rows),
        "page": "" if view.page == 1 else str(view.page),
    }
    return Choice(metric, measure, name, known, provenance, kind, version, as_of, view, wanted, asked)


def published_versions(metric: Metric) -> list[MetricVersion]:
    """Those that a reader may look at, oldest first: not one that a rescoring given up has left behind."""
    return [version for version in metric.versions.all() if version.published_at]


def tables(
    metric: Metric, metrics: list[Metric], provenance: str, version: MetricVersion | None, end: datetime | None
) -> tuple[Tables, Tables]:
    """The rankings to show of `metric`; and those of others of which the first stands in where it has no published one.

    A metric of likelihoods without published figures borrows those of the first metric that has some, so that a new
    board shows what such numbers look like; the table names the metric it is of. One of continuations does not: figures
    of another scorer say little about its own.
    """
    if version:
        return [(metric, [version])], []
    wanted = [provenance] if provenance in Provenance.values else list(Provenance.values)
    if end is not None:
        known = published_versions(metric)
        found = [of for of in (current_at(known, of, end) for of in wanted) if of]
    else:
        found = current_versions(metric, wanted)
    own = [(metric, found)] if provenance == BOTH and found else [(metric, [of]) for of in found]
    if metric.formula.asks_scorer:
        return own, []
    others = [of for of in metrics if of != metric and of.formula_name == metric.formula_name]
    borrowed = [(of, current_versions(of, [Provenance.PUBLISHED])) for of in others]
    return own, [(of, versions) for of, versions in borrowed if versions]


def first_measure(versions: list[MetricVersion]) -> str:
    """The measure that is shown first of versions in one ranking: one that falls back decides for all."""
    fallbacks = (version.fallback_measure for version in versions)
    return next(filter(None, fallbacks), versions[0].first_measure)


def has(versions: list[MetricVersion], name: str, slices: dict[int, list[str]]) -> bool:
    """Whether any of `versions` ranks on the slice."""
    return any(name in slices.get(version.pk, []) for version in versions)


def populations(metric: Metric, kind: str) -> list[str]:
    """Who is ranked among themselves: as asked, each kind by itself, or all where numbers do not differ by kind."""
    if not metric.formula.by_kind:
        return [Standing.Population.ALL.value]
    return [kind] if kind else list(LanguageModel.Kind.values)


def known_slices(metric: Metric, own: Tables, slices: dict[int, list[str]]) -> list[str]:
    """The slices to choose from, the overall one first; what is to come where nothing is ranked yet."""
    found = {name for _, versions in own for version in versions for name in slices.get(version.pk, [])}
    counts = metric.protocol.evaluation_set.counts
    if not found and metric.formula.by_kind:
        found = set(counts) | ({AVERAGE} if len(counts) > 1 else set())
    return slices_in_order(found) or [AVERAGE]


def ranked_elsewhere(metric: Metric, name: str) -> bool:
    """Whether another version or measure of `metric` is ranked on the slice: then it exists, if not in this view."""
    return Standing.objects.filter(metric_version__metric=metric, slice=name).exists()


def slice_asked(request: HttpRequest, metric: Metric, known: list[str]) -> str:
    """The slice; one that only another version or measure has is kept, and has no numbers here."""
    name = request.GET.get("slice") or known[0]
    if name not in known and not ranked_elsewhere(metric, name):
        pick(request, "slice", known[0], known)
    return name


def view_of(request: HttpRequest, metric: Metric, name: str, slices: list[str]) -> View:
    """How the rankings are looked at."""
    filters = Filters(
        q=read_words(request, "q"),
        family=request.GET.get("family", ""),
        model_kind=pick(request, "model_kind", "", ["", *LanguageModel.Kind.values]),
        size=pick(request, "size", "", ["", *SIZES, UNKNOWN]),
        access=pick(request, "access", "", ["", *LanguageModel.Access.values]),
        source=pick(request, "source", "", ["", *LanguageModel.Source.values]),
    )
    return View(
        filters=filters,
        order=order_of(request, metric, name, slices),
        columns=columns_of(request, metric, name, slices),
        page=page_number(request),
        rows=int(pick(request, "rows", str(usual_rows(metric)), [str(rows) for rows in ROWS])),
    )


def usual_rows(metric: Metric) -> int:
    """Rows of a table where nobody chose: fewer where every kind of model has a table of its own."""
    return ROWS[0] if metric.formula.by_kind else ROWS[1]


def order_of(request: HttpRequest, metric: Metric, name: str, slices: list[str]) -> Order:
    """By what the rows are sorted; by the value where it is the slice that is ranked on."""
    asked = request.GET.get("sort") or RANK
    key = asked.removeprefix("-")
    of_slice = key.removeprefix(SLICE) if key.startswith(SLICE) else ""
    if of_slice == name:
        key = "value"
    elif of_slice and of_slice not in slices and ranked_elsewhere(metric, of_slice):
        return Order()
    elif key not in SORTED and of_slice not in slices:
        known = [*SORTED, *(SLICE + other for other in slices)]
        raise Http404(f"sort = {asked!r} does not exist here. Known, with - before for descending: {', '.join(known)}")
    return Order(key, asked.startswith("-"))


def columns_of(request: HttpRequest, metric: Metric, name: str, slices: list[str]) -> tuple[str, ...] | None:
    """The columns chosen, in order; None for the usual ones, those of any slice, which a form may have sent along."""
    if "columns" not in request.GET:
        return None
    asked = {column for value in request.GET.getlist("columns") for column in value.split(",")} - {"", NO_COLUMNS}
    known = [*EXTRAS, *(SLICE + other for other in slices)]
    for column in asked - set(known):
        if not (column.startswith(SLICE) and ranked_elsewhere(metric, column.removeprefix(SLICE))):
            raise Http404(f"columns = {column!r} does not exist here. Known: {', '.join(known)}")
    if any(asked == usual_columns(other, slices) for other in {name, *slices}):
        return None
    return tuple(column for column in known if column in asked)
