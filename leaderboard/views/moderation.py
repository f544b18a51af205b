"""Deciding upon what was sent, for moderators. Every decision is confirmed once and recorded in the audit trail."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from leaderboard.models import EntryCheck, Submission
from leaderboard.operate_forms import ReasonForm
from leaderboard.queries.entry_checks import held_back
from leaderboard.queries.submissions import contents_of, waiting
from leaderboard.services import entry_checks
from leaderboard.services.accounts import submissions_are_moderated
from leaderboard.services.submissions.moderation import DECISIONS, CannotModerate, decide, why_not_theirs
from leaderboard.views.asking import Question, ask_and_do
from leaderboard.views.parameters import page_number
from leaderboard.views.permissions import moderators_only

TITLES = {"accept": "Accept", "reject": "Reject", "return": "Ask for changes"}
AFTER = {
    "accept": "The model is entered and its evaluation queued.",
    "reject": "It is over: nothing of it is entered. Its submitter reads your reason.",
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
    """What waits for a moderator, the oldest first, with all that was sent."""
    shown = waiting(page_number(request))
    context = {
        "shown": shown,
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
    found = get_object_or_404(Submission.objects.select_related("model", "submitter"), pk=pk)
    reason, problem = request.POST.get("reason", ""), why_not_theirs(found, request.user)
    if request.method == "POST":
        try:
            decide(found, decision, reason, request.user)
            outcome = "decided upon" if found.name_asked else found.get_state_display().lower()
            messages.info(request, f"{found.name}: {outcome}. Its submitter is written to.")
            return redirect("moderation")
        except CannotModerate as error:
            problem = str(error)
    context = {"submission": found, "sent": contents_of(found), "decision": decision, "title": TITLES[decision]}
    after = AFTER_NAME.get(decision, "A name is accepted or rejected.") if found.name_asked else AFTER[decision]
    context |= {"after": after, "reason": reason, "problem": problem}
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
    if decision not in entry_checks.DECISIONS:
        raise Http404(f"decision = {decision!r}: use one of {', '.join(entry_checks.DECISIONS)}")
    related = ("scoring__model", "scoring__metric_version__metric")
    check = get_object_or_404(EntryCheck.objects.select_related(*related), pk=pk)
    model, title = check.scoring.model, ENTRY_TITLES[decision]
    question = Question(f"{title}: {model.name}", [*check.words, ENTRY_AFTER[decision]], title, reverse("moderation"))

    def do(sent: dict[str, str]) -> str:
        entry_checks.decide(check, decision, sent["reason"], request.user)
        return f"{model.name}: {check.get_state_display().lower()}."

    return ask_and_do(request, question, ReasonForm(request.POST or None), do)
