"""Submit a model: the choice of a form, and the form of hub models. Forms of outputs are in `views/outputs.py`."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from leaderboard.models import Run, Submission
from leaderboard.people.permissions import require_user
from leaderboard.people.services.accounts import may_submit, needs_invitation, submissions_are_moderated
from leaderboard.services.memory import GB, memory_of_workers, most_parameters
from leaderboard.submissions import intake
from leaderboard.submissions.forms.hub import HubForm
from leaderboard.submissions.services import hub
from leaderboard.submissions.services.refusals import SubmissionRefused

FIRST_STEP = ("hub_id", "revision")
EARLIER_FIELDS = ("name", "family", "licence")  # of an earlier revision, in the address: kept where it is still so


@require_safe
@never_cache
def submit(request: HttpRequest) -> HttpResponse:
    """Explain which of the three forms to use, and what happens after sending."""
    context = {
        "may_submit": may_submit(request.user),
        "moderated": submissions_are_moderated(),
        "needs_invitation": needs_invitation(),
        "at_once": settings.SUBMISSIONS_AT_ONCE,
        "a_day": settings.SUBMISSIONS_A_DAY,
        "bytes_a_day": settings.UPLOAD_MOST_BYTES_A_DAY,
        "memory": memory_of_workers() / GB,
        "most_parameters": most_parameters(),
        "waiting": Run.objects.unfinished().count(),
    }
    return render(request, "submit/index.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@never_cache
def submit_hub(request: HttpRequest) -> HttpResponse:
    """Form A in two steps: look the model up on the hub, then send it."""
    if request.method != "POST":
        try:
            intake.refuse_too_many(require_user(request))
            refusal = ""
        except SubmissionRefused as refused:
            refusal = str(refused)
        form = HubForm(initial={name: request.GET.get(name, "") for name in FIRST_STEP})
        earlier_values = {name: request.GET[name] for name in EARLIER_FIELDS if request.GET.get(name)}
        return render(request, "submit/hub.html", {"form": form, "refusal": refusal, "before": earlier_values})
    values = _values(request)
    candidate, problems = None, {}
    try:
        if "send" in request.POST:
            submissions = intake.submit(require_user(request), Submission.Form.HUB, values)
            both = " It gets two entries, as raw text and as a chat; each has a page like this one."
            messages.success(request, f"Your model is submitted.{both if len(submissions) > 1 else ''}")
            return redirect(submissions[0])
        intake.refuse_too_many(require_user(request))
        candidate = intake.look_up(require_user(request), values)
    except SubmissionRefused as refused:
        problems, candidate = refused.problems, getattr(refused, "candidate", None)
    context = _context(values, candidate, problems, metrics_are_chosen="send" in request.POST)
    template = "submit/hub.html#answer" if request.headers.get("HX-Request") else "submit/hub.html"
    return render(request, template, context, status=400 if problems and template.endswith("hub.html") else 200)


def _values(request: HttpRequest) -> dict[str, Any]:
    fields = [name for name in HubForm.base_fields if name != "interface" and name in request.POST]
    values: dict[str, Any] = {name: request.POST[name] for name in fields}
    if "send" in request.POST:
        values["metrics"] = request.POST.getlist("metrics")
        if {"interface", "offers_interfaces"} & request.POST.keys():
            values["interface"] = request.POST.getlist("interface")
    return values


def _context(
    values: dict[str, Any], candidate: hub.HubCandidate | None, problems: dict[str, list[str]], metrics_are_chosen: bool
) -> dict[str, Any]:
    """Make the template context. `metrics_are_chosen`: the metrics in `values` come from ticked boxes."""
    earlier_values = {name: values[name] for name in EARLIER_FIELDS if values.get(name)}
    second_step = candidate is not None and not set(problems) & set(FIRST_STEP)
    form_values = dict(values)
    if candidate and second_step:
        pinned_model = candidate.resolved
        defaults = {
            "name": pinned_model.location,
            "family": pinned_model.architecture.family,
            "licence": candidate.licence,
            "metrics": candidate.usual_metrics,
            "precision": candidate.usual_precision,
            "interface": candidate.usual_interfaces,
        }
        form_values = {
            **defaults,
            **(values if metrics_are_chosen else earlier_values),
            "hub_id": pinned_model.location,
            "revision": pinned_model.revision,
        }
    form = HubForm(
        form_values, configuration={"context": candidate.resolved.architecture.context} if candidate else None
    )
    form.show(problems)
    return {
        "form": form,
        "found": candidate,
        "second_step": second_step,
        "chosen": form_values.get("metrics", []),
        "chosen_precision": form_values.get("precision", ""),
        "chosen_interfaces": form_values.get("interface", []),
        "texts": hub.ESTIMATED_TEXTS,
        "before": earlier_values,
    }
