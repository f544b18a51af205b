"""A mutant's trial: the tests that touch it, on a copy of the tree in which it is the only change."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Timer
from typing import Self

from tests.mutants.operators import Mutant
from tests.mutants.touching import LineMap

FACTOR, STARTS = 5, 3  # a trial may last so often as long as its tests undisturbed, and so many starts of pytest
# What pytest returns when a test fails, when a module cannot be imported, and when one cannot of which it names tests.
FAILED, INTERRUPTED, USAGE_ERROR = 1, 2, 4
NOT_THERE = re.compile(r"^ERROR: (not found|file or directory not found)", re.MULTILINE)
CONTROL = "tests/scoring/test_auc.py"


@dataclass(frozen=True)
class Verdict:
    """What came of a mutant: killed, timed out (killed too), survived or untouched, and by which tests."""

    outcome: str
    test: str
    tests: int
    touching: int
    seconds: float

    def as_json(self) -> dict[str, str | int | float]:
        """For the record of a run."""
        return asdict(self)


class Bench:
    """A copy of the tree, in which one mutant at a time is tried; a context that ends the process that runs pytest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scratch = folder.parent / f"{folder.name}t"  # short: sockets lie in it
        self.cache = folder.parent / f"{folder.name}c"  # its own: each mutant has other boards, which are kept there

    def __enter__(self) -> Self:
        self.scratch.mkdir()
        self.runner = subprocess.Popen(
            [sys.executable, "-m", "tests.mutants.runner"],
            cwd=self.folder,
            env=os.environ | {"TMPDIR": str(self.scratch), "OMP_NUM_THREADS": "1"},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        return self

    def __exit__(self, *_: object) -> None:
        with self.runner:  # which closes its input
            pass

    def start(self) -> float:
        """Seconds that the start of pytest takes here, from a module that passes undisturbed."""
        code, output = self.run_tests([CONTROL], 600)  # once the libraries are loaded
        began = time.monotonic()
        code, output = self.run_tests([CONTROL], 600)
        if code:
            raise RuntimeError(f"{CONTROL} fails without any mutant:\n{output}")
        return time.monotonic() - began

    def run_tests(self, tests: list[str], limit: float) -> tuple[int | None, str]:
        """What pytest returned, None past the limit in seconds, and what it printed; its processes have ended."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir()
        options = ["-x", "-q", "--no-header", "--tb=no", "-o", f"cache_dir={self.cache}"]
        printed = self.scratch / "printed"
        self.runner.stdin.write(json.dumps([[*options, *tests], str(printed)]) + "\n")
        self.runner.stdin.flush()
        process = int(self.runner.stdout.readline())
        timer = Timer(limit, os.killpg, (process, signal.SIGKILL))
        timer.start()
        try:
            code = int(self.runner.stdout.readline())
        finally:
            timer.cancel()
        return None if code == -signal.SIGKILL else code, printed.read_text(errors="replace")

    def try_mutant(self, mutant: Mutant, tests: list[str], seconds: float) -> tuple[int | None, str]:
        """`run_tests` with the mutant in place; afterwards the tree is as it was."""
        path = self.folder / mutant.path
        source = path.read_bytes()
        try:
            path.write_bytes(mutant.apply(source))
            self._forget_compiled(path)
            return self.run_tests(tests, seconds)
        finally:
            path.write_bytes(source)
            self._forget_compiled(path)

    def _forget_compiled(self, path: Path) -> None:
        """Two texts of one length in one second are the same to Python's cache of compiled modules."""
        for module in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            module.unlink()


def judge(bench: Bench, mutant: Mutant, line_map: LineMap, start: float, only: list[str] | None = None) -> Verdict:
    """Run the tests that touch a mutant, or `only` these; `start` is what pytest itself takes, in seconds."""
    began = time.monotonic()
    tests, total = (only, len(only)) if only else line_map.choose_tests(mutant)
    if not tests:
        return Verdict("untouched", "", 0, 0, 0.0)
    span = sum(line_map.times.get(test, 60) for test in tests)
    limit = STARTS * start + FACTOR * span
    code, output = bench.try_mutant(mutant, tests, limit)
    if code == USAGE_ERROR and "(no match in any of" in output:
        # Cases are named by what the mutant changed: all cases of each test, then.
        tests = list(dict.fromkeys(test.partition("[")[0] for test in tests))
        code, output = bench.try_mutant(mutant, tests, limit)
    seconds = round(time.monotonic() - began, 1)
    if code is None:
        return Verdict("timed out", "", len(tests), total, seconds)
    if code == 0:
        return Verdict("survived", "", len(tests), total, seconds)
    if code not in (FAILED, INTERRUPTED, USAGE_ERROR) or (code == USAGE_ERROR and NOT_THERE.search(output)):
        raise RuntimeError(f"pytest could not run the tests of {mutant.path}:{mutant.line} ({code}):\n{output}")
    failures = [line.split(" ", 1)[1] for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return Verdict("killed", failures[0] if failures else "an import", len(tests), total, seconds)
