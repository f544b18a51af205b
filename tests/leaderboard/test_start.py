"""What starts must start at once: a board is half a dozen processes, and each command is another."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.either_database

PROGRAM = """
import sys
import leaderboard.wsgi
import leaderboard.services.cages, scoring.language_models.resolving  # in which models are described
from leaderboard.celery import app
app.loader.import_default_modules()
from django.core.management import get_commands, load_command_class
[load_command_class(home, name) for name, home in get_commands().items() if home == "leaderboard"]
print(sorted({"torch", "transformers", "detoxify"} & set(sys.modules)))
"""


@pytest.mark.slow
@pytest.mark.either_database
def test_pages_tasks_and_commands_start_without_the_libraries_that_run_models(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    started = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning", "-c", PROGRAM],  # what is deprecated, too
        env={**environment, "PLUMBLINE_VAR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert started.stdout.strip() == "[]"
