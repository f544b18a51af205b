"""Checks of services that are ranked: their control texts are asked again, and a change opens a new revision."""

import logging
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from leaderboard.models import AuditVerb, LanguageModel, Service, ServiceCheck, Work
from leaderboard.models.clock import database_now
from leaderboard.services.alone import each_alone
from leaderboard.services.audit import record
from leaderboard.services.leases import claim
from leaderboard.services.openings import growing_pause
from leaderboard.services.queue import enqueue
from leaderboard.services.served import (
    baseline_of,
    chat_limit_of,
    inspect_service,
    open_successor,
    server_of,
    snapshot_of,
    store_service,
    way_of,
)
from scoring.drift.services import Baseline, check_service
from scoring.likelihood.verification import LikelihoodsDiffer
from scoring.refusals import Refused
from scoring.served import ServerRefused, ServerUnavailable, ServiceChanged, open_session

log = logging.getLogger(__name__)

Trigger, Verdict = ServiceCheck.Trigger, ServiceCheck.Verdict


def watched_models() -> "list[LanguageModel]":
    """The served entries that are listed, open, and still what they were when they were entered."""
    served_models = LanguageModel.objects.evaluable().listed().filter(source=LanguageModel.Source.SERVER)
    return list(served_models)


def request_service_check(
    model: LanguageModel, trigger: str, *, send: bool = True, user: User | None = None
) -> ServiceCheck:
    """Queue a check of the service of `model`, or return the one that is under way. Raises Refused."""
    if model.source != LanguageModel.Source.SERVER:
        raise Refused(f"{model.slug} is not served: only models behind a server are asked again")
    if model.service_changed_at:
        raise Refused(f"{model.slug} is no longer what its server serves: check the revision that came after it")
    with transaction.atomic():
        LanguageModel.objects.select_for_update().get(pk=model.pk)  # the second of two requests finds the first's check
        under_way = ServiceCheck.objects.filter(model=model).unfinished().first()
        if under_way:
            return under_way
        check = ServiceCheck.objects.create(model=model, trigger=trigger)
        if trigger == Trigger.MANUAL:
            record(AuditVerb.REQUEST_CONTROL_CHECK, f"model {model.slug}", {"check": check.pk}, user)
    if send:
        transaction.on_commit(lambda: enqueue(check))
    return check


def perform(check: ServiceCheck) -> None:
    """Ask the service its control texts, and open a new revision where it is another one."""
    with claim(check) as lease:
        if lease is None:
            return
        model = check.model
        service = Service.objects.filter(model=model).first()
        baseline = baseline_of(service) if service else None
        try:
            if baseline is None:
                take_missing_baseline(model)
                lease.finish(verdict=Verdict.BASELINE, statistics={"decided_by": "its control texts were asked"})
                return
            verdict, statistics = observe(model, baseline)
        except (LikelihoodsDiffer, ServerRefused, ServerUnavailable) as error:
            lease.finish(verdict=Verdict.UNAVAILABLE, statistics={"decided_by": str(error)})
            log.warning("%s: its service is unavailable: %s", model.slug, error)
            return
        with transaction.atomic():
            if verdict == Verdict.CHANGED:
                successor = open_successor(model, statistics["decided_by"], statistics.pop("snapshot", ""))
                statistics["successor"] = successor.slug
            elif flickering_ids := statistics.get("flickering"):
                Service.objects.filter(model=model).update(baseline=baseline.without(flickering_ids).as_json())
            lease.finish(verdict=verdict, statistics=statistics)


def take_missing_baseline(model: LanguageModel) -> None:
    """Ask a service for the first time: one that was entered before services were asked, or that has just changed."""
    store_service(model, inspect_service(model))


def observe(model: LanguageModel, baseline: Baseline) -> tuple[str, dict[str, Any]]:
    """The verdict on a service and what it is decided by. Raises ServerRefused, ServerUnavailable."""
    server = server_of(model)
    try:
        with open_session(server) as session:
            session.describe()
        report = check_service(server, way_of(model), baseline, chat_limit_of(model))
    except ServiceChanged as change:
        return Verdict.CHANGED, {"decided_by": change.change, "snapshot": snapshot_of(model, change)}
    if not report.compared and not baseline.likelihoods:
        return Verdict.UNAVAILABLE, {"decided_by": "no opening was answered alike each time: nothing can be compared"}
    verdict = Verdict.CHANGED if report.has_changed else Verdict.STABLE
    return verdict, {"decided_by": str(report), **asdict(report)}


def request_due_service_checks() -> None:
    """Queue the checks that are due: on schedule, and after a growing pause where there was no answer."""

    def request(model: LanguageModel) -> None:
        if is_due(model):
            request_service_check(model, Trigger.SCHEDULE)

    each_alone(request, watched_models())


def is_due(model: LanguageModel) -> bool:
    """Whether the service of `model` is to be asked now."""
    checks = list(model.service_checks.order_by("-created_at", "-pk")[:12])
    if any(check.state in (Work.State.QUEUED, Work.State.RUNNING) for check in checks):
        return False
    service = Service.objects.filter(model=model).first()
    asked_at = service.asked_at if service else None
    last_end = checks[0].finished_at if checks else asked_at
    if last_end is None:
        return True
    failures = 0
    while failures < len(checks) and checks[failures].verdict in ("", Verdict.UNAVAILABLE):
        failures += 1
    pause = growing_pause(failures) if failures else timedelta(seconds=settings.CHECK_SECONDS)
    return database_now() - last_end >= pause
