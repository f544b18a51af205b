"""What the broker and the workers say of themselves now. Nothing here is the truth about work: the database is."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Count, Max, Q
from django.db.models.functions import Now
from django.utils import timezone
from kombu import Connection
from kombu.exceptions import OperationalError

from leaderboard.celery import app
from leaderboard.models import ControlCheck, Download, Reading, Run, Scoring, Work
from leaderboard.models import Worker as WorkerRow
from leaderboard.services.audit import record

ANSWER_SECONDS = 1.0  # how long workers are given to answer
# What the messages of each are of.
QUEUES = {"gpu": (Run,), "default": (Scoring, ControlCheck), "readings": (Reading,), "downloads": (Download,)}
KINDS: dict[str, type[Work]] = {
    "collect_run": Run,
    "score_run": Scoring,
    "check_control": ControlCheck,
    "read_submission": Reading,
    "fetch_model": Download,
}
BY_TURNS = (Run, Scoring)
RELATED: dict[type[Work], list[str]] = {
    Run: ["model", "protocol__evaluation_set"],
    Scoring: ["model", "metric_version__metric"],
    ControlCheck: ["metric"],
    Reading: ["submission"],
    Download: ["model"],
}


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
class Worker:
    """A worker that answered: the queues it listens to, and the tasks it is at."""

    name: str
    queues: list[str]
    doing: list[str]


@dataclass(frozen=True)
class Fleet:
    """All of it. problem: why the broker could not be asked; empty where it could.

    known: what living workers noted in the database: their cages, and what they are stuck at.
    """

    queues: list[Queue]
    workers: list[Worker]
    problem: str
    at: datetime
    known: list[WorkerRow] = field(default_factory=list)

    @property
    def unattended(self) -> list[str]:
        """Queues that no worker listens to; none where nobody could be asked."""
        return [] if self.problem else [queue.name for queue in self.queues if not queue.workers]

    def as_json(self) -> dict[str, Any]:
        rows = {row.name: {"cage": row.cage, "stuck_at": row.stuck_at} for row in self.known}
        return asdict(replace(self, known=[])) | {"unattended": self.unattended, "known": rows}


def look(answer_seconds: float | None = None) -> Fleet:
    """Ask the broker for its queues and the workers for what they do; takes about `answer_seconds` where all is well.

    A broker that is dead or silent is given up within a few seconds.
    """
    seconds = ANSWER_SECONDS if answer_seconds is None else answer_seconds
    messages: dict[str, int] = {}
    workers: list[Worker] = []
    problem = ""
    try:
        with connected(seconds) as connection:
            messages = {name: depth(connection, name) for name in QUEUES}
            try:
                workers = answering(seconds)
            except connection.connection_errors:  # the pool's were to a broker that has started anew since
                workers = answering(seconds)
    except (OperationalError, OSError) as error:
        problem = str(error) or type(error).__name__
    queues = [
        Queue(name, messages.get(name), *in_database(kinds), [of.name for of in workers if name in of.queues])
        for name, kinds in QUEUES.items()
    ]
    return Fleet(queues, workers, problem, timezone.now(), list(WorkerRow.objects.alive()))


class CannotRestart(ValueError):
    """The worker cannot be told; the message says why and what to do."""


def restart(row: WorkerRow, user: User | None = None) -> None:
    """Tell a worker to give its work back and end, whatever it is at; what supervises it starts another.

    Raises CannotRestart.
    """
    try:
        with connected(ANSWER_SECONDS) as connection:
            app.control.broadcast("end_worker", destination=[row.name], connection=connection)
    except (OperationalError, OSError) as error:
        raise CannotRestart(f"The broker cannot be reached, so {row.name} cannot be told: {error}") from error
    change = {"state": "running"}, {"state": "told to end"}
    record("restart worker", f"worker {row.name}", {"stuck_at": row.stuck_at}, user, change)


@contextmanager
def connected(seconds: float) -> Iterator[Connection]:
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


def answering(seconds: float) -> list[Worker]:
    """The workers that answer in time, by name; over the pool's connections, as to close one that listened takes a
    second."""
    listening = app.control.inspect(timeout=seconds).active_queues() or {}
    names = sorted(listening)
    busy: dict[str, list[dict[str, Any]]] = {}
    if names:
        asked = app.control.inspect(names, timeout=seconds, limit=len(names))
        busy = asked.active() or {}
    described = describe([task for tasks in busy.values() for task in tasks])
    return [
        Worker(
            name,
            sorted(queue["name"] for queue in listening[name]),
            [described.get(task["id"], task["name"]) for task in busy.get(name, [])],
        )
        for name in names
    ]


def describe(tasks: list[dict[str, Any]]) -> dict[str, str]:
    """What running tasks are at, in words, by the id of the task."""
    asked: dict[type[Work], dict[str, int]] = {}
    found = {}
    for task in tasks:
        short = task["name"].rpartition(".")[2]
        found[task["id"]] = short
        if short in KINDS and task.get("args"):
            asked.setdefault(KINDS[short], {})[task["id"]] = int(task["args"][0])
    for kind, messages in asked.items():
        doing = at_work(kind, messages)
        works = kind._default_manager.select_related(*RELATED[kind]).in_bulk(list(doing.values()))
        for id_, pk in doing.items():
            if pk in works:
                found[id_] = f"{kind._meta.verbose_name} {pk}: {works[pk]}"
    return found


def at_work(kind: type[Work], messages: dict[str, int]) -> dict[str, int]:
    """The work of a kind that tasks are at, by the id of the task.

    messages: the work that each task was sent for. Of runs and scorings it may do another one, whose turn it is: what
    is in somebody's hands, and was not sent for by any of these tasks, is shared out among those without.
    """
    if kind not in BY_TURNS:
        return messages
    held = list(kind.objects.in_hand().order_by("turn_at").values_list("pk", flat=True))
    own = {id_: pk for id_, pk in messages.items() if pk in held}
    others = [pk for pk in held if pk not in own.values()]
    return own | dict(zip((id_ for id_ in messages if id_ not in own), others, strict=False))


def in_database(kinds: tuple[type[Work], ...]) -> tuple[int, int, int, datetime | None]:
    """Of work of these kinds: how much waits for a worker, is in one's hands, has gone silent; the last heartbeat."""
    total = [0, 0, 0]
    heard: datetime | None = None
    for kind in kinds:
        ready = Q(state=Work.State.QUEUED, held=False)
        if kind is Scoring:
            ready &= Q(run__state=Work.State.DONE)
        leased = Q(state=Work.State.RUNNING, lease_expires_at__gt=Now())
        row = kind.objects.unfinished().aggregate(
            waiting=Count("pk", filter=ready),
            running=Count("pk", filter=leased),
            silent=Count("pk", filter=Q(state=Work.State.RUNNING, lease_expires_at__lte=Now())),
            heard=Max("heartbeat_at", filter=Q(state=Work.State.RUNNING)),
        )
        total = [before + row[name] for before, name in zip(total, ("waiting", "running", "silent"), strict=True)]
        heard = max(filter(None, (heard, row["heard"])), default=None)
    return total[0], total[1], total[2], heard
