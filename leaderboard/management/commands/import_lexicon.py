from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from leaderboard.management.output import BoardCommand
from leaderboard.models import ControlCheck
from leaderboard.services.checks import request_check
from leaderboard.services.metrics import declare_lexicon_metric
from leaderboard.services.scorers import import_lexicon


class Command(BoardCommand):
    help = (
        "Import a lexicon (a folder of UTF-8 files, one category a file, one term a line) as the metric lexicon-NAME."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="small letters, digits and -, as in farrell")
        parser.add_argument("folder", type=Path, help="holds a text file for each category")
        parser.add_argument(
            "--replace", action="store_true", help="in place of one of that name: all entries are scored again with it"
        )

    def handle(self, name: str, folder: Path, replace: bool, **options: Any) -> None:
        lexicon, new = import_lexicon(name, folder, replace)
        metric = declare_lexicon_metric(name)
        terms = sum(len(category) for category in lexicon.terms.values())
        self.say(
            f"lexicon {name}{'' if new else ' is already here'}: {len(lexicon.categories)} categories, {terms:,} "
            f"terms, fingerprint {lexicon.fingerprint[:12]}. Its metric is {metric.slug}: "
            f"`manage.py evaluate MODEL --metric {metric.slug}`"
        )
        if new and metric.current_version():
            request_check(metric, ControlCheck.Trigger.MANUAL)
            self.say("A check is queued, which opens a new version: the workers rescore all entries")
        self.answer(
            {
                "name": name,
                "new": new,
                "categories": list(lexicon.categories),
                "terms": terms,
                "fingerprint": lexicon.fingerprint,
                "metric": metric.slug,
            }
        )
