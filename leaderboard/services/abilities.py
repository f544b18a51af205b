"""What each worker can do, and which work it leaves to others.

A worker leaves work that it could not do to other living workers that may be able to.
"""

from datetime import datetime, timedelta

from celery import current_task
from django.conf import settings
from django.db import transaction
from django.db.models import Q

from leaderboard.models import LanguageModel, Run, Work, Worker
from leaderboard.models.clock import database_now
from leaderboard.services.devices import PRECISION
from leaderboard.services.memory import memory_needed

BELIEVED_FOR = timedelta(minutes=10)  # after which a worker tries again what it could not do


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
        previous = row.abilities.get(ability, {})
        finding = {"fingerprint": fingerprint or previous.get("fingerprint", ""), "problem": problem}
        if problem:
            finding["at"] = database_now().isoformat()
        if finding != previous:
            row.abilities[ability] = finding
            row.save(update_fields=["abilities"])


def recent_problem(row: Worker, ability: str) -> str:
    """Why the worker could not do something before its last sign of life; "" where it may try."""
    finding = row.abilities.get(ability, {})
    problem, noted_at = finding.get("problem", ""), finding.get("at", "")
    recent = bool(noted_at) and datetime.fromisoformat(noted_at) > row.beat_at - BELIEVED_FOR
    return problem if recent else ""


def other_workers(queue: str) -> list[Worker]:
    """The other living workers of a queue that take work."""
    rows = Worker.objects.alive().filter(refusal="").exclude(name=worker_name())
    return [row for row in rows if queue in row.queues]


def own_row() -> Worker | None:
    """The row of this worker."""
    name = worker_name()
    return Worker.objects.filter(name=name).first() if name else None


def leave_to_others(table: type[Work]) -> Q:
    """The work of a kind that this worker could not do lately and another living worker may be able to do."""
    row = own_row()
    if row is None or not table.kind.abilities:
        return Q(pk__in=[])
    colleagues = other_workers(table.kind.queue)
    condition = Q(pk__in=[])
    for ability in row.abilities:
        if recent_problem(row, ability) and any(not recent_problem(other, ability) for other in colleagues):
            condition |= _work_that_needs(table, ability)
    largest = max((other.memory or 0 for other in colleagues), default=0)
    if table is Run and row.memory and largest > row.memory:
        models = LanguageModel.objects.filter(runs__state=Work.State.QUEUED, parameters__isnull=False).distinct()
        needs = {model.pk: memory_needed(model.parameters or 0, model.precision) for model in models}
        too_large = [pk for pk, memory in needs.items() if row.memory < memory <= largest]
        condition |= Q(model__in=too_large)
    return condition


def _work_that_needs(table: type[Work], ability: str) -> Q:
    sort, _, name = ability.partition(" ")
    if table is Run and sort == PRECISION:
        return Q(model__precision=name) | Q(model__precision="", protocol__parameters__precision=name)
    path = table.kind.abilities.get(sort)
    return Q(**{path: name}) if path else Q(pk__in=[])


def may_be_elsewhere(queue: str, ability: str) -> bool:
    """Whether another living worker of the queue may be able to do what this one cannot."""
    return bool(worker_name()) and any(not recent_problem(row, ability) for row in other_workers(queue))


def hosts_to_ask(queue: str, ability: str) -> list[str]:
    """Other hosts whose living workers of the queue may be able to do something."""
    rows = [row for row in other_workers(queue) if row.host not in ("", settings.HOST)]
    return sorted({row.host for row in rows if not recent_problem(row, ability)})
