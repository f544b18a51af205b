"""The board of `make run`: where its links lead."""

import os
import signal
import subprocess
import sys
from configparser import RawConfigParser

import pytest

from leaderboard.supervision import address_of, ending_signals, processes, write_configuration

LOOK_AND_START = """
import sys
from django.conf import settings
from leaderboard.supervision import write_configuration
print(settings.SITE_URL)
write_configuration("127.0.0.1", int(sys.argv[1]))
"""


@pytest.mark.parametrize(
    ("host", "port", "address"),
    [
        ("127.0.0.1", 9000, "http://127.0.0.1:9000"),
        ("board.local", 80, "http://board.local:80"),
        ("0.0.0.0", 8000, "http://127.0.0.1:8000"),  # noqa: S104 (every address of this machine)
        ("::", 8000, "http://127.0.0.1:8000"),
        ("::1", 8000, "http://[::1]:8000"),
    ],
)
def test_a_reader_finds_the_board_where_it_listens(host, port, address):
    assert address_of(host, port) == address


@pytest.mark.parametrize(
    ("host", "bound"), [("::", "[::]:8000"), ("::1", "[::1]:8000"), ("127.0.0.1", "127.0.0.1:8000")]
)
def test_the_site_is_served_at_every_kind_of_address(host, bound):
    assert f" --bind {bound} " in processes(host, 8000)["web"]


@pytest.mark.parametrize("declared", ["", "https://board.example.org"])
def test_links_lead_to_the_port_that_was_chosen_unless_an_address_is_declared(declared, tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "SITE_URL"}
    environment |= {"PLUMBLINE_VAR": str(tmp_path), **({"SITE_URL": declared} if declared else {})}
    addresses = []
    for port in (9000, 9001):
        command = [sys.executable, "-c", LOOK_AND_START, str(port)]
        process = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        addresses.append(process.stdout.strip())
    assert addresses == ([declared] * 2 if declared else ["http://127.0.0.1:8000", "http://127.0.0.1:9000"])


def test_supervisord_starts_each_process_again_and_waits_for_work_to_be_given_back(settings, tmp_path):
    settings.VAR, settings.ADDRESS_NOTE, settings.EMBEDDED_BROKER = tmp_path, tmp_path / "address", False
    configuration = RawConfigParser()
    configuration.read(write_configuration("0.0.0.0", 8000))  # noqa: S104 (every address of this machine)
    sections = {name: dict(configuration[name]) for name in configuration.sections()}
    assert sections.pop("supervisord") == {
        **({"user": "root"} if os.geteuid() == 0 else {}),
        "nodaemon": "true",
        "logfile": "/dev/null",
        "logfile_maxbytes": "0",
        "loglevel": "warn",
        "pidfile": str(tmp_path / "supervisord.pid"),
        "directory": str(settings.BASE_DIR),
        "umask": "077",
    }
    commands = processes("0.0.0.0", 8000)  # noqa: S104
    assert list(commands) == ["web", "worker", "files-worker", "gpu-worker", "beat"]
    assert sections == {
        f"program:{name}": {
            "command": command,
            "priority": str(priority),
            "autorestart": "true",
            "stopwaitsecs": "20",
            "stopasgroup": "false",
            "killasgroup": "true",
            "redirect_stderr": "true",
            "stdout_logfile": "/dev/fd/1",
            "stdout_logfile_maxbytes": "0",
        }
        for priority, (name, command) in enumerate(commands.items())
    }
    assert settings.ADDRESS_NOTE.read_text() == "http://127.0.0.1:8000"


def test_a_board_without_a_broker_of_its_own_gets_one_before_all_else(settings):
    settings.EMBEDDED_BROKER = True
    name, command = next(iter(processes("127.0.0.1", 8000).items()))
    assert name == "broker"
    assert f" --unixsocket {settings.EMBEDDED_REDIS_SOCKET} --unixsocketperm 700 " in command


def test_a_signal_that_a_process_was_told_to_ignore_does_not_end_it():
    old_handler = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert ending_signals() == [signal.SIGINT, signal.SIGTERM]
    finally:
        signal.signal(signal.SIGHUP, old_handler)
    assert ending_signals() == [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
