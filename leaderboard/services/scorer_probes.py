"""Probes: workers load scorers before anybody needs one, to learn whether they can."""

import logging
from datetime import timedelta

from leaderboard.models import RetiredScorer, ScorerProbe
from leaderboard.models.clock import database_now
from leaderboard.services import scorers
from leaderboard.services.abilities import worker_name
from leaderboard.services.leases import stop_requested
from scoring.scorers import ScorerUnavailable, UnknownScorer
from scoring.scorers.lexicon import LexiconError

log = logging.getLogger(__name__)

TRIED_AGAIN_AFTER = timedelta(minutes=10)  # after a failure: an operator may have fixed it
LOOKED_AGAIN_AFTER = timedelta(days=1)


def due_probes() -> list[str]:
    """Names of the scorers that metrics use and no worker has tried to load lately."""
    moment = database_now()
    names = set(scorers.scorers_in_use()) - set(RetiredScorer.objects.values_list("name", flat=True))
    for probe in ScorerProbe.objects.filter(name__in=names):
        if moment - probe.probed_at < (TRIED_AGAIN_AFTER if probe.problem else LOOKED_AGAIN_AFTER):
            names.discard(probe.name)
    return sorted(names)


def probe_scorers() -> int:
    """Load each scorer that is due, one after the other, and note the outcome; returns the number of probes.

    Nothing is downloaded: a scorer that would have to be cannot be loaded. A worker that has to stop leaves the rest to
    the next worker.
    """
    count = 0
    for name in due_probes():
        if stop_requested.is_set():
            break
        count += 1
        problem = ""
        try:
            scorers.scorer_for(name, "probe", may_fetch=False)
        except (ScorerUnavailable, UnknownScorer, LexiconError) as error:
            problem = str(error)
        except Exception as error:
            log.exception("the scorer %s cannot be loaded", name)
            problem = f"{type(error).__name__}: {error}"
        ScorerProbe.objects.update_or_create(
            name=name, defaults={"problem": problem, "worker": worker_name(), "probed_at": database_now()}
        )
    return count


def unloadable_scorers() -> dict[str, str]:
    """The scorers that workers could not load when they last tried, and why. One query."""
    return dict(ScorerProbe.objects.exclude(problem="").values_list("name", "problem"))
