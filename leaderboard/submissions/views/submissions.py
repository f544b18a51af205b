"""A person's submissions: the page of each, the workspace, and what the person may do."""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from leaderboard.card.form import Card
from leaderboard.models import Submission
from leaderboard.people.permissions import require_user
from leaderboard.people.services.roles import moderates
from leaderboard.submissions.queries.submissions import describe_status, read_contents, read_workspace
from leaderboard.submissions.services import lifecycle
from leaderboard.submissions.services import workspace as service
from leaderboard.submissions.services.letters import choose_letters, wants_letters
from leaderboard.submissions.services.refusals import SubmissionRefused
from leaderboard.views.parameters import page_number, pick
from leaderboard.views.polling import SEEN, render_polled
from scoring.refusals import Refused

GET_OR_POST = ["GET", "HEAD", "POST"]


@require_safe
@login_required
@never_cache
def submission(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the progress of a submission to its submitter and to moderators; 404 for others."""
    visible_submissions = Submission.objects.select_related("model", "submitter")
    if not moderates(request.user):
        visible_submissions = visible_submissions.filter(submitter=require_user(request))
    page = describe_status(get_object_or_404(visible_submissions, pk=pk))
    if request.headers.get(SEEN, page.mark) != page.mark:  # more than numbers changed: reload the whole page
        response = HttpResponse(status=204)
        response["HX-Refresh"] = "true"
        return response
    own = page.submission.submitter_id == request.user.pk
    context = {"shown": page, "submission": page.submission, "own": own, "sent": read_contents(page.submission)}
    return render_polled(request, "submissions/submission.html", context)


@require_safe
@login_required
@never_cache
def submissions(request: HttpRequest) -> HttpResponse:
    """List the reader's submissions, by `state` and `page`."""
    state = pick(request, "state", "", ["", *Submission.State.values])
    page = read_workspace(require_user(request), state, page_number(request))
    context = {"mine": page, "state": state, "letters": wants_letters(require_user(request))}
    return render(request, "submissions/workspace.html", context)


@require_POST
@login_required
def submission_letters(request: HttpRequest) -> HttpResponse:
    """Save whether the reader wants e-mails about submissions."""
    wants_mail = "letters" in request.POST
    choose_letters(require_user(request), wants_mail)
    messages.info(request, "Saved: you get e-mails." if wants_mail else "Saved: you get no more e-mails.")
    return redirect("submissions")


def _find_own(request: HttpRequest, pk: int) -> Submission:
    """Return the reader's own submission; 404 for those of others."""
    own_submissions = Submission.objects.select_related("model", "submitter").filter(submitter=require_user(request))
    return get_object_or_404(own_submissions, pk=pk)


def _ask_and_do(request: HttpRequest, submission: Submission, act: Callable[[], str], **context: Any) -> HttpResponse:
    """Ask for confirmation; on POST, act and show the outcome or the refusal."""
    if request.method != "POST":
        return render(request, "submissions/confirm.html", {"submission": submission, **context})
    try:
        messages.info(request, act())
    except Refused as error:
        messages.error(request, str(error))
    return redirect(submission)


@require_http_methods(GET_OR_POST)
@login_required
@never_cache
def cancel_submission(request: HttpRequest, pk: int) -> HttpResponse:
    """Stop the work for a submission."""
    submission = _find_own(request, pk)

    def do() -> str:
        if not lifecycle.cancel(submission, require_user(request)):
            raise Refused(f"It is {submission.get_state_display().lower()}: there is nothing to cancel.")
        return "It is cancelled."

    situation = "Its outputs are collected and scored."
    consequence = "Its work stops, except what somebody else waits for. What was collected is kept; you can retry it."
    return _ask_and_do(
        request, submission, do, title="Cancel", button="Cancel the submission", before=situation, after=consequence
    )


@require_http_methods(GET_OR_POST)
@login_required
@never_cache
def retry_submission(request: HttpRequest, pk: int) -> HttpResponse:
    """Retry a submission that failed, was cancelled, or was refused through no fault of its own."""
    submission = _find_own(request, pk)

    def do() -> str:
        lifecycle.retry(submission, require_user(request))
        return "It is under way again."

    consequence = (
        "What failed or was cancelled begins again, from what was collected so far. What is ranked stays as it is."
    )
    return _ask_and_do(
        request,
        submission,
        do,
        title="Retry",
        button="Retry",
        before=submission.get_state_display() + ".",
        after=consequence,
    )


@require_http_methods(GET_OR_POST)
@login_required
@never_cache
def withdraw_submission(request: HttpRequest, pk: int) -> HttpResponse:
    """Withdraw a submission, and its model if nobody else has a claim to it."""
    submission = _find_own(request, pk)
    objection = service.find_other_claim(submission)

    def do() -> str:
        model_left = service.withdraw(submission, request.POST.get("reason", ""), require_user(request))
        return "It is withdrawn, and its model has left the rankings." if model_left else "It is withdrawn."

    places = [stage for stage in describe_status(submission).stages if stage.standing] if submission.model else []
    if objection:
        consequence = f"Your submission ends. {objection} So the model stays where it is."
    elif submission.model:
        consequence = (
            "The model leaves the rankings that readers see now; earlier versions stay as they were published. "
        )
        consequence += "Its page stays, and says that it was withdrawn. Only an operator can bring it back."
    else:
        consequence = "Your submission ends. Nothing was entered."
    context = {"title": "Withdraw", "button": "Withdraw it", "after": consequence, "places": places}
    return _ask_and_do(
        request, submission, do, **context, before=submission.get_state_display() + ".", reasons=service.REASONS
    )


@require_http_methods(GET_OR_POST)
@login_required
@never_cache
def correct_submission(request: HttpRequest, pk: int) -> HttpResponse:
    """Correct the card of the reader's model."""
    submission = _find_own(request, pk)

    def do(values: dict[str, Any]) -> str:
        changed_fields, name_waits = service.correct(submission, values, require_user(request))
        sentences = [f"Corrected: {', '.join(changed_fields)}."] * bool(changed_fields)
        sentences += ["The new name waits for a moderator: the log of this submission says why."] * name_waits
        return " ".join(sentences) or "Nothing was changed."

    return _edit_card(request, submission, do)


@require_http_methods(GET_OR_POST)
@login_required
@never_cache
def change_submission(request: HttpRequest, pk: int) -> HttpResponse:
    """Make the changes that a moderator asked for, and send the submission again."""
    submission = _find_own(request, pk)

    def do(values: dict[str, Any]) -> str:
        service.send_again(submission, values, require_user(request))
        return "It was sent again: a moderator will look at it."

    return _edit_card(request, submission, do, metrics=service.possible_metrics(submission))


def _edit_card(
    request: HttpRequest, submission: Submission, act: Callable[[dict[str, Any]], str], **context: Any
) -> HttpResponse:
    """Show the form of a model's card; on POST, save it, or show the problems of each field."""
    problems: dict[str, list[str]] = {}
    values: dict[str, Any] = service.read_card(submission)
    metrics = submission.payload.get("metrics", [])
    if request.method == "POST":
        metrics = request.POST.getlist("metrics")
        values = {**request.POST.dict(), "metrics": metrics}
        try:
            messages.info(request, act(values))
            return redirect(submission)
        except SubmissionRefused as error:
            problems = error.problems
        except Refused as error:
            messages.error(request, str(error))
            return redirect(submission)
    form = Card(values, configuration=service.configured_by(submission))
    form.show(problems)
    context |= {"submission": submission, "form": form, "chosen": metrics, "problems": problems}
    return render(request, "submissions/edit.html", context, status=400 if problems else 200)
