"""Which tests run a line: a map that one run of the suite under coverage.py leaves, kept while the code stays as it is.

The map is a folder of `.pytest_cache/mutants`, named by the hash of the code. Test modules that changed since are run
again and take the place of what they left before, so that a new test costs the run of its module.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from xml.etree import ElementTree

from coverage import CoverageData

from tests.mutants.declarations import list_dependent_lines, list_lines_by_part, runs_on_import
from tests.mutants.operators import Mutant

PACKAGES = ("leaderboard", "scoring")
CACHE = Path(".pytest_cache/mutants")
BUDGET = 60.0  # seconds of undisturbed tests that a mutant may cost
PASSED, FAILED = 0, 1  # what pytest returns when it has run every test


def hash_code() -> str:
    """What the code under test is, whatever the tests are."""
    digest = hashlib.sha256()
    for path in sorted(path for package in PACKAGES for path in Path(package).rglob("*.py")):
        digest.update(f"{path}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def hash_tests() -> dict[str, str]:
    """The test modules and what they hold."""
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in Path("tests").rglob("test_*.py")}


def copy_tree(folder: Path) -> None:
    """Copy what git does not ignore, so that nothing is run or changed in the working tree."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for name in filter(os.path.isfile, listing.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(name, folder / name)
    (folder / ".venv").symlink_to(Path(".venv").resolve())


def read_times(report: Path) -> dict[str, float]:
    """Seconds of each test that passed, by its id, from a JUnit report of pytest."""
    cases = ElementTree.parse(report).iter("testcase")  # noqa: S314
    return {f"{case.get('file')}::{case.get('name')}": float(case.get("time", 0)) for case in cases if not len(case)}


@cache
def names_module(test_module: str, path: str) -> bool:
    """Whether a test module imports the module at `path`, or names it, or is called as that or its package is.

    One that has gone since names none.
    """
    package, _, name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".").rpartition(".")
    if Path(test_module).stem in (f"test_{name}", f"test_{package.rpartition('.')[2]}"):
        return True
    text = Path(test_module).read_text() if Path(test_module).exists() else ""
    imports = rf"(from|import) {re.escape(package)}(\.{name}\b| import [^\n]*\b{name}\b)"
    return path in text or bool(re.search(imports, text))


def passes_by(test: str, mutant: Mutant) -> bool:
    """Whether a test is of a test module that does not name the module of the mutant."""
    return not names_module(test.split("::")[0], mutant.path)


