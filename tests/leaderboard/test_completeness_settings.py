"""Every setting is in `.env.example` with its default, and a copy of that file with every line in use is valid."""

import os
import re
import runpy
import shutil
from pathlib import Path

import pytest
from django.conf import settings as board

pytestmark = pytest.mark.either_database

ROOT = Path(board.BASE_DIR)
# What other programs read, with the reason.
READ_ELSEWHERE = {
    **dict.fromkeys(("HOST", "PORT"), "make"),
    "WEB_PROCESSES": "gunicorn, by leaderboard/serving.py",
    **dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "boto3, which has no default either"),
    "HF_HOME": "huggingface_hub, whose default it is",
}
Values = dict[str, str]


@pytest.fixture(scope="module")
def listed() -> Values:
    """The settings of `.env.example` and the values that stand there."""
    text = (ROOT / ".env.example").read_text(encoding="utf-8")
    return dict(re.findall(r"^#([A-Z][A-Z0-9_]*)=(.*)$", text, re.MULTILINE))


@pytest.fixture
def read_settings(tmp_path, monkeypatch):
    """A function that reads the settings of a fresh board, in a folder of its own and with these variables alone."""
    module = tmp_path / "leaderboard/settings.py"
    module.parent.mkdir()
    shutil.copy(ROOT / "leaderboard/settings.py", module)
    monkeypatch.chdir(tmp_path)

    def read(variables: Values) -> Values:
        kept_variables = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        with monkeypatch.context() as patch:
            patch.setattr(os, "environ", kept_variables | variables)
            values = runpy.run_path(str(module))["env"].dump()
        return {name: repr(value).replace(f"{tmp_path}/", "") for name, value in values.items()}

    return read


def test_each_setting_is_in_the_example_and_the_other_way_round(read_settings, listed):
    assert set(read_settings({})) == set(listed) - set(READ_ELSEWHERE)
    assert set(READ_ELSEWHERE) <= set(listed)


def test_each_setting_has_its_default_in_the_example_or_nothing_where_it_has_none(read_settings, listed):
    defaults = read_settings({})
    values = read_settings(listed)  # which also starts a board whose file has every line in use
    different = {name: (defaults[name], values[name]) for name in defaults if defaults[name] != values[name]}
    assert different == {}, "the default and what .env.example says"


def test_what_make_and_gunicorn_read_has_its_default_in_the_example(listed, monkeypatch):
    in_makefile = dict(re.findall(r"^(HOST|PORT) \?= (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert in_makefile == {name: listed[name] for name in ("HOST", "PORT")}
    monkeypatch.delenv("WEB_PROCESSES", raising=False)
    serving = runpy.run_path(str(ROOT / "leaderboard/serving.py"))
    assert str(serving["workers"]) == listed["WEB_PROCESSES"]
