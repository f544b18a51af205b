from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from leaderboard.management.ending import ending_in_order
from leaderboard.management.output import BoardCommand
from leaderboard.management.progress import step_progress
from leaderboard.operations.backups.databases import count_contents, count_users
from leaderboard.operations.backups.places import open_place
from leaderboard.operations.backups.restoring import MOST_NAMED, open_set, restore

WORDS = {
    "leaderboard_languagemodel": "models",
    "leaderboard_metric": "metrics",
    "leaderboard_result": "results",
    "leaderboard_artefact": "files",
    "leaderboard_submission": "submissions",
    "auth_user": "people",
}


class Command(BoardCommand):
    help = (
        "Restore a set that `backup` wrote: its files, then its database, migrated to this release. Run it again after "
        "an interruption: it goes on. Stop web, workers and beat first."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("source", help="the folder or bucket of the backups")
        parser.add_argument("set", nargs="?", default="", help="name of the set (default: the newest)")
        parser.add_argument("--identity", type=Path, metavar="FILE", help="the secret key of age, if encrypted")
        parser.add_argument("--replace", action="store_true", help="in place of the board that is in the database now")

    def handle(self, source: str, replace: bool, **options: Any) -> None:
        place = open_place(source)
        chosen_set = open_set(place, options["set"], options["identity"])
        self.check_target(replace)
        with ending_in_order(), step_progress() as show:
            restoration = restore(place, chosen_set, show)
        self.say(
            f"restored set {chosen_set.envelope.name}: {restoration.rows:,} rows, {restoration.files:,} files "
            f"({restoration.fetched:,} of them fetched)"
        )
        if restoration.migrated:
            self.say(f"it was of release {chosen_set.envelope.code}: {restoration.migrated} migrations were applied")
        if restoration.lost:
            self.say(f"{len(restoration.lost)} files were lost before the backup: {', '.join(restoration.lost[:5])}")
        if restoration.foreign:
            self.say(f"tables of the set that are not the board's were left out: {', '.join(restoration.foreign)}")
        if restoration.unknown:
            self.say(
                f"the storage holds {restoration.unknown} files that the set does not know: newer ones, which nothing "
                "refers to any more"
            )
        self.say("every file has its hash, every table its rows; `manage.py verify` recomputes every number")
        self.answer(
            {"set": chosen_set.envelope.name, "files": restoration.files, "fetched": restoration.fetched}
            | {"rows": restoration.rows, "migrated": restoration.migrated}
            | {"lost": restoration.lost, "unknown": restoration.unknown}
        )

    def check_target(self, replace: bool) -> None:
        """Refuse where a board is in the database, unless it is to be replaced, and where it is in use."""
        contents = count_contents()
        if contents and not replace:
            raise CommandError(
                f"the database is not empty: it holds {describe(contents)}. Point DATABASE_URL to an empty one, or "
                "give --replace to lose all of that"
            )
        if users := count_users():
            raise CommandError(
                f"{users} other processes use the database: stop web, workers and beat first (`docker compose stop web "
                "worker files-worker gpu-worker beat` or `systemctl stop plumbline.target` on every host)"
            )
        if contents:
            self.say(f"replacing what the database holds: {describe(contents)}")


def describe(contents: dict[str, int]) -> str:
    """What tables hold: models, results and people in words, of other tables a few names."""
    words = [f"{contents[table]:,} {word}" for table, word in WORDS.items() if table in contents]
    other_tables = sorted(contents.keys() - WORDS)
    if other_tables:
        more = f" and {len(other_tables) - MOST_NAMED} more tables" if len(other_tables) > MOST_NAMED else ""
        words.append(f"rows in {', '.join(other_tables[:MOST_NAMED])}{more}")
    return ", ".join(words)
