"""deploy/README.md followed without containers, on a machine that boots Debian 12 and systemd."""

import re
from pathlib import Path

from tests.deployment.document import DocumentBlock
from tests.deployment.machines import Machine, booted_machine, wait_for
from tests.deployment.report import StepReport

UNITS = ["web", "worker", "files-worker", "gpu-worker", "beat"]
WHEELS = "/srv/wheels"


def start(root: Path, shares: dict[Path, str]):
    """The machine, with pip told where this host's wheels are."""
    (root / "etc/pip.conf").write_text(f"[global]\nno-index = true\nfind-links = {WHEELS}\n")
    return booted_machine(root, "plumbline-units", shares)


def read_letters(machine: Machine) -> str:
    """The letters that beat has sent, as files."""
    return machine.run("cat /var/lib/plumbline/letters/*")


def look_at_units(machine: Machine, report: StepReport) -> None:
    """Note what systemd says of each unit, and hold the hardening against the running processes."""
    for name in UNITS:
        unit = f"plumbline-{name}.service"
        line = machine.run(f"systemd-analyze security --no-pager {unit} | tail -1")
        report.note(f"exposure of {unit}", re.search(r"[\d.]+ \w+", line)[0])
    for name in UNITS:
        state = machine.run(
            f"pid=$(systemctl show --value --property=MainPID plumbline-{name})\n"
            "grep -E '^(Uid|CapBnd|NoNewPrivs|Seccomp):' /proc/$pid/status\n"
            "for path in /etc /srv/plumbline /usr /home; do\n"
            "    ! nsenter --target $pid --mount setpriv --reuid=plumbline --clear-groups test -w $path\n"
            "done\n"
            "nsenter --target $pid --mount setpriv --reuid=plumbline --regid=plumbline --clear-groups "
            "test -w /var/lib/plumbline\n"
        )
        for pattern in (r"CapBnd:\s+0{16}", r"NoNewPrivs:\s+1", r"Seccomp:\s+2"):
            if not re.search(pattern, state):
                raise AssertionError(f"plumbline-{name}: {pattern} is not in\n{state}")


def verify_units(machine: Machine) -> None:
    machine.run("systemd-analyze verify /etc/systemd/system/plumbline-*.* /etc/systemd/system/plumbline.target")


def follow(machine: Machine, blocks: list[DocumentBlock], answers: dict[str, str], report: StepReport) -> None:
    """Run blocks one after the other."""
    for block in blocks:
        with report.step(f"systemd: {block.title}"):
            machine.run(block.fill(), answers)


def wait_until_ready(machine: Machine) -> None:
    probe = "curl --silent --insecure --fail https://localhost/readyz"
    wait_for(lambda: machine.run(probe), 120, "/readyz answers 200")
