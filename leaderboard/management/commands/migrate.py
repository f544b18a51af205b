import time
from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import OperationalError, connections

LOCK_SECONDS = 3  # that a migration waits for a table; readers of the board wait behind it for as long
TRIES = 20
PAUSE = 2.0  # seconds between two tries
LOCK_NOT_AVAILABLE = "55P03"  # of PostgreSQL


class Command(migrate.Command):
    help = (
        f"{migrate.Command.help} Beside a board that runs: where a table is in use, a migration gives way after "
        f"{LOCK_SECONDS} s and is tried again, so that nobody waits behind it for long."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        connection = connections[options["database"]]
        if connection.vendor != "postgresql":
            super().handle(*args, **options)
            return
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = '{LOCK_SECONDS}s'")
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
                if getattr(error.__cause__, "pgcode", None) != LOCK_NOT_AVAILABLE:
                    raise
                self.stdout.write(f"a table is in use: it is tried again in {PAUSE:g} s")
                time.sleep(PAUSE)
        raise CommandError(f"a table was in use at each of {TRIES} tries: look at pg_stat_activity, and run it again")
