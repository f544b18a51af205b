"""Hosts of `make hosts-check`: their cables carry, lose and delay, or are pulled. And what notices that."""

import subprocess
import sys

import pytest
from django.db import connection

from leaderboard.celery import app
from tests.hosts.network import DELAY, Host, find_obstacles, network

LISTEN = """
import socket
server = socket.create_server(('0.0.0.0', 7000))
print(flush=True)
while True:
    server.accept()[0].send(b'y')
"""
CALL = """
import socket, time
began = time.monotonic()
try:
    with socket.create_connection(("{address}", 7000), timeout=8) as line:
        line.recv(1)
    print(time.monotonic() - began)
except OSError as error:
    print(f"no answer: {{error}}")
"""
OBSTACLES = find_obstacles()

pytestmark = [pytest.mark.faults, pytest.mark.either_database]


def call(caller: Host, other: Host) -> str:
    command = caller.inside([sys.executable, "-c", CALL.format(address=other.address)])
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.skipif(bool(OBSTACLES), reason=f"needs {', '.join(OBSTACLES)}")
def test_a_cable_carries_delays_or_is_pulled_and_the_other_hosts_notice_nothing():
    with network("web", "alpha", "beta") as switch:
        web, alpha, beta = switch.hosts.values()
        command = web.inside([sys.executable, "-c", LISTEN])
        with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
            assert server.stdout
            server.stdout.readline()
            assert float(call(alpha, web)) < DELAY
            switch.change_cable("alpha", "pulled")
            assert call(alpha, web).startswith("no answer")
            assert float(call(beta, web)) < DELAY
            switch.change_cable("alpha", "good")
            assert float(call(alpha, web)) < DELAY
            switch.change_cable("beta", "bad")
            answer = call(beta, web)
            assert answer.startswith("no answer") or float(answer) >= DELAY
            server.kill()
    assert not [host for host in (web, alpha, beta) if host.namespace in list_namespaces()]


def list_namespaces() -> str:
    return subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout


def test_connections_to_database_and_broker_notice_a_pulled_cable():
    broker = app.connection_for_read().transport_options
    assert broker["socket_keepalive"]
    assert sum(broker["socket_keepalive_options"].values()) < 60
    if connection.vendor == "postgresql":
        options = connection.get_connection_params()
        assert options["tcp_user_timeout"] <= 45_000  # milliseconds
        assert options["connect_timeout"] <= 10
        assert options["keepalives_idle"] + options["keepalives_interval"] * options["keepalives_count"] <= 45
        assert "tcp_keepalives_idle=15" in options["options"], "the server's end"
