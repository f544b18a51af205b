"""Requests to evaluate a model under a metric."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from leaderboard.models import LanguageModel, Metric, MetricVersion, RetiredScorer, Run, Scoring, Service, Work
from leaderboard.services.locks import lock_metric
from leaderboard.services.queue import enqueue
from leaderboard.services.scorers import problem_with
from leaderboard.services.versions import hold_paused_work, newest_version, open_first_version
from scoring.likelihood.server import LikelihoodWay
from scoring.refusals import Refused
from scoring.scorers import ScorerState


class CannotEvaluate(Refused):
    """The request cannot be met now; the message says why and what to do."""


class MetricUnavailable(CannotEvaluate):
    """Nothing can be evaluated under the metric until an operator of the board fixes it."""


def request_evaluation(model: LanguageModel, metric: Metric, *, send: bool = True) -> Scoring:
    """Queue the missing work that ranks `model` in the current version of `metric`, and return its scoring.

    `send=False` leaves the messages to the sweeper, for when there may be no broker yet. Idempotent: a run that is
    under way or done is reused, and one that failed or was cancelled is tried again. Raises CannotEvaluate.
    """
    open_ones = LanguageModel.objects.filter(access=LanguageModel.Access.OPEN)
    if model.source == model.Source.PUBLISHED or not open_ones.filter(pk=model.pk).exists():
        reason = (
            "it stands for published figures" if model.source == model.Source.PUBLISHED else f"it is {model.access}"
        )
        raise CannotEvaluate(f"{model.slug} cannot be evaluated: {reason}")
    check_method(model, metric)
    check_metric(metric)
    with transaction.atomic():
        lock_metric(metric.pk)  # so that no version is given up as the model lands in it
        version = newest_version(metric) or open_first_version(metric)
        run = run_of(model, version)
        scoring, _ = Scoring.objects.get_or_create(model=model, metric_version=version, defaults={"run": run})
        for work in (run, scoring):
            work.queue_again()
        hold_paused_work([version])
        next_work = scoring if run.state == Work.State.DONE else run
        if send and next_work.state == Work.State.QUEUED:
            transaction.on_commit(lambda: enqueue(next_work))
    return scoring


def check_metric(metric: Metric, retired_scorers: Mapping[str, RetiredScorer] | None = None) -> None:
    """Raise CannotEvaluate where no model can be evaluated under the metric now.

    retired_scorers: as for `problem_with`.
    """
    texts = metric.protocol.evaluation_set
    if texts.artefact is None:
        raise MetricUnavailable(
            f"{metric.slug} needs the evaluation set {texts.slug}, which is not here: run `manage.py fetch_data "
            f"{texts.slug}` and `manage.py import_evaluation_set {texts.slug} PATH`"
        )
    problem = problem_with(metric.scorer, retired_scorers)
    if problem:
        refusal = CannotEvaluate if problem.state is ScorerState.RETIRED else MetricUnavailable
        raise refusal(f"{metric.slug} is {problem.state}: {problem}")


def run_of(model: LanguageModel, version: MetricVersion) -> Run:
    """The run that the version scores, created if outputs can be collected here. Raises CannotEvaluate."""
    identity: dict[str, Any] = {"model": model, "protocol": version.protocol_for(model), "epoch": version.epoch}
    if LanguageModel.objects.evaluable().filter(pk=model.pk).exists():
        return Run.objects.get_or_create(**identity)[0]
    run = Run.objects.filter(**identity, state=Work.State.DONE).first()
    if run is None and model.service_changed_at:
        raise CannotEvaluate(
            f"{model.slug} cannot be evaluated under {version}: its service is another one since; evaluate the "
            "revision that came after it"
        )
    if run is None:
        raise CannotEvaluate(
            f"{model.slug} cannot be evaluated under {version}: its weights are not here, and nobody sent the outputs "
            "that it is of; who entered the model may send them, at /submit/outputs/"
        )
    return run


def check_served_likelihoods(model: LanguageModel, metric: Metric) -> None:
    """Raise CannotEvaluate where the server of the model gives no likelihoods by the metric's definition."""
    service = Service.objects.filter(model=model).first()
    refusal = ""
    if service is None or not service.likelihoods:
        detail = f" ({service.no_likelihoods})" if service and service.no_likelihoods else ""
        refusal = f"its server gives continuations, no likelihoods{detail}"
    elif not LikelihoodWay.from_json(service.likelihoods).fits(metric.protocol.parameters["bos"]):
        habit = "a" if service.likelihoods["leads"] else "no"
        refusal = (
            f"its server puts {habit} token of its own before a text, and the protocol has "
            f"bos = {metric.protocol.parameters['bos']!r}"
        )
    if refusal:
        raise CannotEvaluate(
            f"{model.slug} cannot be evaluated under {metric.slug}: {refusal}; enter the model by its weights"
        )


def check_method(model: LanguageModel, metric: Metric) -> None:
    """Raise CannotEvaluate where the model cannot give the outputs that the metric needs."""
    outputs = metric.protocol_for(model).outputs
    if model.is_chat and outputs.sampled and not metric.has_chat_protocol:
        raise CannotEvaluate(
            f"{model.slug} cannot be evaluated under {metric.slug}: it is prompted as a chat, and this metric "
            "continues raw text; enter the model as raw text"
        )
    if model.source == LanguageModel.Source.SERVER and not outputs.sampled:
        check_served_likelihoods(model, metric)
    if model.kind not in outputs.kinds:
        refusal = outputs.wrong_kind.format(kind=model.kind)
        raise CannotEvaluate(f"{model.slug} cannot be evaluated under {metric.slug}: {refusal}")
    if not outputs.sampled and (twin := find_ranked_twin(model, metric)):
        raise CannotEvaluate(
            f"{model.slug} cannot be evaluated under {metric.slug}: likelihoods are of raw text whatever the "
            f"interface, and {twin.slug}, the same weights, has them"
        )


def find_ranked_twin(model: LanguageModel, metric: Metric) -> LanguageModel | None:
    """The entry of the same weights through the other interface that has numbers of `metric`, or waits for them."""
    scorings = Scoring.objects.filter(metric_version__metric=metric).exclude(
        state__in=[Work.State.FAILED, Work.State.CANCELLED]
    )
    return model.twins().filter(pk__in=scorings.values("model")).first()
