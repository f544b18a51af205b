"""What `make health` prints of small made-up trees, reports and records; and what where there is none."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from textwrap import dedent

import pytest
from coverage import CoverageData

from tests.health import __main__ as screen
from tests.health import code, records, starts
from tests.mutants.touching import CACHE, hash_code

MOMENT = datetime(2026, 3, 4, 5, 6, tzinfo=UTC)
WHEN = "2026-03-04 05:06 UTC"
Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a file of the tree that is looked at, as of MOMENT; the tree is empty at first."""
    monkeypatch.chdir(tmp_path)

    def write_file(path: str, text: str) -> Path:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))
        os.utime(file, (MOMENT.timestamp(), MOMENT.timestamp()))
        return file

    return write_file


def printed(part: Callable[[], None], capsys: pytest.CaptureFixture[str]) -> str:
    """What a part of the screen says, with single spaces."""
    part()
    return re.sub(r" +", " ", capsys.readouterr().out)


def function(lines: int, name: str = "f") -> str:
    """A function of so many lines."""
    return f"def {name}():\n" + "    x = 1\n" * (lines - 1)


def test_lines_and_modules_are_counted_by_tree_without_migrations(write):
    write("leaderboard/a.py", "x = 1\n\ny = 2")
    write("leaderboard/b/c.py", "")
    write("leaderboard/migrations/0001_initial.py", "x = 1\n" * 50)
    write("scoring/d.py", "x = 1\n")
    write("scoring/notes.txt", "no\nmodule\n")
    assert code.count_lines() == {"leaderboard": (3, 2), "scoring": (1, 1), "tests": (0, 0)}


def test_the_largest_modules_come_first(write):
    for name, lines in (("leaderboard/a.py", 3), ("scoring/b.py", 5), ("tests/c.py", 4), ("tests/d.py", 1)):
        write(name, "x = 1\n" * lines)
    assert code.rank_modules(2) == [("scoring/b.py", 5), ("tests/c.py", 4)]


def test_functions_over_40_lines_are_listed_with_where_they_begin(write):
    write("leaderboard/a.py", "x = 1\n" + function(40, "as_long_as_it_may_be") + function(41, "longer"))
    nested = "class A:\n    async def longest(self):\n" + "        x = 1\n" * 60
    write("scoring/b.py", nested)
    assert code.list_long_functions() == [("scoring/b.py:2 longest", 61), ("leaderboard/a.py:42 longer", 41)]


