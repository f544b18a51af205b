"""What the broker and the workers report now. The truth about work is in the database, not here."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Count, Max, Q
from django.db.models.functions import Now
from kombu import Connection
from kombu.exceptions import OperationalError

from leaderboard.celery import app
from leaderboard.models import WORK_TABLES, AuditVerb, Work, Worker
from leaderboard.models.clock import database_now
from leaderboard.services.audit import record
from scoring.refusals import Refused

ANSWER_SECONDS = 1.0  # how long workers are given to answer
KNOWN = (
    *("host", "code", "environment", "started_at", "beat_at", "queues", "abilities", "rates", "memory", "disk_free"),
    *("cage", "stuck_since", "stuck_at", "refusal"),
)  # of a living worker, for programs
QUEUES = list(dict.fromkeys(table.kind.queue for table in WORK_TABLES))


@dataclass(frozen=True)
class Queue:
    """A queue of the broker. messages: None where the broker does not answer; waiting, running: by the database.

    silent: work whose worker has not renewed its lease in time. workers: those that listen, by name.
    """

    name: str
    messages: int | None
    waiting: int
    running: int
    silent: int
    heard: datetime | None
    workers: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class LiveWorker:
    """A worker that answered: the queues that it listens to, and its current tasks."""

    name: str
    queues: list[str]
    doing: list[str]


@dataclass(frozen=True)
class Fleet:
    """The queues and the workers. problem: why the broker did not answer; empty where it did.

    known: the rows of living workers, with their cages and the work that they are stuck at. away: those of workers that
    fell silent within a day.
    """

    queues: list[Queue]
    workers: list[LiveWorker]
    problem: str
    at: datetime
    known: list[Worker] = field(default_factory=list)
    away: list[Worker] = field(default_factory=list)

    @property
    def unattended(self) -> list[str]:
        """Queues that no worker listens to; empty where the broker did not answer."""
        return [] if self.problem else [queue.name for queue in self.queues if not queue.workers]

    def as_json(self) -> dict[str, Any]:
        rows = {row.name: {name: getattr(row, name) for name in KNOWN} for row in self.known}
        away = {row.name: row.beat_at.isoformat() for row in self.away}
        return asdict(replace(self, known=[], away=[])) | {
            "unattended": self.unattended,
            "known": rows,
            "away": away,
        }


def look(answer_seconds: float | None = None) -> Fleet:
    """Ask the broker for its queues and the workers for their tasks, in about `answer_seconds` where all is well.

    A dead or silent broker costs a few seconds.
    """
    seconds = ANSWER_SECONDS if answer_seconds is None else answer_seconds
    messages: dict[str, int] = {}
    workers: list[LiveWorker] = []
    problem = ""
    try:
        with connect_to_broker(seconds) as connection:
            messages = {name: depth(connection, name) for name in QUEUES}
            try:
                workers = ask_workers(seconds)
            except connection.connection_errors:  # the pool's were to a broker that has started anew since
                workers = ask_workers(seconds)
    except (OperationalError, OSError) as error:
        problem = str(error) or type(error).__name__
    queues = [
        Queue(name, messages.get(name), *count_in_queue(name), [row.name for row in workers if name in row.queues])
        for name in QUEUES
    ]
    return Fleet(queues, workers, problem, database_now(), list(Worker.objects.alive()), list(Worker.objects.silent()))


def restart(row: Worker, user: User | None = None) -> None:
    """Tell a worker to give its work back and stop; its supervisor starts another.

    Raises Refused.
    """
    try:
        with connect_to_broker(ANSWER_SECONDS) as connection:
            app.control.broadcast("end_worker", destination=[row.name], connection=connection)
    except (OperationalError, OSError) as error:
        raise Refused(f"The broker cannot be reached, so {row.name} cannot be told: {error}") from error
    change = {"state": "running"}, {"state": "told to end"}
    record(AuditVerb.RESTART_WORKER, f"worker {row.name}", {"stuck_at": row.stuck_at}, user, change)


@contextmanager
def connect_to_broker(seconds: float) -> Iterator[Connection]:
    """The broker, which has so many seconds to take a connection. Raises OperationalError."""
    patience = {"socket_connect_timeout": max(1.0, seconds), "socket_timeout": max(2.0, 2 * seconds)}
    options = settings.CELERY_BROKER_TRANSPORT_OPTIONS | patience
    with app.connection_for_read(transport_options=options) as connection:
        connection.ensure_connection(max_retries=1, interval_start=0, timeout=max(1.0, seconds))
        try:
            yield connection
        except connection.connection_errors as error:
            raise OperationalError(str(error)) from error


def depth(connection: Connection, queue: str) -> int:
    """How many messages wait in `queue`; 0 where the broker does not know it, as where it is empty."""
    with connection.channel() as channel:
        try:
            return int(channel.queue_declare(queue=queue, passive=True).message_count)
        except connection.channel_errors:
            return 0


def ask_workers(seconds: float) -> list[LiveWorker]:
    """The workers that answer in time, by name; over the pool's connections, as to close one that listened takes a
    second."""
    active_queues = app.control.inspect(timeout=seconds).active_queues() or {}
    names = sorted(active_queues)
    busy: dict[str, list[dict[str, Any]]] = {}
    if names:
        busy = app.control.inspect(names, timeout=seconds, limit=len(names)).active() or {}
    return [
        LiveWorker(
            name,
            sorted(queue["name"] for queue in active_queues[name]),
            describe_tasks(name, [task["name"] for task in busy.get(name, [])]),
        )
        for name in names
    ]


def describe_tasks(worker: str, tasks: list[str]) -> list[str]:
    """The current tasks of a worker, in words: its work according to the database, then its other tasks.

    A message does not always name its work, so workers are asked for the names of tasks only.
    """
    works, others = [], Counter(tasks)
    for table in WORK_TABLES if tasks else ():
        for work in table.objects.in_hand().filter(worker=worker).select_related(*table.kind.related):
            works.append(f"{table.kind.key} {work.pk}: {work}")
            others[table.kind.task_name] -= 1
    return works + [name.rpartition(".")[2] for name in (+others).elements()]


def count_in_queue(queue: str) -> tuple[int, int, int, datetime | None]:
    """How much of a queue's work waits, runs and has fallen silent; and the last heartbeat."""
    total = [0, 0, 0]
    last_heartbeat: datetime | None = None
    for table in (table for table in WORK_TABLES if table.kind.queue == queue):
        is_leased = Q(state=Work.State.RUNNING, lease_expires_at__gt=Now())
        row = table.objects.unfinished().aggregate(
            waiting=Count("pk", filter=Q(state=Work.State.QUEUED, held=False) & table.kind.ready),
            running=Count("pk", filter=is_leased),
            silent=Count("pk", filter=Q(state=Work.State.RUNNING, lease_expires_at__lte=Now())),
            heard=Max("heartbeat_at", filter=Q(state=Work.State.RUNNING)),
        )
        total = [count + row[name] for count, name in zip(total, ("waiting", "running", "silent"), strict=True)]
        last_heartbeat = max(filter(None, (last_heartbeat, row["heard"])), default=None)
    return total[0], total[1], total[2], last_heartbeat
