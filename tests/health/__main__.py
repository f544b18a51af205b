"""`make health`: the project on one screen. What takes a long run is read from the last one, with its date.

PIP_NO_INDEX=1 leaves out what asks a package index.
"""

import sys
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

from tests.health import code, records, starts
from tests.mutants.touching import CACHE, hash_code

WORST = 5
MOST_PINS = 10  # of those behind: the rest is no news on a screen


def format_date(path: Path) -> str:
    """When a file was written."""
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y-%m-%d %H:%M UTC")


def print_code() -> None:
    """Size and structure."""
    counts = code.count_lines()
    print("lines       ", ", ".join(f"{tree} {lines:,} in {count}" for tree, (lines, count) in counts.items()))
    print("largest     ", ", ".join(f"{path} {lines}" for path, lines in code.rank_modules(WORST)))
    functions = code.list_long_functions()
    longest = ", ".join(f"{place} {lines}" for place, lines in functions[:WORST])
    print(f"over 40 lines {len(functions)} functions{': ' * bool(functions)}{longest}")
    circles = code.list_circles()
    print("circles     ", f"{len(circles)}", *(" -> ".join(circle[:WORST]) for circle in circles[:WORST]), sep="  ")
    print("layers      ", code.check_layers())


def list_seconds(sums: dict[str, float]) -> str:
    """Sums of seconds by name, in a line."""
    return ", ".join(f"{name} {seconds:,.0f} s" for name, seconds in sorted(sums.items()))


def print_tests() -> None:
    """How long tests took in the last `make test`."""
    report = records.newest([*records.REPORTS.glob("*.xml")])
    if report is None:
        print("test times   not measured: make test")
        return
    times = records.read_test_times()
    layers: dict[str, float] = defaultdict(float)
    folders: dict[str, float] = defaultdict(float)
    for (layer, test), seconds in times.items():
        layers[layer] += seconds
        folders["/".join(Path(test.split("::")[0]).parts[:2])] += seconds
    print(f"test times   {len(times):,} tests, {list_seconds(layers)}, {format_date(report)}")
    print("            ", list_seconds(folders))
    for layer, test in sorted(times, key=times.__getitem__, reverse=True)[:WORST]:
        print(f"             {times[layer, test]:6.0f} s  {test}")


def print_coverage() -> None:
    """Coverage of lines and branches by package, by the last map of `make mutants`."""
    run = records.newest(list((CACHE / hash_code()).glob("*/modules.json")))
    if run is None:
        print("coverage     of this code not measured: make mutants")
        return
    print(f"coverage     of lines / branches in functions, run in the process of a test, {format_date(run)}")
    cells = [
        f"{stratum:26}{lines:5.0%} /{branches:5.0%}"
        for stratum, (lines, branches) in records.measure_coverage().items()
    ]
    for number in range(0, len(cells), 3):
        print("  " + "   ".join(cells[number : number + 3]))


def print_mutants() -> None:
    """The score of the last `make mutants`."""
    scores = records.read_scores()
    if scores is None:
        print("mutants      not measured: make mutants")
        return
    path, totals = scores
    score = totals["killed"] / max(totals["killed"] + totals["survived"], 1)
    kinds = ", ".join(f"{count} {kind}" for kind, count in totals.items())
    age = "" if path.name.startswith(hash_code()) else ", of earlier code"
    print(f"mutants      {score:.0%}: {kinds}, {format_date(path)}{age}")


def print_starts() -> None:
    """Start-up time and memory, measured now."""
    figures = starts.measure_starts()
    print(
        "starts      ",
        ", ".join(f"{name} {seconds:.1f} s {memory:.0f} MiB" for name, (seconds, memory) in figures.items()),
    )


def print_locks() -> None:
    """What the locks pin behind the newest version."""
    packages = records.list_outdated()
    if packages is None:
        print("locks        not measured: no package index can be asked")
        return
    pins = [f"{name} {gap}" for name, gap in sorted(packages.items())[:MOST_PINS]]
    rest = f" and {len(packages) - MOST_PINS} more: make upgrade" if len(packages) > MOST_PINS else ""
    print(f"locks        {len(packages)} behind{': ' * bool(pins)}{', '.join(pins)}{rest}")


def main() -> int:
    """Print the screen."""
    for part in (print_code, print_tests, print_coverage, print_mutants, print_starts, print_locks):
        part()
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
