"""Scoring: from what was collected to Results. Needs the artefact only; never runs a language model."""

import logging

import pyarrow as pa
from django.db import transaction
from django.utils import timezone

from leaderboard.models import (
    EntryCheck,
    EvaluationSet,
    MetricVersion,
    OutdatedEntry,
    Rescoring,
    Result,
    Scoring,
    Work,
)
from leaderboard.services import artefacts, scorers
from leaderboard.services.abilities import note_ability, worker_name
from leaderboard.services.audit import record
from leaderboard.services.checks import control_of, require_check, was_checked
from leaderboard.services.entry_checks import check_entry
from leaderboard.services.folders import name_of_scorer
from leaderboard.services.leases import Deferred, Lease, LeaseLost, ScorerChanged, claimed, given_back
from leaderboard.services.locks import lock_version
from leaderboard.services.openings import ensure_control_set
from leaderboard.services.publish import publish_standings
from leaderboard.services.rescore import advance
from leaderboard.services.shards import Shards
from leaderboard.services.submission_log import say
from leaderboard.services.upgrade import catch_up, describe_lag
from leaderboard.services.versions import bind, keep_attributes
from scoring.artefacts import SCORE
from scoring.metrics.formulas import Collected
from scoring.metrics.measures import Measurement
from scoring.metrics.safety import log_perplexities
from scoring.scorers import Scorer

log = logging.getLogger(__name__)

UPGRADE_SECONDS = 60.0  # until work of newer code is looked at again


def score(scoring: Scoring) -> bool:
    """Compute the Results of `scoring`, store its per-text values and publish the standings that now include it.

    Says whether it was there to be claimed.
    """
    with claimed(scoring) as lease:
        if lease is None:
            return False
        run, version = scoring.run, scoring.metric_version
        if run is None:
            raise ValueError("figures from a paper have no run to score")
        check_open(version)
        if version.status == MetricVersion.Status.CURRENT:
            require_check(scoring)
        else:
            with given_back(Scoring, name_of_scorer(version.scorer)):
                ensure_control_set(version, scoring, lease)
        texts, outputs = artefacts.load(run.protocol.evaluation_set.artefact), artefacts.load(run.artefact)
        shards = None
        if version.metric.formula.asks_scorer:
            with given_back(Scoring, name_of_scorer(version.scorer)):
                per_text, shards = ask_scorer(scoring, lease, texts, outputs)
            artefact, scores = artefacts.store(per_text, "scores"), per_text
        else:
            per_text, scores = log_perplexities_table(outputs), None
            artefact = artefacts.store(per_text, "log_perplexities")
        measurements = version.metric.formula.measure(
            collected(run.protocol.evaluation_set, version, texts, outputs, scores)
        )
        replicates = replicates_table(measurements)
        with transaction.atomic():
            first = publishable(scoring)
            Result.objects.bulk_create(result(scoring, measurement) for measurement in measurements)
            lease.finish(
                artefact=artefact,
                replicates=artefacts.store(replicates, "replicates") if replicates.num_rows else None,
                texts=outputs.num_rows,
                texts_missing=count_missing(per_text),
                scored_at=timezone.now(),
            )
            OutdatedEntry.objects.filter(metric_version=version, model=scoring.model).delete()
            check = check_entry(scoring)
            record_entry(scoring)
            if not rescoring_to(version):
                publish_standings(version)
                if first:
                    record(
                        "publish version", f"metric {version.metric.slug}", {"version": version.number, "entries": 1}
                    )
        if shards:
            shards.remove()
            scorers.forget_replies(scoring)
        log.info("%s: scored", scoring)
        say(scoring, f"Scored under version {version.number} of {version.metric.title}.")
        if check is not None and check.state == EntryCheck.State.HELD:
            say(scoring, f"Held back in {version.metric.title} until a moderator has looked: {' '.join(check.words)}")
        scoring.metric_version.refresh_from_db()
        if scoring.why_unranked:
            say(scoring, f"Shown and not ranked under {version.metric.title}: {scoring.why_unranked}.")
    rescoring = rescoring_to(scoring.metric_version)
    if rescoring:
        advance(rescoring)
    return True


def record_entry(scoring: Scoring) -> None:
    """Write into the audit trail that a model has its first numbers of a metric, or new ones outside of a rescoring."""
    version = scoring.metric_version
    before = Scoring.objects.filter(
        model=scoring.model, metric_version__metric=version.metric_id, state=Work.State.DONE
    ).exclude(pk=scoring.pk)
    new = not before.exists()
    if new or not rescoring_to(version):
        verb = "add entry" if new else "score entry again"
        record(verb, f"metric {version.metric.slug}", {"model": scoring.model.slug, "version": version.number})


def publishable(scoring: Scoring) -> bool:
    """Hold the scoring's version until the transaction ends; says whether it is the metric's first, without numbers.

    Raises Deferred where it became the current one since the scoring began, and nobody checked the scorer since then;
    LeaseLost where it is not open any more.
    """
    version = lock_version(scoring.metric_version_id)
    if version.status == MetricVersion.Status.CURRENT and not was_checked(scoring):
        raise Deferred(0)
    if version.status in MetricVersion.CLOSED:
        raise LeaseLost
    return version.status == MetricVersion.Status.CANDIDATE and not rescoring_to(version)


