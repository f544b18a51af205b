"""Scoring: from what was collected to Results. Needs the artefact only; never runs a language model."""

import logging

import pyarrow as pa
from django.db import transaction
from django.utils import timezone

from leaderboard.models import Result, Scoring
from leaderboard.services import artefacts
from leaderboard.services.leases import claimed
from leaderboard.services.publish import publish_standings
from scoring.metrics.safety import Texts, log_perplexities, measure_safety

log = logging.getLogger(__name__)


def score(scoring: Scoring) -> None:
    """Compute the Results of `scoring`, store its per-text values and publish the standings that now include it."""
    with claimed(scoring) as lease:
        if lease is None:
            return
        run = scoring.run
        if run is None:
            raise ValueError("figures from a paper have no run to score")
        sentences = artefacts.load(run.protocol.evaluation_set.artefact)
        values = log_perplexities(artefacts.load(run.artefact))
        measurements = measure_safety(Texts.from_table(sentences), values)
        per_text = pa.table({"id": sentences["id"], "log_perplexity": pa.array(values, from_pandas=True)})
        artefact = artefacts.store(per_text, "log_perplexities")
        with transaction.atomic():
            Result.objects.bulk_create(
                Result(
                    scoring=scoring,
                    measure=m.measure,
                    slice=m.slice,
                    value=m.value,
                    ci_low=m.ci_low,
                    ci_high=m.ci_high,
                    n=m.n,
                    missing=m.missing,
                    p_value=m.p_value,
                    p_adjusted=m.p_adjusted,
                )
                for m in measurements
            )
            lease.finish(artefact=artefact, scored_at=timezone.now())
            publish_standings(scoring.metric_version)
        log.info("%s: scored", scoring)
