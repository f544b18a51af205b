"""What the host of a worker has: noted in the worker's row for those who hand out work."""

import logging

from django.db import connection

from leaderboard.models import Worker
from leaderboard.services.abilities import note_ability
from leaderboard.services.control import instrument_environment
from leaderboard.services.devices import measured_rates, name_of_precision, require_fast_precision
from leaderboard.services.folders import fetch_folder, name_of_scorer
from leaderboard.services.leases import LACKED_HERE, stop_requested
from leaderboard.services.scorers import scorer_for, scorers_in_use
from scoring.language_models.product_rates import SlowPrecision
from scoring.scorers import UnknownScorer, find_declaration

log = logging.getLogger(__name__)

NOTED_EVERY = 60.0  # seconds


def note_abilities(worker: str) -> None:
    """Note the libraries, the device and the speed of this host, and which scorers can be had, as far as files tell."""
    rates = measured_rates()
    Worker.objects.filter(name=worker).update(environment=instrument_environment(), rates=rates.as_json())
    for precision in rates.by_precision:
        try:
            require_fast_precision(precision)
        except SlowPrecision as error:
            note_ability(worker, name_of_precision(precision), problem=str(error))
        else:
            note_ability(worker, name_of_precision(precision))
    for scorer in scorers_in_use():
        try:
            fingerprint = look_at_scorer(scorer)
        except LACKED_HERE as error:
            note_ability(worker, name_of_scorer(scorer), problem=str(error))
        except OSError as error:
            log.warning("%s: its files cannot be fetched now: %s", scorer, error)
        else:
            note_ability(worker, name_of_scorer(scorer), fingerprint=fingerprint)


def keep_noting_abilities(worker: str) -> None:
    """As `note_abilities`, until the worker goes down: its thread, which notices what is brought to its host."""
    while not stop_requested.is_set():
        try:
            note_abilities(worker)
        except Exception:
            log.exception("what this host can do cannot be noted: it is tried again")
        finally:
            connection.close()  # this thread's own
        stop_requested.wait(NOTED_EVERY)


def look_at_scorer(scorer: str) -> str:
    """Fetch the scorer's files, and return its fingerprint where that takes no loading. Raises one of LACKED_HERE."""
    declaration = find_declaration(scorer)
    if declaration is None:
        raise UnknownScorer(f"there is no scorer {scorer!r} on this host: install it, or set PLUMBLINE_SCORER_MODULES")
    if declaration.quick:
        return scorer_for(scorer, "look").fingerprint()
    fetch_folder(name_of_scorer(scorer))
    return ""
