"""Operators watch and steer the scorers. They confirm every action once; the audit trail records it."""

from dataclasses import dataclass
from datetime import date, timedelta

from django.contrib import messages
from django.db import transaction
from django.db.models import Max
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone

from leaderboard.models import ControlCheck, Metric, MetricVersion, Rescoring, RetiredScorer, Worker
from leaderboard.operations.forms import PolicyForm, ReasonForm
from leaderboard.operations.queries.audit import format_value, label
from leaderboard.operations.queries.work import STATES, count_work
from leaderboard.operations.services import retirement
from leaderboard.people.permissions import require_user
from leaderboard.services import rescore, workers
from leaderboard.services.backup_state import backup_state
from leaderboard.services.checks import control_of, request_check
from leaderboard.services.policies import set_policy
from leaderboard.services.scorers import end_of
from leaderboard.services.versions import find_rescoring
from leaderboard.views.confirmation import Question, action, ask_and_do, page
from scoring.refusals import Refused
from scoring.scorers import SCORERS
from scoring.scorers import service as service_client


@dataclass(frozen=True)
class MetricState:
    """A metric with its current version, last check, active rescoring, and the retirement of its scorer.

    last_day: of a scorer whose end is announced.
    """

    metric: Metric
    version: MetricVersion | None
    check: ControlCheck | None
    rescoring: Rescoring | None
    retired: RetiredScorer | None
    last_day: date | None

    @property
    def days_left(self) -> int | None:
        """Until the last day of the scorer, where one is announced and the scorer is still in use."""
        return None if self.last_day is None or self.retired else (self.last_day - service_client.today()).days

    @property
    def time_left(self) -> timedelta | None:
        """The estimated rest of the rescoring."""
        return rescore.time_left(self.rescoring) if self.rescoring else None

    @property
    def waits_on(self) -> list[str]:
        """What keeps the rescoring from being published, if the board is at fault."""
        return rescore.waits_on(self.rescoring) if self.rescoring else []


@page
def operate(request: HttpRequest) -> HttpResponse:
    """Show the amount of work and, for every metric, the state of its scorer and of its rescoring."""
    checks = {check.metric_id: check for check in last_checks()}
    active = {
        rescoring.metric_id: rescoring
        for rescoring in Rescoring.objects.active().select_related("from_version__metric", "to_version__metric")
    }
    current = {
        version.metric_id: version
        for version in MetricVersion.objects.filter(status=MetricVersion.Status.CURRENT, provenance="measured")
    }
    retired_scorers = {scorer.name: scorer for scorer in RetiredScorer.objects.all()}
    states = [
        MetricState(
            metric,
            current.get(metric.pk),
            checks.get(metric.pk),
            active.get(metric.pk),
            retired_scorers.get(metric.scorer),
            end_of(metric.asked_scorer),
        )
        for metric in Metric.objects.all()
    ]
    context = {
        "watched": [state for state in states if state.version],
        "unmeasured": [state for state in states if not state.version],
        "counts": count_work(),
        "states": STATES,
        "backups": backup_state(timezone.now()),
    }
    return render(request, "operate.html", context)


def last_checks() -> list[ControlCheck]:
    """Return the newest check of each metric."""
    newest = ControlCheck.objects.order_by().values("metric").annotate(last=Max("pk")).values("last")
    return list(ControlCheck.objects.filter(pk__in=newest))


@page
def operate_workers(request: HttpRequest) -> HttpResponse:
    """Show what the broker and the workers report now: the part that pages load by themselves, or a page."""
    template = "operate/workers.html#now" if request.htmx else "operate/workers.html"  # type: ignore[attr-defined]
    return render(request, template, {"fleet": workers.look()})


@action
def restart_worker(request: HttpRequest, name: str) -> HttpResponse:
    """Stop a worker; its supervisor starts another."""
    worker = get_object_or_404(Worker, name=name)
    stuck = f"It is stuck at {worker.stuck_at}. " if worker.stuck_at else ""
    says = [
        f"{stuck}It gives back what it is at, and ends; what is finished stays, and another worker goes on from there.",
        "Supervisord, systemd and Compose start it again by themselves. Otherwise start it by hand.",
    ]
    question = Question(f"Restart the worker {name}", says, "Restart", reverse("operate_workers"))

    def do(_: dict[str, str]) -> str:
        workers.restart(worker, require_user(request))
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
        request_check(metric, ControlCheck.Trigger.MANUAL, user=require_user(request))
        return f"The control set of {metric.title} is being scored again."

    return ask_and_do(request, question, None, do)


