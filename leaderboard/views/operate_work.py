"""Runs and scorings for operators: found, retried, cancelled."""

from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import urlencode

from leaderboard.models import Metric, Run, Scoring
from leaderboard.queries.work import KINDS, STATES, WORK_A_PAGE, Wanted, find_work, work_page
from leaderboard.services.work import GONE, CannotSteer, cancel_work, retry
from leaderboard.views.asking import Question, action, ask_and_do, page
from leaderboard.views.parameters import page_number, pick, read_words

MOST_REFUSALS = 3  # that a message names


def wanted_of(request: HttpRequest) -> Wanted:
    """What the address asks for. Raises Http404."""
    slugs = Metric.objects.values_list("slug", flat=True)
    return Wanted(
        kind=pick(request, "kind", "runs", list(KINDS)),
        state=pick(request, "state", "", ["", *STATES]),
        metric=pick(request, "metric", "", ["", *slugs]),
        search=read_words(request, "q"),
    )


@page
def operate_work(request: HttpRequest) -> HttpResponse:
    """Runs or scorings by `state`, `metric` and a `q` in the model's name, `page` by page."""
    wanted = wanted_of(request)
    found = work_page(wanted, page_number(request))
    context = {
        "wanted": wanted,
        "kind": KINDS[wanted.kind],
        "kinds": KINDS.values(),
        "states": STATES,
        "metrics": Metric.objects.all(),
        "page": found,
        "retriable": sum(work.state in GONE for work in found),
        "here": request.GET.urlencode(),
    }
    return render(request, "operate/work.html", context)


def work_of(kind: str, pk: int) -> Run | Scoring:
    """A piece of work by its address. Raises Http404."""
    if kind not in KINDS:
        raise Http404(f"kind = {kind!r}: use one of {', '.join(KINDS)}")
    rows: QuerySet[Run] | QuerySet[Scoring] = find_work(Wanted(kind))
    return get_object_or_404(rows, pk=pk)


def back_to(work: Run | Scoring) -> str:
    """The list that shows it."""
    kind = "runs" if isinstance(work, Run) else "scorings"
    return f"{reverse('operate-work')}?{urlencode({'kind': kind, 'q': work.model.slug})}"


@action
def steer_work(request: HttpRequest, kind: str, pk: int, step: str) -> HttpResponse:
    """Retry or cancel a run or a scoring."""
    work = work_of(kind, pk)
    what = f"{KINDS[kind].one} {pk}: {work}"
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
    question = Question(f"{step.capitalize()} {what}", says, step.capitalize(), back_to(work))

    def do(_: dict[str, str]) -> str:
        if step == "retry":
            retry(work, request.user)
            return f"Queued again: {what}."
        cancel_work(work, request.user)
        return f"Cancelled: {what}."

    return ask_and_do(request, question, None, do)


@action
def retry_all(request: HttpRequest) -> HttpResponse:
    """Retry all failed and cancelled work that a page of the list shows: on POST exactly what was asked about."""
    wanted = wanted_of(request)
    rows = find_work(wanted)
    if request.method == "POST":
        chosen = [int(pk) for pk in request.POST.getlist("work")[:WORK_A_PAGE] if pk.isdecimal() and len(pk) < 18]
        works = list(rows.filter(pk__in=chosen))
    else:
        works = [work for work in work_page(wanted, page_number(request)) if work.state in GONE]
    back = f"{reverse('operate-work')}?{request.GET.urlencode()}"
    if request.method != "POST":
        context = {"kind": KINDS[wanted.kind], "works": works, "back": back}
        return render(request, "operate/retry_all.html", context)
    refused = []
    for work in works:
        try:
            retry(work, request.user)
        except CannotSteer as error:
            refused.append(str(error))
    messages.info(request, f"Queued again: {len(works) - len(refused)} of {len(works)}.")
    for said in refused[:MOST_REFUSALS]:
        messages.error(request, said)
    if len(refused) > MOST_REFUSALS:
        messages.error(request, f"And {len(refused) - MOST_REFUSALS} more could not be queued again.")
    return redirect(back)
