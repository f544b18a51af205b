import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.template.defaultfilters import filesizeformat
from django.utils import timezone

from leaderboard.management.ending import ending_in_order
from leaderboard.management.output import BoardCommand
from leaderboard.management.progress import step_progress
from leaderboard.operations.backups.encryption import cipher_for
from leaderboard.operations.backups.making import BackupUnderWay, MadeSet, back_up
from leaderboard.operations.backups.places import BackupPlace, open_place
from leaderboard.operations.backups.records import note_attempt
from leaderboard.operations.backups.sets import Envelope, list_sets, refuse_plain_successor, set_names
from leaderboard.operations.backups.verifying import verify_set
from leaderboard.services.backup_state import next_backup_at, note_scheduled
from leaderboard.services.signs_of_life import hang_up

NEWEST = "newest"
LOOK_SECONDS = 30.0
RETRY_SECONDS = 600.0
NOT_INCLUDED = (
    "Not in it: settings and keys (SECRET_KEY or PLUMBLINE_VAR/secret_key among them), data sets and hub models that "
    "are fetched again, tables that somebody else made in the board's PostgreSQL database, and Redis, which holds "
    "nothing that needs keeping."
)


class Command(BoardCommand):
    help = (
        "Write the database and all files that it mentions to TARGET as one set, beside a running board. What an "
        f"earlier set holds is not copied again. {NOT_INCLUDED}"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("target", nargs="?", default="", help="a folder or a bucket (default: BACKUP_TARGET)")
        parser.add_argument(
            "--recipient",
            action="append",
            help="encrypt for this public key of age (age1...) or GPG key; may be repeated (default: BACKUP_RECIPIENT)",
        )
        parser.add_argument(
            "--plain", action="store_true", help="encrypt for nobody, also where the newest set in TARGET is encrypted"
        )
        parser.add_argument("--keep", type=int, metavar="N", help="then remove all sets but the newest N")
        task = parser.add_mutually_exclusive_group()
        task.add_argument("--list", action="store_true", help="list the sets in TARGET instead")
        task.add_argument(
            "--verify",
            nargs="?",
            const=NEWEST,
            metavar="SET",
            help="instead restore a set (default: the newest) into a scratch database and storage, and verify it there",
        )
        task.add_argument("--repeat", action="store_true", help="every BACKUP_SECONDS, for ever")
        parser.add_argument("--identity", type=Path, metavar="FILE", help="with --verify: the secret key of age")

    def handle(self, target: str, keep: int | None, **options: Any) -> None:
        if keep is not None and keep < 1:
            raise CommandError(f"--keep {keep}: give a number of sets, 1 or more")
        target = target or settings.BACKUP_TARGET
        place = open_place(target)
        if options["plain"] and options["recipient"]:
            raise CommandError("--plain and --recipient: give one of them")
        recipients = [] if options["plain"] else options["recipient"] or settings.BACKUP_RECIPIENT
        with ending_in_order():
            if options["list"]:
                self.list_sets(place)
            elif options["verify"]:
                name = "" if options["verify"] == NEWEST else options["verify"]
                self.verify(place, target, name, options["identity"])
            elif options["repeat"]:
                self.repeat(place, recipients, keep or 0, options["plain"])
            else:
                made_set = self.make_set(place, recipients, keep or 0, options["plain"])
                if made_set.problem:
                    raise CommandError(describe_rest(made_set))

    def make_set(self, place: BackupPlace, recipients: list[str], keep: int, plain: bool) -> MadeSet:
        """Write a set, and say what it holds. plain: also where the newest one is encrypted and this one is not."""
        if not recipients and not plain:
            refuse_plain_successor(place)
        cipher = cipher_for(recipients)
        with step_progress() as show:
            made_set = back_up(place, cipher, show, keep)
        envelope = made_set.envelope
        self.say(f"{describe(envelope)}, in {place.label}")
        if envelope.lost:
            self.say(f"{envelope.lost} files that the database mentions are lost on the storage: see /operate/files/")
        if old_sets := made_set.removed_sets:
            self.say(f"removed: {len(old_sets)} older sets and {made_set.removed_objects} objects that only they had")
        self.say(NOT_INCLUDED)
        self.answer(summarise(envelope) | {"removed_sets": old_sets, "removed_objects": made_set.removed_objects})
        return made_set

    def list_sets(self, place: BackupPlace) -> None:
        """Say which sets there are."""
        envelopes, damages = list_sets(place)
        whole_sets, interrupted_sets = set_names(place)
        for envelope in envelopes:
            self.say(describe(envelope))
        for damage in damages:
            self.say(str(damage))
        for name in interrupted_sets:
            self.say(f"{name}: interrupted, or being written now; the next backup continues it")
        if not whole_sets and not interrupted_sets:
            self.say(f"{place.label} holds no backup")
        self.answer(
            {"sets": [summarise(envelope) for envelope in envelopes], "interrupted": interrupted_sets}
            | {"damaged": [str(damage) for damage in damages]}
        )

    def verify(self, place: BackupPlace, target: str, name: str, identity: Path | None) -> None:
        """Restore a set on trial, and say what differs."""
        trial = verify_set(place, target, name, identity)
        for difference in trial.differences:
            self.say(difference)
        self.answer({"set": trial.name, **trial.counts, "differences": trial.differences})
        if trial.differences:
            raise CommandError(f"set {trial.name}: {len(trial.differences)} differences")
        counts = ", ".join(f"{count} {name}" for name, count in trial.counts.items() if count)
        self.say(f"set {trial.name} restores, and nothing differs: {counts}")

    def repeat(self, place: BackupPlace, recipients: list[str], keep: int, plain: bool) -> None:
        """Write a set every BACKUP_SECONDS; after a failure again in ten minutes."""
        if not settings.BACKUP_SECONDS:
            raise CommandError("BACKUP_SECONDS = 0: set it to the seconds between two backups, such as 86400")
        while True:
            hang_up()
            pause = (next_backup_at(place.label) - timezone.now()).total_seconds()
            if pause > 0:
                time.sleep(min(pause, LOOK_SECONDS))
                continue
            began_at = timezone.now()
            try:
                made_set = self.make_set(place, recipients, keep, plain)
                note_scheduled(place.label)
                if made_set.problem:
                    self.stderr.write(describe_rest(made_set))
            except Exception as error:  # noqa: BLE001 (it is noted, an incident tells of it, and the next attempt may do)
                self.stderr.write(f"the backup failed: {error}")
                if not isinstance(error, BackupUnderWay):  # which ends with a note of its own
                    note_attempt(place.label, began_at, error)
                time.sleep(min(RETRY_SECONDS, settings.BACKUP_SECONDS))


def describe(envelope: Envelope) -> str:
    """A set in a line."""
    encryption = f"encrypted by {envelope.encryption}" if envelope.encryption else "not encrypted"
    return (
        f"{envelope.name}: {envelope.vendor} and {envelope.files:,} files, {filesizeformat(envelope.size)}, "
        f"{filesizeformat(envelope.copied)} of them newly copied, {encryption}, of release {envelope.code}"
    )


def describe_rest(made_set: MadeSet) -> str:
    """Why older sets are still there, in a line."""
    return f"set {made_set.envelope.name} is whole, and older ones could not be removed: {made_set.problem}"


def summarise(envelope: Envelope) -> dict[str, Any]:
    """A set for programs."""
    names = ("name", "begun_at", "finished_at", "code", "vendor", "encryption", "files", "size", "copied", "lost")
    return {name: getattr(envelope, name) for name in names} | {"objects": len(envelope.objects)}