@dataclass
class LineMap:
    """The tests that run each line, and their seconds, over the runs that made the map, the newest first."""

    folder: Path
    modules: dict[str, str] = field(default_factory=dict)  # the run that measured each test module
    _lines: dict[str, dict[int, set[str]]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        for run in self.runs:
            for module in json.loads((run / "modules.json").read_text()):
                self.modules.setdefault(module, run.name)

    @property
    def runs(self) -> list[Path]:
        """The folders of complete runs."""
        return sorted((path.parent for path in self.folder.glob("*/modules.json")), reverse=True)

    def list_outdated(self) -> list[str]:
        """The test modules that changed since they were measured, or never were."""
        hashes: dict[str, str] = {}
        for run in reversed(self.runs):
            hashes |= json.loads((run / "modules.json").read_text())
        return sorted(path for path, state in hash_tests().items() if hashes.get(path) != state)

    @cached_property
    def times(self) -> dict[str, float]:
        """Seconds of each test that passed."""
        return {
            test: seconds
            for run in self.runs
            for test, seconds in read_times(run / "tests.xml").items()
            if self.modules.get(test.split("::")[0]) == run.name
        }

    def tests_by_line(self, path: str) -> dict[int, set[str]]:
        """Of each line of a module, the tests that run it; lines run by imports alone have none."""
        if path in self._lines:
            return self._lines[path]
        lines = self._lines[path] = {}
        for run in self.runs:
            data = CoverageData(str(run / "coverage"))
            data.read()
            for line, contexts in data.contexts_by_lineno(path).items():
                tests = {context.rpartition("|")[0] for context in contexts}
                current = {test for test in tests if self.modules.get(test.split("::")[0]) == run.name}
                lines.setdefault(line, set()).update(current & self.times.keys())
        return lines

    def choose_tests(self, mutant: Mutant) -> tuple[list[str], int]:
        """The tests to run, and of how many that touch the mutant; the fastest first, within the budget.

        Tests of test modules that name the module come first and have two thirds of it, where others pass by.
        """
        lines = self.tests_by_line(mutant.path)
        own = set().union(*(lines.get(number, set()) for number in range(mutant.first, mutant.last + 1)))
        by_time = sorted(own, key=lambda test: (self.times[test], test))
        naming = [test for test in by_time if not passes_by(test, mutant)]
        passing = [test for test in by_time if passes_by(test, mutant)]
        order = [*self._take(naming, BUDGET * 2 / 3), *self._take(passing, BUDGET / 3), *naming, *passing]
        if not own or runs_on_import(mutant.path, mutant.line):
            order += self._list_stand_ins(mutant)
        order = list(dict.fromkeys(order))
        return self._take(order, BUDGET), len(order)

    def _list_stand_ins(self, mutant: Mutant) -> list[str]:
        """For a line that runs on import, or in processes that tests start, so that no test is known to run it.

        First tests of test modules that name the module: the fastest for a sixth of the budget, as what compares a
        declaration runs no function, and for a third those that run the most lines of it for their time. Then the
        fastest of those that run a function which uses the part of a declaration that the line names, for another
        sixth, of those that run a function which depends on the line at all, and of the others those that run the most
        lines of the module for their time. Where no test runs any line of it, those of the modules beside it do.
        """
        lines = self.tests_by_line(mutant.path)
        counts = Counter(test for tests in lines.values() for test in tests)
        for path in map(str, Path(mutant.path).parent.glob("*.py")) if not counts else ():
            counts.update(test for tests in self.tests_by_line(path).values() for test in tests)

        def by_yield(test: str) -> tuple[float, float, str]:
            return -counts[test] / (1 + self.times[test]), self.times[test], test

        def by_time(test: str) -> tuple[float, str]:
            return self.times[test], test

        def list_runners(functions: Iterator[tuple[str, range]]) -> list[str]:
            places = ((module, number) for module, numbers in functions for number in numbers)
            tests = set().union(*(self.tests_by_line(module).get(number, set()) for module, number in places))
            return sorted(tests, key=by_time)

        place = mutant.path, mutant.line, [str(path) for package in PACKAGES for path in Path(package).rglob("*.py")]
        naming = sorted((test for test in self.times if not passes_by(test, mutant)), key=by_yield)
        order = [*self._take(sorted(naming, key=by_time), BUDGET / 6), *self._take(naming, BUDGET / 3)]
        order += self._take(list_runners(list_lines_by_part(*place)), BUDGET / 6)
        order += list_runners(list_dependent_lines(*place))
        return list(dict.fromkeys([*order, *naming, *sorted(counts, key=by_yield)]))

    def _take(self, order: list[str], budget: float) -> list[str]:
        """The first of them that take so many seconds, or the first alone."""
        selection: list[str] = []
        seconds = 0.0
        for test in order:
            seconds += self.times[test]
            if seconds > budget and selection:
                break
            selection.append(test)
        return selection


class MeasuringEnded(Exception):
    """The run that measures lines ended before its last test, and has left no part of a map."""


def measure_lines() -> LineMap:
    """The map of the code as it is; runs the test modules that it lacks, which takes long when that is all of them.

    Raises MeasuringEnded.
    """
    folder = CACHE / hash_code()
    modules = LineMap(folder).list_outdated()
    if modules:
        run = folder / f"{len(list(folder.glob('*'))):04}"
        run.mkdir(parents=True, exist_ok=True)
        print(f"measuring which lines {len(modules)} test modules run; this is no part of the half hour", flush=True)
        tree, hashes = run / "tree", hash_tests()
        copy_tree(tree)
        options = ["--quiet", "--numprocesses", "3", "--dist", "loadfile", "--no-loadscope-reorder"]
        options += ["--cov-context=test", "--cov-report="]
        options += [f"--cov={package}" for package in PACKAGES]
        options += [f"--junitxml={(run / 'tests.xml').resolve()}", "-o", f"cache_dir={CACHE.parent.resolve()}"]
        variables = os.environ | {"COVERAGE_FILE": str((run / "coverage").resolve()), "OMP_NUM_THREADS": "1"}
        # A test that fails tells nothing of mutants: those that passed are chosen from.
        command = [sys.executable, "-m", "pytest", *options, *modules]
        code = subprocess.run(command, cwd=tree, env=variables, check=False).returncode
        shutil.rmtree(tree)
        if code not in (PASSED, FAILED):
            raise MeasuringEnded(f"pytest ended with {code} before its last test: nothing is known of lines")
        (run / "modules.json").write_text(json.dumps({path: hashes[path] for path in modules}))
    return LineMap(folder)
