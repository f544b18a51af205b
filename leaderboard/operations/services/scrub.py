"""Check stored files before somebody needs them: a share each night, all of them within a week."""

import logging
import math
import time

from django.conf import settings
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from leaderboard.models import Artefact
from leaderboard.services.artefacts import ArtefactLost, require_storage, verify_stored

log = logging.getLogger(__name__)

NIGHTS = 6  # in which all files are read: a week may lack a night


def scrub() -> tuple[int, int]:
    """Check the files whose last check is oldest. Returns how many, and how many of them are lost.

    It ends after SLICE_SECONDS, or the broker would hand it out again while it goes on: the rest is first next time.
    Raises StorageAway: of files on a storage that is not there nothing is known.
    """
    require_storage()
    stored_files = Artefact.objects.exclude(state=Artefact.State.ABSENT)
    most = math.ceil(stored_files.count() / NIGHTS)
    read_count, lost_count, end = 0, 0, time.monotonic() + settings.SLICE_SECONDS
    for artefact in list(stored_files.order_by(F("checked_at").asc(nulls_first=True), "pk")[:most]):
        lost_count += not look_at(artefact)
        read_count += 1
        if time.monotonic() > end:
            break
    log.info("scrub: %d files read, %d of them lost", read_count, lost_count)
    return read_count, lost_count


def look_at(artefact: Artefact) -> bool:
    """Check one file and save its state; returns whether it is whole. Raises StorageAway."""
    whole = True
    try:
        verify_stored(artefact, reread=True)
    except ArtefactLost as error:
        log.error("%s", error)
        whole = False
    Artefact.objects.filter(pk=artefact.pk).update(checked_at=Now())
    return whole


def lost_files() -> QuerySet[Artefact]:
    """Return the damaged and missing files, latest check first."""
    return Artefact.objects.filter(state__in=Artefact.LOST).order_by("-checked_at", "pk")
