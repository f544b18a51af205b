"""How old the newest backup is, and whether that is too old."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone
from django.utils.timesince import timesince

from leaderboard.models import Backup, Release

LATE_AFTER = 2  # times BACKUP_SECONDS


@dataclass(frozen=True)
class BackupState:
    """newest: the newest whole backup; failure: the last attempt, where it failed; problem: a sentence, or empty."""

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
    last = Backup.objects.order_by("-begun_at", "-pk").first()
    failure = last if last and last.problem else None
    return BackupState(newest, failure, _describe(newest, failure, moment) if settings.BACKUP_SECONDS else "")


def describe_problem(moment: datetime) -> str:
    """What is wrong with the backups of a board that has them on a schedule, in a sentence; empty where nothing is."""
    return backup_state(moment).problem if settings.BACKUP_SECONDS else ""


def newest_backup() -> Backup | None:
    """The newest whole one."""
    return Backup.objects.filter(finished_at__isnull=False).order_by("-finished_at").first()


def next_backup_at() -> datetime:
    """When the next one is due by BACKUP_SECONDS."""
    newest = newest_backup()
    return newest.begun_at + timedelta(seconds=settings.BACKUP_SECONDS) if newest else timezone.now()


def _describe(newest: Backup | None, failure: Backup | None, moment: datetime) -> str:
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
