"""Hosts with an address of their own, and a switch between them whose cables can be pulled, or be bad.

The switch is a thread that hands Ethernet frames from one host to the others: the kernel's own delays and losses
(`tc netem`) are a module that not every machine has.
"""

import ctypes
import fcntl
import heapq
import os
import random
import selectors
import struct
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

SET_INTERFACE, SET_CARRIER = 0x400454CA, 0x400454E2  # of ioctl: TUNSETIFF, TUNSETCARRIER
TAP_WITHOUT_HEADER = 0x0002 | 0x1000
FRAME = 65_536  # bytes
BROADCAST_BIT = 0x01
LIBC, NETWORK_NAMESPACE = ctypes.CDLL(None, use_errno=True), 0x40000000  # os.setns comes with Python 3.12
LOSS, DELAY = 0.3, 0.5  # of what a host sends over a bad cable: the share of frames lost, and seconds of the others


def find_obstacles() -> list[str]:
    """What this machine lacks for hosts of its own, in words; empty where nothing."""
    if os.geteuid() != 0:
        return ["root"]
    obstacles = [] if Path("/dev/net/tun").exists() else ["/dev/net/tun"]
    try:
        subprocess.run(["ip", "netns", "add", "plumb-try"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        obstacles.append("network namespaces (`ip netns add`, of iproute2)")
    else:
        subprocess.run(["ip", "netns", "delete", "plumb-try"], check=True)
    return obstacles


@dataclass
class Cable:
    """What connects a host with the switch. descriptor: of the switch's end."""

    descriptor: int
    state: str = "good"  # or "bad", or "pulled"


@dataclass
class Host:
    """A network namespace with one interface."""

    name: str
    address: str
    namespace: str
    cable: Cable

    def inside(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs `command` on this host."""
        return ["ip", "netns", "exec", self.namespace, *command]

    def enter(self) -> None:
        """Move the calling thread to this host: what it opens and starts from then on is there. Raises OSError."""
        with Path("/run/netns", self.namespace).open() as file:
            if LIBC.setns(file.fileno(), NETWORK_NAMESPACE):
                raise OSError(ctypes.get_errno(), f"cannot enter {self.namespace}")


@dataclass
class Switch:
    """A switch: it learns which host has which hardware address."""

    hosts: dict[str, Host] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._cables_by_address: dict[bytes, Cable] = {}
        self._delayed: list[tuple[float, int, Cable, bytes]] = []
        self._numbers = count()
        self._random = random.Random(23)  # noqa: S311
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._forward, name="switch", daemon=True)

    def add_host(self, name: str) -> Host:
        """Add a host with the next address of 10.83.0.0/24."""
        namespace = f"plumb-{os.getpid()}-{name}"
        address = f"10.83.0.{len(self.hosts) + 1}"
        descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        device = f"plumb{len(self.hosts)}"
        fcntl.ioctl(descriptor, SET_INTERFACE, struct.pack("16sH", device.encode(), TAP_WITHOUT_HEADER))
        run("ip", "netns", "add", namespace)
        run("ip", "link", "set", device, "netns", namespace, "name", "eth0")
        run("ip", "-n", namespace, "address", "add", f"{address}/24", "dev", "eth0")
        for interface in ("lo", "eth0"):
            run("ip", "-n", namespace, "link", "set", interface, "up")
        cable = Cable(descriptor)
        self._selector.register(descriptor, selectors.EVENT_READ, cable)
        self.hosts[name] = Host(name, address, namespace, cable)
        return self.hosts[name]

    def change_cable(self, name: str, state: str) -> None:
        """Pull a host's cable ("pulled"), plug it in ("good"), or exchange it for one that loses and delays ("bad")."""
        cable = self.hosts[name].cable
        cable.state = state
        fcntl.ioctl(cable.descriptor, SET_CARRIER, struct.pack("I", state != "pulled"))

    def start(self) -> None:
        """Begin to forward."""
        self._thread.start()

    def close(self) -> None:
        """Stop, and remove the hosts."""
        self._ends.set()
        self._thread.join()
        for host in self.hosts.values():
            os.close(host.cable.descriptor)
            subprocess.run(["ip", "netns", "delete", host.namespace], check=False)

    def _forward(self) -> None:
        while not self._ends.is_set():
            wait = self._delayed[0][0] - time.monotonic() if self._delayed else 0.2
            for key, _ in self._selector.select(min(max(wait, 0.0), 0.2)):
                with suppress(OSError):
                    while True:
                        self._accept(key.data, os.read(key.data.descriptor, FRAME))
            while self._delayed and self._delayed[0][0] <= time.monotonic():
                _, _, cable, frame = heapq.heappop(self._delayed)
                self._deliver(cable, frame)

    def _accept(self, source: Cable, frame: bytes) -> None:
        self._cables_by_address[frame[6:12]] = source
        target = None if frame[0] & BROADCAST_BIT else self._cables_by_address.get(frame[:6])
        others = [host.cable for host in self.hosts.values() if host.cable is not source]
        for cable in [target] if target else others:
            is_bad = source.state == "bad"
            if "pulled" in (source.state, cable.state) or (is_bad and self._random.random() < LOSS):
                continue
            if is_bad:
                due = time.monotonic() + DELAY
                heapq.heappush(self._delayed, (due, next(self._numbers), cable, frame))
            else:
                self._deliver(cable, frame)

    def _deliver(self, cable: Cable, frame: bytes) -> None:
        with suppress(OSError):  # the host's queue is full, or its interface is down: a frame is lost
            os.write(cable.descriptor, frame)


@contextmanager
def network(*names: str) -> Iterator[Switch]:
    """Hosts of these names on one switch; removed at the end."""
    switch = Switch()
    try:
        for name in names:
            switch.add_host(name)
        switch.start()
        yield switch
    finally:
        switch.close()


def run(*command: str) -> None:
    """Run a command. Raises CalledProcessError."""
    subprocess.run(command, check=True, capture_output=True)
