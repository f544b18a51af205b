import time
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import DatabaseError

from leaderboard.management.output import BoardCommand
from leaderboard.models import Worker


class Command(BoardCommand):
    help = (
        "Before `migrate`: wait until no other process uses the database, where there is something to migrate. "
        "Ends with 1, and says what to stop, where one still does: old code must not write while its tables change."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--seconds", type=float, default=60.0, help="to wait for at most")

    def handle(self, seconds: float, **options: Any) -> None:
        executor = MigrationExecutor(connection)
        plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
        if not plan:
            self.say("nothing to migrate")
            self.answer({"migrations": 0})
            return
        deadline = time.monotonic() + seconds
        while others := count_users():
            if time.monotonic() > deadline:
                raise CommandError(
                    f"{len(plan)} migrations are to be applied, and {others} other processes use the database: "
                    "stop web, workers, beat first (`docker compose stop web worker files-worker gpu-worker beat` or "
                    "`systemctl stop plumbline.target` on every host)"
                )
            time.sleep(1.0)
        self.say(f"{len(plan)} migrations to apply, and nobody else uses the database")
        self.answer({"migrations": len(plan)})


def count_users() -> int:
    """Other connections to the database; where it cannot tell, as SQLite, the workers that live."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = CURRENT_DATABASE() AND pid <> PG_BACKEND_PID() "
                "AND backend_type = 'client backend'"
            )
            return int(cursor.fetchone()[0])
    try:
        return Worker.objects.alive().only("pk").count()
    except DatabaseError:  # a new database has no workers yet
        return 0
