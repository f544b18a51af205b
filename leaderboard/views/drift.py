"""Can the scorer be trusted today?"""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from leaderboard.charts import Chart, ControlPanel, ControlPoint, DistributionSample, control_chart, distributions
from leaderboard.models import ControlCheck, Metric
from leaderboard.queries.check_report import CheckReport, attributes_of_check, check_report, find_check
from leaderboard.queries.drift import (
    CheckRow,
    Condition,
    WatchedScorer,
    checks_page,
    describe_day,
    list_watched_scorers,
)
from leaderboard.queries.succession import announced_end
from leaderboard.views.chart_files import CHART_FILE, chart_file
from leaderboard.views.keeping import keep_page
from leaderboard.views.parameters import choose_metric, page_number, pick, read_number

SHIFT = ControlPanel("Mean shift of scores", "limit")
BEYOND = ControlPanel("Texts beyond their own noise", "explained by noise", counted=True)
FLIPS = ControlPanel("Labels that flipped", "material from", counted=True)


@require_safe
@keep_page(shows_progress=True, reads=("metric", "page", "check", "attribute", *CHART_FILE))
def drift(request: HttpRequest) -> HttpResponse:
    """The state of every metric's scorer; of one, chosen by `metric`, the checks, and one of them in full."""
    scorers = list_watched_scorers()
    metrics = [scorer.metric for scorer in scorers]
    if not request.GET.get("metric"):
        unwatched_scorers = [scorer for scorer in scorers if not scorer.version and not scorer.last]
        context = {
            "verdict": describe_day(scorers),
            "watched": [scorer for scorer in scorers if scorer not in unwatched_scorers],
            "unwatched": unwatched_scorers,
            "conditions": list(Condition),
            "ending": ending_scorers(metrics),
        }
        return render(request, "drift.html", context)
    metric = choose_metric(request, metrics, metrics[0] if metrics else None)
    return one_metric(request, next(scorer for scorer in scorers if scorer.metric == metric), metrics)


def ending_scorers(metrics: list[Metric]) -> list[tuple[str, Metric]]:
    """The scorers whose end is announced, each with the first metric that asks it."""
    first_metrics: dict[str, Metric] = {}
    for metric in metrics:
        if announced_end(metric.asked_scorer):
            first_metrics.setdefault(metric.asked_scorer, metric)
    return list(first_metrics.items())


def one_metric(request: HttpRequest, scorer: WatchedScorer, metrics: list[Metric]) -> HttpResponse:
    """The checks of one metric, `page` by page, and the one chosen by `check`, by default the newest."""
    page, rows = checks_page(scorer.metric, page_number(request))
    check = chosen_check(request, scorer)
    report = None
    if check:
        attributes = attributes_of_check(check)
        attribute = pick(request, "attribute", attributes[0] if attributes else "", attributes or [""])
        report = check_report(check, attribute)
    checks = checks_chart(scorer.metric, rows) if rows else None
    histogram = histogram_chart(report) if report and report.histogram else None
    context = {
        "chosen": scorer,
        "metrics": metrics,
        "conditions": [
            condition for condition in Condition if condition.key in ("stable", "changed", "drifted", "unavailable")
        ],
        "page": page,
        "rows": rows,
        "chart": checks,
        "report": report,
        "condition": Condition.of(check.verdict) if check else None,
        "histogram_chart": histogram,
    }
    return chart_file(request, [checks, histogram]) or render(request, "drift_metric.html", context)


def chosen_check(request: HttpRequest, scorer: WatchedScorer) -> ControlCheck | None:
    """The check that the address names, else the newest. Raises Http404 where there is none of that number."""
    number = read_number(request, "check")
    if number is None:
        return find_check(scorer.metric, scorer.last.pk) if scorer.last else None
    check = find_check(scorer.metric, number)
    if check is None:
        raise Http404(f"check = {number}: {scorer.metric.title} has no such check that came to an end")
    return check


def checks_chart(metric: Metric, rows: list[CheckRow]) -> Chart:
    """The checks of the table as a control chart, the oldest on the left."""
    kinds = {"mean_shift": SHIFT, "beyond": BEYOND, "flips": FLIPS}
    bounds = {"mean_shift": "mean_limit", "beyond": "expected", "flips": "flips_limit"}
    keys = [key for key in kinds if key == "mean_shift" or any(row.overall.get(key) is not None for row in rows)]
    points = [
        ControlPoint(
            verdict=row.check.condition.key,
            captions=(f"{row.check.finished_at:%-d %b}", f"{row.check.finished_at:%Y}")
            if row.check.finished_at
            else ("",),
            title=describe_check(row),
            version=row.check.version,
            values=[row.overall.get(key) for key in keys],
            bounds=[row.overall.get(bounds[key]) for key in keys],
        )
        for row in reversed(rows)
    ]
    counts = {condition: sum(row.check.condition is condition for row in rows) for condition in Condition}
    summary = ", ".join(f"{count} {condition.label.lower()}" for condition, count in counts.items() if count)
    return control_chart(
        f"{metric.slug}-checks",
        [kinds[key] for key in keys],
        points,
        f"Control chart of {len(rows)} checks of {metric.title}, the oldest on the left: {summary}. Panels show, over "
        "all control texts, how far scores had moved, with the limit as a dashed line. The table under it has the same "
        "numbers.",
    )


def describe_check(row: CheckRow) -> str:
    """A check in a line or two, for a pointer that rests on it."""
    moment = f"{row.check.finished_at:%-d %B %Y, %H:%M} UTC" if row.check.finished_at else "unknown"
    numbers = [
        f"{words} {value:.3g}"
        for key, words in (("mean_shift", "mean shift"), ("beyond", "texts beyond noise"), ("flips", "flips"))
        if (value := row.overall.get(key)) is not None
    ]
    return f"{row.check.condition.label}: {moment}; " + (", ".join(numbers) or "no answer")


def histogram_chart(report: CheckReport) -> Chart | None:
    """The scores of the control texts when they were frozen and at the check."""
    histogram: Any = report.histogram
    metric = report.check.metric
    scores = metric.formula.value_name
    counts = zip(("as frozen", "at this check"), (histogram.before, histogram.after), histogram.medians, strict=True)
    old_sample, new_sample = (
        DistributionSample(label, [n / sum(bin_counts) for n in bin_counts], median)
        for label, bin_counts, median in counts
    )
    return distributions(
        f"{metric.slug}-check-{report.check.pk}",
        histogram.edges,
        (old_sample, new_sample),
        f"{report.attribute}, {scores}",
        f"Two distributions of the {scores} {report.attribute} of the same {sum(histogram.before)} control texts: when "
        "the version was opened, and at this check. The table under it has the same numbers.",
    )
