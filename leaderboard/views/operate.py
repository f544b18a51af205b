"""Watching and steering the scorers, for operators. Every action is confirmed once and recorded in the audit trail."""

from dataclasses import dataclass
from datetime import timedelta

from django.contrib import messages
from django.db.models import Max
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse

from leaderboard.models import ControlCheck, Metric, MetricVersion, Rescoring, RetiredScorer, Worker
from leaderboard.operate_forms import PolicyForm, ReasonForm
from leaderboard.queries.audit import label, words
from leaderboard.queries.work import STATES, count_work
from leaderboard.services import rescore, retirement, workers
from leaderboard.services.checks import control_of, request_check
from leaderboard.services.policies import set_policy
from leaderboard.services.rescore import CannotRescore
from leaderboard.views.asking import Question, action, ask_and_do, page
from scoring.scorers import SCORERS


@dataclass(frozen=True)
class Watched:
    """A metric with its current version, its last check, the rescoring under way, and whether its scorer is retired."""

    metric: Metric
    version: MetricVersion | None
    check: ControlCheck | None
    rescoring: Rescoring | None
    retired: RetiredScorer | None

    @property
    def time_left(self) -> timedelta | None:
        """Of the rescoring."""
        return rescore.time_left(self.rescoring) if self.rescoring else None

    @property
    def waits_on(self) -> list[str]:
        """What keeps the rescoring from being published, where the board is at fault."""
        return rescore.waits_on(self.rescoring) if self.rescoring else []


@page
def operate(request: HttpRequest) -> HttpResponse:
    """How much work there is; and of every metric: can its scorer be trusted, and what is being done about it?"""
    checks = {check.metric_id: check for check in last_checks()}
    active = {
        rescoring.metric_id: rescoring
        for rescoring in Rescoring.objects.active().select_related("from_version__metric", "to_version__metric")
    }
    current = {
        version.metric_id: version
        for version in MetricVersion.objects.filter(status=MetricVersion.Status.CURRENT, provenance="measured")
    }
    retired = {scorer.name: scorer for scorer in RetiredScorer.objects.all()}
    watched = [
        Watched(of, current.get(of.pk), checks.get(of.pk), active.get(of.pk), retired.get(of.scorer))
        for of in Metric.objects.all()
    ]
    context = {
        "watched": [of for of in watched if of.version],
        "unmeasured": [of for of in watched if not of.version],
        "counts": count_work(),
        "states": STATES,
    }
    return render(request, "operate.html", context)


def last_checks() -> list[ControlCheck]:
    """The newest check of each metric."""
    newest = ControlCheck.objects.order_by().values("metric").annotate(last=Max("pk")).values("last")
    return list(ControlCheck.objects.filter(pk__in=newest))


@page
def operate_workers(request: HttpRequest) -> HttpResponse:
    """What the broker and the workers say now: the part that pages load by themselves, or a page of its own."""
    template = "operate/workers_now.html" if request.htmx else "operate/workers.html"  # type: ignore[attr-defined]
    return render(request, template, {"fleet": workers.look()})


@action
def restart_worker(request: HttpRequest, name: str) -> HttpResponse:
    """End a worker, so that what supervises it starts another."""
    worker = get_object_or_404(Worker, name=name)
    stuck = f"It is stuck at {worker.stuck_at}. " if worker.stuck_at else ""
    says = [
        f"{stuck}It gives back what it is at, and ends; what is finished stays, and another worker goes on from there.",
        "Supervisord, systemd and Compose start it again by themselves. Otherwise start it by hand.",
    ]
    question = Question(f"Restart the worker {name}", says, "Restart", reverse("operate-workers"))

    def do(_: dict[str, str]) -> str:
        workers.restart(worker, request.user)
        return f"{name} was told to end."

    return ask_and_do(request, question, None, do)


@action
def check_now(request: HttpRequest, slug: str) -> HttpResponse:
    """Queue a check of a metric's control set."""
    metric = get_object_or_404(Metric, slug=slug)
    control = control_of(metric)
    texts = f"its {control.items.rows:,} control texts" if control else "its control texts"
    question = Question(
        f"Check {metric.title} now",
        [
            f"A worker scores {texts} again and compares the scores with those they had.",
            "Where the scorer has drifted, a new metric version is opened and all entries are scored again; readers "
            "keep the version they see until the new one is whole.",
        ],
        "Check now",
        reverse("operate"),
    )

    def do(_: dict[str, str]) -> str:
        request_check(metric, ControlCheck.Trigger.MANUAL, user=request.user)
        return f"The control set of {metric.title} is being scored again."

    return ask_and_do(request, question, None, do)


