import math
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from typing import Any, TextIO

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError, CommandParser

from leaderboard.management.output import RefusableCommand
from leaderboard.private_files import hold_folder, restrict_all
from leaderboard.supervision import address_of, ending_signals, write_configuration

PATIENCE_SECONDS = 60.0


class Command(RefusableCommand):
    help = "Everything on this machine: database, seed, web, workers and beat under one supervisor. Ctrl-C stops it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--host",
            default="127.0.0.1",
            help="address that the web server listens on (default: 127.0.0.1, this machine only)",
        )
        parser.add_argument("--port", type=int, default=8000, help="of the web server (default: 8000)")
        parser.add_argument("--no-seed", action="store_true", help="leave the database as it is")

    def handle(self, host: str, port: int, no_seed: bool, **options: Any) -> None:
        with hold_folder(settings.VAR, settings.EMBEDDED_REDIS_SOCKET) as lock:
            self.prepare(no_seed)
            self.supervise(host, port, lock)
        with suppress(OSError):  # a terminal that was closed
            self.stdout.write("stopped; the data stays in " + str(settings.VAR))

    def prepare(self, no_seed: bool) -> None:
        """Close the folder to others, and bring database, static files and seed to this version's state."""
        if changed_count := restrict_all(settings.VAR):
            self.stdout.write(
                f"permissions: {changed_count} files and folders in {settings.VAR} were open to others, and are not"
            )
        call_command("migrate", verbosity=0)
        self.stdout.write(f"database: {settings.DATABASES['default']['ENGINE'].rsplit('.', 1)[-1]}, migrated")
        call_command("collectstatic", interactive=False, verbosity=0)
        if not no_seed:
            call_command("seed", stdout=self.stdout)

    def supervise(self, host: str, port: int, lock: TextIO) -> None:
        """Run the processes until they are stopped. The supervisor holds `lock` too, for as long as it lives."""
        self.stdout.write("starting web, workers and beat; Ctrl-C stops them")
        self.stdout.flush()
        configuration = write_configuration(host, port)
        command = [sys.executable, "-m", "supervisor.supervisord", "--nodaemon", "--configuration", str(configuration)]
        errors = settings.VAR / "supervisord.log"
        with errors.open("ab") as stderr:
            supervisor = subprocess.Popen(  # noqa: S603
                command,
                stdin=lock,  # it closes whatever else it inherits
                stderr=stderr,  # a terminal that was closed would end it here, before it has ended what it started
                start_new_session=True,  # and its signal would have it begin again
            )
        for number in ending_signals():
            signal.signal(number, lambda *_: supervisor.terminate())
        self.announce(supervisor, f"{address_of(host, port)}/")
        supervisor.wait()
        if supervisor.returncode:
            raise CommandError(f"the supervisor ended with status {supervisor.returncode}: see {errors} and above")

    def announce(self, supervisor: subprocess.Popen[bytes], address: str) -> None:
        """Print the address once the site answers there; say once that it is late when it is."""
        late = time.monotonic() + PATIENCE_SECONDS
        while supervisor.poll() is None:
            try:
                with urllib.request.urlopen(f"{address}healthz", timeout=5):  # noqa: S310 (our own address)
                    self.stdout.write(self.style.SUCCESS(f"\nPlumbline is at {address}\n"))
                    self.stdout.flush()
                    return
            except (urllib.error.URLError, OSError) as error:
                if time.monotonic() > late:
                    self.stderr.write(f"{address} does not answer yet ({error}): see the lines above")
                    late = math.inf
                time.sleep(0.2)