def rescoring_to(version: MetricVersion) -> Rescoring | None:
    """The rescoring under way that will publish `version` when all its entries are there."""
    return Rescoring.objects.active().filter(to_version=version).first()


def check_open(version: MetricVersion) -> None:
    """Raise where nothing can be scored under `version`: because it is closed, or not of this code.

    LeaseLost where it is behind the code, and its work has moved on to a new version. Deferred where this code is
    behind: another worker, or this one after its upgrade, does the work. ScorerChanged where it comes to nothing.
    """
    formula = version.metric.formula
    if version.status in MetricVersion.CLOSED:
        raise ScorerChanged(f"{version} is {version.status}: evaluate the model again, under the version of now")
    if version.formula_version > formula.version:
        raise Deferred(
            UPGRADE_SECONDS,
            f"{version} is of formula version {version.formula_version}, a worker has {formula.version}: upgrade it",
        )
    if catch_up(version.metric):
        raise LeaseLost
    if reason := describe_lag(version):
        raise ScorerChanged(
            f"{version} is behind the code: {reason} Run `manage.py rescore {version.metric.slug}` where no rescoring "
            "is under way, then evaluate the model again"
        )


def ask_scorer(scoring: Scoring, lease: Lease, texts: pa.Table, outputs: pa.Table) -> tuple[pa.Table, Shards]:
    """The `scores` of what the model made, and the checkpoints; those of the prompts too, where the version has none.

    Raises ScorerUnavailable; ScorerChanged where it is not the one of the metric version.
    """
    version = scoring.metric_version
    scorer = scorers.scorer_of(version, scoring)
    try:
        bind(version, scorer.fingerprint())
    except ScorerChanged:
        scorer = checked_scorer(scoring)
    note_ability(worker_name(), name_of_scorer(version.scorer), fingerprint=scorer.fingerprint())
    keep_attributes(version, scorer.attributes)
    made = version.metric.formula.texts(texts, outputs)
    prompts = [] if version.prompt_scores else texts["text"].to_pylist()
    found, shards = scorers.score_texts(scorer, [*prompts, *made], scoring, lease)
    if prompts:
        of_prompts = with_ids(found.slice(0, len(prompts)), texts["id"], pa.nulls(len(prompts), pa.int32()))
        version.keep_prompt_scores(artefacts.store(of_prompts, "scores"))
    return with_ids(found.slice(len(prompts)), outputs["prompt_id"], outputs["index"]), shards


def checked_scorer(scoring: Scoring) -> Scorer:
    """The scorer as it is now, where this worker kept one that is not the version's, or a check says it is as good.

    Raises what `require_check` does; ScorerChanged where there is nothing to check against yet.
    """
    version = scoring.metric_version
    scorers.look_again()
    scorer = scorers.scorer_of(version, scoring)
    control = control_of(version.metric)
    if scorer.fingerprint() != version.scorer_fingerprint and control and control.metric_version == version:
        require_check(scoring, scorer.fingerprint())
    bind(version, scorer.fingerprint())
    return scorer


def with_ids(scores: pa.Table, ids: pa.ChunkedArray, indexes: pa.Array) -> pa.Table:
    """Scores with the columns that say of which text they are."""
    return scores.append_column("id", ids).append_column("index", indexes)


def log_perplexities_table(likelihoods: pa.Table) -> pa.Table:
    """Rows of the `log_perplexities` schema."""
    values = pa.array(log_perplexities(likelihoods), from_pandas=True)
    return pa.table({"id": likelihoods["id"], "log_perplexity": values})


def count_missing(per_text: pa.Table) -> int:
    """How many rows of a `scores` or `log_perplexities` table have no value: every attribute of a text has one, or none
    has."""
    value = next(name for name in per_text.column_names if name.startswith(SCORE) or name == "log_perplexity")
    return int(per_text[value].null_count)


def collected(
    evaluation_set: EvaluationSet, version: MetricVersion, texts: pa.Table, outputs: pa.Table, scores: pa.Table | None
) -> Collected:
    """What the metric's formula starts from."""
    published, own = evaluation_set.prompt_scores, version.prompt_scores
    return Collected(
        texts,
        outputs,
        scores,
        artefacts.load(published) if published else None,
        artefacts.load(own) if own else None,
        version.declared,
    )


def replicates_table(measurements: list[Measurement]) -> pa.Table:
    """Rows of the `replicates` schema, for the measurements that a bootstrap resampled."""
    found = [m for m in measurements if m.replicates is not None]
    columns = {
        "measure": pa.array([m.measure for m in found], pa.string()),
        "slice": pa.array([m.slice for m in found], pa.string()),
        "values": pa.array([m.replicates for m in found], pa.list_(pa.float32())),
    }
    return pa.table(columns)


def result(scoring: Scoring, m: Measurement) -> Result:
    """The row of one measurement."""
    return Result(
        scoring=scoring,
        measure=m.measure,
        slice=m.slice,
        value=m.value,
        ci_low=m.ci_low,
        ci_high=m.ci_high,
        n=m.n,
        missing=m.missing,
        missing_texts=m.missing_texts,
        worst_low=m.worst_low,
        worst_high=m.worst_high,
        p_value=m.p_value,
        p_adjusted=m.p_adjusted,
    )
