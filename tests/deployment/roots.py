"""Root folders for the machines, from Debian's archive, and the packages of Python that this host's pip can get."""

import shutil
import subprocess
import sys
from pathlib import Path

SLIM = ["ca-certificates", "python3", "python3-venv"]  # what the image python:3.11-slim has, by Debian's names
SYSTEM = ["systemd", "systemd-sysv", "dbus"]
DOCKER = ["docker.io", "docker-cli", "docker-compose", "docker-buildx", "iptables", "git", "openssl"]
SERVICES = ["postgresql", "redis-server", "caddy"]


def bootstrap(root: Path, suite: str, packages: list[str]) -> None:
    """A fresh Debian in `root`, with as little as possible beside `packages`."""
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(packages)}", suite, str(root)]
    _run([*command, find_archive()])


def find_archive() -> str:
    """The address of the archive that this host's apt installs from; what it adds for security has the same suites."""
    targets = ["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages", "Label: Debian"]
    return subprocess.run(targets, capture_output=True, text=True, check=True).stdout.splitlines()[0]


def extend(root: Path, packages: list[str]) -> None:
    """Install more packages in a root, without starting anything."""
    shutil.copyfile("/etc/resolv.conf", root / "etc/resolv.conf")
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    install = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *packages]
    for command in (["apt-get", "update", "--quiet"], install, ["apt-get", "clean"]):
        _run(["chroot", str(root), "env", "DEBIAN_FRONTEND=noninteractive", *command])
    policy.unlink()


def gather_wheels(source: Path, folder: Path) -> None:
    """What the locks of a worker pin, as wheels, by whatever configuration pip has on this host."""
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder)]
    _run([*wheel, "--require-hashes", "--requirement", str(source / "requirements.lock")])
    _run([*wheel, "--requirement", str(source / "requirements-torch.lock")])


def clone(repository: Path, bare: Path, source: Path) -> None:
    """The repository's last commit, as visitors clone it and as a folder."""
    _run(["git", "clone", "--quiet", "--bare", "--no-hardlinks", str(repository), str(bare)])
    _run(["git", "clone", "--quiet", str(bare), str(source)])


def _run(command: list[str]) -> None:
    """Raise SystemExit with the last lines where the command fails."""
    process = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if process.returncode:
        raise SystemExit(f"deploy-check: {' '.join(command)}\n{(process.stdout + process.stderr)[-3000:]}")
