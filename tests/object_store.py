"""An S3 server for tests: Ceph's gateway where Debian's radosgw, ceph-mon and ceph-osd are installed, else moto's.

The gateway needs a cluster: a monitor and one object store, which keeps its objects in memory.
PLUMBLINE_TEST_S3=radosgw or =moto takes that one.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen
from uuid import uuid4

KEY_ID, SECRET = "board", "only-for-tests-of-the-bucket"
PROGRAMS = ("ceph-mon", "ceph-osd", "monmaptool", "radosgw", "radosgw-admin")
START_SECONDS = 60


@dataclass(frozen=True)
class ObjectStore:
    """A running S3 server: what it is, and where it answers. It knows KEY_ID and SECRET."""

    name: str
    endpoint: str

    def make_bucket(self) -> str:
        """Make a new bucket; returns its name."""
        import boto3

        bucket = f"board-{uuid4().hex[:12]}"
        client = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=KEY_ID,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
        )
        client.create_bucket(Bucket=bucket)
        return bucket


def choose_server() -> str:
    """The server that tests run on here."""
    installed = "radosgw" if all(map(shutil.which, PROGRAMS)) else "moto"
    return os.environ.get("PLUMBLINE_TEST_S3", "") or installed


@contextmanager
def run_object_store(name: str = "") -> Iterator[ObjectStore]:
    """An S3 server while the block lasts."""
    name = name or choose_server()
    with tempfile.TemporaryDirectory(prefix="plumbline-s3-") as folder, SERVERS[name](Path(folder)) as endpoint:
        yield ObjectStore(name, endpoint)


@contextmanager
def run_moto(folder: Path) -> Iterator[str]:
    """The server of moto, which keeps objects in memory; yields its address."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with run_processes() as processes, (folder / "log").open("wb") as log:
        processes.append(subprocess.Popen(command, stdout=log, stderr=log))
        endpoint = f"http://127.0.0.1:{port}"
        wait_for_answer(f"{endpoint}/", folder / "log")
        yield endpoint


@contextmanager
def run_radosgw(folder: Path) -> Iterator[str]:
    """A monitor, an object store in memory and the gateway, of this process alone; yields the gateway's address."""
    port, monitor = free_port(), f"[v2:127.0.0.1:{free_port()},v1:127.0.0.1:{free_port()}]"
    cluster, store = str(uuid4()), str(uuid4())
    configuration = folder / "ceph.conf"
    configuration.write_text(CEPH.format(folder=folder, cluster=cluster, monitor=monitor, port=port))
    for name in ("mon", "osd", "run"):
        (folder / name).mkdir()
    options = ["-c", str(configuration)]

    def call(*command: str) -> None:
        done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=START_SECONDS)
        assert done.returncode == 0, f"{command}: {done.stderr}"

    with run_processes() as processes:

        def start(*command: str) -> None:
            processes.append(
                subprocess.Popen([*command, *options, "-f"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            )

        chart = str(folder / "monmap")
        call("monmaptool", "--create", "--addv", "a", monitor, "--fsid", cluster, chart)
        call("ceph-mon", "--mkfs", "-i", "a", "--monmap", chart)
        start("ceph-mon", "-i", "a")
        call("ceph", "osd", "new", store)
        call("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", store)
        start("ceph-osd", "-i", "0")
        call("ceph", "osd", "crush", "add", "osd.0", "1", "root=default")
        keys = ("--access-key", KEY_ID, "--secret-key", SECRET)
        call("radosgw-admin", "user", "create", "--uid", "board", "--display-name", "board", *keys)
        start("radosgw", "-n", "client.rgw")
        endpoint = f"http://127.0.0.1:{port}"
        wait_for_answer(endpoint, folder / "client.rgw.log")
        yield endpoint


@contextmanager
def run_processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    """A list whose processes end with the block, the last one first."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        yield processes
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGKILL)
            process.wait()


def wait_for_answer(address: str, log: Path) -> None:
    """Return once the server answers; raises AssertionError with the end of its log."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with suppress(URLError, ConnectionError, TimeoutError), urlopen(address, timeout=2):  # noqa: S310 (ours)
            return
        time.sleep(0.1)
    raise AssertionError(f"no answer from {address}: {log.read_text()[-2000:] if log.exists() else 'no log'}")


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# Nobody but this machine reaches it, so nothing is authenticated but S3 requests, and nothing encrypted.
CEPH = """
[global]
fsid = {cluster}
mon host = {monitor}
public addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
ms mon client mode = crc
ms mon service mode = crc
ms client mode = crc
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 2
osd crush chooseleaf type = 0
mon allow pool size one = true
mon data avail crit = 1
osd objectstore = memstore
memstore device bytes = 1073741824
mon data = {folder}/mon
osd data = {folder}/osd
run dir = {folder}/run
admin socket = {folder}/run/$name.asok
log file = {folder}/$name.log
rgw frontends = beast endpoint=127.0.0.1:{port} tcp_nodelay=1
"""
SERVERS = {"moto": run_moto, "radosgw": run_radosgw}
