"""`make deploy-check`: follow deploy/README.md from nothing, print each step with its time, leave nothing behind."""

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.deployment import by_compose, by_systemd, roots, visitor
from tests.deployment.document import COMMANDS, DocumentBlock, read_blocks
from tests.deployment.machines import Machine, require_tools
from tests.deployment.report import StepReport

REPOSITORY = Path(__file__).parent.parent.parent
WAYS = ("systemd", "compose")
OPERATOR = "a passphrase of an operator"
ANSWERS = {  # to createsuperuser; the longer prompt first, for it contains the shorter one
    "Password (again)": OPERATOR,
    "Password": OPERATOR,
    "Email address": "operator@example.org",
    "Username": "operator",
}


@dataclass(frozen=True)
class Site:
    """A board on a machine, as a person and its operator meet it."""

    way: str
    machine: Machine
    read_letters: Callable[[], str]
    manage: Callable[[str], str]
    wait_until_ready: Callable[[], None]


def choose_blocks(document: Path, way: str) -> tuple[list[DocumentBlock], list[DocumentBlock]]:
    """The blocks that are run on the machine of this way: those that put the board into service, and those after."""
    blocks = [block for block in read_blocks(document) if block.language == COMMANDS]
    matches = [block for block in blocks if block.is_for_compose == (way == "compose")]
    return [block for block in matches if block.installs], [block for block in matches if not block.installs]


def use_board(site: Site, report: StepReport) -> None:
    """Be the person who signs up and submits, then the operator who looks at the workers and scores again."""
    with report.step(f"{site.way}: the board says that it is ready"):
        site.wait_until_ready()
    with visitor.browser_page(site.machine) as page:
        with report.step(f"{site.way}: sign up in a browser, through the proxy"):
            visitor.look_without_rights(page)
            visitor.sign_up(page, site.read_letters)
        with report.step(f"{site.way}: submit a file of outputs"):
            address = visitor.submit(page)
        with report.step(f"{site.way}: follow it until it is ranked"):
            visitor.follow(page, address)
        with report.step(f"{site.way}: score all entries again, and find it under version 2"):
            site.manage(f"rescore {visitor.METRIC} --reason 'the check of the deployment' --yes --wait")
            visitor.find_in_ranking(page, version=2)
    with visitor.browser_page(site.machine) as page, report.step(f"{site.way}: see the cages as an operator"):
        visitor.log_in(page, "operator", OPERATOR)
        report.note(f"protections of cages that hold, {site.way}", visitor.count_protections(page))


def check_systemd(work: Path, source: Path, report: StepReport) -> None:
    """The way without containers."""
    installation, rest = choose_blocks(source / "deploy/README.md", "systemd")
    with report.step("systemd: a fresh Debian 12 that boots"):
        root = work / "units"
        subprocess.run(["cp", "--archive", str(work / "slim"), str(root)], check=True)
        roots.extend(root, roots.SYSTEM)
    shares = {work / "wheels": by_systemd.WHEELS, work / "repository.git": "/srv/repository.git"}
    with by_systemd.start(root, shares) as machine:
        by_systemd.follow(machine, installation, ANSWERS, report)
        with report.step("systemd: units as systemd sees them"):
            by_systemd.verify_units(machine)
            by_systemd.look_at_units(machine, report)
        use_board(
            Site(
                "systemd",
                machine,
                lambda: by_systemd.read_letters(machine),
                lambda command: machine.run(f"plumbline {command}"),
                lambda: by_systemd.wait_until_ready(machine),
            ),
            report,
        )
        by_systemd.follow(machine, rest, ANSWERS, report)
        with report.step("systemd: the unit of backups as systemd sees it"):
            by_systemd.look_at_units(machine, report, ["backup"])
        with report.step("systemd: ready again at the end"):
            by_systemd.wait_until_ready(machine)


def check_compose(work: Path, source: Path, report: StepReport) -> None:
    """The way with containers."""
    installation, rest = choose_blocks(source / "deploy/README.md", "compose")
    with report.step("compose: a Debian 13 with Docker"):
        root = work / "docker"
        roots.bootstrap(root, "trixie", roots.DOCKER)
    shares = {work / "repository.git": "/srv/repository.git"}
    with by_compose.start(root, shares) as machine, by_compose.serve_wheels(machine, work / "wheels"):
        with report.step("compose: a base image, and stand-ins of PostgreSQL, Redis, Caddy"):
            by_compose.import_base(machine, work / "slim")
            by_compose.build_services(machine)
        by_compose.follow(machine, installation, ANSWERS, report)
        by_compose.note_images(machine, report)
        use_board(
            Site(
                "compose",
                machine,
                lambda: by_compose.read_letters(machine),
                lambda command: by_compose.manage(machine, command),
                lambda: by_compose.wait_until_ready(machine),
            ),
            report,
        )
        with report.step("compose: start each process again"):
            by_compose.note_starts(machine, report)
        by_compose.follow(machine, rest, ANSWERS, report)
        with report.step("compose: ready again at the end"):
            by_compose.wait_until_ready(machine)


@contextmanager
def work_folder() -> Iterator[Path]:
    """A folder for everything that the check makes; removed at the end, with what root's machines wrote."""
    folder = Path(tempfile.mkdtemp(prefix="plumbline-deploy-", dir="/var/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Run the check, or the half of one way."""
    parser = argparse.ArgumentParser(prog="make deploy-check", description=__doc__)
    parser.add_argument("ways", nargs="*", choices=[*WAYS, []], help="only these (default: both)")
    ways = parser.parse_args().ways or WAYS
    require_tools()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell started it in the background
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("deploy-check: ended"))
    report = StepReport()
    with work_folder() as work:
        try:
            with report.step("the last commit, cloned"):
                roots.clone(REPOSITORY, work / "repository.git", work / "source")
            with report.step("what requirements.lock pins, as wheels"):
                roots.gather_wheels(work / "source", work / "wheels")
            with report.step("a minimal Debian 12 with Python"):
                roots.bootstrap(work / "slim", "bookworm", roots.SLIM)
            for way in ways:
                {"systemd": check_systemd, "compose": check_compose}[way](work, work / "source", report)
        except BaseException:
            print(f"deploy-check failed; so far:\n\n{report.table()}", flush=True)
            for log in work.glob("*.log"):
                print(f"--- the end of {log.name}\n{log.read_text(errors='replace')[-3000:]}", flush=True)
            raise
    print(f"\n{report.table()}\n\ndeploy-check: deploy/README.md holds", flush=True)


if __name__ == "__main__":
    main()
