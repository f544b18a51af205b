"""The board of `make run`: where its links lead."""

import os
import subprocess
import sys

import pytest

from leaderboard.supervision import address_of, processes

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
