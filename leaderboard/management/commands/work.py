from typing import Any

from django.core.management.base import CommandError, CommandParser

from leaderboard.formats import Table, TableColumn, as_text
from leaderboard.management.lookup import metric_called
from leaderboard.management.output import BoardCommand
from leaderboard.models import Run, Scoring
from leaderboard.operations.queries.work import STATES, STEERED, WorkSearch, count_work, find_work
from leaderboard.services.workers import Fleet, look

MOST = 50
FIELDS = (
    *("state", "held", "reason", "fault", "attempts", "not_before", "waits_since", "waits_for", "worker"),
    *("done", "total", "seconds", "created_at", "started_at", "progressed_at", "heartbeat_at", "finished_at"),
)  # of any work, as --json prints it


class Command(BoardCommand):
    help = "Show what the workers are doing: queues, workers and counts; or the runs or scorings, filtered."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("kind", nargs="?", choices=list(STEERED), help="list these (default: queues and workers)")
        parser.add_argument(
            "--state", default="", choices=list(STATES), help="list what is in this state (default: all)"
        )
        parser.add_argument("--metric", default="", help="slug of the metric")
        parser.add_argument("--search", default="", metavar="WORDS", help="in the model's name or slug")
        parser.add_argument("--most", type=int, default=MOST, help=f"show at most so many (default: {MOST})")

    def handle(self, kind: str | None, **options: Any) -> None:
        if kind is None:
            for name in ("state", "metric", "search"):
                if options[name]:
                    raise CommandError(f"--{name} = {options[name]!r}: say what to list, {' or '.join(STEERED)}")
            self.overview(look())
            return
        if options["metric"]:
            metric_called(options["metric"])
        matches = find_work(WorkSearch(kind, options["state"], options["metric"], options["search"]))
        total, works = matches.count(), list(matches[: max(1, options["most"])])
        self.answer({"total": total, kind: [row_of(work) for work in works]})
        self.say(as_text(table_of(kind, works)))
        self.say(f"\n{len(works)} of {total} {kind}")

    def overview(self, fleet: Fleet) -> None:
        """Queues, workers, and how much work there is."""
        counts = count_work()
        self.answer(fleet.as_json() | {"work": {count.label.lower(): count.states for count in counts}})
        names = ("messages", "ready", "in hand", "silent")
        columns = [TableColumn("queue", False), *map(TableColumn, names), TableColumn("workers", False)]
        rows = [
            [
                queue.name,
                "unknown" if queue.messages is None else str(queue.messages),
                *map(str, (queue.waiting, queue.running, queue.silent)),
                ", ".join(queue.workers) or ("unknown" if fleet.problem else "none"),
            ]
            for queue in fleet.queues
        ]
        self.say(as_text(Table("Queues", columns, rows)))
        states = [TableColumn("work", False), *map(TableColumn, STATES.values())]
        count_rows = [[count.label, *(str(count.states[state]) for state in STATES)] for count in counts]
        self.say("\n" + as_text(Table("Work", states, count_rows)) + "\n")
        for worker in fleet.workers:
            self.say(f"{worker.name} is at {'; '.join(worker.doing) or 'nothing'}")
        if fleet.problem:
            self.say(f"the broker does not answer: {fleet.problem}")
        elif not fleet.workers:
            self.say("no worker answers: nothing is done until one runs; `make run` starts them")


def row_of(work: Run | Scoring) -> dict[str, Any]:
    """A piece of work as --json prints it."""
    if isinstance(work, Run):
        task: dict[str, Any] = {"evaluation_set": str(work.protocol.evaluation_set), "epoch": work.epoch}
        task |= {name: getattr(work, name) for name in ("requests_made", "tokens_used")}
    else:
        version = work.metric_version
        task = {"metric": version.metric.slug, "version": version.number, "run": work.run_id}
        task |= {name: getattr(work, name) for name in ("texts", "texts_missing", "lost_files")}
    return {"id": work.pk, "model": work.model.slug} | task | {name: getattr(work, name) for name in FIELDS}


def table_of(kind: str, works: list[Run] | list[Scoring]) -> Table:
    """The list for people."""
    columns = [
        TableColumn("no."),
        *(TableColumn(name, False) for name in ("model", "of", "state")),
        TableColumn("texts"),
    ]
    rows = [
        (
            str(work.pk),
            work.model.slug,
            str(work.protocol.evaluation_set if isinstance(work, Run) else work.metric_version),
            "paused" if work.held else work.get_state_display().lower(),
            f"{work.done:,} of {work.total:,}" if work.total else "",
            work.reason[:120],
        )
        for work in works
    ]
    return Table(STEERED[kind].kind.label, [*columns, TableColumn("reason", False)], rows)
