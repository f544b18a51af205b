"""Retire a scorer: it scores nothing new under any metric, and its scores stay."""

from django.contrib.auth.models import User
from django.db import transaction

from leaderboard.models import AuditVerb, Metric, Rescoring, RetiredScorer
from leaderboard.services.audit import record
from leaderboard.services.locks import lock_metrics
from scoring.refusals import Refused
from scoring.scorers import is_scorer


def retire_scorer(name: str, reason: str, user: User | None = None) -> bool:
    """Retire the scorer `name`; returns whether it was in use. Raises Refused.

    Its metrics keep their rankings, are evaluated and checked no more, and go on with another scorer once they are
    rescored with that one. What waits to be scored with it fails, with this reason.
    """
    _check(name, reason)
    with transaction.atomic():
        metrics = [
            metric.slug for metric in lock_metrics(Metric.objects.filter(scorer=name).values_list("pk", flat=True))
        ]
        to_it = Rescoring.objects.active().filter(to_version__scorer=name).select_related("metric").first()
        if to_it:
            raise Refused(f"{to_it.metric.slug} is being rescored with {name}: cancel that rescoring first")
        _, new = RetiredScorer.objects.get_or_create(name=name, defaults={"reason": reason.strip()})
        if new:
            detail = {"scorer": name, "reason": reason, "metrics": metrics}
            record(AuditVerb.RETIRE_SCORER, f"scorer {name}", detail, user, ({"retired": False}, {"retired": True}))
    return new


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
