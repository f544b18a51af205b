"""Every setting is in `.env.example` with its default, and a copy of that file with every line in use is valid.

What leaderboard/settings.py makes of them is in tests/approved/settings.txt.
"""

import ast
import os
import re
import runpy
import shutil
from pathlib import Path
from pprint import pformat
from typing import Any

import pytest
from django.conf import settings as board
from environs import EnvError

from scoring.scorers.services import ACCESS_SETTINGS, ADDRESSES, FREE
from tests.approved_text import compare_with_approved
from tests.leaderboard.reads import reads_of

pytestmark = pytest.mark.either_database

ROOT = Path(board.BASE_DIR)
# What other programs read, with the reason.
READ_ELSEWHERE = {
    **dict.fromkeys(("HOST", "PORT"), "make"),
    "WEB_PROCESSES": "gunicorn, by leaderboard/serving.py",
    **dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "boto3, which has no default either"),
    "HF_HOME": "huggingface_hub, whose default it is",
}
OF_THE_SYSTEM = "the system's own, passed on to a process that downloads"
# What the code reads beside the settings and no operator sets, with the reason.
NO_SETTINGS = {
    "DJANGO_SETTINGS_MODULE": "where the settings are",
    "OPENBLAS_NUM_THREADS": "the site sets it for its own processes",
    "PLUMBLINE_CAGE_OF": "the board sets it for its own cages",
    **dict.fromkeys(("ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY"), "torch's own: other rates are measured with others"),
    **dict.fromkeys(("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "XDG_CACHE_HOME"), OF_THE_SYSTEM),
    **dict.fromkeys(("SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"), OF_THE_SYSTEM),
    **dict.fromkeys(("http_proxy", "https_proxy", "no_proxy"), OF_THE_SYSTEM),
}
# Where the environment as a whole is handed on, with the reason.
HANDED_ON = {
    "leaderboard/management/commands/demo_drift.py": "to the processes of another board",
    "leaderboard/operations/backups/verifying.py": "to the commands that load a backup into a board of its own",
    "scoring/cage/confinement.py": "a cage has its own HOME",
    "scoring/cage/protections.py": "a cage has what is listed there alone",
    "scoring/cage/supervisor.py": "to cages, which get what is listed there alone",
    "scoring/scorer_commands.py": "to what reads how services are reached, whose names a test below has",
}
Values = dict[str, str]
# A board in service as deploy/README.md sets one up, on two hosts.
IN_SERVICE = {
    "DATABASE_URL": "postgresql://board:word@database/plumbline",
    "BROKER_URL": "redis://broker:6379/0",
    "CACHE_URL": "redis://broker:6379/1",
    "STORAGE_URL": "s3://bucket/board?endpoint=https://objects.example.org",
    "STORAGE_ALSO_URL": "file:///srv/files",
    "SITE_URL": "https://board.example.org/",
    "HTTPS_ONLY": "true",
    "EMAIL_URL": "submission://board:word@mail.example.org:587",
    "CSP_REPORT_ONLY": "true",
    "DEAD_MAN_PING": "https://ping.example.org/key/",
    "CHECK_SECONDS": "20",
    "SWEEP_SECONDS": "30",
    "KEPT_MODELS_GB": "3",
    "GUARD_SERVERS": '{"wildguard": "http://guard.example.org:8000"}',
    "COMPLETIONS_API_KEYS": '{"http://server.example.org": "word"}',
    **{f"{name}_CLIENT_{part}": "word" for name in ("GITHUB", "HUGGINGFACE") for part in ("ID", "SECRET")},
}
# What the machine or the installation decides.
TRANSIENT = re.compile("SECRET_KEY|PLOTLY.*|STATICFILES_DIRS|BASE_DIR|HOST|DIGEST|_.*")


@pytest.fixture(scope="module")
def listed() -> Values:
    """The settings of `.env.example` and the values that stand there."""
    text = (ROOT / ".env.example").read_text(encoding="utf-8")
    return dict(re.findall(r"^#([A-Z][A-Z0-9_]*)=(.*)$", text, re.MULTILINE))


@pytest.fixture
def run_settings(tmp_path, monkeypatch):
    """A function that runs the settings of a fresh board, in a folder of its own and with these variables alone."""
    module = tmp_path / "leaderboard/settings.py"
    module.parent.mkdir()
    shutil.copy(ROOT / "leaderboard/settings.py", module)
    monkeypatch.chdir(tmp_path)

    def run(variables: Values) -> dict[str, Any]:
        kept_variables = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        with monkeypatch.context() as patch:
            patch.setattr(os, "environ", kept_variables | variables)
            return runpy.run_path(str(module))

    return run


@pytest.fixture
def read_settings(run_settings, tmp_path):
    """A function that returns each setting as these variables have it."""

    def read(variables: Values) -> Values:
        values = run_settings(variables)["env"].dump()
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


MAY_BE_0 = {  # none of it, at once, or as much as it takes
    *("BOARD_LOOK_SECONDS", "PAGE_LINE", "PAGE_WAIT_SECONDS", "OPENING_SPREAD_SECONDS", "BACKUP_SECONDS"),
    *("ALERT_WORKERS_SECONDS", "ALERT_SCORER_SECONDS", "ALERT_SWEEP_SECONDS", "ALERT_STILL_SECONDS", "ALERT_DISK_GB"),
    *("STORAGE_CACHE_GB", "WORKER_MEMORY_GB", "KEPT_MODELS_GB", "SERVED_MOST_REQUESTS", "SERVED_MOST_TOKENS"),
    *("AZURE_CONTENT_SAFETY_USD_PER_1000_TEXTS", "JUDGE_USD_PER_1000_TEXTS", "REQUESTS_A_MINUTE"),
    *("SUBMISSIONS_AT_ONCE", "SUBMISSIONS_A_DAY", "UPLOAD_MOST_BYTES_A_DAY", "TRUSTED_PROXIES"),
}


def test_a_number_that_cannot_be_is_refused_by_the_name_of_its_setting(run_settings):
    text = (ROOT / "leaderboard/settings.py").read_text(encoding="utf-8")
    names = re.findall(r'(?:env\.(?:int|float)|_number_or_none)\("(\w+)"', text)
    assert len(names) > 40
    for name in names:
        with pytest.raises(EnvError, match=rf'"{name}" invalid: .*-1.*set it to'):
            run_settings({name: "-1"})
        if name not in MAY_BE_0:
            with pytest.raises(EnvError, match=rf'"{name}" invalid: .*\b0(\.0)?\b.*set it to'):
                run_settings({name: "0"})


def test_what_make_and_gunicorn_read_has_its_default_in_the_example(listed, monkeypatch):
    in_makefile = dict(re.findall(r"^(HOST|PORT) \?= (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert in_makefile == {name: listed[name] for name in ("HOST", "PORT")}
    monkeypatch.delenv("WEB_PROCESSES", raising=False)
    serving = runpy.run_path(str(ROOT / "leaderboard/serving.py"))
    assert str(serving["workers"]) == listed["WEB_PROCESSES"]


def is_environment(node: ast.AST) -> bool:
    """Whether it is the environment, as `os.environ`, `os.getenv` or `Env()`, or an import of such a name."""
    match node:
        case ast.Attribute(ast.Name("os"), "environ" | "environb" | "getenv") | ast.Call(ast.Name("Env")):
            return True
        case ast.ImportFrom("os" | "leaderboard.settings", aliases):
            return not {alias.name for alias in aliases}.isdisjoint({"environ", "environb", "getenv", "env"})
    return False


def test_each_name_that_the_code_reads_beside_the_settings_is_in_the_example_or_has_a_reason(listed):
    names, handing_on = set(), set()
    for path in (ROOT / "manage.py", *ROOT.glob("leaderboard/**/*.py"), *ROOT.glob("scoring/**/*.py")):
        place = str(path.relative_to(ROOT))
        if place != "leaderboard/settings.py":
            reads = list(reads_of(ast.parse(path.read_text(encoding="utf-8")), is_environment))
            names |= set().union(*reads)
            handing_on |= {place} if not all(reads) else set()
    assert names - set(listed) == set(NO_SETTINGS), "put it into .env.example, or say why not"
    assert handing_on == set(HANDED_ON), "read the names one by one, or say why not"


@pytest.mark.parametrize(
    "text",
    [
        'os.environ["NEW"]',
        'os.environ.get("NEW", "")',
        'os.getenv("NEW")',
        '"NEW" in os.environ',
        'Env().int("NEW", 2)',
        'NAME = "NEW"\nos.environ[NAME]',
        'NAMES = (*("NEW",),)\n{name: os.environ[name] for name in NAMES}',
    ],
)
def test_a_name_that_is_read_is_noticed_however_it_is_written(text):
    assert list(reads_of(ast.parse(text), is_environment)) == [{"NEW"}]


@pytest.mark.parametrize(
    "text", ["read(os.environ)", "read(os.environ.get)", "def read(name): os.environ[name]", "from os import environ"]
)
def test_an_environment_that_is_handed_on_is_noticed(text):
    assert list(reads_of(ast.parse(text), is_environment)) == [set()]


def test_how_each_service_is_reached_is_in_the_example(listed):
    free = {f"{prefix}_USD_PER_1000_TEXTS" for prefix in FREE}
    names = {f"{prefix}_{name}" for prefix in ADDRESSES for name in ACCESS_SETTINGS}
    assert names - set(listed) == free


def describe_settings(values: dict[str, Any], folder: Path) -> list[str]:
    """What each setting of a board in the folder is, as text; sets in order."""
    names = [name for name in sorted(values) if name.isupper() and not TRANSIENT.fullmatch(name)]
    ordered = {name: sorted(values[name]) if isinstance(values[name], set) else values[name] for name in names}
    return [f"{name} = {pformat(value, width=118)}".replace(str(folder), "BOARD") for name, value in ordered.items()]


def test_kept_pages_are_of_all_settings_but_the_name_of_the_host(run_settings):
    changes = ({}, {"PLUMBLINE_HOST": "second"}, {"PROJECT_URL": "https://forge.example/plumbline"})
    first, second, third = (run_settings({"SECRET_KEY": "k", **values})["DIGEST"] for values in changes)
    assert first == second != third


def test_settings_become_what_was_approved(run_settings, tmp_path):
    defaults = describe_settings(run_settings({}), tmp_path)
    in_service = describe_settings(run_settings(IN_SERVICE), tmp_path)
    lines = ["by default", *defaults, "", "in service", *(line for line in in_service if line not in defaults)]
    compare_with_approved("settings.txt", "\n".join([*lines, ""]))
