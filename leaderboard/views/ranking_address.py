"""The address of a ranking page: what it asks for, and the addresses of views like it."""

from dataclasses import dataclass
from datetime import date
from typing import get_args
from urllib.parse import urlencode

from django.http import Http404, HttpRequest
from django.utils import timezone

from leaderboard.card.fields import FIRST_DAY
from leaderboard.models import LanguageModel, Metric, MetricVersion, Provenance, Standing
from leaderboard.rankings.days import MOST_SHOWN, end_of
from leaderboard.rankings.selection import BOTH, Selection, is_ranked_elsewhere, select_page, usual_columns
from leaderboard.rankings.versions import NoRanking, published_versions
from leaderboard.rankings.view import (
    AS_PROTOCOL,
    CONTEXTS,
    EXTRAS,
    RANK,
    ROWS,
    SIZES,
    SLICE,
    SORTED,
    UNKNOWN,
    WEIGHTS,
    Filters,
    Order,
    View,
)
from leaderboard.views.parameters import choose_metric, page_number, pick, read_day, read_words
from scoring.language_models import Precision
from scoring.metrics.formulas import MEASURES

WITHIN_KIND = ""  # each kind of models has a ranking of its own, where nobody chose
NO_COLUMNS = "none"
# Of these columns one wants to see the largest first.
LARGEST_FIRST = ("parameters", "context", "release_date", "date", "n", "missing")


@dataclass(frozen=True)
class RankingChoice:
    """What the address asks for; every value is one that exists. asked: parameters not at their defaults."""

    metric: Metric
    measure: str
    slice: str
    slices: list[str]  # those to choose from
    provenance: str
    kind: str
    version: MetricVersion | None  # one that is chosen by its number; None for the current ones
    as_of: date | None
    view: View
    rankings: list[Selection]
    asked: dict[str, str]

    def address(self, **changes: object) -> str:
        """The query of this view with `changes`, without parameters at their defaults; from the first page on."""
        parameters = {"metric": self.metric.slug, **self.asked, "page": "", **changes}
        return "?" + urlencode({name: value for name, value in parameters.items() if value not in ("", None)})

    @property
    def has_ended(self) -> bool:
        """Whether the day asked for is over."""
        return self.as_of is not None and end_of(self.as_of) <= timezone.now()

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
        is_descending = not order.descending if order.key == key else self.begins_descending(key)
        return self.address(sort="" if key == RANK and not is_descending else f"{'-' * is_descending}{key}")

    def begins_descending(self, key: str) -> bool:
        """Whether the largest come first where a column is chosen: of values, the best do."""
        if key == "value" or key.startswith(SLICE):
            return MEASURES[self.measure].direction == "higher"
        return key in LARGEST_FIRST

    def of_ranking(self, ranking: Selection) -> dict[str, object]:
        """Changes that leave one ranking of the page alone."""
        provenance = ranking.versions[0].provenance
        changes: dict[str, object] = {
            "metric": ranking.metric.slug,
            "provenance": BOTH if ranking.is_mixed else "" if self.version else provenance,
        }
        if ranking.metric != self.metric:  # it has slices of its own
            changes |= {"slice": "", "columns": ""} | ({"sort": ""} if self.view.order.slice else {})
        return changes


PARAMETERS = (
    *("metric", "measure", "provenance", "kind", "version", "as_of", "slice", "q", "family", "model_kind", "size"),
    *("access", "source", "context", "released", "without", "prompting", "precision", "weight_format", "weights"),
    *("licence", "page", "rows", "sort", "columns"),
)


