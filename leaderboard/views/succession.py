"""What is left of a metric's numbers when another scorer takes over?"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from leaderboard.charts import (
    BumpColumn,
    BumpLine,
    Chart,
    ScatterPanel,
    Series,
    bump_chart,
    scatter_chart,
)
from leaderboard.formats import as_csv
from leaderboard.models import Metric, address_of_model
from leaderboard.queries.metric_page import find_metric
from leaderboard.queries.succession import (
    EntryReport,
    SuccessionReport,
    announced_end,
    list_successions,
    list_unfinished,
    show_succession,
)
from leaderboard.queries.succession_words import RULES, headline, pair_table, sentences
from leaderboard.templatetags.layout import counted
from leaderboard.views.chart_files import CHART_FILE, chart_file
from leaderboard.views.keeping import keep_page
from leaderboard.views.parameters import pick
from scoring.succession import ScoreMapping

SCORES = (0.0, 1.0)
STEPS = 101  # points of the mapping that are drawn


@require_safe
@keep_page(shows_progress=True, reads=("to", *CHART_FILE))
def succession(request: HttpRequest, slug: str) -> HttpResponse:
    """A metric's scorer against a successor, chosen by `to`: texts, mapping, ranks and a verdict."""
    metric = find_succeeded_metric(slug)
    report = choose_report(request, metric)
    context: dict[str, Any] = {
        "metric": metric,
        "report": report,
        "successions": list_successions(metric),
        "unfinished": list_unfinished(metric),
        "end": announced_end(metric.asked_scorer),
        "rules": RULES,
    }
    charts: list[Chart | None] = []
    if report:
        mapping, ranks = mapping_chart(report), rank_chart(report)
        charts = [mapping, ranks]
        context |= {
            "headline": headline(report),
            "sentences": sentences(report),
            "mapping_chart": mapping,
            "rank_chart": ranks,
        }
        context |= {"rows": list_ranks(report.orders) if report.orders else []}
    return chart_file(request, charts) or render(request, "succession.html", context)


@require_safe
@keep_page(reads=("to",))
def succession_export(request: HttpRequest, slug: str, name: str) -> HttpResponse:
    """The comparison of the page of the same address, as CSV (the pairs whose order changes) or JSON (all of it)."""
    metric = find_succeeded_metric(slug)
    report = choose_report(request, metric)
    if report is None:
        raise Http404(f"The scorer of {metric.slug} has been compared with no successor yet")
    if name == "json":
        response: HttpResponse = JsonResponse(report.as_json(), json_dumps_params={"ensure_ascii": False})
    else:
        response = HttpResponse(as_csv(pair_table(report)), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="succession-{metric.slug}.{name}"'
    return response


def find_succeeded_metric(slug: str) -> Metric:
    """The metric of that slug. Raises Http404 where there is none, or no scorer to follow."""
    metric = find_metric(slug)
    if metric is None:
        raise Http404(f"There is no metric {slug!r} on this board")
    if not metric.asked_scorer:
        raise Http404(f"{metric.title} asks no scorer, so none can take over")
    return metric


def choose_report(request: HttpRequest, metric: Metric) -> SuccessionReport | None:
    """The comparison that `to` names, by default the newest; None where there is none. Raises Http404."""
    successions = {row.successor: row for row in list_successions(metric)}
    if not successions:
        return None
    newest = max(successions.values(), key=lambda row: row.pk)
    return show_succession(successions[pick(request, "to", newest.successor, list(successions))])


def mapping_chart(report: SuccessionReport) -> Chart | None:
    """Old score over new score of the same texts, with the mapping; None of texts without scores."""
    main: Mapping[str, Any] = report.main
    old, new = main["points"]
    if not old:
        return None
    titles = [f"{x:.2f} by the successor, {y:.2f} before" for y, x in zip(old, new, strict=True)]
    series = [Series("Texts", new, old, titles, small=True)]
    if main["mapping"]:
        mapping = ScoreMapping(tuple(main["mapping"]["x"]), tuple(main["mapping"]["y"]))
        x = np.linspace(mapping.x[0], mapping.x[-1], STEPS)
        y = mapping.apply(x)
        lines = [
            f"{score:.2f} by the successor stands for {stand_in:.2f}" for score, stand_in in zip(x, y, strict=True)
        ]
        series.append(Series("Mapping", x.tolist(), y.tolist(), lines, joined=True, small=True))
    row = report.succession
    return scatter_chart(
        "mapping",
        [ScatterPanel(f"{row.successor}: {main['counterpart']}", series, limits=SCORES)],
        f"{row.scorer}: {main['attribute']}",
        f"Scores of the same texts by {row.successor} (across) and {row.scorer} (up), with the mapping from one to the "
        "other. The table under it has the numbers.",
        SCORES,
    )


def rank_chart(report: SuccessionReport) -> Chart | None:
    """The ranks of the models under the old scorer, the new one and the mapped one; None without models of both."""
    orders = report.orders
    if orders is None or not orders.entries:
        return None
    comparison, row = orders.comparison, report.succession
    columns = [comparison.old_ranks, comparison.new_ranks]
    captions = [row.scorer, row.successor]
    if comparison.mapped_ranks:
        columns.append(comparison.mapped_ranks)
        captions.append("mapped")
    lines = [
        BumpLine(
            entry.name,
            orders.names[entry.name],
            ranks,
            [first - second for first, second in pairwise(ranks)],
            link=address_of_model(entry.name),
        )
        for entry, *ranks in zip(orders.entries, *columns, strict=True)
    ]
    return bump_chart(
        "ranks",
        [BumpColumn(place, (caption,), title=caption) for place, caption in enumerate(captions, start=1)],
        sorted(lines, key=lambda line: (line.ranks[0] or 0, line.name)),
        f"Ranks of {counted(len(lines), 'model')} under {', '.join(captions)}. "
        "The table under it has the same numbers.",
    )


def list_ranks(orders: EntryReport) -> list[dict[str, Any]]:
    """The rows of the table of models, by old rank."""
    comparison = orders.comparison
    mapped_ranks = comparison.mapped_ranks or (None,) * len(orders.entries)
    ranks = zip(comparison.old_ranks, comparison.new_ranks, mapped_ranks, strict=True)
    rows = [
        {
            "slug": entry.name,
            "name": orders.names[entry.name],
            "cells": list(zip(places, (entry.old, entry.new, entry.mapped), strict=True)),
        }
        for entry, places in zip(orders.entries, ranks, strict=True)
    ]
    return sorted(rows, key=lambda row: (row["cells"][0][0], row["name"]))
