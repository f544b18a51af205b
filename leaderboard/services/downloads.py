"""Downloads of the files of hub models: a process that may be killed at any moment and resumes where it stopped.

The workers of a board share the cache (HF_HOME). Where the hub asks to wait, the work is put back until then, and no
worker sleeps.
"""

import logging
from functools import partial
from typing import NoReturn
from uuid import uuid4

from django.conf import settings
from django.db import transaction

from leaderboard.models import Download, LanguageModel, Run, Work
from leaderboard.services.abilities import may_be_elsewhere
from leaderboard.services.folders import HostLacks, name_of_model
from leaderboard.services.leases import Deferred, Lease, claim
from leaderboard.services.queue import enqueue
from leaderboard.services.submission_log import say_to_model
from scoring.language_models import HubBusy
from scoring.language_models.fetching import fetch_apart

log = logging.getLogger(__name__)

KILOBYTE = 1000
LONGEST_WAIT = 6 * 3600.0  # seconds, whatever a hub asks for


def fetch(download: Download) -> None:
    """Bring the files of a model that are not here yet, and let the runs begin that wait for them.

    Safe to call twice, late, or from two workers: one claims the download, the others return at once.
    """
    with claim(download) as lease:
        if lease is not None:
            fetch_files(download, lease)
    download.refresh_from_db()
    if download.state == Work.State.FAILED:  # by this worker, or given up as it was to be claimed once more
        fail_runs(download)


def fetch_files(download: Download, lease: Lease) -> None:
    """Bring the files of a model that are not here yet, under `lease`. Raises Deferred where the hub asks to wait."""
    model = download.model
    if download.attempts == 1:
        say_to_model(model, "Its files are fetched from the hub.")

    def progress(bytes_fetched: int) -> None:
        lease.note(done=bytes_fetched // KILOBYTE, total=bytes_fetched // KILOBYTE)

    try:
        fetch_apart(
            model.location,
            model.revision,
            settings.HUB_ENDPOINT,
            settings.HUB_TOKEN,
            quota=settings.HUB_CACHE_BYTES,
            progress=progress,
            check=lease.check,
            idle_seconds=settings.NO_PROGRESS_SECONDS,
            private_too=not model.was_submitted(),  # its owner may have made it private since it was looked up
        )
    except HubBusy as busy:
        raise Deferred(min(busy.seconds, LONGEST_WAIT), f"The hub asks to wait {busy.seconds:,.0f} s") from busy
    with transaction.atomic():
        lease.finish()
        for run in Run.objects.filter(model=model, state=Work.State.QUEUED).select_related("model"):
            transaction.on_commit(partial(enqueue, run))
    log.info("%s: here", download)
    say_to_model(model, "Its files are here; it waits for a worker to run it.")


def fail_runs(download: Download) -> None:
    """Fail the runs that waited for files that cannot be fetched, with the reason."""
    runs = Run.objects.filter(model=download.model_id, state=Work.State.QUEUED)
    runs.update(held=False, not_before=None)  # what is paused or waits cannot be begun either
    for run in runs:
        lease = uuid4()
        if run.claim(lease):
            run.release(lease, Work.State.FAILED, reason=download.reason, fault=download.fault)


def drop_unwanted() -> None:
    """Cancel downloads that no run waits for any more."""
    models = Run.objects.unfinished().values("model")
    Download.objects.exclude(model__in=models).cancel("no run waits for it")


def require_files(model: LanguageModel) -> NoReturn:
    """Queue a new download of a hub model whose files are gone from this host. Raises Deferred.

    Raises HostLacks where another host may have them: caches need not be shared.
    """
    if may_be_elsewhere(Run.kind.queue, name_of_model(model)):
        raise HostLacks(f"the files of {model.name} are not in the cache of this host")
    download, _ = Download.objects.get_or_create(model=model)
    Download.objects.filter(pk=download.pk, state=Work.State.DONE).update(state=Work.State.QUEUED, attempts=0)
    download.refresh_from_db()
    transaction.on_commit(partial(enqueue, download))
    raise Deferred(0, "Its files are not on this host any more: they are fetched again")
