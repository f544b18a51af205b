"""One board goes through its part of a campaign: `python -m tests.faults.campaign.driver`, in mounts of its own.

Writes one JSON line for each fault, and one at the end for the whole board.
"""

import argparse
import json
import os
import signal
import sys
import time
import traceback
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import django

from tests import loopback, standin_perspective
from tests.faults.campaign.board import Board, Disk, PostgreSQL, SQLite
from tests.faults.campaign.bucket import run_failing_bucket
from tests.faults.campaign.receiver import Alerts, Receiver
from tests.faults.campaign.schedule import Fault, draw

TWIN = "-undisturbed"  # ends the names of the board without faults and of its files
RATES = {True: "60", False: "15"}  # requests a second that the service is asked, on a quick board and on others


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--database", choices=("postgresql", "sqlite"), default="postgresql")
    parser.add_argument("--storage", choices=("folder", "bucket"), default="folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--board", type=int, default=0)
    parser.add_argument("--boards", type=int, default=1)
    parser.add_argument("--only", type=int)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--may-mount", action="store_true")
    parser.add_argument("--undisturbed", action="store_true")
    parser.add_argument("--ends-at", type=float, default=float("inf"), help="no fault begins after that, by the clock")
    return parser.parse_args()


def choose_faults(options: argparse.Namespace) -> list[Fault]:
    """This board's part of the schedule, or the one fault that is to be repeated."""
    place = options.database, options.storage
    faults = draw(options.seed, options.count, *place, may_mount=options.may_mount, quick=options.quick)
    if options.only is not None:
        return [fault for fault in faults if fault.index == options.only]
    if options.undisturbed:  # what its twin had time for
        lines = options.output.with_name(options.output.name.replace(TWIN, "")).read_text().splitlines()
        indexes = {json.loads(line).get("index") for line in lines}
        return [fault for fault in faults if fault.index in indexes]
    return [fault for fault in faults if fault.index % options.boards == options.board]


def main() -> int:
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started is ended
    folder: Path = options.folder
    folder.mkdir(parents=True)
    folder.chmod(0o755)  # the user of PostgreSQL goes through it
    with ExitStack() as stack:
        alerts = Alerts()
        receiver = stack.enter_context(loopback.serving(Receiver, alerts))
        service = stack.enter_context(standin_perspective.serving())
        disk = Disk(folder / "board", may_mount=options.may_mount)
        database = PostgreSQL(folder / "server") if options.database == "postgresql" else SQLite(disk.var)
        environment = {
            "ALERT_WEBHOOK": f"{receiver}/alerts",
            "PERSPECTIVE_API_KEY": standin_perspective.KEY,
            "PERSPECTIVE_URL": service.address,
            "PERSPECTIVE_REQUESTS_PER_SECOND": RATES[options.quick],
        }
        bucket = None
        if options.storage == "bucket":
            bucket, variables = stack.enter_context(run_failing_bucket())
            environment |= variables
        board = Board(disk, database, environment, bucket)
        stack.callback(board.stop)
        os.environ.update(board.environment)
        os.environ["DJANGO_SETTINGS_MODULE"] = "leaderboard.settings"
        os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
        django.setup()
        from tests.faults.campaign.trial import Trial  # its models need Django

        trial = Trial(board, service, alerts, folder / "work")
        with options.output.open("a") as output:
            run_campaign(trial, choose_faults(options), options, output)
    return 0


def run_campaign(trial: Any, faults: list[Fault], options: argparse.Namespace, output: Any) -> None:
    """Build the board, and let one fault after the other happen to it."""

    def write(record: dict[str, Any]) -> None:
        output.write(json.dumps({"at": time.time(), **record}, default=str) + "\n")
        output.flush()

    began = time.monotonic()
    trial.build({fault.phase for fault in faults})
    write({"board": options.board, "built": time.monotonic() - began})
    for fault in faults:
        if time.time() > options.ends_at and not options.undisturbed:
            break
        try:
            record = trial.repeat_undisturbed(fault) if options.undisturbed else trial.endure(fault)
        except Exception:  # noqa: BLE001 (whatever it is: the next fault comes to this board all the same)
            write(
                {"board": options.board, "index": fault.index, "phase": fault.phase, "kind": fault.kind}
                | {"violations": [traceback.format_exc()[-3000:]]}
            )
            if not trial.is_usable():
                break
            continue
        write(record | {"board": options.board})
    write({"board": options.board, "end": trial.conclude(), "whole": trial.describe()})


if __name__ == "__main__":
    sys.exit(main())
