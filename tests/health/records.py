"""What long runs left: test times of `make test`, coverage and the mutation score of `make mutants`; and the locks."""

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from coverage import Coverage, CoverageData
from packaging.utils import canonicalize_name

from tests.mutants.sample import name_stratum
from tests.mutants.touching import CACHE, PACKAGES, hash_code, read_times

REPORTS = Path("var/tests")  # a report of each layer
SCORES = Path("var/mutants")
LOCKS = ("requirements.lock", "requirements-torch.lock", "requirements-site.lock", "requirements-dev.lock")


def newest(paths: list[Path]) -> Path | None:
    """The file that was written last, if there is any."""
    return max(paths, key=lambda path: path.stat().st_mtime, default=None)


def read_test_times() -> dict[tuple[str, str], float]:
    """Seconds of each test of the last `make test` that passed, by layer and test: some run on both databases."""
    return {
        (report.stem, test): seconds
        for report in sorted(REPORTS.glob("*.xml"))
        for test, seconds in read_times(report).items()
    }


def read_scores() -> tuple[Path, dict[str, int]] | None:
    """The record of the last `make mutants` that came to its end, and its totals."""
    totals = {path: json.loads(path.read_text()).get("totals") for path in SCORES.glob("*.json")}
    record = newest([path for path in totals if totals[path]])
    return (record, totals[record]) if record else None


def measure_coverage() -> dict[str, tuple[float, float]]:
    """Shares of lines and of branches in functions that tests run in their own process, by package.

    Lines outside functions run on import, which often is before coverage.py starts.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "coverage.json"
        whole = CoverageData(str(Path(folder) / "coverage"))
        for path in (CACHE / hash_code()).glob("*/coverage"):
            run = CoverageData(str(path))
            run.read()
            whole.add_arcs({module: run.arcs(module) for module in run.measured_files()})
        whole.write()
        coverage = Coverage(data_file=whole.data_filename(), source=list(PACKAGES))
        coverage.load()
        coverage.json_report(outfile=str(report))
        files = json.loads(report.read_text())["files"]
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for path, figures in files.items():
        for summary in (part["summary"] for name, part in figures["functions"].items() if name):
            counts = [summary[key] for key in ("covered_lines", "num_statements", "covered_branches", "num_branches")]
            for stratum in (name_stratum(path), "all"):
                sums[stratum] = [total + count for total, count in zip(sums[stratum], counts, strict=True)]
    return {
        stratum: (lines / max(statements, 1), arcs / branches if branches else 1.0)
        for stratum, (lines, statements, arcs, branches) in sorted(sums.items())
    }


def list_outdated() -> dict[str, str] | None:
    """What the locks pin behind its newest version, as "1.0 < 2.0" by name; None where no index can be asked."""
    lines = [line for lock in LOCKS for line in Path(lock).read_text().splitlines()]
    names = {canonicalize_name(line.split("==")[0].strip()) for line in lines if "==" in line}
    command = [sys.executable, "-m", "pip", "list", "--outdated", "--format", "json", "--disable-pip-version-check"]
    if os.environ.get("PIP_NO_INDEX"):
        return None
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        return None
    packages = json.loads(process.stdout)
    return {
        package["name"]: f"{package['version']} < {package['latest_version']}"
        for package in packages
        if canonicalize_name(package["name"]) in names
    }
