"""Machines for the check: processes with a root folder and a network of their own on this host.

A machine reaches the internet through slirp4netns, so that nothing of this host's network is changed, and nothing on
it can collide with a port here. When it stops, its processes, mounts, network and control groups are gone.
"""

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

NAMESERVER = "10.0.2.3"  # slirp4netns's own, which asks this host's
PATIENCE = 3600  # seconds that one block may take
CGROUPS = Path("/sys/fs/cgroup")
Answer = TypeVar("Answer")


class CommandFailed(Exception):
    """Commands on a machine ended with another status than 0; the message has their last lines."""


class Machine:
    """A running machine: `leader` is a process in all of its namespaces."""

    def __init__(self, root: Path, leader: int, log: Path) -> None:
        self.root, self.leader, self.log = root, leader, log

    def enter(self) -> list[str]:
        """The command that runs the command after it as root on the machine."""
        spaces = ["--mount", "--uts", "--ipc", "--net", "--pid", "--root"]
        home = [
            "env",
            "--chdir=/",
            "--ignore-environment",
            "HOME=/root",
            "TERM=dumb",
            "LANG=C.UTF-8",
            "BUILDKIT_PROGRESS=plain",
        ]
        path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return ["nsenter", "--target", str(self.leader), *spaces, *home, path]

    def enter_network(self) -> list[str]:
        """The command that runs the command after it on this host, but in the machine's network."""
        return ["nsenter", "--target", str(self.leader), "--net"]

    def run(self, script: str, answers: Mapping[str, str] | None = None, patience: float = PATIENCE) -> str:
        """Run shell commands as root, as at a terminal that stays where the last ones went; returns what they print.

        answers: what is typed at a prompt, by a part of the prompt. Raises CommandFailed.
        """
        place = 'cd "$(cat /run/check-place 2>/dev/null || echo /root)"\nset -eu\n'
        command = [*self.enter(), "bash", "-c", f"{place}{script}\npwd > /run/check-place"]
        output, status = _type(command, answers or {}, patience)
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"--- {script.rstrip()}\n{output}\n")
        if status:
            raise CommandFailed(f"status {status} from:\n{script}\n{output[-4000:]}")
        return output


def _type(command: list[str], answers: Mapping[str, str], patience: float) -> tuple[str, int]:
    """Run a command at a terminal of its own; what it printed, and its status."""
    terminal, inner = pty.openpty()
    process = subprocess.Popen(command, stdin=inner, stdout=inner, stderr=inner, start_new_session=True)
    os.close(inner)
    output, answered_until, deadline = "", 0, time.monotonic() + patience
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # how a terminal says that nobody holds its other end any more
            break
        output += piece.decode(errors="replace").replace("\r\n", "\n")
        for prompt, answer in answers.items():
            if prompt in output[answered_until:]:
                answered_until = len(output)
                os.write(terminal, f"{answer}\n".encode())
                break
    else:
        os.killpg(process.pid, signal.SIGKILL)
    os.close(terminal)
    return output, process.wait()


def wait_for(probe: Callable[[], Answer], seconds: float, event: str) -> Answer:
    """The first true answer of `probe`, asked every half second. Raises CommandFailed after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(CommandFailed, OSError):
            if answer := probe():
                return answer
        time.sleep(0.5)
    raise CommandFailed(f"{event}: not within {seconds:.0f} s")


@contextmanager
def booted_machine(root: Path, name: str, shares: Mapping[Path, str]) -> Iterator[Machine]:
    """A machine that has booted: `root` with systemd as its first process.

    shares: folders and files of this host, by what they are called there; read-only.
    """
    with ExitStack() as stack:
        network = stack.enter_context(_network(name))
        (root / "etc/resolv.conf").write_text(f"nameserver {NAMESERVER}\n")
        command = ["systemd-nspawn", f"--directory={root}", "--boot", "--register=no", "--keep-unit"]
        # Landlock, with which cages close files: the filter of a container's system calls leaves it out.
        command += ["--system-call-filter=landlock_create_ruleset landlock_add_rule landlock_restrict_self"]
        command += ["--console=pipe", "--resolv-conf=off", f"--machine={name}", f"--network-namespace-path={network}"]
        command += [f"--bind-ro={origin}:{place}" for origin, place in shares.items()]
        stack.callback(_remove_cgroups, "payload", "supervisor")
        process = stack.enter_context(_process(command, root.parent / f"{name}.boot.log", signal.SIGTERM))
        leader = wait_for(lambda: _child(process.pid), 30, f"{name} starts")
        machine = Machine(root, leader, root.parent / f"{name}.log")
        wait_for(lambda: "running" in machine.run("systemctl is-system-running --wait || true"), 90, f"{name} boots")
        yield machine


@contextmanager
def docker_machine(root: Path, name: str, shares: Mapping[Path, str]) -> Iterator[Machine]:
    """A machine with Docker's daemon as its only process; `root` has Docker and Compose."""
    with ExitStack() as stack:
        network = stack.enter_context(_network(name))
        (root / "etc/resolv.conf").write_text(f"nameserver {NAMESERVER}\n")
        script = root.parent / f"{name}.start.sh"
        script.write_text(_daemon_script(root, shares))
        command = ["nsenter", f"--net={network}", "unshare", "--mount", "--pid", "--uts", "--ipc", "--fork"]
        command += ["--kill-child", "bash", str(script)]
        stack.callback(_remove_cgroups, "docker")
        process = stack.enter_context(_process(command, root.parent / f"{name}.boot.log", signal.SIGKILL))
        leader = wait_for(lambda: _child(process.pid), 30, f"{name} starts")
        machine = Machine(root, leader, root.parent / f"{name}.log")
        wait_for(lambda: machine.run("docker info"), 60, "Docker starts")
        yield machine


