"""deploy/README.md followed without containers, on a machine that boots Debian 12 and systemd."""

import re
from pathlib import Path

from tests.deployment.document import DocumentBlock
from tests.deployment.machines import Machine, booted_machine, wait_for
from tests.deployment.report import StepReport

UNITS = ["web", "worker", "files-worker", "gpu-worker", "beat"]
WHEELS = "/srv/wheels"
CLOSED = ("/etc", "/srv/plumbline", "/usr", "/var/cache", "/home")
# Root may write anywhere on the machine; where a process is, only what systemd leaves open.
ONLY_ITS_OWN_FOLDER = """
inside="nsenter --target {pid} --mount"
for folder in {closed}; do
    touch $folder/probe
    rm $folder/probe
    if $inside touch $folder/probe; then
        echo "process {pid} can write to $folder"
        exit 1
    fi
done
$inside touch /var/lib/plumbline/probe
rm /var/lib/plumbline/probe
touch /tmp/probe
if $inside test -e /tmp/probe; then
    echo "process {pid} shares /tmp"
    exit 1
fi
rm /tmp/probe
"""


def start(root: Path, shares: dict[Path, str]):
    """The machine, with pip told where this host's wheels are."""
    (root / "etc/pip.conf").write_text(f"[global]\nno-index = true\nfind-links = {WHEELS}\n")
    return booted_machine(root, "plumbline-units", shares)


def read_letters(machine: Machine) -> str:
    """The letters that beat has sent, as files."""
    return machine.run("cat /var/lib/plumbline/letters/*")


def look_at_units(machine: Machine, report: StepReport, names: list[str] = UNITS) -> None:
    """Note what systemd says of each unit, and hold the hardening against the running processes."""
    user = machine.run("id --user plumbline").strip()
    status = (rf"Uid:(\s+{user}){{4}}\s", r"CapBnd:\s+0{16}\s", r"NoNewPrivs:\s+1\s", r"Seccomp:\s+2\s")
    for name in names:
        unit = f"plumbline-{name}.service"
        line = machine.run(f"systemd-analyze security --no-pager {unit} | tail -1")
        report.note(f"exposure of {unit}", re.search(r"[\d.]+ \w+", line)[0])
        pid = machine.run(f"systemctl show --value --property=MainPID {unit}").strip()
        state = machine.run(f"cat /proc/{pid}/status")
        for pattern in status:
            if not re.search(pattern, state):
                raise AssertionError(f"{unit}: {pattern} is not in\n{state}")
        machine.run(ONLY_ITS_OWN_FOLDER.format(pid=pid, closed=" ".join(CLOSED)))


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
