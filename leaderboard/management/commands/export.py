import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from leaderboard.management.progress import step_progress
from leaderboard.services.exchange import CannotExport, write_folder, write_zip


class Command(BaseCommand):
    help = (
        "Write the whole board as Parquet tables with a datapackage.json (Frictionless Data Package), from which "
        "`import_results` makes the same board. Users, tokens and work under way are left out."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("target", type=Path, metavar="FOLDER|FILE.zip", help="made; it must not be there yet")
        parser.add_argument(
            "--with-artefacts",
            action="store_true",
            help="with the files that the board offers for download: outputs and scores, which hold offensive texts",
        )
        parser.add_argument("--json", action="store_true", help="print what was written as JSON")

    def handle(self, target: Path, with_artefacts: bool, **options: Any) -> None:
        write = write_zip if target.suffix == ".zip" else write_folder
        try:
            with step_progress(sys.stderr) as show:
                made = write(target, with_artefacts, show)
        except (CannotExport, OSError) as error:
            raise CommandError(str(error)) from error
        if options["json"]:
            found = {"path": str(target), "rows": made.rows, "artefacts": made.artefacts, "bytes": made.bytes}
            self.stdout.write(json.dumps(found | {"sha256": made.sha256}))
            return
        artefacts = f", {made.artefacts:,} artefacts" if with_artefacts else ""
        self.stdout.write(
            f"{target}: {sum(made.rows.values()):,} rows in {len(made.rows)} tables{artefacts}, {made.bytes:,} bytes"
        )
