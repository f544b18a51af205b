"""Take the steps of recipes on a board: commands of `manage.py` and pages, in one process, as each start takes seconds.

    python -m tests.leaderboard.recipe_steps < steps.json > answers.json

Steps are a list of commands, as in "python manage.py seed", and of addresses; the answers hold what each printed or
showed.
"""

import json
import shlex
import sys
from io import StringIO

import django
from django.core.management import call_command
from django.test import Client


def take_step(step: str) -> str:
    """What the step prints or shows. Raises what the command raises, and AssertionError where there is no such page."""
    program, *words = shlex.split(step)
    if program == "python":
        assert words[0] == "manage.py", step
        output = StringIO()
        call_command(*words[1:], stdout=output)
        return output.getvalue()
    response = Client(SERVER_NAME="127.0.0.1").get(step)
    assert response.status_code == 200, f"{step}: {response.status_code}"
    return response.content.decode()


def main() -> None:
    """Answer the steps of standard input."""
    django.setup()
    take_step("python manage.py mark_storage")  # the database came without its files
    call_command("collectstatic", interactive=False, verbosity=0)
    json.dump({step: take_step(step) for step in json.load(sys.stdin)}, sys.stdout)


if __name__ == "__main__":
    main()
