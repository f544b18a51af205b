"""Whether scorers can be had, tried out by workers before anybody asks for one."""

import logging
from datetime import timedelta

from django.utils import timezone

from leaderboard.models import Metric, RetiredScorer, ScorerProbe
from leaderboard.services import scorers
from leaderboard.services.abilities import worker_name
from leaderboard.services.leases import stop_requested
from scoring.scorers import ScorerUnavailable, UnknownScorer
from scoring.scorers.lexicon import LexiconError

log = logging.getLogger(__name__)

TRIED_AGAIN_AFTER = timedelta(minutes=10)  # where it could not be loaded: somebody may have mended it
LOOKED_AGAIN_AFTER = timedelta(days=1)


def due_probes() -> list[str]:
    """Names of the scorers that metrics use and that nobody tried to load lately."""
    now = timezone.now()
    used = {metric.scorer for metric in Metric.objects.all() if metric.formula.asks_scorer}
    used -= set(RetiredScorer.objects.values_list("name", flat=True))
    for probe in ScorerProbe.objects.filter(name__in=used):
        if now - probe.probed_at < (TRIED_AGAIN_AFTER if probe.problem else LOOKED_AGAIN_AFTER):
            used.discard(probe.name)
    return sorted(used)


def probe_scorers() -> int:
    """Load each scorer that is due, one after the other, and note what came of it; returns how many.

    A worker that is asked to stop leaves the others to the next one.
    """
    probed = 0
    for name in due_probes():
        if stop_requested.is_set():
            break
        probed += 1
        problem = ""
        try:
            scorers.scorer_for(name, "probe")
        except (ScorerUnavailable, UnknownScorer, LexiconError) as error:
            problem = str(error)
        except Exception as error:
            log.exception("the scorer %s cannot be loaded", name)
            problem = f"{type(error).__name__}: {error}"
        ScorerProbe.objects.update_or_create(
            name=name, defaults={"problem": problem, "worker": worker_name(), "probed_at": timezone.now()}
        )
    return probed


def unloadable_scorers() -> dict[str, str]:
    """The scorers that workers could not load when they last tried, and why. One query."""
    return dict(ScorerProbe.objects.exclude(problem="").values_list("name", "problem"))
