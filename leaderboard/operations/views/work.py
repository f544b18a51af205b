"""Operators find, retry and cancel runs and scorings."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import urlencode

from leaderboard.models import Metric, Run, Scoring
from leaderboard.operations.queries.work import STATES, STEERED, WORK_A_PAGE, WorkSearch, find_work, work_page
from leaderboard.operations.services.work import GONE, cancel_work, retry
from leaderboard.people.permissions import require_user
from leaderboard.views.confirmation import Question, action, ask_and_do, page
from leaderboard.views.parameters import page_number, pick, read_words
from scoring.refusals import Refused

MOST_REFUSALS = 3  # that a message names


def read_search(request: HttpRequest) -> WorkSearch:
    """Read the search from the address. Raises Http404."""
    slugs = Metric.objects.values_list("slug", flat=True)
    return WorkSearch(
        kind=pick(request, "kind", "runs", list(STEERED)),
        state=pick(request, "state", "", ["", *STATES]),
        metric=pick(request, "metric", "", ["", *slugs]),
        search=read_words(request, "q"),
    )


@page
def operate_work(request: HttpRequest) -> HttpResponse:
    """List runs or scorings by `state`, `metric` and words of the model's name (`q`), `page` by page."""
    search = read_search(request)
    works = work_page(search, page_number(request))
    context = {
        "wanted": search,
        "kind": STEERED[search.kind].kind,
        "kinds": [table.kind for table in STEERED.values()],
        "states": STATES,
        "metrics": Metric.objects.all(),
        "page": works,
        "retriable": sum(work.state in GONE for work in works),
        "here": request.GET.urlencode(),
    }
    return render(request, "operate/work.html", context)


def work_of(kind: str, pk: int) -> Run | Scoring:
    """Return the run or scoring of an address. Raises Http404."""
    if kind not in STEERED:
        raise Http404(f"kind = {kind!r}: use one of {', '.join(STEERED)}")
    work: Run | Scoring = get_object_or_404(find_work(WorkSearch(kind)), pk=pk)
    return work


def back_to(work: Run | Scoring) -> str:
    """Return the address of the list that shows the work."""
    return f"{reverse('operate_work')}?{urlencode({'kind': work.kind.many, 'q': work.model.slug})}"


@action
def steer_work(request: HttpRequest, kind: str, pk: int, step: str) -> HttpResponse:
    """Retry or cancel a run or a scoring."""
    work = work_of(kind, pk)
    name = f"{STEERED[kind].kind.one} {pk}: {work}"
    if step == "retry":
        says = [
            f"It is queued again and goes on from its last checkpoint. It ended because: {work.reason or 'no reason'}.",
            "A scoring whose outputs were not collected takes its run along.",
        ]
    elif step == "cancel":
        says = [
            f"It is {work.get_state_display().lower()}, at {work.done:,} of {work.total:,} texts. Its worker stops at "
            "the next batch; what is done is kept, and it can be retried.",
            "A rescoring that it belongs to goes on without it, and leaves the entry outdated.",
        ]
    else:
        raise Http404(f"step = {step!r}: use retry or cancel")
    question = Question(f"{step.capitalize()} {name}", says, step.capitalize(), back_to(work))

    def do(_: dict[str, str]) -> str:
        if step == "retry":
            retry(work, require_user(request))
            return f"Queued again: {name}."
        cancel_work(work, require_user(request))
        return f"Cancelled: {name}."

    return ask_and_do(request, question, None, do)


@action
def retry_all(request: HttpRequest) -> HttpResponse:
    """Retry the failed and cancelled work on a page of the list; on POST, exactly the work that the page confirmed."""
    search = read_search(request)
    rows = find_work(search)
    if request.method == "POST":
        keys = [int(pk) for pk in request.POST.getlist("work")[:WORK_A_PAGE] if pk.isdecimal() and len(pk) < 18]
        works = list(rows.filter(pk__in=keys))
    else:
        works = [work for work in work_page(search, page_number(request)) if work.state in GONE]
    back = f"{reverse('operate_work')}?{request.GET.urlencode()}"
    if request.method != "POST":
        context = {"kind": STEERED[search.kind].kind, "works": works, "back": back}
        return render(request, "operate/retry_all.html", context)
    refusals = []
    for work in works:
        try:
            retry(work, require_user(request))
        except Refused as error:
            refusals.append(str(error))
    messages.info(request, f"Queued again: {len(works) - len(refusals)} of {len(works)}.")
    for refusal in refusals[:MOST_REFUSALS]:
        messages.error(request, refusal)
    if len(refusals) > MOST_REFUSALS:
        messages.error(request, f"And {len(refusals) - MOST_REFUSALS} more could not be queued again.")
    return redirect(back)