@action
def rescore_metric(request: HttpRequest, slug: str) -> HttpResponse:
    """What rescoring a metric would cost; and, once a reason is given, its beginning."""
    metric = get_object_or_404(Metric, slug=slug)
    reason, scorer, problem = request.POST.get("reason", ""), request.POST.get("scorer", "").strip(), ""
    try:
        cost = rescore.estimate(metric)
        if request.method == "POST":
            rescoring = rescore.open_rescoring(metric, reason, user=request.user, scorer=scorer)
            messages.info(request, f"{rescoring.total} entries of {metric.title} are being scored again.")
            return redirect("operate")
    except CannotRescore as error:
        cost, problem = None, str(error)
    context = {"metric": metric, "cost": cost, "reason": reason, "scorer": scorer, "problem": problem}
    context["scorers"] = [of.name for of in SCORERS] if metric.formula.asks_scorer else []
    return render(request, "rescore.html", context, status=400 if problem and request.method == "POST" else 200)


STEPS = {
    "pause": (
        rescore.pause,
        "paused",
        "Workers stop after the shards they are at. Nothing is lost; it can be resumed.",
    ),
    "resume": (rescore.resume, "resumed", "Workers go on where the pause began."),
    "cancel": (
        rescore.cancel,
        "cancelled",
        "The new version is given up with all that was scored under it, and readers keep the version they see. It "
        "cannot be taken up again: a new rescoring begins anew.",
    ),
}


@action
def steer_rescoring(request: HttpRequest, pk: int, step: str) -> HttpResponse:
    """Pause, resume or cancel a rescoring."""
    rescoring = get_object_or_404(Rescoring.objects.select_related("metric", "from_version", "to_version"), pk=pk)
    if step not in STEPS:
        raise Http404(f"step = {step!r}: use one of {', '.join(STEPS)}")
    take, taken, will = STEPS[step]
    title = rescoring.metric.title
    done = f"{rescoring.done:,} of {rescoring.total:,} entries are done."
    says = [f"From version {rescoring.from_version.number} to {rescoring.to_version.number}: {done}", will]
    if step == "cancel":
        says += _after_cancelling(rescoring)
    question = Question(f"{step.capitalize()} the rescoring of {title}", says, step.capitalize(), reverse("operate"))

    def do(_: dict[str, str]) -> str:
        if not take(rescoring, request.user):
            state = rescoring.get_state_display().lower()
            raise CannotRescore(f"The rescoring of {title} is {state}: there is nothing to {step}.")
        return f"The rescoring of {title} is {taken}."

    return ask_and_do(request, question, None, do)


def _after_cancelling(rescoring: Rescoring) -> list[str]:
    """What becomes of the models that are not in the version that stays."""
    going, stays = rescore.going_back(rescoring), rescoring.from_version.number
    counts = (
        (going.waiting, f"waits for a place in version {stays} again: it came while the rescoring ran."),
        (going.left, "was cancelled by somebody, and stays cancelled."),
    )
    return [f"{', '.join(of.model.name for of in models)} {what}" for models, what in counts if models]


@action
def drift_policy(request: HttpRequest, slug: str) -> HttpResponse:
    """The policy of a metric: a form, then what would change, then the change."""
    metric = get_object_or_404(Metric, slug=slug)
    form = PolicyForm(metric, request.POST if request.method == "POST" else None)
    if not form.is_valid():
        context = {"metric": metric, "form": form}
        return render(request, "operate/policy.html", context, status=400 if form.is_bound else 200)
    before, after = form.change
    if "confirmed" not in request.POST:
        changes = [(label(name), words(before[name]) or "none", words(after[name]) or "none") for name in after]
        return render(request, "operate/policy_change.html", {"metric": metric, "form": form, "changes": changes})
    set_policy(metric, form.values, form.cleaned_data["reason"], request.user)
    messages.info(request, f"The policy of {metric.title} is set.")
    return redirect("operate")


@action
def retire_scorer(request: HttpRequest, slug: str) -> HttpResponse:
    """Retire the scorer of a metric, or bring it back."""
    metric = get_object_or_404(Metric, slug=slug)
    name = metric.scorer
    gone = RetiredScorer.objects.filter(name=name).exists()
    others = Metric.objects.filter(scorer=name).exclude(pk=metric.pk).values_list("title", flat=True)
    also = f" It is the scorer of {', '.join(others)} too." if others else ""
    says = (
        [f"{name} is used again, for new entries and for checks.{also}"]
        if gone
        else [
            f"Nothing new is scored with {name}, and it is checked no more.{also}",
            "What it scored stays, and so do the rankings. What waits to be scored with it fails, with your reason.",
            "The metric goes on once it is rescored with another scorer; this one can be brought back.",
        ]
    )
    title = f"Bring back the scorer {name}" if gone else f"Retire the scorer {name}"
    question = Question(title, says, "Bring it back" if gone else "Retire it", reverse("operate"))

    def do(sent: dict[str, str]) -> str:
        if gone:
            retirement.bring_back_scorer(name, sent["reason"], request.user)
            return f"The scorer {name} is in use again."
        retirement.retire_scorer(name, sent["reason"], request.user)
        return f"The scorer {name} is retired."

    return ask_and_do(request, question, ReasonForm(request.POST or None), do)