def test_modules_that_import_one_another_in_the_end_make_a_circle(write, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    write("rooms/__init__.py", "")
    write("rooms/a.py", "from rooms import b")
    write("rooms/b.py", "def later():\n    import rooms.c")
    write("rooms/c.py", "from rooms.a import b\nimport rooms.d")
    write("rooms/d.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import rooms.c")
    write("rooms/e.py", "import rooms.f")
    write("rooms/f.py", "import rooms.e")
    assert code.list_circles(["rooms"]) == [["rooms.a", "rooms.b", "rooms.c"], ["rooms.e", "rooms.f"]]


@pytest.mark.parametrize(
    ("imported", "line"), [("", "contracts: 1 kept, 0 broken."), ("import floors.high", "contracts: 0 kept, 1 broken.")]
)
def test_layers_are_said_to_be_kept_or_broken(write, imported, line):
    contract = """
        [tool.importlinter]
        root_packages = ["floors"]
        [[tool.importlinter.contracts]]
        name = "No floor stands on a higher one"
        type = "layers"
        layers = ["floors.high", "floors.low"]
    """
    write("pyproject.toml", contract)
    write("floors/__init__.py", "")
    write("floors/high.py", "import floors.low")
    write("floors/low.py", imported)
    assert code.check_layers() == line


def test_layers_that_cannot_be_checked_say_so(write):
    assert code.check_layers().startswith("not checked")


REPORT = """
    <testsuites><testsuite>
      <testcase file="tests/leaderboard/test_a.py" name="test_slow[1]" time="12.5"/>
      <testcase file="tests/leaderboard/test_a.py" name="test_quick" time="0.25"/>
      <testcase file="tests/scoring/test_b.py" name="test_it" time="3"/>
      <testcase file="tests/test_c.py" name="test_failed" time="99"><failure message="no"/></testcase>
    </testsuite></testsuites>
"""


def test_times_of_tests_are_those_of_every_layers_report_with_the_date_of_the_last(write, capsys):
    write("var/tests/fast.xml", REPORT)
    slow_test = '<testcase file="tests/leaderboard/test_a.py" name="test_slow[1]" time="2"/>'
    write("var/tests/postgresql.xml", f"<testsuites><testsuite>{slow_test}</testsuite></testsuites>")
    text = printed(screen.print_tests, capsys)
    assert f"test times 4 tests, fast 16 s, postgresql 2 s, {WHEN}\n" in text
    assert " tests/leaderboard 15 s, tests/scoring 3 s\n" in text
    assert text.index(" 12 s tests/leaderboard/test_a.py::test_slow[1]") < text.index(" 3 s tests/scoring/test_b.py")
    assert "test_failed" not in text


def cover(run: Path, arcs: dict[str, list[tuple[int, int]]]) -> None:
    """A run of the map of `make mutants` that ran these arcs of modules."""
    run.mkdir(parents=True)
    data = CoverageData(str(run / "coverage"))
    data.add_arcs(arcs)
    data.write()
    (run / "modules.json").write_text("{}")
    os.utime(run / "modules.json", (MOMENT.timestamp(), MOMENT.timestamp()))


@pytest.fixture
def covered(write: Write) -> Path:
    """Two packages of which two runs have each run a part."""
    write("pyproject.toml", "[tool.coverage.run]\nbranch = true\nrelative_files = true\n")
    write("scoring/rooms/__init__.py", "")
    write("scoring/rooms/a.py", "x = 1\ndef f(a):\n    if a:\n        return 1\n    return 2\n")
    write("leaderboard/halls/__init__.py", "")
    write("leaderboard/halls/b.py", "def g():\n    x = 1\n    return x\n")
    folder = CACHE / hash_code()
    cover(folder / "1", {"scoring/rooms/a.py": [(-3, 3), (3, 4), (4, -2)]})
    cover(folder / "2", {"leaderboard/halls/b.py": [(-2, 2), (2, 3), (3, -1)], "scoring/rooms/a.py": [(-3, 3)]})
    return folder


def test_coverage_is_of_lines_and_branches_in_functions_by_package_over_all_runs(covered):
    # Of f two of three lines and one of two branches are run; of g both lines, and it has no branches.
    assert records.measure_coverage() == {
        "all": (pytest.approx(4 / 5), pytest.approx(1 / 2)),
        "leaderboard/halls": (1.0, 1.0),
        "scoring/rooms": (pytest.approx(2 / 3), pytest.approx(1 / 2)),
    }


def test_coverage_is_said_with_its_date_and_not_of_other_code(covered, write, capsys):
    text = printed(screen.print_coverage, capsys)
    assert text.startswith(f"coverage of lines / branches in functions, run in the process of a test, {WHEN}\n")
    assert "scoring/rooms 67% / 50%" in text
    write("scoring/rooms/a.py", "x = 2\n")
    assert printed(screen.print_coverage, capsys) == "coverage of this code not measured: make mutants\n"


def score(write: Write, name: str, totals: dict[str, int] | None) -> Path:
    """The record of a run of `make mutants`."""
    return write(f"var/mutants/{name}.json", json.dumps({"totals": totals, "verdicts": {}}))


def test_the_score_of_mutants_is_that_of_the_last_record_with_its_date(write, capsys):
    score(write, f"{hash_code()}-1-100", {"killed": 60, "survived": 20, "equivalent": 3})
    assert printed(screen.print_mutants, capsys) == f"mutants 75%: 60 killed, 20 survived, 3 equivalent, {WHEN}\n"


def test_a_score_of_earlier_code_says_so(write, capsys):
    score(write, "0123456789abcdef-1-100", {"killed": 9, "survived": 1})
    assert printed(screen.print_mutants, capsys) == f"mutants 90%: 9 killed, 1 survived, {WHEN}, of earlier code\n"


def test_an_interrupted_run_of_mutants_does_not_hide_the_last_whole_one(write, capsys):
    score(write, f"{hash_code()}-1-100", {"killed": 1, "survived": 1})
    later = score(write, f"{hash_code()}-2-100", None)
    os.utime(later, (MOMENT.timestamp() + 60, MOMENT.timestamp() + 60))
    assert printed(screen.print_mutants, capsys) == f"mutants 50%: 1 killed, 1 survived, {WHEN}\n"


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (screen.print_tests, "test times not measured: make test\n"),
        (screen.print_coverage, "coverage of this code not measured: make mutants\n"),
        (screen.print_mutants, "mutants not measured: make mutants\n"),
    ],
)
def test_where_the_long_run_never_was_its_figure_says_what_to_run(write, capsys, part, words):
    assert printed(part, capsys) == words


