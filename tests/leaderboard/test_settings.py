"""Settings as people write them: with blanks, left empty, or not as they have to be."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

READ = """
import json
from leaderboard import settings
names = ("ALLOWED_HOSTS", "BACKUP_RECIPIENT", "ALERT_EMAIL", "ALERT_WEBHOOK", "VAR", "SCORERS", "LOG_LEVEL")
print(json.dumps({name: getattr(settings, name) for name in names}, default=str))
"""


def read(var: str, **values: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PLUMBLINE_VAR": var, **values}
    return subprocess.run([sys.executable, "-c", READ], env=environment, capture_output=True, text=True, check=False)


def test_blanks_and_empty_items_are_no_part_of_a_list_and_what_is_empty_has_its_default(tmp_path):
    values = {
        "ALLOWED_HOSTS": "a.example, b.example,",
        "BACKUP_RECIPIENT": " age1x , ,age1y",
        "ALERT_EMAIL": "ada@a.example, alan@b.example,",
        "ALERT_WEBHOOK": "",
        "PLUMBLINE_SCORERS": "",
        "LOG_LEVEL": "warning",
    }
    settings: dict[str, Any] = json.loads(read(str(tmp_path), **values).stdout)
    assert settings == {
        "ALLOWED_HOSTS": ["a.example", "b.example"],
        "BACKUP_RECIPIENT": ["age1x", "age1y"],
        "ALERT_EMAIL": ["ada@a.example", "alan@b.example"],
        "ALERT_WEBHOOK": [],
        "VAR": str(tmp_path),
        "SCORERS": str(tmp_path / "scorers"),
        "LOG_LEVEL": "WARNING",
    }


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("LOG_LEVEL", "verbose", "LOG_LEVEL = 'VERBOSE': set it to one of DEBUG, INFO, WARNING, ERROR, CRITICAL"),
        ("ALERT_EMAIL", "ada@a.example, nobody", "set it to e-mail addresses, separated by commas"),
    ],
)
def test_a_setting_that_will_not_do_is_named(tmp_path, name, value, problem):
    problems = read(str(tmp_path), **{name: value}).stderr
    assert name in problems.splitlines()[-1]
    assert problem in problems
