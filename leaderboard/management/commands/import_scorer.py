from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from leaderboard.management.output import BoardCommand
from leaderboard.models import ControlCheck, Metric
from leaderboard.services.checks import CannotCheck, request_check
from leaderboard.services.scorers import import_scorer
from scoring.scorers import ScorerUnavailable, UndeclaredLabel, UnknownScorer


class Command(BoardCommand):
    help = "Keep a scorer's files (a folder with its checkpoint) for all hosts; other files than before are checked."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="of the scorer, as in detoxify-original or classifier:ORG/NAME")
        parser.add_argument("folder", type=Path)

    def handle(self, name: str, folder: Path, **options: Any) -> None:
        try:
            scorer = import_scorer(name, folder)
        except (ScorerUnavailable, UndeclaredLabel, UnknownScorer, OSError) as error:
            raise CommandError(str(error)) from error
        fingerprint = scorer.fingerprint()
        self.say(f"{name}: its files are kept for all hosts, fingerprint {fingerprint[:12]}")
        checked = []
        for metric in Metric.objects.filter(scorer=name):
            try:
                request_check(metric, ControlCheck.Trigger.MANUAL)
                checked.append(metric.slug)
            except CannotCheck:
                continue  # nothing was scored with it yet
        if checked:
            self.say(f"A check is queued of {', '.join(checked)}")
        self.answer({"scorer": name, "fingerprint": fingerprint, "checked": checked})
