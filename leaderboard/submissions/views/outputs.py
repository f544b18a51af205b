"""Submit outputs that were made elsewhere: of a closed model, or in the log of a tool."""

from collections.abc import Iterator
from typing import Literal

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.template.defaultfilters import filesizeformat
from django.utils.cache import patch_cache_control
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from leaderboard.card.fields import show_refusal
from leaderboard.models import Metric, Submission
from leaderboard.people.permissions import require_user
from leaderboard.submissions.forms.outputs import ContributionForm, OutputsForm, ToolForm
from leaderboard.submissions.intake import refuse_too_many, submit
from leaderboard.submissions.queries.outputs import list_requested_outputs
from leaderboard.submissions.services.refusals import SubmissionRefused
from leaderboard.submissions.services.templates import template_of
from leaderboard.submissions.upload_limit import find_oversized_fields

TYPES = {"jsonl": "application/jsonl", "csv": "text/csv"}
PIECE = 2**16  # characters


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@never_cache
def submit_outputs(request: HttpRequest) -> HttpResponse:
    """Form B: the outputs to make, their templates, and the form that takes them."""
    requests = list_requested_outputs()
    return _submit(request, Submission.Form.OUTPUTS, OutputsForm, {"asked": requests})


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@never_cache
def submit_tool(request: HttpRequest) -> HttpResponse:
    """Form C: the form that takes the log of a tool."""
    requests = [
        request_of_protocol
        for request_of_protocol in list_requested_outputs()
        if request_of_protocol.protocol.outputs.sampled
    ]
    return _submit(request, Submission.Form.TOOL, ToolForm, {"asked": requests})


def _submit(
    request: HttpRequest, kind: str, form_class: type[ContributionForm], context: dict[str, object]
) -> HttpResponse:
    """Show the form; or submit it, and go to the submission's page."""
    form = form_class(request.POST, request.FILES) if request.method == "POST" else form_class()
    if form.is_bound:
        for name in find_oversized_fields(request) & form.fields.keys():
            form.errors.pop(name, None)  # that it is missing
            form.add_error(name, f"The file is too large: send {filesizeformat(settings.UPLOAD_MOST_BYTES)} at most.")
        if form.is_valid():
            try:
                fields = form.cleaned_data
                (submission,) = submit(require_user(request), kind, fields, fields["file"])
                return redirect(submission)
            except SubmissionRefused as refused:
                show_refusal(form, refused)
    context |= {"form": form, "not_now": _not_now(request), "most": settings.UPLOAD_MOST_BYTES}
    context["chosen"] = request.POST.getlist("metrics")
    return render(request, f"submit/{kind}.html", context, status=400 if form.is_bound else 200)


def _not_now(request: HttpRequest) -> str:
    """Say why the reader may not submit, before they fill in the form; "" if they may."""
    try:
        refuse_too_many(require_user(request))
    except SubmissionRefused as refused:
        return str(refused)
    return ""


@require_safe
@login_required
def outputs_template(
    request: HttpRequest, slug: str, kind: Literal["jsonl", "csv"]
) -> HttpResponse | StreamingHttpResponse:
    """Serve the file to fill in for a metric. Its texts may be offensive: only for signed-in people, not for robots."""
    metric = Metric.objects.select_related("protocol__evaluation_set__artefact").filter(slug=slug).first()
    if metric is None or metric.protocol.evaluation_set.artefact is None:
        raise Http404(f"There is no metric {slug} whose texts are here")
    response = StreamingHttpResponse(_pieces(template_of(metric.protocol, kind)), content_type=TYPES[kind])
    response["Content-Disposition"] = f'attachment; filename="{slug}-template.{kind}"'
    response["X-Robots-Tag"] = "noindex, nofollow"
    patch_cache_control(response, private=True, no_store=True)
    return response


def _pieces(lines: Iterator[str]) -> Iterator[str]:
    """Join the lines to pieces of about PIECE characters."""
    piece_lines, size = [], 0
    for line in lines:
        piece_lines.append(line)
        size += len(line)
        if size > PIECE:
            yield "".join(piece_lines)
            piece_lines, size = [], 0
    yield "".join(piece_lines)
