"""Metric versions: everything that fixes a metric's numbers, as one fingerprint."""

import hashlib
import json
from typing import Any

from django.db.models import Max

from leaderboard.models import Metric, MetricVersion, Provenance
from leaderboard.services.leases import ScorerChanged


def fingerprint(parts: dict[str, Any]) -> str:
    """sha256 of all that a scorer is made of."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def next_number(metric: Metric) -> int:
    """Versions of a metric are numbered from 1, published and measured ones alike."""
    return (metric.versions.aggregate(last=Max("number"))["last"] or 0) + 1


def open_first_version(metric: Metric) -> MetricVersion:
    """The first measured version of `metric`; it becomes current when its first standings are published.

    Returns the candidate that is already open where there is one. A version whose texts a scorer judges is bound to
    that scorer at its first scoring; one of likelihoods has no scorer but its formula.
    """
    formula = metric.formula
    known = "" if formula.asks_scorer else fingerprint({"scorer": metric.scorer, "formula_version": formula.version})
    open_already = metric.versions.filter(status=MetricVersion.Status.CANDIDATE, provenance=Provenance.MEASURED).first()
    return open_already or MetricVersion.objects.create(
        metric=metric,
        number=next_number(metric),
        protocol=metric.protocol,
        scorer=metric.scorer,
        scorer_fingerprint=known,
        formula_version=formula.version,
    )


def bind(version: MetricVersion, scorer_fingerprint: str) -> None:
    """Make the scorer of this fingerprint the version's own, if it has none; raise ScorerChanged where it has another.

    Numbers of two scorers never stand in one ranking, even where the scorer bears the same name.
    """
    MetricVersion.objects.filter(pk=version.pk, scorer_fingerprint="").update(scorer_fingerprint=scorer_fingerprint)
    version.refresh_from_db()
    if version.scorer_fingerprint != scorer_fingerprint:
        raise ScorerChanged(
            f"the scorer {version.scorer} is not the one of {version} any more (it was "
            f"{version.scorer_fingerprint[:12]}, now it is {scorer_fingerprint[:12]}): nothing is scored with it under "
            "this version"
        )
