from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from leaderboard.management.output import BoardCommand
from leaderboard.management.progress import file_progress
from scoring.evaluation_sets import FetchError, fetch, get, load_catalogue


class Command(BoardCommand):
    help = (
        "Download evaluation data from its public source into PLUMBLINE_DATA, checked by size and checksum; resumable."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        names = ", ".join(name for name, entry in load_catalogue().items() if entry.files)
        group = parser.add_mutually_exclusive_group(required=True)
        group.add_argument("name", nargs="?", help=f"one of {names}")
        group.add_argument("--all", action="store_true", help="every set that has a public source")

    def handle(self, name: str | None, **options: Any) -> None:
        entries = [get(name)] if name else [entry for entry in load_catalogue().values() if entry.files]
        failures, fetched_sets = [], []
        for entry in entries:
            try:
                with file_progress() as progress:
                    paths = fetch(entry, settings.PLUMBLINE_DATA, progress=progress)
            except (FetchError, OSError) as error:
                failures.append(f"{entry.name}: {error}")
                continue
            self.say(f"{entry.name}: {len(paths)} files in {settings.PLUMBLINE_DATA} ({entry.licence})")
            fetched_sets.append({"name": entry.name, "files": [str(path) for path in paths], "licence": entry.licence})
        self.answer({"fetched": fetched_sets, "failed": failures})
        if failures:
            raise CommandError("\n".join(failures))
