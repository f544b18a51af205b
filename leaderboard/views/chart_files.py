"""Each chart of a page as a file, at the address of the page with `chart` and `format`."""

import json
from collections.abc import Callable, Iterable

from django.http import Http404, HttpRequest, HttpResponse

from leaderboard.charts import Chart
from leaderboard.charts.plotly import describe_plotly
from leaderboard.charts.svg import draw_file
from leaderboard.views.parameters import pick

CHART_FILE = ("chart", "format")  # what a page with charts reads


def chart_file(request: HttpRequest, charts: Iterable[Chart | None]) -> HttpResponse | None:
    """The chart that `chart` of the address names, as `format` says (svg); None where it names none.

    Raises Http404 where the page has no such chart, or there is no such format.
    """
    if "chart" not in request.GET:
        return None
    by_name = {chart.name: chart for chart in charts if chart}
    if not by_name:
        raise Http404("This page has no chart for these choices")
    chart = by_name[pick(request, "chart", "", list(by_name))]
    extension = pick(request, "format", "svg", list(FORMATS))
    content_type, draw = FORMATS[extension]
    response = HttpResponse(draw(chart, request.build_absolute_uri("/").rstrip("/")), content_type=content_type)
    response["Content-Disposition"] = f'inline; filename="{chart.name}.{extension}"'
    return response


def _draw_pdf(chart: Chart, site: str) -> bytes:
    from leaderboard.charts.pdf import draw_pdf  # with reportlab, which pages do without

    return draw_pdf(chart, site)


def _draw_png(chart: Chart, site: str) -> bytes:
    from leaderboard.charts.pdf import draw_png

    return draw_png(chart)


def _describe(chart: Chart, site: str) -> str:
    return json.dumps(describe_plotly(chart), allow_nan=False)


FORMATS: dict[str, tuple[str, Callable[[Chart, str], str | bytes]]] = {
    "svg": ("image/svg+xml", draw_file),
    "png": ("image/png", _draw_png),
    "pdf": ("application/pdf", _draw_pdf),
    "json": ("application/json", _describe),
}
