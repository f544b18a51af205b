"""Moderators decide about submissions. They confirm every decision once; the audit trail records it."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from leaderboard.models import EntryCheck, Submission
from leaderboard.operations.forms import ReasonForm
from leaderboard.people.permissions import moderators_only, require_user
from leaderboard.people.services.accounts import submissions_are_moderated
from leaderboard.queries.entry_checks import held_back
from leaderboard.submissions.queries.submissions import read_contents, read_moderation_queue
from leaderboard.submissions.services import entry_decisions
from leaderboard.submissions.services.moderation import DECISIONS, decide, find_objection
from leaderboard.views.confirmation import Question, ask_and_do
from leaderboard.views.parameters import page_number
from scoring.refusals import Refused

TITLES = {"accept": "Accept", "reject": "Reject", "return": "Ask for changes"}
AFTER = {
    "accept": "The model is entered and its evaluation queued.",
    "reject": "The submission ends: nothing is entered. Its submitter reads your reason.",
    "return": "Its submitter reads what you ask for, changes it, and sends it again.",
}
AFTER_NAME = {
    "accept": "The model has the new name, here and in the rankings; the public change log says so.",
    "reject": "The model keeps its name. Its submitter reads your reason.",
}


@require_safe
@moderators_only
@never_cache
def moderation(request: HttpRequest) -> HttpResponse:
    """List the submissions that wait for a moderator, oldest first, with their contents."""
    waiting_page = read_moderation_queue(page_number(request))
    context = {
        "shown": waiting_page,
        "held": held_back(),
        "moderated": submissions_are_moderated(),
        "decisions": TITLES,
    }
    return render(request, "submissions/moderation.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@moderators_only
@never_cache
def moderate(request: HttpRequest, pk: int, decision: str) -> HttpResponse:
    """Ask once, with the reason; then decide."""
    if decision not in DECISIONS:
        raise Http404(f"decision = {decision!r}: use one of {', '.join(DECISIONS)}")
    submission = get_object_or_404(Submission.objects.select_related("model", "submitter"), pk=pk)
    reason, problem = request.POST.get("reason", ""), find_objection(submission, require_user(request))
    is_about_name = bool(submission.name_asked)  # which the decision takes off the submission
    if request.method == "POST":
        try:
            decide(submission, decision, reason, require_user(request))
            outcome = "its name is decided upon" if is_about_name else submission.get_state_display().lower()
            messages.info(request, f"{submission.name}: {outcome}. Its submitter is notified.")
            return redirect("moderation")
        except Refused as error:
            problem = str(error)
    context = {
        "submission": submission,
        "sent": read_contents(submission),
        "decision": decision,
        "title": TITLES[decision],
    }
    consequence = AFTER_NAME.get(decision, "A name is accepted or rejected.") if is_about_name else AFTER[decision]
    context |= {"after": consequence, "reason": reason, "problem": problem}
    return render(request, "submissions/moderate.html", context, status=400 if request.method == "POST" else 200)


ENTRY_TITLES = {"release": "Release", "refuse": "Do not release"}
ENTRY_AFTER = {
    "release": "It is ranked at once, with a mark that says what stood out. Its page and the record show your reason.",
    "refuse": "It is in no ranking. Its submitter, its page and the record show your reason. It can be released later.",
}


@require_http_methods(["GET", "HEAD", "POST"])
@moderators_only
@never_cache
def decide_entry(request: HttpRequest, pk: int, decision: str) -> HttpResponse:
    """Ask once, with the reason; then release an entry that is held back, or refuse to."""
    if decision not in entry_decisions.DECISIONS:
        raise Http404(f"decision = {decision!r}: use one of {', '.join(entry_decisions.DECISIONS)}")
    relations = ("scoring__model", "scoring__metric_version__metric")
    check = get_object_or_404(EntryCheck.objects.select_related(*relations), pk=pk)
    model, title = check.scoring.model, ENTRY_TITLES[decision]
    question = Question(f"{title}: {model.name}", [*check.words, ENTRY_AFTER[decision]], title, reverse("moderation"))

    def do(fields: dict[str, str]) -> str:
        entry_decisions.decide(check, decision, fields["reason"], require_user(request))
        return f"{model.name}: {check.get_state_display().lower()}."

    return ask_and_do(request, question, ReasonForm(request.POST or None), do)
