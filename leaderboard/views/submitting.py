"""Submitting a model: which form is for whom, and the form of hub models. Those of outputs have views of their own."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from leaderboard.hub_form import HubForm
from leaderboard.models import Run, Submission
from leaderboard.services import submissions
from leaderboard.services.accounts import may_submit, needs_invitation, submissions_are_moderated
from leaderboard.services.memory import GB, memory_of_workers, most_parameters
from leaderboard.services.submissions import SubmissionRefused, hub, sending

FIRST_STEP = ("hub_id", "revision")
SAID_BEFORE = ("name", "family", "licence")  # of an earlier revision, in the address: kept where it is still so


@require_safe
@never_cache
def submit(request: HttpRequest) -> HttpResponse:
    """Which of the three forms is for whom, and what becomes of what one sends."""
    context = {
        "may_submit": may_submit(request.user),
        "moderated": submissions_are_moderated(),
        "needs_invitation": needs_invitation(),
        "at_once": settings.SUBMISSIONS_AT_ONCE,
        "a_day": settings.SUBMISSIONS_A_DAY,
        "memory": memory_of_workers() / GB,
        "most_parameters": most_parameters(),
        "waiting": Run.objects.unfinished().count(),
    }
    return render(request, "submit/index.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@never_cache
def submit_hub(request: HttpRequest) -> HttpResponse:
    """Form A in two steps: what the hub has is looked at, and then sent as it was seen."""
    if request.method != "POST":
        try:
            sending.refuse_too_many(request.user)
            refusal = ""
        except SubmissionRefused as refused:
            refusal = str(refused)
        form = HubForm(initial={name: request.GET.get(name, "") for name in FIRST_STEP})
        before = {name: request.GET[name] for name in SAID_BEFORE if request.GET.get(name)}
        return render(request, "submit/hub.html", {"form": form, "refusal": refusal, "before": before})
    values = _values(request)
    found, problems = None, {}
    try:
        if "send" in request.POST:
            submission = submissions.submit(request.user, Submission.Form.HUB, values)
            messages.success(request, "Your model is submitted.")
            return redirect(submission)
        sending.refuse_too_many(request.user)
        found = hub.look(values)
    except SubmissionRefused as refused:
        problems, found = refused.problems, getattr(refused, "found", None)
    context = _context(values, found, problems, chosen="send" in request.POST)
    template = "submit/hub_found.html" if request.headers.get("HX-Request") else "submit/hub.html"
    return render(request, template, context, status=400 if problems and template.endswith("hub.html") else 200)


def _values(request: HttpRequest) -> dict[str, Any]:
    values: dict[str, Any] = {name: request.POST[name] for name in HubForm.base_fields if name in request.POST}
    if "send" in request.POST:
        values["metrics"] = request.POST.getlist("metrics")
    return values


def _context(
    values: dict[str, Any], found: hub.Found | None, problems: dict[str, list[str]], chosen: bool
) -> dict[str, Any]:
    """`chosen`: whether the metrics in `values` are what somebody ticked."""
    before = {name: values[name] for name in SAID_BEFORE if values.get(name)}
    second_step = found is not None and not set(problems) & set(FIRST_STEP)
    shown = dict(values)
    if found and second_step:
        about = found.resolved
        defaults = {
            "name": about.location,
            "family": about.architecture.family,
            "licence": found.licence,
            "metrics": found.possible,
        }
        shown = {**defaults, **(values if chosen else before), "hub_id": about.location, "revision": about.revision}
    form = HubForm(shown)
    form.show(problems)
    return {
        "form": form,
        "found": found,
        "second_step": second_step,
        "chosen": shown.get("metrics", []),
        "before": before,
    }