def _daemon_script(root: Path, shares: Mapping[Path, str]) -> str:
    """Mount what Docker needs below `root`, then become its daemon there."""
    lines = [
        "set -eu",
        "mount --make-rprivate /",
        f"mount --bind {root} {root}",
        f"mount -t proc proc {root}/proc",
        f"mount -t sysfs sysfs {root}/sys",
        f"mount --rbind {CGROUPS} {root}/sys/fs/cgroup",
        f"mount --rbind /dev {root}/dev",
        f"mount -t tmpfs tmpfs {root}/run",
        f"mount -t tmpfs tmpfs {root}/tmp",
    ]
    for origin, place in shares.items():
        target = f"{root}{place}"
        lines += [f"mkdir --parents {target}", f"mount --bind -o ro {origin} {target}"]
    # Not chroot: what is run in a container later would come out in this host's root.
    lines += [f"cd {root}", "mkdir --parents .host", "pivot_root . .host", "umount --lazy /.host", "exec dockerd"]
    return "\n".join(lines) + "\n"


@contextmanager
def _network(name: str) -> Iterator[Path]:
    """A network namespace with a way out, and its file."""
    subprocess.run(["ip", "netns", "add", name], check=True)
    path = Path("/run/netns") / name
    command = ["slirp4netns", "--configure", "--disable-host-loopback", "--netns-type=path", str(path), "tap0"]
    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        with _process(command, Path("/dev/null"), signal.SIGTERM):
            wait_for(lambda: re.search("tap0.*UP", _addresses(name)), 30, "the network")
            yield path
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)


def _addresses(name: str) -> str:
    return subprocess.run(["ip", "-n", name, "address"], capture_output=True, text=True, check=True).stdout


@contextmanager
def _process(command: list[str], log: Path, farewell: signal.Signals) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is asked to end after the block, and made to where it does not within half a minute."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield process
    finally:
        process.send_signal(farewell)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _child(pid: int) -> int:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if children else 0


def _remove_cgroups(*names: str) -> None:
    """Remove the control groups of these names, and those within, once the last of their processes are gone."""
    groups = [path for name in names for path in CGROUPS.glob(f"*/{name}")]
    for _ in range(20):
        for group in groups:
            for folder in [*sorted(group.rglob("*/"), reverse=True), group]:
                with suppress(OSError):  # a process is still on its way out
                    folder.rmdir()
        groups = [group for group in groups if group.exists()]
        if not groups:
            return
        time.sleep(0.5)


def find_chromium() -> str | None:
    """The path of Debian's Chromium; None where it is not installed."""
    return shutil.which("chromium-headless-shell") or shutil.which("chromium")


def require_tools() -> None:
    """Raise SystemExit where this host cannot run the check; the message says what to install."""
    packages = {"debootstrap": "debootstrap", "systemd-nspawn": "systemd-container", "slirp4netns": "slirp4netns"}
    packages |= {"nsenter": "util-linux", "ip": "iproute2"}
    packages_to_install = [package for tool, package in packages.items() if not shutil.which(tool)]
    if not find_chromium():
        packages_to_install.append("chromium-headless-shell")
    if packages_to_install:
        raise SystemExit(f"deploy-check: install {' '.join(packages_to_install)} (Debian packages) and run it again")
    if os.geteuid():
        raise SystemExit("deploy-check: it makes machines of namespaces and mounts: run it as root")