@action
def rescore_metric(request: HttpRequest, slug: str) -> HttpResponse:
    """Show what rescoring a metric would cost; on POST with a reason, begin it."""
    metric = get_object_or_404(Metric, slug=slug)
    reason, scorer, problem = request.POST.get("reason", ""), request.POST.get("scorer", "").strip(), ""
    try:
        cost = rescore.estimate(metric)
        if request.method == "POST":
            with transaction.atomic():
                rescore.refuse_unseen(metric, request.POST.get("under_way", ""))
                rescoring = rescore.open_rescoring(metric, reason, user=require_user(request), scorer=scorer)
            messages.info(request, f"{rescoring.total} entries of {metric.title} are being scored again.")
            return redirect("operate")
    except Refused as error:
        cost, problem = None, str(error)
    context: dict[str, object] = {
        "metric": metric,
        "cost": cost,
        "reason": reason,
        "scorer": scorer,
        "problem": problem,
        "under_way": find_rescoring(metric),
    }
    context["scorers"] = [scorer_class.name for scorer_class in SCORERS] if metric.asked_scorer else []
    return render(request, "rescore.html", context, status=400 if problem and request.method == "POST" else 200)


STEPS = {
    "pause": (
        rescore.pause,
        "paused",
        "Workers stop after their current shards. Nothing is lost; you can resume.",
    ),
    "resume": (rescore.resume, "resumed", "Workers go on where the pause began."),
    "cancel": (
        rescore.cancel,
        "cancelled",
        "The new version is discarded with all that was scored under it, and readers keep the version they see. It "
        "cannot be resumed: a new rescoring starts from the beginning.",
    ),
}


@action
def steer_rescoring(request: HttpRequest, pk: int, step: str) -> HttpResponse:
    """Pause, resume or cancel a rescoring."""
    rescoring = get_object_or_404(Rescoring.objects.select_related("metric", "from_version", "to_version"), pk=pk)
    if step not in STEPS:
        raise Http404(f"step = {step!r}: use one of {', '.join(STEPS)}")
    service, outcome, consequence = STEPS[step]
    title = rescoring.metric.title
    progress = f"{rescoring.done:,} of {rescoring.total:,} entries are done."
    says = [f"From version {rescoring.from_version.number} to {rescoring.to_version.number}: {progress}", consequence]
    if step == "cancel":
        says += _after_cancelling(rescoring)
    question = Question(f"{step.capitalize()} the rescoring of {title}", says, step.capitalize(), reverse("operate"))

    def do(_: dict[str, str]) -> str:
        if not service(rescoring, require_user(request)):
            state = rescoring.get_state_display().lower()
            raise Refused(f"The rescoring of {title} is {state}: there is nothing to {step}.")
        return f"The rescoring of {title} is {outcome}."

    return ask_and_do(request, question, None, do)


def _after_cancelling(rescoring: Rescoring) -> list[str]:
    """Say what happens to the models that the remaining version does not rank."""
    going, stays = rescore.going_back(rescoring), rescoring.from_version.number
    counts = (
        (going.waiting, f"waits for a place in version {stays} again: it came while the rescoring ran."),
        (going.left, "was cancelled by somebody, and stays cancelled."),
    )
    return [
        f"{', '.join(scoring.model.name for scoring in models)} {consequence}"
        for models, consequence in counts
        if models
    ]


@action
def drift_policy(request: HttpRequest, slug: str) -> HttpResponse:
    """Change the policy of a metric in three steps: a form, a preview, the change."""
    metric = get_object_or_404(Metric, slug=slug)
    form = PolicyForm(metric, request.POST if request.method == "POST" else None)
    if not form.is_valid():
        context = {"metric": metric, "form": form}
        return render(request, "operate/policy.html", context, status=400 if form.is_bound else 200)
    old_values, new_values = form.change
    if "confirmed" not in request.POST:
        changes = [
            (label(name), format_value(old_values[name]) or "none", format_value(new_values[name]) or "none")
            for name in new_values
        ]
        return render(request, "operate/policy_change.html", {"metric": metric, "form": form, "changes": changes})
    set_policy(metric, form.values, form.cleaned_data["reason"], require_user(request))
    messages.info(request, f"The policy of {metric.title} is set.")
    return redirect("operate")


@action
def retire_scorer(request: HttpRequest, slug: str) -> HttpResponse:
    """Retire the scorer of a metric, or bring it back."""
    metric = get_object_or_404(Metric, slug=slug)
    name = metric.scorer
    is_retired = RetiredScorer.objects.filter(name=name).exists()
    others = Metric.objects.filter(scorer=name).exclude(pk=metric.pk).values_list("title", flat=True)
    other_metrics = f" It is the scorer of {', '.join(others)} too." if others else ""
    says = (
        [f"{name} is used again, for new entries and for checks.{other_metrics}"]
        if is_retired
        else [
            f"Nothing new is scored with {name}, and it is no longer checked.{other_metrics}",
            "What it scored stays, and so do the rankings. What waits to be scored with it fails, with your reason.",
            "The metric goes on once it is rescored with another scorer; this one can be brought back.",
        ]
    )
    title = f"Bring back the scorer {name}" if is_retired else f"Retire the scorer {name}"
    question = Question(title, says, "Bring it back" if is_retired else "Retire it", reverse("operate"))

    def do(fields: dict[str, str]) -> str:
        if is_retired:
            retirement.bring_back_scorer(name, fields["reason"], require_user(request))
            return f"The scorer {name} is in use again."
        retirement.retire_scorer(name, fields["reason"], require_user(request))
        return f"The scorer {name} is retired."

    return ask_and_do(request, question, ReasonForm(request.POST or None), do)
