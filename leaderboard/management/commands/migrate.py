import time
from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import OperationalError, connections

# How long a migration waits for a table; readers of the board wait behind it for as long. After a whole second
# PostgreSQL looks for deadlocks, and could end the query of a reader who waits for a table that the migration has.
LOCK_SECONDS = 0.5
TRIES = 60
PAUSE = 2.0  # seconds between two tries
IN_THE_WAY = ("55P03", "40P01")  # PostgreSQL's codes of a lock that was not got in time, and of a deadlock


class Command(migrate.Command):
    help = (
        f"{migrate.Command.help} Beside a board that runs: where a table is in use, a migration gives way after "
        f"{LOCK_SECONDS:g} s and is tried again, so that nobody waits behind it for long."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        connection = connections[options["database"]]
        if connection.vendor != "postgresql":
            super().handle(*args, **options)
            return
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {round(1000 * LOCK_SECONDS)}")
        try:
            self.migrate_patiently(*args, **options)
        finally:
            with connection.cursor() as cursor:
                cursor.execute("RESET lock_timeout")

    def migrate_patiently(self, *args: Any, **options: Any) -> None:
        """Migrate, and try again where a table is in use; what was applied stays. Raises CommandError."""
        for _ in range(TRIES):
            try:
                super().handle(*args, **options)
                return
            except OperationalError as error:
                if getattr(error.__cause__, "pgcode", None) not in IN_THE_WAY:
                    raise
                self.stdout.write(f"a table is in use: it is tried again in {PAUSE:g} s")
                time.sleep(PAUSE)
        raise CommandError(f"a table was in use at each of {TRIES} tries: look at pg_stat_activity, and run it again")
