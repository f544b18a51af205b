"""Opening a version: its control set is scored again and again, and frozen once the scorer is known to be steady.

What waits for the version does the scorings, one at a time: whichever scoring a worker has next makes the replicate
that is due and gives its own work back. So a remote scorer is watched for as long as OPENING_SPREAD_SECONDS says while
no worker sleeps, and a killed worker loses one replicate.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime, timedelta
from functools import partial

import numpy as np
import pyarrow as pa
from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Exists, F, Q
from django.db.models.functions import Now

from leaderboard.models import Artefact, ControlSet, MetricVersion, Opening, Replicate, Scoring, Work
from leaderboard.models.clock import database_now, from_now
from leaderboard.models.work import WaitsFor
from leaderboard.services import artefacts, scorers
from leaderboard.services.control import choose_items, instrument_environment, instrument_of, scores_artefact
from leaderboard.services.leases import Deferred, Lease
from leaderboard.services.locks import lock_version
from leaderboard.services.policies import policy_of, thresholds_of
from leaderboard.services.submission_log import say_to_version
from leaderboard.services.versions import bind_anew
from scoring.artefacts import REPLICATES, SCORE
from scoring.drift import Reference, Unsteady, require_steady, score_replicate
from scoring.metrics.formulas import attributes_of, values_of
from scoring.metrics.instruments import Instrument

log = logging.getLogger(__name__)

FIRST_PAUSE = timedelta(minutes=1)  # after a scorer was not steady, or gave no answer; doubles with every further time
LONGEST_PAUSE = timedelta(hours=6)


def growing_pause(times: int) -> timedelta:
    """The pause after a scorer failed so many times in a row, from 1."""
    regular = timedelta(seconds=settings.CHECK_SECONDS)
    return min(FIRST_PAUSE * int(2 ** min(times - 1, 20)), LONGEST_PAUSE, regular)


def ensure_control_set(
    version: MetricVersion, scoring: Scoring | None = None, lease: Lease | None = None
) -> ControlSet:
    """The control set of `version`, made where there is none, for `scoring` under `lease`.

    Raises Deferred until all replicates are made, and while the scorer is not steady enough to open a version on: the
    reason says which. Raises ScorerUnavailable; ScorerChanged where another scorer than the version's has made numbers.
    """
    if control := find_control_set(version):
        return control
    scorers.look_again()  # what a worker has loaded may be another one by now
    instrument = instrument_of(version, scoring)
    opening = begin(version, instrument)
    with others_waiting(version), hold_opening(opening, lease):
        if control := find_control_set(version):  # another worker froze it while this one loaded the scorer
            opening.delete()
            return control
        begin_anew_if_changed(opening, instrument)
        if opening.items is None:
            choose_texts(opening, instrument, scoring)
        while (number := opening.replicates.count()) < opening.wanted:
            wait_until(due_at(opening, instrument), progress_of(opening), WaitsFor.OPENING)
            if lease:
                lease.check()
            score_once(opening, instrument_of(version, scoring), number, scoring)  # whose answers are none of before
            extend_hold(opening)
        return freeze(opening, instrument)


def find_control_set(version: MetricVersion) -> ControlSet | None:
    """The frozen control set of `version`, as the database has it now."""
    return ControlSet.objects.filter(metric_version=version).first()


def begin(version: MetricVersion, instrument: Instrument) -> Opening:
    """The opening of `version`, made where there is none."""
    values = {
        "wanted": min(settings.OPENING_REPLICATES, instrument.most_replicates or settings.OPENING_REPLICATES),
        "fingerprint": instrument.fingerprint,
        "environment": instrument_environment(),
    }
    return Opening.objects.get_or_create(metric_version=version, defaults=values)[0]


def choose_texts(opening: Opening, instrument: Instrument, scoring: Scoring | None) -> None:
    """Choose the items of the opening, by scores of more texts than that.

    Raises ScorerUnavailable; Deferred where another worker has brought the opening to its end.
    """
    opening.items = choose_items(opening.metric_version, instrument)
    forget_replies(scoring)  # a replicate is a scoring of its own
    Opening.objects.filter(pk=opening.pk).update(items=opening.items)
    extend_hold(opening)


def begin_anew_if_changed(opening: Opening, instrument: Instrument) -> None:
    """Drop the replicates of another scorer than the current one."""
    opening.refresh_from_db()
    if opening.fingerprint != instrument.fingerprint:
        opening.replicates.all().delete()
        opening.fingerprint, opening.environment = instrument.fingerprint, instrument_environment()
        opening.save(update_fields=["fingerprint", "environment"])


@contextmanager
def hold_opening(opening: Opening, lease: Lease | None) -> Iterator[None]:
    """Hold the opening for the block, and for as long as `lease` is renewed, however long a scorer takes.

    Raises Deferred while another worker holds it, or until it is due again.
    """
    free = Q(not_before__isnull=True) | Q(not_before__lte=Now())
    if not Opening.objects.filter(free, pk=opening.pk).update(not_before=from_now(settings.LEASE_SECONDS)):
        current = Opening.objects.filter(pk=opening.pk).first()
        if current:
            waits_for = WaitsFor.STEADINESS if current.reason else WaitsFor.OPENING
            wait_until(current.not_before, current.reason or progress_of(current), waits_for)
        raise Deferred(0)
    try:
        with lease.renewing(partial(renew_hold, opening)) if lease else nullcontext():
            yield
    except Deferred as wait:
        Opening.objects.filter(pk=opening.pk).update(not_before=from_now(wait.seconds))
        raise
    except Exception:
        Opening.objects.filter(pk=opening.pk).update(not_before=None)
        raise


@contextmanager
def others_waiting(version: MetricVersion) -> Iterator[None]:
    """Where the block has to wait, let all entries of `version` wait as long: each would only find the same."""
    try:
        yield
    except Deferred as wait:
        if wait.waits_for:
            is_opened = Exists(Opening.objects.filter(metric_version=version))  # or what froze it has woken them
            ready = version.scorings.unclaimed().filter(Scoring.kind.ready, is_opened, waits_since__isnull=True)
            ready.filter(state=Work.State.QUEUED).update(
                not_before=from_now(wait.seconds), reason=wait.reason, fault="", waits_for=wait.waits_for
            )
        raise


def progress_of(opening: Opening) -> str:
    """The progress of the opening, in words."""
    return f"{opening.replicates.count()} of {opening.wanted} scorings are made"


def renew_hold(opening: Opening) -> bool:
    """Hold the opening for another lease; False where there is none any more."""
    return bool(Opening.objects.filter(pk=opening.pk).update(not_before=from_now(settings.LEASE_SECONDS)))


def extend_hold(opening: Opening) -> None:
    """Hold the opening for another lease. Raises Deferred where another worker has brought it to its end."""
    if not renew_hold(opening):
        raise Deferred(0)


def wait_until(moment: datetime | None, reason: str, waits_for: str) -> None:
    """Raise Deferred until `moment`."""
    seconds = (moment - database_now()).total_seconds() if moment else 0.0
    if seconds > 0:
        raise Deferred(seconds, reason, waits_for)


def due_at(opening: Opening, instrument: Instrument) -> datetime | None:
    """When the next replicate is due: they are spread evenly; None for at once."""
    last = opening.replicates.last()
    if last is None or not instrument.remote:
        return None
    return last.scored_at + timedelta(seconds=settings.OPENING_SPREAD_SECONDS / max(1, opening.wanted - 1))


def score_once(opening: Opening, instrument: Instrument, number: int, scoring: Scoring | None) -> None:
    """Make one replicate. Raises ScorerUnavailable."""
    items = artefacts.load(opening.items)
    values = score_replicate(instrument.score, items["text"].to_pylist(), number)
    artefact = scores_artefact(items["id"].to_pylist(), values.astype(np.float32), instrument.attributes)
    forget_replies(scoring)  # a scoring of its own, not the echo of the one before
    try:
        with transaction.atomic():
            Replicate.objects.create(opening=opening, number=number, artefact=artefact)
    except IntegrityError:
        log.warning("%s: another worker made replicate %d, too", opening, number)


def freeze(opening: Opening, instrument: Instrument) -> ControlSet:
    """Freeze the replicates as a control set and resume waiting work. Raises Deferred where the scorer is unsteady.

    A control set that another worker froze meanwhile stays: entries may be scored under it by now.
    """
    version, items = opening.metric_version, opening.items
    assert items is not None  # noqa: S101 (for mypy: there are replicates of them)
    tables = [artefacts.load(replicate.artefact) for replicate in opening.replicates.select_related("artefact")]
    try:
        reference = Reference(np.stack([values_of(table) for table in tables]).astype(np.float64), instrument.rounding)
        thresholds = thresholds_of(version.metric, instrument.declared)
        require_steady(reference, attributes_of(tables[0]), policy_of(version.metric, instrument.declared), thresholds)
    except (Unsteady, ValueError) as error:
        raise refuse(opening, str(error)) from error
    stored_reference = store_reference(tables[0]["id"].to_pylist(), reference, attributes_of(tables[0]))
    with transaction.atomic():
        version = lock_version(version.pk)
        control = find_control_set(version)
        if control is None:
            if instrument.binding:
                bind_anew(version, opening.fingerprint)
            control = ControlSet.objects.create(
                metric_version=version,
                items=items,
                reference=stored_reference,
                noise=reference.noise,
                fingerprint=opening.fingerprint,
                environment=opening.environment,
            )
        Opening.objects.filter(pk=opening.pk).delete()
        scorings = version.scorings.filter(waits_for__in=[WaitsFor.OPENING, WaitsFor.STEADINESS])
        scorings.filter(state=Work.State.QUEUED).update(not_before=None, reason="", waits_for="")
    return control


def refuse(opening: Opening, reason: str) -> Deferred:
    """Drop the replicates, to begin again after a growing pause; returns the error to raise."""
    opening.replicates.all().delete()
    if not Opening.objects.filter(pk=opening.pk).update(refusals=F("refusals") + 1, reason=reason):
        return Deferred(0)  # another worker brought it to its end
    opening.refresh_from_db()
    version = opening.metric_version
    log.warning("%s: not opened: %s", version, reason)
    say_to_version(version, f"Version {version.number} of {version.metric.title} is not opened: {reason}.")
    return Deferred(growing_pause(opening.refusals).total_seconds(), reason, WaitsFor.STEADINESS)


def forget_replies(scoring: Scoring | None) -> None:
    """Drop the answers that a remote scorer gave for `scoring`, where there is one."""
    if scoring:
        scorers.forget_replies(scoring)


def store_reference(ids: list[str], reference: Reference, attributes: list[str]) -> Artefact:
    """The centres of texts with their replicates, stored."""
    columns = {"id": pa.array(ids, pa.string())}
    for number, name in enumerate(attributes):
        columns[SCORE + name] = pa.array(reference.centre[:, number], pa.float32(), from_pandas=True)
        lists = reference.replicates[:, :, number].T.astype(np.float32)
        columns[REPLICATES + name] = pa.array(list(lists), pa.list_(pa.float32()))
    return artefacts.store(pa.table(columns), "control_reference")


def load_reference(control: ControlSet, rounding: float) -> Reference:
    """What `store_reference` stored of a control set. Raises FileNotFoundError."""
    table = artefacts.load(control.reference)
    columns = [table[REPLICATES + name].combine_chunks() for name in attributes_of(table)]
    replicates = [
        column.values.to_numpy(zero_copy_only=False).reshape(len(column), -1).T.astype(np.float64) for column in columns
    ]
    return Reference(np.stack(replicates, axis=2), rounding)
