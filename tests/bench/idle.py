"""How long work waits beside idle workers, over a whole run on each database: evaluations, a drift, a rescoring.

The physical limit is nothing: a worker that is free takes what is due. What is counted is by the clock and the events
of the database, so a slow machine does not change it by being slow at the work.
"""

import os
import subprocess
import sys

DATABASES = ("sqlite", "postgresql")


def idle_table() -> None:
    """Print seconds in which work was due and a worker idle: the longest stretch, all of them, and the run's length."""
    print(f"  {'database':14}{'longest':>12}{'in all':>12}{'of a run of':>16}{'share':>10}")
    for database in DATABASES:
        variables = os.environ | {"PLUMBLINE_TEST_DATABASE": database}
        subprocess.run([sys.executable, "-m", "tests.bench.idle"], env=variables, check=True)


def measure(database: str) -> None:
    """Print the row of one database, on a board of its own."""
    from tests import environment

    try:
        import django

        os.environ["DJANGO_SETTINGS_MODULE"] = "leaderboard.settings"
        os.environ["PLUMBLINE_SCORERS"] = str(environment.FOLDER / "scorers")
        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        from tests.idle import run_undisturbed

        idleness = run_undisturbed(environment.FOLDER)
        share = idleness.total / idleness.span
        print(f"  {database:14}{idleness.longest:10.1f} s{idleness.total:10.1f} s{idleness.span:14.1f} s{share:10.1%}")
    finally:
        environment.pytest_unconfigure()


if __name__ == "__main__":
    measure(os.environ["PLUMBLINE_TEST_DATABASE"])
