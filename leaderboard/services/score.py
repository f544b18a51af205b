"""Scoring: from collected outputs to Results. Needs the artefact only; never runs a language model."""

import logging
from collections.abc import Sequence

import pyarrow as pa
from django.db import transaction
from django.db.models.functions import Now

from leaderboard.models import (
    AuditVerb,
    EntryCheck,
    MetricVersion,
    OutdatedEntry,
    Rescoring,
    Result,
    Scoring,
    Work,
)
from leaderboard.services import artefacts, scorers
from leaderboard.services.abilities import note_ability, worker_name
from leaderboard.services.alone import each_alone
from leaderboard.services.audit import record
from leaderboard.services.checks import control_of, require_check, was_checked
from leaderboard.services.entry_checks import check_entry
from leaderboard.services.folders import name_of_scorer
from leaderboard.services.leases import Deferred, Lease, LeaseLost, ScorerChanged, claim, give_back_if_unable
from leaderboard.services.locks import lock_version
from leaderboard.services.openings import ensure_control_set
from leaderboard.services.publish import publish_standings
from leaderboard.services.rescore import advance
from leaderboard.services.shards import Shards
from leaderboard.services.submission_log import say
from leaderboard.services.upgrade import catch_up, describe_lag
from leaderboard.services.versions import bind, keep_attributes, keep_chat_protocol
from scoring.metrics.kinds import Collected
from scoring.metrics.measures import Measurement
from scoring.scorers import Scorer

log = logging.getLogger(__name__)

UPGRADE_SECONDS = 60.0  # until work of newer code is looked at again


def score(scoring: Scoring) -> bool:
    """Compute the Results of `scoring`, store its per-text values and publish the standings that now include it.

    Returns whether this call claimed it.
    """
    with claim(scoring) as lease:
        if lease is None:
            return False
        run, version = scoring.run, scoring.metric_version
        if run is None:
            raise ValueError("figures from a paper have no run to score")
        check_open(version)
        if version.status == MetricVersion.Status.CURRENT:
            require_check(scoring)
        else:
            with give_back_if_unable(Scoring, name_of_scorer(version.scorer)):
                ensure_control_set(version, scoring, lease)
        texts, outputs = artefacts.load(run.protocol.evaluation_set.artefact), artefacts.load(run.artefact)
        formula, judge = version.metric.formula, ScorerCall(scoring, lease, texts)
        with give_back_if_unable(Scoring, name_of_scorer(version.scorer)):
            values = formula.values(texts, outputs, scoring.model.kind, judge)
        artefact = artefacts.store(values, formula.values_kind)
        measurements = formula.measure(gather_inputs(scoring, texts, outputs, values))
        replicates = replicates_table(measurements)
        with transaction.atomic():
            first = publishable(scoring)
            if run.protocol_id != version.protocol_id:
                keep_chat_protocol(version, run.protocol)
            Result.objects.bulk_create(result(scoring, measurement) for measurement in measurements)
            lease.finish(
                artefact=artefact,
                replicates=artefacts.store(replicates, "replicates") if replicates.num_rows else None,
                texts=values.num_rows,
                texts_missing=formula.count_missing(values),
                scored_at=Now(),
            )
            OutdatedEntry.objects.filter(metric_version=version, model=scoring.model).delete()
            check = check_entry(scoring)
            record_entry(scoring)
            if not rescoring_to(version):
                publish_standings(version)
                if first:
                    detail = {"version": version.number, "entries": 1}
                    record(AuditVerb.PUBLISH_VERSION, f"metric {version.metric.slug}", detail)
        judge.forget()
        log.info("%s: scored", scoring)
        say(scoring, f"Scored under version {version.number} of {version.metric.title}.")
        if check is not None and check.state == EntryCheck.State.HELD:
            say(scoring, f"Held back in {version.metric.title} until a moderator has looked: {' '.join(check.words)}")
        scoring.metric_version.refresh_from_db()
        if scoring.why_unranked:
            say(scoring, f"Shown and not ranked under {version.metric.title}: {scoring.why_unranked}.")
    rescoring = rescoring_to(scoring.metric_version)
    if rescoring:
        each_alone(advance, [rescoring])  # where a file is lost or the storage away, the sweep publishes later
    return True


