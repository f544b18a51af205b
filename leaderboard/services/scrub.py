"""Reading stored files again before somebody needs them: a share each night, all of them within a week."""

import logging
import math

from django.db.models import F, QuerySet
from django.utils import timezone

from leaderboard.models import Artefact
from leaderboard.services.artefacts import ArtefactLost, require_storage, verify_stored

log = logging.getLogger(__name__)

NIGHTS = 6  # in which all files are read: a week may lack a night


def scrub() -> tuple[int, int]:
    """Read the files that nobody read for longest. Returns how many, and how many of them are lost.

    Raises StorageAway: of files on a storage that is not there nothing is known.
    """
    require_storage()
    kept = Artefact.objects.exclude(state=Artefact.State.ABSENT)
    share = math.ceil(kept.count() / NIGHTS)
    lost = 0
    chosen = list(kept.order_by(F("checked_at").asc(nulls_first=True), "pk")[:share])
    for artefact in chosen:
        lost += not look_at(artefact)
    log.info("scrub: %d files read, %d of them lost", len(chosen), lost)
    return len(chosen), lost


def look_at(artefact: Artefact) -> bool:
    """Read one file and note its state; says whether it is whole. Raises StorageAway."""
    whole = True
    try:
        verify_stored(artefact, anew=True)
    except ArtefactLost as error:
        log.error("%s", error)
        whole = False
    Artefact.objects.filter(pk=artefact.pk).update(checked_at=timezone.now())
    return whole


def lost_files() -> QuerySet[Artefact]:
    """Files that are damaged or missing, those that were found lately first."""
    return Artefact.objects.filter(state__in=Artefact.LOST).order_by("-checked_at", "pk")
