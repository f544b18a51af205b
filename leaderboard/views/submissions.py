"""What a person sent, and what became of it: its page, their workspace, and what they may do."""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from leaderboard.models import Submission
from leaderboard.queries.submissions import contents_of, status, workspace
from leaderboard.services.roles import moderates
from leaderboard.services.submissions import SubmissionRefused, lifecycle
from leaderboard.services.submissions import workspace as service
from leaderboard.services.submissions.letters import choose_letters, wants_letters
from leaderboard.services.submissions.lifecycle import CannotChange
from leaderboard.views.parameters import page_number, pick
from leaderboard.views.polling import SEEN

GET_OR_POST = ["GET", "HEAD", "POST"]


@require_safe
@login_required
@never_cache
def submission(request: HttpRequest, pk: int) -> HttpResponse:
    """How far one's submission is. Moderators see everybody's; to all others there is no such page."""
    seen = Submission.objects.select_related("model", "submitter")
    if not moderates(request.user):
        seen = seen.filter(submitter=request.user)
    shown = status(get_object_or_404(seen, pk=pk))
    if request.headers.get(SEEN, shown.mark) != shown.mark:  # more than numbers moved: the whole page is another one
        response = HttpResponse(status=204)
        response["HX-Refresh"] = "true"
        return response
    own = shown.submission.submitter_id == request.user.pk
    context = {"shown": shown, "submission": shown.submission, "own": own, "sent": contents_of(shown.submission)}
    return render(request, "submissions/submission.html", context)


@require_safe
@login_required
@never_cache
def submissions(request: HttpRequest) -> HttpResponse:
    """All that one sent, by `state` and `page`."""
    state = pick(request, "state", "", ["", *Submission.State.values])
    mine = workspace(request.user, state, page_number(request))
    context = {"mine": mine, "state": state, "letters": wants_letters(request.user)}
    return render(request, "submissions/workspace.html", context)


@require_POST
@login_required
def submission_letters(request: HttpRequest) -> HttpResponse:
    """Whether one wants to be written to."""
    choose_letters(request.user, "letters" in request.POST)
    messages.info(request, "Kept: you are written to." if "letters" in request.POST else "Kept: no more letters.")
    return redirect("submissions")


def _own(request: HttpRequest, pk: int) -> Submission:
    """One's own submission; others' do not exist."""
    mine = Submission.objects.select_related("model", "submitter").filter(submitter=request.user)
    return get_object_or_404(mine, pk=pk)


def _asked(request: HttpRequest, found: Submission, do: Callable[[], str], **context: Any) -> HttpResponse:
    """Ask once; when the answer comes, do it and say what was done, or why not."""
    if request.method != "POST":
        return render(request, "submissions/confirm.html", {"submission": found, **context})
    try:
        messages.info(request, do())
    except CannotChange as error:
        messages.error(request, str(error))
    return redirect(found)


@require_http_methods(GET_OR_POST)
@login_required
@never_cache
def cancel_submission(request: HttpRequest, pk: int) -> HttpResponse:
    """Stop the work for a submission."""
    found = _own(request, pk)

    def do() -> str:
        if not lifecycle.cancel(found, request.user):
            raise CannotChange(f"It is {found.get_state_display().lower()}: there is nothing to cancel.")
        return "It is cancelled."

    before = "Its outputs are collected and scored."
    after = "The work for it stops, but for what somebody else waits for. What was collected is kept; you can retry it."
    return _asked(request, found, do, title="Cancel", button="Cancel the submission", before=before, after=after)


@require_http_methods(GET_OR_POST)
@login_required
@never_cache
def retry_submission(request: HttpRequest, pk: int) -> HttpResponse:
    """Begin again what failed, was cancelled, or was refused for no fault of its own."""
    found = _own(request, pk)

    def do() -> str:
        lifecycle.retry(found, request.user)
        return "It is under way again."

    after = "What failed or was cancelled begins again, from what was collected so far. What is ranked stays as it is."
    return _asked(
        request, found, do, title="Retry", button="Retry", before=found.get_state_display() + ".", after=after
    )


@require_http_methods(GET_OR_POST)
@login_required
@never_cache
def withdraw_submission(request: HttpRequest, pk: int) -> HttpResponse:
    """Take a submission back, and its model out of the rankings where it is one's own alone."""
    found = _own(request, pk)
    kept = service.why_not_alone(found)

    def do() -> str:
        gone = service.withdraw(found, request.POST.get("reason", ""), request.user)
        return "It is withdrawn, and its model has left the rankings." if gone else "It is withdrawn."

    places = [stage for stage in status(found).stages if stage.standing] if found.model else []
    if kept:
        after = f"Your submission is over. {kept} So the model stays where it is."
    elif found.model:
        after = "The model leaves the rankings that readers see now; earlier versions stay as they were published. "
        after += "Its page stays, and says that it was withdrawn. Only an operator can bring it back."
    else:
        after = "Your submission is over; nothing of it was entered."
    context = {"title": "Withdraw", "button": "Withdraw it", "after": after, "places": places}
    return _asked(request, found, do, **context, before=found.get_state_display() + ".", reasons=service.REASONS)


@require_http_methods(GET_OR_POST)
@login_required
@never_cache
def correct_submission(request: HttpRequest, pk: int) -> HttpResponse:
    """Correct what is said of one's model."""
    found = _own(request, pk)

    def do(values: dict[str, Any]) -> str:
        changed, asks = service.correct(found, values, request.user)
        sentences = [f"Corrected: {', '.join(changed)}."] * bool(changed)
        sentences += ["The new name waits for a moderator, as the model is ranked."] * asks
        return " ".join(sentences) or "Nothing was changed."

    values = {name: getattr(found.model, name, "") for name in service.METADATA}
    return _edited(request, found, do, values)


@require_http_methods(GET_OR_POST)
@login_required
@never_cache
def change_submission(request: HttpRequest, pk: int) -> HttpResponse:
    """Change what a moderator asked to have changed, and send it again."""
    found = _own(request, pk)

    def do(values: dict[str, Any]) -> str:
        service.send_again(found, values, request.user)
        return "It is sent again: a moderator looks at it."

    values = {name: found.payload.get(name, "") for name in (*service.METADATA, "metrics")}
    return _edited(request, found, do, values, metrics=service.possible_metrics(found))


def _edited(
    request: HttpRequest, found: Submission, do: Callable[[dict[str, Any]], str], values: dict[str, Any], **context: Any
) -> HttpResponse:
    """The form with what is said of a model; when it comes back, what it did, or what is wrong at which field."""
    problems: dict[str, list[str]] = {}
    if request.method == "POST":
        values = {name: request.POST.get(name, "") for name in service.METADATA}
        values["metrics"] = request.POST.getlist("metrics")
        try:
            messages.info(request, do(values))
            return redirect(found)
        except CannotChange as error:
            messages.error(request, str(error))
            return redirect(found)
        except SubmissionRefused as error:
            problems = error.problems
    fields = [
        {"name": name, "most": most, "value": values[name], "problems": problems.get(name)}
        for name, most in service.METADATA.items()
    ]
    context |= {"submission": found, "fields": fields, "chosen": values.get("metrics"), "problems": problems}
    return render(request, "submissions/edit.html", context, status=400 if problems else 200)
