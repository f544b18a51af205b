import json
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from leaderboard.exchange import write_folder, write_zip
from leaderboard.management.output import RefusableCommand
from leaderboard.management.progress import step_progress


class Command(RefusableCommand):
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
        with step_progress() as show:
            export = write(target, with_artefacts, show)
        if options["json"]:
            summary = {"path": str(target), "rows": export.rows, "artefacts": export.artefacts, "bytes": export.bytes}
            self.stdout.write(json.dumps(summary | {"sha256": export.sha256}))
            return
        artefacts = f", {export.artefacts:,} artefacts" if with_artefacts else ""
        self.stdout.write(
            f"{target}: {sum(export.rows.values()):,} rows in {len(export.rows)} tables{artefacts}, {export.bytes:,} "
            "bytes"
        )
