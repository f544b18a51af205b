from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.template.defaultfilters import filesizeformat

from leaderboard.management.output import BoardCommand
from leaderboard.management.progress import progress_of
from leaderboard.operations.services.stored_files import compare_files, delete_unreferenced, move_files
from leaderboard.storage import StoredObject


class Command(BoardCommand):
    help = (
        "Look after the files of the storage. check: read all of them; exit status 1 if any is missing or differs from "
        "its hash. move: copy all files from STORAGE_ALSO_URL to STORAGE_URL while the board runs. gc: delete what "
        "nothing refers to and is older than a day. check and move go on where they were interrupted."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "step",
            choices=["check", "move", "gc"],
            help="look for missing and differing files, move to STORAGE_URL, or delete what nothing refers to",
        )
        parser.add_argument("--from-start", action="store_true", help="check: do not go on with an interrupted check")
        parser.add_argument("--dry-run", action="store_true", help="gc: only list what would be deleted")

    def handle(self, step: str, from_start: bool, dry_run: bool, **options: Any) -> None:
        if from_start and step != "check":
            raise CommandError("--from-start goes with check only")
        if dry_run and step != "gc":
            raise CommandError("--dry-run goes with gc only")
        if step == "check":
            self._check(from_start)
        elif step == "move":
            self._move()
        else:
            self._delete(dry_run)

    def _check(self, from_start: bool) -> None:
        with progress_of("check", "file") as show:
            comparison = compare_files(show, from_start=from_start)
        for problem, names in (("missing", comparison.missing), ("different", comparison.different)):
            for name in names:
                self.say(f"{problem:<14}{'':>10}  {name}")
        for file in comparison.unreferenced:
            self.say(f"{'unreferenced':<14}{filesizeformat(file.size):>10}  {file.name}")
        self.answer(
            {
                "files": comparison.files,
                "read": comparison.read,
                "read_earlier": comparison.read_earlier,
                "began_at": comparison.began_at,
                "missing": comparison.missing,
                "different": comparison.different,
                "unreferenced": list(map(describe, comparison.unreferenced)),
            }
        )
        counts = (
            f"{len(comparison.missing)} missing, {len(comparison.different)} different, "
            f"{len(comparison.unreferenced)} that nothing refers to, of {comparison.files} files; "
            f"{comparison.read} read now"
        )
        if comparison.read_earlier:
            counts += f", {comparison.read_earlier} earlier, since {comparison.began_at:%Y-%m-%d %H:%M} UTC"
        if comparison.missing or comparison.different:
            raise CommandError(counts)
        self.say(counts)

    def _move(self) -> None:
        with progress_of("move", "file") as show:
            move = move_files(show)
        for name in move.damaged:
            self.say(f"not copied: {name} differs from its hash")
        self.answer(
            {
                "copied": move.copied,
                "bytes": move.size,
                "there_already": move.there_already,
                "not_copied": move.damaged,
            }
        )
        counts = f"{move.copied} files copied ({filesizeformat(move.size)}), {move.there_already} in their new place"
        if move.damaged:
            raise CommandError(f"{counts}, {len(move.damaged)} not copied: `manage.py storage check` says more")
        self.say(f"{counts}. Take out STORAGE_ALSO_URL once every process runs with the new STORAGE_URL")

    def _delete(self, dry_run: bool) -> None:
        files = delete_unreferenced(dry_run=dry_run)
        for file in files:
            self.say(f"{filesizeformat(file.size):>10}  {file.name}")
        self.answer({"dry_run": dry_run, "files": list(map(describe, files))})
        total = filesizeformat(sum(file.size for file in files))
        self.say(f"{len(files)} files, {total}, {'would be deleted' if dry_run else 'deleted'}")


def describe(file: StoredObject) -> dict[str, Any]:
    """A file as JSON has it."""
    return {"name": file.name, "bytes": file.size, "modified_at": file.modified_at}
