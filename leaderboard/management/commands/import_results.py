import json
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from leaderboard.exchange import import_package
from leaderboard.management.output import RefusableCommand
from leaderboard.management.progress import step_progress


class Command(RefusableCommand):
    help = "Fill an empty board from a package that `export` wrote: the same standings and history."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("package", type=Path, metavar="FOLDER|FILE.zip", help="as `export` wrote it")
        parser.add_argument("--json", action="store_true", help="print what was imported as JSON")

    def handle(self, package: Path, **options: Any) -> None:
        with step_progress() as show:
            rows = import_package(package, show)
        if options["json"]:
            self.stdout.write(json.dumps({"rows": rows}))
            return
        self.stdout.write(
            f"{rows['models']:,} models, {rows['versions']:,} metric versions, {rows['results']:,} results and "
            f"{rows['standings']:,} ranks are imported"
        )
