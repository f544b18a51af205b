"""Can the scorer be trusted today?"""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from leaderboard.charts import Chart, ControlPanel, ControlPoint, Sample, control_chart, distributions
from leaderboard.models import ControlCheck, Metric
from leaderboard.queries.check_report import CheckReport, attributes_of_check, check_report, find_check
from leaderboard.queries.drift import CheckRow, Condition, Watched, checks_page, watched
from leaderboard.views.keeping import kept
from leaderboard.views.parameters import choose_metric, page_number, pick, read_number

SHIFT = ControlPanel("Mean shift of scores", "limit")
BEYOND = ControlPanel("Texts beyond their own noise", "explained by noise", counted=True)
FLIPS = ControlPanel("Labels that flipped", "material from", counted=True)


@require_safe
@kept(watching=True, reads=("metric", "page", "check", "attribute"))
def drift(request: HttpRequest) -> HttpResponse:
    """The state of every metric's scorer; of one, chosen by `metric`, the checks, and one of them in full."""
    found = watched()
    metrics = [of.metric for of in found]
    if not request.GET.get("metric"):
        return render(request, "drift.html", {"watched": found, "conditions": list(Condition)})
    metric = choose_metric(request, metrics)
    return one_metric(request, next(of for of in found if of.metric == metric), metrics)


def one_metric(request: HttpRequest, chosen: Watched, metrics: list[Metric]) -> HttpResponse:
    """The checks of one metric, `page` by page, and the one chosen by `check`, by default the newest."""
    page, rows = checks_page(chosen.metric, page_number(request))
    check = chosen_check(request, chosen)
    report = None
    if check:
        attributes = attributes_of_check(check)
        attribute = pick(request, "attribute", attributes[0] if attributes else "", attributes or [""])
        report = check_report(check, attribute)
    context = {
        "chosen": chosen,
        "metrics": metrics,
        "conditions": [of for of in Condition if of.key in ("stable", "changed", "drifted", "unavailable")],
        "page": page,
        "rows": rows,
        "chart": checks_chart(chosen.metric, rows) if rows else None,
        "report": report,
        "condition": Condition.of(check.verdict) if check else None,
        "histogram_chart": histogram_chart(report) if report and report.histogram else None,
    }
    return render(request, "drift_metric.html", context)


def chosen_check(request: HttpRequest, chosen: Watched) -> ControlCheck | None:
    """The check that the address names, else the newest. Raises Http404 where there is none of that number."""
    number = read_number(request, "check")
    if number is None:
        return find_check(chosen.metric, chosen.last.pk) if chosen.last else None
    check = find_check(chosen.metric, number)
    if check is None:
        raise Http404(f"check = {number}: {chosen.metric.title} has no such check that came to an end")
    return check


def checks_chart(metric: Metric, rows: list[CheckRow]) -> Chart:
    """The checks of the table as a control chart, the oldest on the left."""
    kinds = {"mean_shift": SHIFT, "beyond": BEYOND, "flips": FLIPS}
    bounds = {"mean_shift": "mean_limit", "beyond": "expected", "flips": "flips_limit"}
    shown = [key for key in kinds if key == "mean_shift" or any(row.overall.get(key) is not None for row in rows)]
    points = [
        ControlPoint(
            verdict=row.check.condition.key,
            caption=f"{row.check.finished_at:%-d %b<br>%Y}" if row.check.finished_at else "",
            said=said_of(row),
            version=row.check.version,
            values=[row.overall.get(key) for key in shown],
            bounds=[row.overall.get(bounds[key]) for key in shown],
        )
        for row in reversed(rows)
    ]
    counts = {of: sum(row.check.condition is of for row in rows) for of in Condition}
    told = ", ".join(f"{count} {of.label.lower()}" for of, count in counts.items() if count)
    return control_chart(
        f"{metric.slug}-checks",
        [kinds[key] for key in shown],
        points,
        f"Control chart of {len(rows)} checks of {metric.title}, the oldest on the left: {told}. Panels show, over all "
        "control texts, how far scores had moved, with the limit as a dashed line. The table under it has the same "
        "numbers.",
    )


def said_of(row: CheckRow) -> str:
    """A check in a line or two, for a pointer that rests on it."""
    when = f"{row.check.finished_at:%-d %B %Y, %H:%M} UTC" if row.check.finished_at else "unknown"
    numbers = [
        f"{words} {value:.3g}"
        for key, words in (("mean_shift", "mean shift"), ("beyond", "texts beyond noise"), ("flips", "flips"))
        if (value := row.overall.get(key)) is not None
    ]
    return f"{row.check.condition.label}: {when}<br>" + (", ".join(numbers) or "no answer")


def histogram_chart(report: CheckReport) -> Chart | None:
    """The scores of the control texts when they were frozen and at the check."""
    found: Any = report.histogram
    metric = report.check.metric
    scores = "score" if metric.formula.asks_scorer else "log-perplexity"
    counts = zip(("as frozen", "at this check"), (found.before, found.after), found.medians, strict=True)
    frozen, now = (Sample(label, [n / sum(of) for n in of], median) for label, of, median in counts)
    return distributions(
        f"{metric.slug}-check-{report.check.pk}",
        found.edges,
        (frozen, now),
        f"{report.attribute}, {scores}",
        f"Two distributions of the {scores} {report.attribute} of the same {sum(found.before)} control texts: when the "
        "version was opened, and at this check. The table under it has the same numbers.",
    )
