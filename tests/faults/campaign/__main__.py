"""The campaign: `python -m tests.faults.campaign`, or `make soak`. Several boards side by side, and the table."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.faults.campaign.board import may_mount
from tests.faults.campaign.driver import TWIN
from tests.faults.campaign.report import describe_campaign
from tests.faults.worker import ROOT

POLL_SECONDS = 1.0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200, help="faults in all")
    parser.add_argument(
        "--boards", type=int, default=3, help="side by side, each 3 GB; the undisturbed one comes later"
    )
    parser.add_argument("--only", type=int, help="the fault with this index alone, to repeat what was found")
    parser.add_argument("--database", choices=("postgresql", "sqlite"), default="postgresql")
    parser.add_argument("--storage", choices=("folder", "bucket"), default="folder")
    parser.add_argument("--quick", action="store_true", help="short faults alone, for a run of a minute")
    parser.add_argument("--minutes", type=float, default=110.0, help="after which no fault begins")
    parser.add_argument("--folder", type=Path, help="for boards and their logs; kept. Default: a temporary one")
    parser.add_argument("--table", type=Path, help="where to write the table; it is printed in any case")
    return parser.parse_args()


def start_driver(options: argparse.Namespace, folder: Path, board: int, ends_at: float, *more: str) -> Any:
    """One board with its faults, as a process in mounts of its own where root may have them."""
    may = may_mount()
    name = f"board-{board}{TWIN if more else ''}"
    command = ["unshare", "--mount", "--propagation", "private"] if may else []
    command += [sys.executable, "-m", "tests.faults.campaign.driver", "--folder", str(folder / name), *more]
    command += ["--output", str(folder / f"{name}.jsonl"), "--database", options.database, "--seed", str(options.seed)]
    command += ["--storage", options.storage]
    command += ["--count", str(options.count), "--board", str(board), "--boards", str(options.boards)]
    command += ["--ends-at", str(ends_at), *(["--may-mount"] if may else []), *(["--quick"] if options.quick else [])]
    command += ["--only", str(options.only)] if options.only is not None else []
    with (folder / f"{name}.log").open("ab") as output:
        return subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output, start_new_session=True)


def read_records(folder: Path) -> list[dict[str, Any]]:
    """What the boards have written so far."""
    records = []
    for path in sorted(folder.glob("*.jsonl")):
        records += [json.loads(line) | {"from": path.stem} for line in path.read_text().splitlines()]
    return records


def follow(drivers: list[Any], waiting: list[Callable[[], Any]], folder: Path) -> None:
    """Print what happened, until all drivers have ended. Each that waits starts once one has ended well."""
    printed = 0
    while True:
        ended = all(driver.poll() is not None for driver in drivers)
        if waiting and any(driver.poll() == 0 for driver in drivers):
            drivers.append(waiting.pop()())
            continue
        records = [
            record for record in read_records(folder) if "index" in record or "end" in record or "built" in record
        ]
        if len(records) > printed:
            for record in sorted(records, key=lambda record: record["at"])[printed:]:
                print(describe_record(record), flush=True)  # noqa: T201
            printed = len(records)
        if ended:
            return
        time.sleep(POLL_SECONDS)


def describe_record(record: dict[str, Any]) -> str:
    """A fault in a line, with what did not hold."""
    if "built" in record:
        return f"{record['from']}: built in {record['built']:.0f} s"
    if "end" in record:
        return f"{record['from']}: ended; {'; '.join(record['end']) or 'all holds'}"
    times = " ".join(f"{name} {record[name]:.0f} s" for name in ("told", "recovered", "quiet") if record.get(name))
    words = "held" if not record["violations"] else "; ".join(record["violations"])
    return f"{record['from']} {record['index']:3} {record['kind']} in {record['phase']}: {words} {times}"


def compare_boards(records: list[dict[str, Any]]) -> list[str]:
    """Where the first board is not, in the end, what the same work makes of one without faults."""
    wholes = {record["from"]: record["whole"] for record in records if "whole" in record}
    first, twin = wholes.get("board-0"), wholes.get(f"board-0{TWIN}")
    if first is None or twin is None or len(first) != len(twin):
        return [] if twin is None else ["board-0 and its undisturbed twin did not do the same work"]
    return [f"{name} differs from the undisturbed board" for name in sorted(twin) if first.get(name) != twin[name]]


def main() -> int:
    options = parse_arguments()
    os.environ.pop("DJANGO_SETTINGS_MODULE", None)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="plumbline-soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    began = time.monotonic()
    ends_at = time.time() + 60 * options.minutes
    boards = [options.only % options.boards] if options.only is not None else range(options.boards)
    drivers = [start_driver(options, folder, board, ends_at) for board in boards]
    waiting = []
    if not options.quick and options.only is None:
        waiting.append(partial(start_driver, options, folder, 0, ends_at, "--undisturbed"))
    try:
        follow(drivers, waiting, folder)
    finally:
        for driver in drivers:
            if driver.poll() is None:
                driver.terminate()
    records = read_records(folder)
    place = f"{options.database} and a {options.storage}"
    table = describe_campaign(records, options.seed, place, (time.monotonic() - began) / 60)
    print(table)  # noqa: T201
    if options.table:
        options.table.write_text(table)
    broken = [record for record in records if record.get("violations") or record.get("end")]
    differences = compare_boards(records)
    missing = [driver for driver in drivers if driver.returncode]
    for record in broken:
        again = f"make soak SEED={options.seed} ONLY={record.get('index')}" if "index" in record else ""
        print(f"did not hold: {describe_record(record)} {again}")  # noqa: T201
    print("\n".join(differences))  # noqa: T201
    return 1 if broken or differences or missing else 0


if __name__ == "__main__":
    sys.exit(main())
