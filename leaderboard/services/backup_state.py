"""How old the newest backup is, and whether that is too old. On a schedule those count that lie in its place."""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.timesince import timesince

from leaderboard.models import Backup, Pulse, Release
from leaderboard.services.signs_of_life import pulse

LATE_AFTER = 2  # times BACKUP_SECONDS
PULSE = "backup:"  # and the hash of the place of the schedule, which only the process that makes backups is told


@dataclass(frozen=True)
class BackupState:
    """newest: the newest whole backup; problem: a sentence, or empty.

    failure: the last attempt, where it failed, or where older sets could not be removed after it.
    """

    newest: Backup | None
    failure: Backup | None
    problem: str

    @property
    def scheduled(self) -> bool:
        """Whether backups are made by themselves."""
        return bool(settings.BACKUP_SECONDS)

    @property
    def interval(self) -> timedelta:
        """The time between two backups."""
        return timedelta(seconds=settings.BACKUP_SECONDS)


def backup_state(moment: datetime) -> BackupState:
    """The state of the backups at `moment`."""
    newest = newest_backup()
    # A whole one elsewhere does not undo a failure of the schedule.
    last = (_counting_backups() | Backup.objects.filter(finished_at=None)).order_by("-begun_at", "-pk").first()
    failure = last if last and last.problem else None
    return BackupState(newest, failure, _describe(newest, failure, moment) if settings.BACKUP_SECONDS else "")


def describe_problem(moment: datetime) -> str:
    """What is wrong with the backups of a board that has them on a schedule, in a sentence; empty where nothing is."""
    return backup_state(moment).problem if settings.BACKUP_SECONDS else ""


def newest_backup() -> Backup | None:
    """The newest whole one; on a schedule, of those in its place."""
    return _newest(_counting_backups())


def next_backup_at(target: str) -> datetime:
    """When the next one in `target` is due by BACKUP_SECONDS."""
    newest = _newest(Backup.objects.filter(target=target))
    return newest.begun_at + timedelta(seconds=settings.BACKUP_SECONDS) if newest else timezone.now()


def note_scheduled(target: str) -> None:
    """Note that a backup was made in `target` by the schedule: those in this place count from now on."""
    pulse(_pulse_of(target))


def _newest(backups: QuerySet[Backup]) -> Backup | None:
    return backups.filter(finished_at__isnull=False).order_by("-finished_at").first()


def _counting_backups() -> QuerySet[Backup]:
    """The backups in the place of the schedule; all of them where there is none, or it made none yet."""
    last_pulse = Pulse.objects.filter(name__startswith=PULSE).order_by("-at").first()
    if not settings.BACKUP_SECONDS or last_pulse is None:
        return Backup.objects.all()
    targets = Backup.objects.order_by().values_list("target", flat=True).distinct()
    return Backup.objects.filter(target__in=[name for name in targets if _pulse_of(name) == last_pulse.name])


def _pulse_of(target: str) -> str:
    return PULSE + hashlib.sha256(target.encode()).hexdigest()[:32]


def _describe(newest: Backup | None, failure: Backup | None, moment: datetime) -> str:
    if failure and failure.finished_at:
        return f"The last backup is whole, and older ones could not be removed: {failure.problem}"
    if failure:
        newest_words = (
            f"the newest whole one is {timesince(newest.begun_at, moment)} old" if newest else "there is none yet"
        )
        return f"The last backup failed, and {newest_words}: {failure.problem}"
    first_release = Release.objects.last()
    start = newest.begun_at if newest else first_release.installed_at if first_release else moment
    if moment - start <= LATE_AFTER * timedelta(seconds=settings.BACKUP_SECONDS):
        return ""
    if newest is None:
        return "No backup was ever made, and BACKUP_SECONDS asks for them: start `manage.py backup --repeat`."
    return (
        f"The newest backup is {timesince(newest.begun_at, moment)} old: look at the process of "
        "`manage.py backup --repeat`, and at its target."
    )
