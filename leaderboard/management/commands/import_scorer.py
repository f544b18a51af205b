from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from leaderboard.management.output import BoardCommand
from leaderboard.models import ControlCheck, Metric
from leaderboard.services.checks import request_check
from leaderboard.services.scorers import import_scorer
from scoring.refusals import Refused
from scoring.scorers import ScorerUnavailable


class Command(BoardCommand):
    help = "Store a scorer's files (a folder with its checkpoint) for all hosts; changed files queue checks."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="of the scorer, as in detoxify-original or classifier:ORG/NAME")
        parser.add_argument("folder", type=Path, help="holds its checkpoint")

    def handle(self, name: str, folder: Path, **options: Any) -> None:
        try:
            scorer = import_scorer(name, folder)
        except ScorerUnavailable as error:
            raise CommandError(str(error)) from error
        fingerprint = scorer.fingerprint()
        self.say(f"{name}: its files are kept for all hosts, fingerprint {fingerprint[:12]}")
        checked_slugs = []
        for metric in Metric.objects.filter(scorer=name):
            try:
                request_check(metric, ControlCheck.Trigger.MANUAL)
                checked_slugs.append(metric.slug)
            except Refused:
                continue  # nothing was scored with it yet
        if checked_slugs:
            self.say(f"A check is queued of {', '.join(checked_slugs)}")
        self.answer({"scorer": name, "fingerprint": fingerprint, "checked": checked_slugs})
