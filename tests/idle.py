"""How long work waited beside idle workers, by the events and the clock of the database."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

from django.db import connection

from leaderboard.models import Metric, Scoring
from leaderboard.services import scorers
from leaderboard.services.checks import request_check
from leaderboard.services.evaluate import request_evaluation
from tests.faults.worker import NO_CAGES, wait_until, worker
from tests.leaderboard.living import entrant, small_metric

ENTRANTS, WORKERS = 8, 2  # threads of the one worker process
GOAL = 2.0  # seconds
ENDINGS_BEFORE, ENDINGS_AFTER = "rain\nsea\n", "rain\ntrain\nmorning\nafter\nnoon\n"
TABLES = ("leaderboard_run", "leaderboard_scoring", "leaderboard_controlcheck", "leaderboard_reading")
COLUMNS = "at, kind, pk, state, held, not_before, run, asked_by"


@dataclass(frozen=True)
class Idleness:
    """Seconds in which work was due and a worker idle: the longest stretch, all of them, and of how long a run."""

    longest: float
    total: float
    span: float


@dataclass
class Seen:
    """A piece of work as the database last saw it."""

    state: str
    held: bool
    not_before: datetime | None
    run: int | None
    asked_by: str | None


def log_work() -> None:
    """Have the database log every change of a piece of work from now on."""
    moment = "TIMESTAMPTZ" if connection.vendor == "postgresql" else "TEXT"
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS work_log")
        cursor.execute(
            f"CREATE TABLE work_log (at {moment}, kind TEXT, pk BIGINT, state TEXT, held BOOLEAN, not_before {moment}, "
            "run BIGINT, asked_by TEXT)"
        )
        if connection.vendor == "postgresql":
            cursor.execute(
                "CREATE OR REPLACE FUNCTION log_work() RETURNS TRIGGER AS $$ BEGIN "  # noqa: S608
                f"INSERT INTO work_log ({COLUMNS}) VALUES (clock_timestamp(), TG_TABLE_NAME, NEW.id, NEW.state, "
                "NEW.held, NEW.not_before, (to_jsonb(NEW)->>'run_id')::bigint, to_jsonb(NEW)->>'trigger'); "
                "RETURN NEW; END $$ LANGUAGE plpgsql"
            )
        for table in TABLES:
            for event in ("INSERT", "UPDATE"):
                cursor.execute(_trigger(table, event))


def _trigger(table: str, event: str) -> str:
    name = f"log_{table}_{event.lower()}"
    if connection.vendor == "postgresql":
        return f"CREATE OR REPLACE TRIGGER {name} AFTER {event} ON {table} FOR EACH ROW EXECUTE FUNCTION log_work()"
    run = "NEW.run_id" if table.endswith("scoring") else "NULL"
    asked_by = 'NEW."trigger"' if table.endswith("controlcheck") else "NULL"
    return (
        f"CREATE TRIGGER {name} AFTER {event} ON {table} BEGIN INSERT INTO work_log ({COLUMNS}) VALUES "  # noqa: S608
        f"(STRFTIME('%Y-%m-%d %H:%M:%f', 'NOW'), '{table}', NEW.id, NEW.state, NEW.held, NEW.not_before, {run}, "
        f"{asked_by}); END"
    )


def stop_logging() -> None:
    """Take the log and its triggers away again."""
    with connection.cursor() as cursor:
        for table in TABLES:
            for event in ("insert", "update"):
                of_table = f" ON {table}" if connection.vendor == "postgresql" else ""
                cursor.execute(f"DROP TRIGGER IF EXISTS log_{table}_{event}{of_table}")
        cursor.execute("DROP TABLE IF EXISTS work_log")


def measure_idleness(workers: int) -> Idleness:
    """Of the run that was logged, by so many workers that do any kind of work."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {COLUMNS} FROM work_log ORDER BY at")  # noqa: S608 (names of ours)
        events = [(_moment(row[0]), row[1:]) for row in cursor.fetchall()]
    pauses = {_moment(row[4]) for _, row in events if row[4]}
    began, ended = events[0][0], events[-1][0]
    moments = sorted({at for at, _ in events} | {pause for pause in pauses if began <= pause <= ended})
    seen: dict[tuple[str, int], Seen] = {}
    longest = total = stretch = 0.0
    place = 0
    for moment, following in pairwise(moments):
        while place < len(events) and events[place][0] <= moment:
            kind, pk, state, held, not_before, run, asked_by = events[place][1]
            seen[kind, pk] = Seen(state, bool(held), _moment(not_before) if not_before else None, run, asked_by)
            place += 1
        if _is_due(seen, moment) and _count_busy(seen) < workers:
            stretch += (following - moment).total_seconds()
            total += (following - moment).total_seconds()
            longest = max(longest, stretch)
        else:
            stretch = 0.0
    return Idleness(longest, total, (ended - began) / timedelta(seconds=1))


def _is_due(seen: dict[tuple[str, int], Seen], moment: datetime) -> bool:
    """Whether some work could begin; the checks that scorings make themselves are theirs."""
    return any(
        work.state == "queued"
        and not work.held
        and work.asked_by != "submission"
        and (work.not_before is None or work.not_before <= moment)
        and (work.run is None or (run := seen.get((TABLES[0], work.run))) is None or run.state == "done")
        for work in seen.values()
    )


def _count_busy(seen: dict[tuple[str, int], Seen]) -> int:
    return sum(work.state == "running" and work.asked_by != "submission" for work in seen.values())


def _moment(value: datetime | str) -> datetime:
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return moment.replace(tzinfo=None)


def run_undisturbed(folder: Path) -> Idleness:
    """All models are evaluated, the lexicon changes, and all are rescored by real workers; nothing goes wrong.

    `folder` holds the scorers of the board, as `settings.SCORERS` says, in `scorers`.
    """
    lexicon = folder / "scorers" / "lexicon" / "own"
    lexicon.mkdir(parents=True)
    (lexicon / "words.txt").write_text(ENDINGS_BEFORE)
    scorers.look_again()
    metric = small_metric(folder, "of-a-lexicon", "lexicon:own", "lexicon_frequency")
    models = [entrant(number, metric) for number in range(ENTRANTS)]
    environment = {"PLUMBLINE_SCORERS": str(folder / "scorers"), "SWEEP_SECONDS": "2", "OPENING_REPLICATES": "3"}
    try:
        with worker(NO_CAGES, **environment):
            first = request_evaluation(models[0], metric)
            wait_until(lambda: Scoring.objects.get(pk=first.pk).state == "done")
            log_work()
            for model in models[1:]:
                request_evaluation(model, metric)
            wait_until(lambda: Scoring.objects.filter(state="done").count() == len(models))
            (lexicon / "words.txt").write_text(ENDINGS_AFTER)
            request_check(metric, "manual")
            wait_until(lambda: _is_published(metric, 2))
        return measure_idleness(WORKERS)
    finally:
        stop_logging()


def _is_published(metric: Metric, number: int) -> bool:
    version = metric.current_version()
    return version is not None and version.number == number
