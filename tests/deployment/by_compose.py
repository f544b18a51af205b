"""deploy/README.md followed with Docker Compose, on a machine with Debian 13's Docker."""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.deployment.document import DocumentBlock
from tests.deployment.machines import CommandFailed, Machine, docker_machine, wait_for
from tests.deployment.report import StepReport

STANDINS = Path(__file__).parent / "standins"
BASE = "python:3.11-slim"
SERVICES = {"postgres": "postgres:17", "redis": "redis:7", "caddy": "caddy:2"}
GATEWAY, PORT = "172.17.0.1", 8081  # of Docker's bridge: where builds find this host's wheels
PLACE = "cd /root/plumbline/deploy\n"
READY = {
    "worker": "[queues]",
    "files-worker": "[queues]",
    "gpu-worker": "[queues]",
    "beat": "maxinterval",
}  # at level WARNING


def start(root: Path, shares: dict[Path, str]):
    return docker_machine(root, "plumbline-docker", shares)


@contextmanager
def serve_wheels(machine: Machine, folder: Path) -> Iterator[None]:
    """Offer this host's wheels in the machine's network."""
    command = [*machine.enter_network(), sys.executable, "-m", "http.server", str(PORT), "--directory", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def import_base(machine: Machine, slim: Path) -> None:
    """Make the image that the Dockerfile starts from: Debian 12's Python, and pip told where the wheels are."""
    (slim / "etc/pip.conf").write_text(
        f"[global]\nno-index = true\nfind-links = http://{GATEWAY}:{PORT}/\ntrusted-host = {GATEWAY}\n"
    )
    link = slim / "usr/bin/python"
    if not link.exists():
        link.symlink_to("python3")
    with subprocess.Popen(["tar", "--create", "--directory", str(slim), "."], stdout=subprocess.PIPE) as archive:
        command = [*machine.enter(), "docker", "import", "-", BASE]
        subprocess.run(command, stdin=archive.stdout, stdout=subprocess.DEVNULL, check=True)


def build_services(machine: Machine) -> None:
    """Build what stands in for the images of PostgreSQL, Redis and Caddy."""
    shutil.copytree(STANDINS, machine.root / "root/standins", dirs_exist_ok=True)
    for target, image in SERVICES.items():
        machine.run(f"docker build --quiet --target {target} --tag {image} /root/standins")


def read_letters(machine: Machine) -> str:
    return machine.run(f"{PLACE}docker compose exec -T beat sh -c 'cat /var/lib/plumbline/letters/*'")


def manage(machine: Machine, command: str) -> str:
    return machine.run(f"{PLACE}docker compose exec -T files-worker python manage.py {command}")


def wait_until_ready(machine: Machine) -> None:
    probe = "docker compose exec -T web python -c 'from urllib.request import *; urlopen(Request(\"{}\", headers={}))'"
    headers = '{"X-Forwarded-Proto": "https"}'.replace('"', '\\"')
    command = probe.format("http://127.0.0.1:8000/readyz", headers.replace("\\", ""))
    wait_for(lambda: machine.run(f"{PLACE}{command}\necho ready"), 180, "/readyz answers 200")


def note_images(machine: Machine, report: StepReport) -> None:
    for image in ("plumbline", "plumbline-site"):
        size = int(machine.run(f"docker image inspect --format '{{{{.Size}}}}' {image}").strip())
        report.note(f"image `{image}`", f"{size / 1e9:.2f} GB")


def note_starts(machine: Machine, report: StepReport) -> None:
    """Start each process of the board again, and take the time until it is ready."""
    for name, line in READY.items():
        began = time.monotonic()
        moment = machine.run("date --iso-8601=ns").strip()
        machine.run(f"{PLACE}docker compose restart --no-deps {name}")
        logs = f"{PLACE}docker compose logs --no-color --since '{moment}' {name}"
        wait_for(lambda: line in machine.run(logs), 180, f"{name} starts")  # noqa: B023 (called before the next round)
        report.note(f"stop and start of `{name}`", f"{time.monotonic() - began:.1f} s")
    began = time.monotonic()
    machine.run(f"{PLACE}docker compose restart --no-deps web")
    wait_until_ready(machine)
    report.note("stop and start of `web`", f"{time.monotonic() - began:.1f} s")


def follow(machine: Machine, blocks: list[DocumentBlock], answers: dict[str, str], report: StepReport) -> None:
    """Run blocks one after the other; where one fails, show what the services said."""
    for block in blocks:
        with report.step(f"compose: {block.title}"):
            try:
                machine.run(block.fill(), answers)
            except CommandFailed as failure:
                logs = machine.run(f"{PLACE}docker compose logs --no-color --tail 30 || true")
                raise CommandFailed(f"{failure}\n{logs}") from failure
