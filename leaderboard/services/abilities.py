"""What each worker has found that it can do, and which work it leaves to others.

A worker takes no work that it has found it cannot do while another living worker may be able to.
"""

from datetime import datetime, timedelta

from celery import current_task
from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from leaderboard.models import ControlCheck, LanguageModel, Run, Scoring, Work, Worker
from leaderboard.services.memory import memory_needed

BELIEVED_FOR = timedelta(minutes=10)  # what a worker could not do it tries again then
HANDS = {Scoring: "default", ControlCheck: "default", Run: "gpu"}  # the queue of workers that do it


def worker_name() -> str:
    """What Celery calls this worker, "" where this process is none."""
    task = current_task
    return str(getattr(getattr(task, "request", None), "hostname", None) or "")


def note_ability(worker: str, ability: str, fingerprint: str = "", problem: str = "") -> None:
    """Note that a worker can do something, or what keeps it from that."""
    if not worker:
        return
    with transaction.atomic():
        row = Worker.objects.select_for_update().filter(name=worker).first()
        if row is None:
            return
        before = row.abilities.get(ability, {})
        noted = {"fingerprint": fingerprint or before.get("fingerprint", ""), "problem": problem}
        if problem:
            noted["at"] = timezone.now().isoformat()
        if noted != before:
            row.abilities[ability] = noted
            row.save(update_fields=["abilities"])


def unable(row: Worker, ability: str) -> str:
    """Why the worker cannot do it, as it found lately; "" where it may be tried."""
    noted = row.abilities.get(ability, {})
    problem, at = noted.get("problem", ""), noted.get("at", "")
    recent = bool(at) and datetime.fromisoformat(at) > timezone.now() - BELIEVED_FOR
    return problem if recent else ""


def others(queue: str) -> list[Worker]:
    """The living workers of a queue that take work, but for this one."""
    rows = Worker.objects.alive().filter(refusal="").exclude(name=worker_name())
    return [row for row in rows if queue in row.queues]


def own_row() -> Worker | None:
    """What this worker has noted of itself."""
    name = worker_name()
    return Worker.objects.filter(name=name).first() if name else None


def leave_to_others(kind: type[Work]) -> Q:
    """The work of a kind that this worker has found it cannot do, and that another living one may be able to do."""
    row = own_row()
    if row is None or kind not in HANDS:
        return Q(pk__in=[])
    colleagues = others(HANDS[kind])
    left = Q(pk__in=[])
    for ability in row.abilities:
        if unable(row, ability) and any(not unable(other, ability) for other in colleagues):
            left |= _work_that_needs(kind, ability)
    largest = max((other.memory or 0 for other in colleagues), default=0)
    if kind is Run and row.memory and largest > row.memory:
        models = LanguageModel.objects.filter(runs__state=Work.State.QUEUED, parameters__isnull=False).distinct()
        too_large = [model.pk for model in models if row.memory < memory_needed(model.parameters or 0) <= largest]
        left |= Q(model__in=too_large)
    return left


def _work_that_needs(kind: type[Work], ability: str) -> Q:
    what, _, name = ability.partition(" ")
    if what == "scorer" and kind is Scoring:
        return Q(metric_version__scorer=name)
    if what == "scorer" and kind is ControlCheck:
        return Q(metric__scorer=name)
    return Q(model__slug=name) if what == "model" and kind is Run else Q(pk__in=[])


def may_be_elsewhere(kind: type[Work], ability: str) -> bool:
    """Whether another living worker may be able to do what this one cannot."""
    return bool(worker_name()) and any(not unable(row, ability) for row in others(HANDS[kind]))


def hosts_to_ask(ability: str) -> list[str]:
    """Other hosts than this one whose living workers may be able to do a scoring."""
    rows = [row for row in others(HANDS[ControlCheck]) if row.host not in ("", settings.HOST)]
    return sorted({row.host for row in rows if not unable(row, ability)})
