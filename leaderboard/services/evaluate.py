"""Asking for a model to be evaluated under a metric."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from leaderboard.models import LanguageModel, Metric, MetricVersion, Protocol, RetiredScorer, Run, Scoring, Work
from leaderboard.services.locks import lock_metric
from leaderboard.services.queue import enqueue
from leaderboard.services.scorers import problem_with
from leaderboard.services.versions import newest_version, open_first_version
from scoring.scorers import ScorerState


class CannotEvaluate(ValueError):
    """The request makes no sense now; the message says why and what to do."""


class MetricUnavailable(CannotEvaluate):
    """Nothing can be evaluated under the metric now, and that is the board's to mend."""


def request_evaluation(model: LanguageModel, metric: Metric, *, send: bool = True) -> Scoring:
    """Queue what is missing for `model` to stand in the current version of `metric`, and return its scoring.

    `send=False` leaves it to the sweeper to tell the workers, for when there may be no broker yet. Idempotent: a run
    that is under way or done is used as it is; one that failed or was cancelled is tried again. Raises CannotEvaluate.
    """
    open_ones = LanguageModel.objects.filter(access=LanguageModel.Access.OPEN)
    if model.source == model.Source.PUBLISHED or not open_ones.filter(pk=model.pk).exists():
        why = "it stands for published figures" if model.source == model.Source.PUBLISHED else f"it is {model.access}"
        raise CannotEvaluate(f"{model.slug} cannot be evaluated: {why}")
    check_method(model, metric)
    check_metric(metric)
    with transaction.atomic():
        lock_metric(metric.pk)  # so that no version is given up as the model lands in it
        version = newest_version(metric) or open_first_version(metric)
        run = run_of(model, version)
        scoring, _ = Scoring.objects.get_or_create(model=model, metric_version=version, defaults={"run": run})
        for work in (run, scoring):
            work.queue_again()
        waiting = scoring if run.state == Work.State.DONE else run
        if send and waiting.state == Work.State.QUEUED:
            transaction.on_commit(lambda: enqueue(waiting))
    return scoring


def check_metric(metric: Metric, gone: Mapping[str, RetiredScorer] | None = None) -> None:
    """Raise CannotEvaluate where no model can be evaluated under the metric now. gone: as of `problem_with`."""
    texts = metric.protocol.evaluation_set
    if texts.artefact is None:
        raise MetricUnavailable(
            f"{metric.slug} needs the evaluation set {texts.slug}, which is not here: run `manage.py fetch_data "
            f"{texts.slug}` and `manage.py import_evaluation_set {texts.slug} PATH`"
        )
    problem = problem_with(metric.scorer, gone)
    if problem:
        refusal = CannotEvaluate if problem.state is ScorerState.RETIRED else MetricUnavailable
        raise refusal(f"{metric.slug} is {problem.state}: {problem}")


def run_of(model: LanguageModel, version: MetricVersion) -> Run:
    """The run that the version scores; made where outputs can be collected here. Raises CannotEvaluate."""
    of: dict[str, Any] = {"model": model, "protocol": version.protocol, "epoch": version.epoch}
    if LanguageModel.objects.evaluable().filter(pk=model.pk).exists():
        return Run.objects.get_or_create(**of)[0]
    run = Run.objects.filter(**of, state=Work.State.DONE).first()
    if run is None:
        raise CannotEvaluate(
            f"{model.slug} cannot be evaluated under {version}: its weights are not here, and nobody sent the outputs "
            "that it is of; who entered the model may send them, at /submit/outputs/"
        )
    return run


def check_method(model: LanguageModel, metric: Metric) -> None:
    """Raise CannotEvaluate where the model cannot give the outputs that the metric is of."""
    if metric.protocol.method == Protocol.LIKELIHOOD:
        if model.source == LanguageModel.Source.SERVER:
            raise CannotEvaluate(
                f"{model.slug} cannot be evaluated under {metric.slug}: a completions server gives continuations, no "
                "likelihoods; enter the model by its weights"
            )
    elif model.kind != LanguageModel.Kind.CAUSAL:
        raise CannotEvaluate(
            f"{model.slug} cannot be evaluated under {metric.slug}: it is a {model.kind} model, and only causal models "
            "continue texts"
        )