def record_entry(scoring: Scoring) -> None:
    """Record in the audit trail that a model has its first numbers of a metric, or new ones outside a rescoring."""
    version = scoring.metric_version
    earlier_scorings = Scoring.objects.filter(
        model=scoring.model, metric_version__metric=version.metric_id, state=Work.State.DONE
    ).exclude(pk=scoring.pk)
    new = not earlier_scorings.exists()
    if new or not rescoring_to(version):
        verb = AuditVerb.ADD_ENTRY if new else AuditVerb.SCORE_ENTRY_AGAIN
        record(verb, f"metric {version.metric.slug}", {"model": scoring.model.slug, "version": version.number})


def publishable(scoring: Scoring) -> bool:
    """Lock the scoring's version until the transaction ends; returns whether it is the metric's first, without numbers.

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
    """The active rescoring that will publish `version` once all its entries are scored."""
    return Rescoring.objects.active().filter(to_version=version).first()


def check_open(version: MetricVersion) -> None:
    """Raise where nothing can be scored under `version`: because it is closed, or not of this code.

    LeaseLost where it is behind the code, and its work has moved on to a new version. Deferred where this code is
    behind: another worker, or this one after its upgrade, does the work. ScorerChanged where it comes to nothing.
    ScorerUnavailable where its scorer is retired.
    """
    formula = version.metric.formula
    if retirement := scorers.find_end(version.scorer):
        raise retirement
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


class ScorerCall:
    """Has the scorer of `scoring` judge texts, under `lease`; and the prompts too, where its version has no scores."""

    def __init__(self, scoring: Scoring, lease: Lease, prompts: pa.Table) -> None:
        self._scoring, self._lease, self._prompts = scoring, lease, prompts
        self._shards: Shards | None = None

    def __call__(self, texts: Sequence[str | None]) -> pa.Table:
        """The `scores` of texts. Raises ScorerUnavailable; ScorerChanged where it is not the one of the version."""
        version = self._scoring.metric_version
        scorer = scorers.scorer_of(version, self._scoring)
        try:
            bind(version, scorer.fingerprint())
        except ScorerChanged:
            scorer = checked_scorer(self._scoring)
        note_ability(worker_name(), name_of_scorer(version.scorer), fingerprint=scorer.fingerprint())
        keep_attributes(version, scorer.attributes)
        prompts = [] if version.prompt_scores else self._prompts["text"].to_pylist()
        scores, self._shards = scorers.score_texts(scorer, [*prompts, *texts], self._scoring, self._lease)
        if prompts:
            count = len(prompts)
            of_prompts = scores.slice(0, count).append_column("id", self._prompts["id"])
            of_prompts = of_prompts.append_column("index", pa.nulls(count, pa.int32()))
            version.keep_prompt_scores(artefacts.store(of_prompts, "scores"))
        return scores.slice(len(prompts))

    def forget(self) -> None:
        """Drop the checkpoints and the answers of a scorer, once the scores are stored."""
        if self._shards:
            self._shards.remove()
            scorers.forget_replies(self._scoring)


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


def gather_inputs(scoring: Scoring, texts: pa.Table, outputs: pa.Table, values: pa.Table) -> Collected:
    """The inputs of the metric's formula."""
    version = scoring.metric_version
    set_scores, version_scores = version.protocol.evaluation_set.prompt_scores, version.prompt_scores
    return Collected(
        texts,
        outputs,
        values,
        artefacts.load(set_scores) if set_scores else None,
        artefacts.load(version_scores) if version_scores else None,
        version.declared,
        scoring.model.kind,
    )


def replicates_table(measurements: list[Measurement]) -> pa.Table:
    """Rows of the `replicates` schema, for the measurements that a bootstrap resampled."""
    rows = [m for m in measurements if m.replicates is not None]
    columns = {
        "measure": pa.array([m.measure for m in rows], pa.string()),
        "slice": pa.array([m.slice for m in rows], pa.string()),
        "values": pa.array([m.replicates for m in rows], pa.list_(pa.float32())),
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