class Index(BaseHTTPRequestHandler):
    """An index of packages that has a newer version of four, and knows nothing else."""

    def do_GET(self) -> None:
        name = self.path.strip("/").split("/")[-1]
        is_listed = name in ("pytest", "pip", "torch", "typing-extensions")
        self.send_response(200 if is_listed else 404)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        if is_listed:
            wheel = f"{name.replace('-', '_')}-9999.0-py3-none-any.whl"
            self.wfile.write(f'<a href="{wheel}">{wheel}</a>'.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def package_index(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The index above in place of the one that pip would ask."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple/")
    yield
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_pins_behind_their_newest_version_are_those_of_the_locks(write, package_index, capsys):
    names = ("pytest", "torch", "typing-extensions")  # pip calls the last one typing_extensions
    pytest_pin, torch_pin, typing_pin = (f"{name}=={version(name)}" for name in names)
    for lock in records.LOCKS:
        write(lock, f"django==5.0 \\\n    --hash=sha256:00\n{pytest_pin}\n{typing_pin}\n# via pip\n")
    write("requirements-torch.lock", f"{torch_pin}\n")
    text = printed(screen.print_locks, capsys)
    assert text.startswith("locks 3 behind: ")
    for name, word in zip(names, ("pytest", "torch", "typing_extensions"), strict=True):
        assert f"{word} {version(name).partition('+')[0]}" in text


def test_pins_are_not_measured_where_no_index_may_be_asked(write, capsys, monkeypatch):
    for lock in records.LOCKS:
        write(lock, "pytest==8.0\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert printed(screen.print_locks, capsys) == "locks not measured: no package index can be asked\n"


PROGRAM = f"{sys.executable} -c 'import time, pathlib; pathlib.Path(\"ready\").touch(); time.sleep(600)'"


def test_a_process_is_measured_once_it_is_ready_and_then_ended(write, monkeypatch):
    processes: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda *words, **options: processes.append(start(*words, **options)) or processes[-1]
    )
    seconds, memory = starts.measure_process(PROGRAM, Path("ready").exists)
    assert seconds > 0
    assert 1 < memory < 1000
    assert processes[0].returncode == -signal.SIGKILL


def test_a_process_that_ends_before_it_is_ready_is_named(write):
    with pytest.raises(RuntimeError, match="it does not start: false"):
        starts.measure_process("false", lambda: False)


WIDTH, HEIGHT = 120, 60


@pytest.mark.slow
def test_the_whole_screen_is_not_longer_than_a_screen(write, capsys, monkeypatch):
    """However much there is to say: thirty packages, hundreds of long functions and circles, every pin behind."""
    for number in range(300):
        write(f"leaderboard/a_rather_long_name_{number}.py", function(60, "with_a_rather_long_name"))
    circle = [f"leaderboard.services.a_rather_long_name_{number}" for number in range(30)]
    monkeypatch.setattr(code, "list_circles", lambda: [circle] * 9)
    tests = "".join(
        f'<testcase file="tests/folder_{number % 9}/test_a.py" name="test_{"long_" * 12}{number}" time="{number}"/>'
        for number in range(400)
    )
    write("var/tests/fast.xml", f"<testsuite>{tests}</testsuite>")
    cover(CACHE / hash_code() / "1", {})
    monkeypatch.setattr(
        records, "measure_coverage", lambda: {f"leaderboard/package_{number}": (0.5, 0.5) for number in range(40)}
    )
    score(write, f"{hash_code()}-1-100", {"killed": 60, "survived": 20, "equivalent": 3, "timed out": 1})
    figures = {"web": (3.0, 200.0), "worker": (3.0, 200.0), "command": (3.0, 200.0)}
    monkeypatch.setattr(starts, "measure_starts", lambda: figures)
    gaps = {f"a-package-{number}": "2026.1.1 < 2026.2.2" for number in range(250)}
    monkeypatch.setattr(records, "list_outdated", lambda: gaps)
    assert screen.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(-(-len(line) // WIDTH) or 1 for line in lines) <= HEIGHT
    assert any("250 behind" in line for line in lines)
