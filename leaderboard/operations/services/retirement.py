"""Retire a scorer: it scores nothing new under any metric, and its scores stay.

An operator does it, or the board itself where the scorer cannot be had any more: the service behind it ended.
"""

import logging

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q

from leaderboard.models import AuditVerb, Metric, Rescoring, RetiredScorer
from leaderboard.services.audit import record
from leaderboard.services.locks import lock_metrics
from leaderboard.services.rescore import end
from leaderboard.services.scorers import end_of, problem_with, scorers_in_use
from scoring.refusals import Refused
from scoring.scorers import ScorerState, ScorerUnavailable, is_scorer

log = logging.getLogger(__name__)


def retire_scorer(name: str, reason: str, user: User | None = None) -> bool:
    """Retire the scorer `name`; returns whether it was in use. Raises Refused.

    Its metrics keep their rankings, are evaluated and checked no more, and go on with another scorer once they are
    rescored with that one. What waits to be scored with it fails, with this reason.
    """
    _check(name, reason)
    with transaction.atomic():
        metrics = lock_metrics(Metric.objects.filter(scorer=name).values_list("pk", flat=True))
        to_it = Rescoring.objects.active().filter(to_version__scorer=name).select_related("metric").first()
        if to_it:
            raise Refused(f"{to_it.metric.slug} is being rescored with {name}: cancel that rescoring first")
        return _note_retirement(name, reason, metrics, user)


def retire_ended_scorers() -> list[str]:
    """Retire the scorers in use that cannot be had any more, and end the rescorings to them; returns their names.

    Readers keep the versions that they see. The audit trail names no person: the board does it.
    """
    names = set(scorers_in_use()) | set(Rescoring.objects.active().values_list("to_version__scorer", flat=True))
    retired_scorers = {scorer.name: scorer for scorer in RetiredScorer.objects.all()}
    ended_names = []
    for name in sorted(names - retired_scorers.keys()):
        problem = problem_with(name, retired_scorers)
        if problem and problem.state is ScorerState.RETIRED and _retire_ended(name, problem):
            log.warning("%s is retired by the board: %s", name, problem)
            ended_names.append(name)
    return ended_names


@transaction.atomic
def _retire_ended(name: str, problem: ScorerUnavailable) -> bool:
    active = Rescoring.objects.active().filter(to_version__scorer=name)
    metrics = Metric.objects.filter(Q(scorer=name) | Q(pk__in=active.values("metric")))
    asking_metrics = lock_metrics(metrics.values_list("pk", flat=True))
    last_day = end_of(name)
    reason = f"its service ended on {last_day:%-d %B %Y}" if last_day else str(problem)
    for rescoring in active.select_related("metric", "from_version", "to_version"):
        end(rescoring, f"{name} is retired: {reason}")
    return _note_retirement(name, reason, asking_metrics)


def _note_retirement(name: str, reason: str, metrics: list[Metric], user: User | None = None) -> bool:
    _, is_new = RetiredScorer.objects.get_or_create(name=name, defaults={"reason": reason.strip()})
    if is_new:
        detail = {"scorer": name, "reason": reason, "metrics": [metric.slug for metric in metrics]}
        record(AuditVerb.RETIRE_SCORER, f"scorer {name}", detail, user, ({"retired": False}, {"retired": True}))
    return is_new


@transaction.atomic
def bring_back_scorer(name: str, reason: str, user: User | None = None) -> bool:
    """Bring a retired scorer back; returns whether it was retired. Raises Refused."""
    _check(name, reason)
    count, _ = RetiredScorer.objects.filter(name=name).delete()
    if count:
        detail = {"scorer": name, "reason": reason}
        record(AuditVerb.BRING_BACK_SCORER, f"scorer {name}", detail, user, ({"retired": True}, {"retired": False}))
    return bool(count)


def _check(name: str, reason: str) -> None:
    scorers = {metric.asked_scorer for metric in Metric.objects.filter(scorer=name)}
    if scorers == {""}:
        raise Refused.of_value("scorer", name, "its metrics are of likelihoods, which no scorer judges")
    if not (scorers or is_scorer(name)):
        known_scorers = ", ".join(sorted(set(Metric.objects.values_list("scorer", flat=True))))
        raise Refused(f"scorer = {name!r} is none; metrics here use {known_scorers or 'none yet'}")
    if not reason.strip():
        raise Refused.of_field("reason", "it is empty; say why, the record shows it for ever")
