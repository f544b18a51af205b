"""The processes of `make run`: where links in their letters lead."""

import configparser

import pytest

from leaderboard.supervision import address_of, write_configuration


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


@pytest.mark.parametrize("declared", [None, "https://board.example.org"])
def test_links_in_letters_lead_to_the_port_that_was_chosen_unless_an_address_is_declared(
    declared, settings, tmp_path, monkeypatch
):
    settings.VAR = tmp_path
    monkeypatch.delenv("SITE_URL", raising=False)
    if declared:
        monkeypatch.setenv("SITE_URL", declared)
    configuration = configparser.RawConfigParser()
    configuration.read(write_configuration("127.0.0.1", 9000))
    expected = None if declared else 'SITE_URL="http://127.0.0.1:9000"'
    assert configuration["supervisord"].get("environment") == expected
