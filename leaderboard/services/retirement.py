"""Retiring a scorer: nothing new is scored with it, under any metric, and what it scored stays."""

from django.contrib.auth.models import User
from django.db import transaction

from leaderboard.models import Metric, Rescoring, RetiredScorer
from leaderboard.services.audit import record
from leaderboard.services.locks import lock_metrics
from scoring.scorers import is_scorer


class CannotRetire(ValueError):
    """The request makes no sense now; the message says why and what to do."""


def retire_scorer(name: str, reason: str, user: User | None = None) -> bool:
    """Retire the scorer called `name`; says whether it was in use before. Raises CannotRetire.

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
            raise CannotRetire(f"{to_it.metric.slug} is being rescored with {name}: cancel that rescoring first")
        _, new = RetiredScorer.objects.get_or_create(name=name, defaults={"reason": reason.strip()})
        if new:
            detail = {"scorer": name, "reason": reason, "metrics": metrics}
            record("retire scorer", f"scorer {name}", detail, user, ({"retired": False}, {"retired": True}))
    return new


@transaction.atomic
def bring_back_scorer(name: str, reason: str, user: User | None = None) -> bool:
    """Let a retired scorer be used again; says whether it was retired. Raises CannotRetire."""
    _check(name, reason)
    gone, _ = RetiredScorer.objects.filter(name=name).delete()
    if gone:
        detail = {"scorer": name, "reason": reason}
        record("bring back scorer", f"scorer {name}", detail, user, ({"retired": True}, {"retired": False}))
    return bool(gone)


def _check(name: str, reason: str) -> None:
    asks = {metric.formula.asks_scorer for metric in Metric.objects.filter(scorer=name)}
    if asks == {False}:
        raise CannotRetire(f"scorer = {name!r}: its metrics are of likelihoods, which no scorer judges")
    if not (asks or is_scorer(name)):
        known = ", ".join(sorted(set(Metric.objects.values_list("scorer", flat=True))))
        raise CannotRetire(f"scorer = {name!r} is none; metrics here use {known or 'none yet'}")
    if not reason.strip():
        raise CannotRetire("reason: it is empty; say why, the record shows it for ever")
