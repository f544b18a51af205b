"""Watching and steering the scorers, for operators. Every action is confirmed once and recorded in the audit trail."""

from dataclasses import dataclass
from datetime import timedelta

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from leaderboard.models import ControlCheck, Metric, MetricVersion, Rescoring
from leaderboard.services import rescore
from leaderboard.services.checks import CannotCheck, request_check
from leaderboard.services.rescore import CannotRescore
from leaderboard.views.permissions import operators_only

STEPS = {"pause": rescore.pause, "resume": rescore.resume, "cancel": rescore.cancel}


@dataclass(frozen=True)
class Watched:
    """A metric with its current version, its last check and the rescoring under way."""

    metric: Metric
    version: MetricVersion | None
    check: ControlCheck | None
    rescoring: Rescoring | None

    @property
    def time_left(self) -> timedelta | None:
        """Of the rescoring."""
        return rescore.time_left(self.rescoring) if self.rescoring else None


@require_safe
@operators_only
def operate(request: HttpRequest) -> HttpResponse:
    """Every metric: can its scorer be trusted, and what is being done about it?"""
    checks: dict[int, ControlCheck] = {}
    for check in ControlCheck.objects.order_by("pk"):
        checks[check.metric_id] = check
    active = {
        rescoring.metric_id: rescoring
        for rescoring in Rescoring.objects.active().select_related("from_version__metric", "to_version__metric")
    }
    current = {
        version.metric_id: version
        for version in MetricVersion.objects.filter(status=MetricVersion.Status.CURRENT, provenance="measured")
    }
    watched = [
        Watched(metric, current.get(metric.pk), checks.get(metric.pk), active.get(metric.pk))
        for metric in Metric.objects.all()
    ]
    return render(request, "operate.html", {"watched": watched, "steps": STEPS})


@require_POST
@operators_only
def check_now(request: HttpRequest, slug: str) -> HttpResponse:
    """Queue a check of a metric's control set."""
    metric = get_object_or_404(Metric, slug=slug)
    try:
        request_check(metric, ControlCheck.Trigger.MANUAL, user=request.user)
        messages.info(request, f"The control set of {metric.title} is being scored again.")
    except CannotCheck as error:
        messages.error(request, str(error))
    return redirect("operate")


@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
def rescore_metric(request: HttpRequest, slug: str) -> HttpResponse:
    """What rescoring a metric would cost; and, once a reason is given, its beginning."""
    metric = get_object_or_404(Metric, slug=slug)
    reason, problem = request.POST.get("reason", ""), ""
    try:
        cost = rescore.estimate(metric)
        if request.method == "POST":
            rescoring = rescore.open_rescoring(metric, reason, user=request.user)
            messages.info(request, f"{rescoring.total} entries of {metric.title} are being scored again.")
            return redirect("operate")
    except CannotRescore as error:
        cost, problem = None, str(error)
    context = {"metric": metric, "cost": cost, "reason": reason, "problem": problem}
    return render(request, "rescore.html", context, status=400 if problem and request.method == "POST" else 200)


@require_POST
@operators_only
def steer_rescoring(request: HttpRequest, pk: int, step: str) -> HttpResponse:
    """Pause, resume or cancel a rescoring."""
    rescoring = get_object_or_404(Rescoring.objects.select_related("metric"), pk=pk)
    if step not in STEPS:
        raise Http404(f"step = {step!r}: use one of {', '.join(STEPS)}")
    if STEPS[step](rescoring, request.user):
        messages.info(request, f"The rescoring of {rescoring.metric.title}: {step} is done.")
    else:
        messages.error(request, f"The rescoring of {rescoring.metric.title} has ended: there is nothing to {step}.")
    return redirect("operate")
