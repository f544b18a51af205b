"""`manage.py up`: everything from one command, healed by its supervisor, stopped by one signal."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from django.db import connection

from scoring.language_models import list_bundled
from tests.faults.worker import ROOT, list_processes, stretch, wait_until

pytestmark = [
    pytest.mark.faults,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(
        connection.vendor != "sqlite", reason="starts a board of its own on SQLite: the run on SQLite tests it"
    ),
]


class Board:
    """A board started by `manage.py up` on a folder of its own, on SQLite and the embedded broker."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.var = folder / "var"
        self.log = folder / f"up-{self.port}.log"
        left_out = ("DATABASE_URL", "BROKER_URL", "PLUMBLINE_DATA", "SITE_URL")
        self.environment = {name: value for name, value in os.environ.items() if name not in left_out}
        self.environment |= {"PLUMBLINE_VAR": str(self.var), "LEASE_SECONDS": "5", "SWEEP_SECONDS": "1"}
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "up", "--port", str(self.port)],
                cwd=ROOT,
                env=self.environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def page(self, path: str = "/") -> str:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as response:
            return response.read().decode()
        return ""

    def invite(self) -> str:
        """What the command says that invites somebody to this board."""
        command = [sys.executable, "manage.py", "invite"]
        return subprocess.run(command, cwd=ROOT, env=self.environment, capture_output=True, check=True).stdout.decode()

    def wait_for(self, text: str, seconds: float) -> float:
        """Seconds until `text` stands in the terminal: to make a page at each look would slow the board down."""
        began, seconds = time.monotonic(), stretch(seconds)
        while text not in self.log.read_text(errors="replace"):
            assert self.process.poll() is None, self.log.read_text(errors="replace")
            assert time.monotonic() - began < seconds, self.log.read_text(errors="replace")[-4000:]
            time.sleep(0.2)
        return time.monotonic() - began

    def scored(self) -> set[str]:
        """Models whose numbers the terminal says are there."""
        return set(re.findall(r"(\S+) under safety-starter", self.log.read_text(errors="replace")))

    def children(self) -> list[int]:
        """Processes whose environment names this board's folder, the command itself left out."""
        return [pid for pid in list_processes(self.var) if pid != self.process.pid]

    def pid_of(self, *words: str) -> int:
        """The oldest process of this board whose command line holds all `words`."""
        return min(
            pid
            for pid in self.children()
            if all(word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes() for word in words)
        )

    def has_tokenizers(self, words: str) -> bool:
        """Whether a process has loaded the library that transformers reads tokenizers with."""
        return "tokenizers" in Path(f"/proc/{self.pid_of(*words.split())}/maps").read_text()

    def stop(self, number: int) -> int:
        os.killpg(self.process.pid, number)  # what Ctrl-C does: the whole foreground group gets it
        return self.process.wait(timeout=stretch(60))


@pytest.fixture
def start(tmp_path: Path) -> Iterator:
    boards = []

    def start_board() -> Board:
        boards.append(Board(tmp_path))
        return boards[-1]

    yield start_board
    for board in boards:
        for pid in [*board.children(), board.process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        board.process.wait()


def sign_up(board: Board) -> str:
    """Sign up as a person does and open the link of the letter; the page that it leads to."""
    with httpx.Client(base_url=f"http://127.0.0.1:{board.port}", timeout=60, follow_redirects=True) as client:
        client.get("/accounts/signup/")
        form = {"username": "ada", "email": "ada@example.org", "password1": "a long passphrase"}
        client.post("/accounts/signup/", data=form | {"csrfmiddlewaretoken": client.cookies["csrftoken"]})
        board.wait_for("/accounts/confirm-email/", 120)
        link = re.search(r"\S+/accounts/confirm-email/\S+", board.log.read_text())[0]
        assert link.startswith(f"http://127.0.0.1:{board.port}/")
        return client.get(link).text


@pytest.mark.longest
def test_one_command_brings_a_board_that_fills_itself_heals_stops_and_keeps_its_data(start):
    board = start()
    board.wait_for("Plumbline is at", 300)
    assert "DistilRoBERTa" in board.page()  # published figures, in the first second
    assert "ada@example.org" in sign_up(board)  # the address to confirm, by a letter in the terminal
    assert f"http://127.0.0.1:{board.port}/" in board.invite()  # links lead there, of commands beside it too
    board.wait_for(": shard ", 300)  # progress, in the terminal
    under_way = re.search(r"(\S+) on \S+ v1: shard ", board.log.read_text())[1]
    os.kill(board.pid_of("celery", "gpu"), signal.SIGKILL)  # the supervisor starts another, which goes on
    names = {folder.name for folder in list_bundled()} - {under_way}  # that one has to queue again
    wait_until(lambda: board.scored() & names)
    names &= board.scored()
    assert board.has_tokenizers("--queues default")  # of transformers: there texts are scored
    assert not board.has_tokenizers("--queues gpu")  # there cages run the models
    assert board.stop(signal.SIGINT) == 0
    assert board.children() == []
    assert "stopped; the data stays" in board.log.read_text()

    again = start()
    again.wait_for("Plumbline is at", 300)
    html = again.page("/rankings/?metric=safety-starter")
    assert all(name in html for name in names)
    assert not any(f"{name} on starter" in again.log.read_text() for name in names)  # nothing is done twice
    assert again.stop(signal.SIGTERM) == 0
    assert again.children() == []
