"""`make mutants`: change one small thing at a time in a copy of the code, and see whether the tests that run it notice.

    make mutants [SEED=1] [MUTANTS=100]                  # draw, try, and print the score and the survivors
    python -m tests.mutants --show 17                    # the change, what came of it, and the tests that touch it
    python -m tests.mutants --only 17 --tests tests/x.py # try one of them again, with tests that are named

A run that was ended goes on where it stood: what came of each mutant lies in var/mutants. mutmut and cosmic-ray were
looked at: neither draws by a seed and chooses tests by the line that changes.
"""

import argparse
import difflib
import json
import queue
import sys
import tempfile
import time
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from tests.mutants.operators import Mutant
from tests.mutants.sample import draw_mutants, name_stratum
from tests.mutants.touching import LineMap, copy_tree, hash_code, measure_lines
from tests.mutants.trial import Bench, Verdict, judge

RECORDS = Path("var/mutants")
EQUIVALENTS = Path(__file__).with_name("equivalent.toml")
BENCHES = 2
KILLED = ("killed", "timed out")


def read_reasons() -> dict[tuple[str, str, str, str], str]:
    """Why mutants that survive are no holes, by module, function and the lines before and after."""
    entries = tomllib.loads(EQUIVALENTS.read_text())["mutant"]
    return {(entry["module"], entry["function"], entry["before"], entry["after"]): entry["reason"] for entry in entries}


def find_reason(mutant: Mutant, reasons: dict[tuple[str, str, str, str], str]) -> str | None:
    """Why this mutant is no hole, where that is known."""
    return reasons.get((mutant.path, mutant.function, *mutant.show_change(Path(mutant.path).read_bytes())))


def show_diff(mutant: Mutant) -> str:
    """The change as a diff without context."""
    source = Path(mutant.path).read_bytes()
    texts = [text.decode().splitlines() for text in (source, mutant.apply(source))]
    lines = difflib.unified_diff(*texts, lineterm="", n=0)
    return "\n".join(f"    {line}" for line in list(lines)[3:])


def try_mutants(
    mutants: dict[int, Mutant], record: Path, line_map: LineMap, minutes: float, tests: list[str] | None
) -> None:
    """Judge them on two copies of the tree, side by side, and note each verdict in the record as it comes.

    None begins when so many minutes have passed.
    """
    verdicts = read_verdicts(record)
    deadline = time.monotonic() + 60 * minutes
    benches: queue.Queue[tuple[Bench, float]] = queue.Queue()
    with (
        tempfile.TemporaryDirectory(prefix="mutants-") as folder,
        ExitStack() as stack,
        ThreadPoolExecutor(BENCHES) as pool,
    ):

        def prepare(number: int) -> None:
            copy = Path(folder) / str(number)
            copy_tree(copy)
            bench = stack.enter_context(Bench(copy))
            benches.put((bench, bench.start()))

        def try_one(number: int) -> tuple[int, Verdict] | None:
            if time.monotonic() > deadline:
                return None
            bench, start = benches.get()
            try:
                return number, judge(bench, mutants[number], line_map, start, tests)
            finally:
                benches.put((bench, start))

        list(pool.map(prepare, range(min(BENCHES, len(mutants)))))
        for number, verdict in filter(None, pool.map(try_one, mutants)):
            verdicts[mutants[number].key] = verdict
            write_record(record, verdicts)
            place = f"{mutants[number].path}:{mutants[number].line}"
            print(f"{number:4} {verdict.outcome:10}{verdict.seconds:7.0f} s  {place}  {verdict.test}", flush=True)


def write_record(record: Path, verdicts: dict[str, Verdict], totals: Counter[str] | None = None) -> None:
    """Keep what came of a run so far, by the keys of its mutants, and its totals once they are worked out."""
    record.parent.mkdir(parents=True, exist_ok=True)
    contents = {"totals": totals, "verdicts": {key: verdict.as_json() for key, verdict in verdicts.items()}}
    record.write_text(json.dumps(contents, indent=1))


def read_verdicts(record: Path) -> dict[str, Verdict]:
    """What came of a run so far, by the keys of its mutants."""
    if not record.exists():
        return {}
    return {key: Verdict(**note) for key, note in json.loads(record.read_text())["verdicts"].items()}


def print_results(mutants: list[Mutant], verdicts: dict[str, Verdict]) -> Counter[str]:
    """Print the table by package and the survivors. Returns how many were killed, survived, and are equivalent."""
    reasons = read_reasons()
    counts: dict[str, Counter[str]] = {}
    survivors = []
    trials = [(number, mutant) for number, mutant in enumerate(mutants) if mutant.key in verdicts]
    for number, mutant in trials:
        verdict = verdicts[mutant.key]
        reason = None if verdict.outcome in KILLED else find_reason(mutant, reasons)
        kind = "killed" if verdict.outcome in KILLED else "equivalent" if reason else "survived"
        counts.setdefault(name_stratum(mutant.path), Counter())[kind] += 1
        if kind != "killed":
            remark = reason or f"{verdict.tests} of {verdict.touching} tests that touch it ran"
            place = f"{mutant.path}:{mutant.line} {mutant.function}"
            survivors.append(f"\n{number} {place}: {remark}\n{show_diff(mutant)}")
    print(f"\n{'package':32}{'killed':>8}{'survived':>10}{'equivalent':>12}{'score':>8}")
    total = sum(counts.values(), Counter())
    for stratum, count in [*sorted(counts.items()), ("all", total)]:
        size = count["killed"] + count["survived"]
        score = f"{count['killed'] / size:.0%}" if size else ""
        print(f"{stratum:32}{count['killed']:8}{count['survived']:10}{count['equivalent']:12}{score:>8}")
    print(f"{len(trials)} of {len(mutants)} drawn mutants were tried", *survivors, sep="\n")
    return total


def main() -> int:
    """Draw and try. Returns 1 where a mutant survives for which no reason is noted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: 1)")
    parser.add_argument("--count", type=int, default=100, help="how many are drawn")
    parser.add_argument("--minutes", type=float, default=28.0, help="begin none later; the next run goes on there")
    parser.add_argument("--show", type=int, metavar="NUMBER", help="print this mutant and the tests that touch it")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="try this one alone, again")
    parser.add_argument("--tests", nargs="+", metavar="TEST", help="the tests that --only runs")
    arguments = parser.parse_args()
    mutants = draw_mutants(arguments.count, arguments.seed)
    record = RECORDS / f"{hash_code()}-{arguments.seed}-{arguments.count}.json"
    line_map = measure_lines() if not arguments.tests else LineMap(Path())
    if arguments.show is not None:
        mutant = mutants[arguments.show]
        print(f"{mutant.path}:{mutant.line} in {mutant.function}\n{show_diff(mutant)}")
        print(*line_map.choose_tests(mutant)[0], sep="\n")
        return 0
    if arguments.only is not None:
        with tempfile.TemporaryDirectory() as folder:
            record = Path(folder) / "record.json"
            try_mutants({arguments.only: mutants[arguments.only]}, record, line_map, 60, arguments.tests)
        return 0
    verdicts = read_verdicts(record)
    rest = {number: mutant for number, mutant in enumerate(mutants) if mutant.key not in verdicts}
    try_mutants(rest, record, line_map, arguments.minutes, None)
    verdicts = read_verdicts(record)
    totals = print_results(mutants, verdicts)
    write_record(record, verdicts, totals)
    return 1 if totals["survived"] else 0


if __name__ == "__main__":
    sys.exit(main())
