import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from leaderboard.demo.board import DemonstrationFailed, play, play_service, prepare
from leaderboard.demo.scorer import RetrainedScorer, serve
from leaderboard.demo.service import ReplacedService
from leaderboard.supervision import ending_signals

FOLDER = "demo-drift"
START_SECONDS = 600.0


class Command(BaseCommand):
    help = (
        "Start a separate board whose scorers and a served model really change: watch it notice, rescore and publish. "
        "Ctrl-C ends it."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8001, help="of its web server (default: 8001)")

    def handle(self, port: int, **options: Any) -> None:
        if settings.VAR.name != FOLDER:
            self.begin_anew(port)
        with serve(RetrainedScorer()) as scorer, serve(ReplacedService()) as service:
            self.play(scorer, service, port)

    def begin_anew(self, port: int) -> None:
        """Start over in a folder and with settings of the demonstration's own."""
        folder = Path(settings.VAR) / FOLDER
        shutil.rmtree(folder, ignore_errors=True)
        environment = os.environ | describe_separation(folder)
        arguments = [sys.executable, "manage.py", "demo_drift", "--port", str(port)]
        os.chdir(settings.BASE_DIR)
        os.execve(sys.executable, arguments, environment)  # noqa: S606

    def play(self, scorer: RetrainedScorer, service: ReplacedService, port: int) -> None:
        """Start the board beside what changes, and play the demonstration on it. However it ends, the board ends."""
        for number in ending_signals():
            signal.signal(number, end)
        self.say("preparing a separate board")
        call_command("migrate", verbosity=0)
        metrics, models = prepare()
        command = [sys.executable, "manage.py", "up", "--port", str(port), "--no-seed"]
        environment = {
            **os.environ,
            "PERSPECTIVE_URL": scorer.address,
            "PERSPECTIVE_API_KEY": "demonstration",
            "PERSPECTIVE_REQUESTS_PER_SECOND": "2000",
            "OPENING_SPREAD_SECONDS": "4",
        }
        os.environ.update(environment)
        settings.PERSPECTIVE_URL, settings.PERSPECTIVE_API_KEY = scorer.address, "demonstration"
        board = subprocess.Popen(command, cwd=settings.BASE_DIR, env=environment)  # noqa: S603
        try:
            self.wait_for_site(board, port)
            play(metrics, models, scorer, self.say)
            for metric in metrics:
                call_command("rank_changes", metric.slug, stdout=self.stdout)
                self.say(f"see http://127.0.0.1:{port}/history/?metric={metric.slug}")
            model = play_service(metrics[-1], service, self.say)
            self.say(f"see http://127.0.0.1:{port}{model.get_absolute_url()} and {metrics[-1].ranking_url}")
            self.say("every model is rescored. The board goes on until Ctrl-C ends it")
            board.wait()
        except DemonstrationFailed as error:
            raise CommandError(str(error)) from error
        finally:
            self.stop(board)

    def stop(self, board: "subprocess.Popen[bytes]") -> None:
        """End the board, which ends its own processes; nothing interrupts that."""
        for number in ending_signals():
            signal.signal(number, signal.SIG_IGN)
        with suppress(OSError):  # a terminal that was closed
            self.say("waiting for the board's processes to end, each at most 20 seconds")
        board.terminate()
        board.wait()

    def say(self, line: str) -> None:
        """A line of the demonstration's own, among those of the board."""
        self.stdout.write(self.style.SUCCESS(f"demo: {line}"))
        self.stdout.flush()

    def wait_for_site(self, board: "subprocess.Popen[bytes]", port: int) -> None:
        """Until the site answers."""
        self.say(f"waiting for the board on port {port}, at most {START_SECONDS / 60:g} minutes")
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and board.poll() is None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        raise CommandError(f"the board did not start on port {port}: see the lines above, or choose another --port")


def describe_separation(folder: Path) -> dict[str, str]:
    """The settings by which a board in `folder` shares nothing with that of the environment, and tells nobody.

    All are given, also those that are empty: what is missing would be filled from .env.
    """
    return {
        "PLUMBLINE_VAR": str(folder),
        "PLUMBLINE_DATA": str(folder),
        "DATABASE_URL": f"sqlite:///{folder / 'plumbline.sqlite3'}",
        "BACKUP_SECONDS": "0",
        "EMAIL_URL": "console://",
        **dict.fromkeys(("BROKER_URL", "CACHE_URL", "STORAGE_URL", "STORAGE_ALSO_URL"), ""),
        **dict.fromkeys(("ALERT_EMAIL", "ALERT_WEBHOOK", "DEAD_MAN_PING", "SENTRY_DSN", "BACKUP_TARGET"), ""),
    }


def end(number: int, _frame: object) -> None:
    """Unwind, so that what was started is ended, and leave with the status that the signal would have given."""
    sys.exit(128 + number)
