"""Submitting outputs that were made elsewhere: of a closed model, or in the log of a tool."""

from collections.abc import Iterator

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.template.defaultfilters import filesizeformat
from django.utils.cache import patch_cache_control
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from leaderboard.contribution_forms import ContributionForm, OutputsForm, ToolForm
from leaderboard.models import Metric, Submission
from leaderboard.queries.asked_outputs import asked_outputs
from leaderboard.services.submissions import SubmissionRefused, submit
from leaderboard.services.submissions.sending import refuse_too_many
from leaderboard.services.submissions.templates import template_of
from leaderboard.upload_limit import too_large

TYPES = {"jsonl": "application/jsonl", "csv": "text/csv"}
PIECE = 2**16  # characters


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@never_cache
def submit_outputs(request: HttpRequest) -> HttpResponse:
    """Form B: what must be made, templates of it, and the form that takes it."""
    asked = asked_outputs()
    return _submit(request, Submission.Form.OUTPUTS, OutputsForm, {"asked": asked})


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@never_cache
def submit_tool(request: HttpRequest) -> HttpResponse:
    """Form C: the form that takes the log of a tool."""
    asked = [of for of in asked_outputs() if not of.of_likelihoods]
    return _submit(request, Submission.Form.TOOL, ToolForm, {"asked": asked})


def _submit(
    request: HttpRequest, kind: str, form_class: type[ContributionForm], context: dict[str, object]
) -> HttpResponse:
    """Show the form, or send what was filled in and go to the submission's page."""
    form = form_class(request.POST, request.FILES) if request.method == "POST" else form_class()
    if form.is_bound:
        for name in too_large(request) & form.fields.keys():
            form.errors.pop(name, None)  # that it is missing
            form.add_error(name, f"The file is too large: send {filesizeformat(settings.UPLOAD_MOST_BYTES)} at most.")
        if form.is_valid():
            try:
                return redirect(submit(request.user, kind, form.cleaned_data, form.cleaned_data["file"]))
            except SubmissionRefused as refused:
                for name, problems in refused.problems.items():
                    form.add_error(name if name in form.fields else None, problems)
    context |= {"form": form, "not_now": _not_now(request), "most": settings.UPLOAD_MOST_BYTES}
    context["chosen"] = form.data.getlist("metrics") if form.is_bound else []
    return render(request, f"submit/{kind}.html", context, status=400 if form.is_bound else 200)


def _not_now(request: HttpRequest) -> str:
    """Why the reader may not submit, said before anything is filled in."""
    try:
        refuse_too_many(request.user)
    except SubmissionRefused as refused:
        return str(refused)
    return ""


@require_safe
@login_required
def outputs_template(request: HttpRequest, slug: str, kind: str) -> HttpResponse | StreamingHttpResponse:
    """The file to fill in for a metric. Its texts may be offensive: for people who signed in, and no search engine."""
    metric = Metric.objects.select_related("protocol__evaluation_set__artefact").filter(slug=slug).first()
    if metric is None or metric.protocol.evaluation_set.artefact is None:
        raise Http404(f"There is no metric {slug} whose texts are here")
    response = StreamingHttpResponse(_pieces(template_of(metric.protocol, kind)), content_type=TYPES[kind])
    response["Content-Disposition"] = f'attachment; filename="{slug}-template.{kind}"'
    response["X-Robots-Tag"] = "noindex, nofollow"
    patch_cache_control(response, private=True, no_store=True)
    return response


def _pieces(lines: Iterator[str]) -> Iterator[str]:
    """The same text in fewer pieces."""
    waiting, size = [], 0
    for line in lines:
        waiting.append(line)
        size += len(line)
        if size > PIECE:
            yield "".join(waiting)
            waiting, size = [], 0
    yield "".join(waiting)
