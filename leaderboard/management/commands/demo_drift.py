import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from leaderboard.demo.board import DemonstrationFailed, play, prepare
from leaderboard.demo.scorer import RetrainedScorer, serve

FOLDER = "demo-drift"
START_SECONDS = 600.0


class Command(BaseCommand):
    help = "A board of its own whose scorers really change: see it notice, rescore and publish. Ctrl-C ends it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8001)
        parser.add_argument("--once", action="store_true", help="end when the board has put itself right")

    def handle(self, port: int, **options: Any) -> None:
        if settings.VAR.name != FOLDER:
            self.begin_anew(port, options["once"])
        with serve(RetrainedScorer()) as scorer:
            self.play(scorer, port, options["once"])

    def begin_anew(self, port: int, ends: bool) -> None:
        """Start over in a folder and with settings of the demonstration's own."""
        folder = Path(settings.VAR) / FOLDER
        shutil.rmtree(folder, ignore_errors=True)
        own_settings = {
            "PLUMBLINE_VAR": str(folder),
            "DATABASE_URL": "",
            "BROKER_URL": "",
            "PLUMBLINE_DATA": str(folder),
        }
        environment = {name: value for name, value in os.environ.items() if name not in own_settings}
        environment |= {name: value for name, value in own_settings.items() if value}
        arguments = [sys.executable, "manage.py", "demo_drift", "--port", str(port), *(["--once"] if ends else [])]
        os.chdir(settings.BASE_DIR)
        os.execve(sys.executable, arguments, environment)  # noqa: S606

    def play(self, scorer: RetrainedScorer, port: int, ends: bool) -> None:
        """Start the board beside the scorer and play the demonstration on it."""
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
            play(metrics, models, scorer, lambda line: self.stdout.write(self.style.SUCCESS(f"demo: {line}")))
            for metric in metrics:
                call_command("rank_changes", metric.slug, stdout=self.stdout)
                self.stdout.write(f"demo: see http://127.0.0.1:{port}/history/?metric={metric.slug}")
            if not ends:
                board.wait()
        except DemonstrationFailed as error:
            raise CommandError(str(error)) from error
        finally:
            board.terminate()
            board.wait()

    def wait_for_site(self, board: "subprocess.Popen[bytes]", port: int) -> None:
        """Until the site answers."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and board.poll() is None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        raise CommandError(f"the board did not start on port {port}: see the lines above, or choose another --port")