def parse(request: HttpRequest, metrics: list[Metric]) -> RankingChoice:
    """Read the address. Raises Http404 with a sentence where it names something that does not exist."""
    metric = choose_metric(request, metrics)
    asked_measure = pick(request, "measure", "", ["", *(measure.key for measure in metric.formula.ranked)])
    provenance = pick(request, "provenance", "", ["", *Provenance.values, BOTH])
    kind = pick(request, "kind", WITHIN_KIND, [WITHIN_KIND, *Standing.Population.values])
    numbers = {str(version.number): version for version in published_versions(metric)}
    as_of = read_day(request, "as_of")
    version = numbers.get(pick(request, "version", "", ["", *numbers]))
    number = version.number if version else None
    try:
        page = select_page(
            metric, metrics, number, as_of, provenance, asked_measure, request.GET.get("slice", ""), kind
        )
    except NoRanking as error:
        raise Http404(str(error)) from error
    view = view_of(request, metric, page.slice, page.slices)
    order, filters = view.order, view.filters
    parameters = {
        "measure": "" if asked_measure == page.usual else asked_measure,
        "slice": "" if page.slice == page.slices[0] else page.slice,
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
    return RankingChoice(
        metric, page.measure, page.slice, page.slices, provenance, kind, version, as_of, view, page.rankings, parameters
    )


def view_of(request: HttpRequest, metric: Metric, name: str, slices: list[str]) -> View:
    """How the rankings are looked at."""
    years = [str(year) for year in range(FIRST_DAY.year, timezone.now().year + 1)]
    filters = Filters(
        q=read_words(request, "q"),
        family=request.GET.get("family", ""),
        model_kind=pick(request, "model_kind", "", ["", *LanguageModel.Kind.values]),
        size=pick(request, "size", "", ["", *SIZES, UNKNOWN]),
        access=pick(request, "access", "", ["", *LanguageModel.Access.values]),
        source=pick(request, "source", "", ["", *LanguageModel.Source.values]),
        context=pick(request, "context", "", ["", *CONTEXTS, UNKNOWN]),
        released=pick(request, "released", "", ["", *years, UNKNOWN]),
        without=pick(request, "without", "", ["", LanguageModel.Source.BUNDLED]),
        prompting=pick(request, "prompting", "", ["", *LanguageModel.Prompting.values]),
        precision=pick(request, "precision", "", ["", AS_PROTOCOL, *get_args(Precision)]),
        weight_format=request.GET.get("weight_format", ""),
        weights=pick(request, "weights", "", ["", *WEIGHTS]),
        licence=request.GET.get("licence", ""),
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
    sort = request.GET.get("sort") or RANK
    key = sort.removeprefix("-")
    of_slice = key.removeprefix(SLICE) if key.startswith(SLICE) else ""
    if of_slice == name:
        key = "value"
    elif of_slice and of_slice not in slices and is_ranked_elsewhere(metric, of_slice):
        return Order()
    elif key not in SORTED and of_slice not in slices:
        sort_keys = [*SORTED, *(SLICE + other for other in slices)]
        raise Http404(
            f"sort = {sort[:MOST_SHOWN]!r} does not exist here. Known, with - before for descending: "
            f"{', '.join(sort_keys)}"
        )
    return Order(key, sort.startswith("-"))


def columns_of(request: HttpRequest, metric: Metric, name: str, slices: list[str]) -> tuple[str, ...] | None:
    """The columns chosen, in order; None for the usual ones, those of any slice, which a form may have sent along."""
    if "columns" not in request.GET:
        return None
    column_names = {column for value in request.GET.getlist("columns") for column in value.split(",")} - {
        "",
        NO_COLUMNS,
    }
    all_columns = [*EXTRAS, *(SLICE + other for other in slices)]
    for column in column_names - set(all_columns):
        if not (column.startswith(SLICE) and is_ranked_elsewhere(metric, column.removeprefix(SLICE))):
            raise Http404(f"columns = {column[:MOST_SHOWN]!r} does not exist here. Known: {', '.join(all_columns)}")
    if any(column_names == usual_columns(metric, other, slices) for other in {name, *slices}):
        return None
    return tuple(column for column in all_columns if column in column_names)
