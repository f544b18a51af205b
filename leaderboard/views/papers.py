"""What papers print: every table, as its file has it, with its source."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from leaderboard.models import Metric
from leaderboard.queries.papers import FigurePaper, FigureTable, find_table, papers, read_contents
from leaderboard.rankings.days import MOST_SHOWN
from leaderboard.services.figures import FOLDER
from leaderboard.views.keeping import keep_page


@require_safe
@keep_page()
def published(request: HttpRequest) -> HttpResponse:
    """Every paper with its tables, the boards that hold their numbers, and where a paper contradicts itself."""
    titles = metric_titles()
    context = {
        "papers": [
            (paper, [(table, len(table.rows), boards(table, titles)) for table in paper.tables]) for paper in papers()
        ]
    }
    return render(request, "published.html", context)


@require_safe
@keep_page()
def published_table(request: HttpRequest, name: str) -> HttpResponse:
    """One table, whole."""
    paper, table = choose_table(name)
    context = {
        "paper": paper,
        "table": table,
        "contents": read_contents(table),
        "boards": boards(table, metric_titles()),
    }
    return render(request, "published_table.html", context)


@require_safe
def published_file(_request: HttpRequest, name: str) -> HttpResponse:
    """The table as CSV, as it comes with Plumbline."""
    _, table = choose_table(name)
    response = HttpResponse((FOLDER / f"{table.file}.csv").read_bytes(), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{table.file}.csv"'
    return response


def choose_table(name: str) -> tuple[FigurePaper, FigureTable]:
    """The table that an address names, with its paper. Raises Http404."""
    pair = find_table(name)
    if pair is None:
        raise Http404(f"There is no published table {name[:MOST_SHOWN]!r}; /published/ lists them")
    return pair


def metric_titles() -> dict[str, str]:
    """The metrics of the board: title by slug, in one query."""
    return dict(Metric.objects.order_by().values_list("slug", "title"))


def boards(table: FigureTable, titles: dict[str, str]) -> list[tuple[str, str]]:
    """The metrics of this board that hold the numbers of a table, by slug and title."""
    return [(slug, titles[slug]) for slug in table.metrics if slug in titles]
