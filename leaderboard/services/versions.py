"""Metric versions: everything that fixes a metric's numbers, as one fingerprint."""

import hashlib
import json
from typing import Any

from django.db.models import Max

from leaderboard.models import Metric, MetricVersion, Provenance
from scoring.metrics.safety import FORMULA_VERSION


def fingerprint(parts: dict[str, Any]) -> str:
    """sha256 of all that a scorer is made of."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def next_number(metric: Metric) -> int:
    """Versions of a metric are numbered from 1, published and measured ones alike."""
    return (metric.versions.aggregate(last=Max("number"))["last"] or 0) + 1


def open_first_version(metric: Metric) -> MetricVersion:
    """The first measured version of `metric`; it becomes current when its first standings are published.

    Returns the candidate that is already open where there is one.
    """
    scorer = {"scorer": metric.scorer, "formula_version": FORMULA_VERSION}
    open_already = metric.versions.filter(status=MetricVersion.Status.CANDIDATE, provenance=Provenance.MEASURED).first()
    return open_already or MetricVersion.objects.create(
        metric=metric,
        number=next_number(metric),
        protocol=metric.protocol,
        scorer_fingerprint=fingerprint(scorer),
        formula_version=FORMULA_VERSION,
    )
