"""The checks of the scorers."""

from datetime import datetime
from typing import Any

from django.db.models import F, OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from ninja import Schema
from ninja.pagination import paginate
from pydantic import Field

from leaderboard.api.metrics import find_metric
from leaderboard.api.problems import ANY
from leaderboard.api.reading import MetricSlug, Number, Pages, parameter, reading_router
from leaderboard.models import ControlCheck, LanguageModel, MetricVersion
from leaderboard.models.control import CheckVerdict, Trigger, public_statistics
from leaderboard.queries.drift import ENDED
from scoring.refusals import Missing

router = reading_router("Checks")


class CheckItem(Schema):
    """One rescoring of a metric's control set."""

    id: int
    metric: str
    version: int | None = Field(description="The version whose control set was scored again.")
    trigger: Trigger
    verdict: CheckVerdict | None = Field(description="null where the check failed.")
    decided_by: str | None = Field(description="What decided it, in a sentence.")
    reason: str = Field(description="Why there is no answer; else empty.")
    overall: dict[str, float | None] | None = Field(description="How far scores moved, over all control texts.")
    opened_version: int | None = Field(description="The version that a drift opened.")
    finished_at: datetime

    @staticmethod
    def resolve_metric(check: dict[str, Any]) -> str:
        return str(check["metric__slug"])

    @staticmethod
    def resolve_verdict(check: dict[str, Any]) -> str | None:
        return check["verdict"] or None


class WholeCheck(CheckItem):
    """A check with all its statistics."""

    fingerprint: str = Field(description="Of the scorer as it was then.")
    environment: dict[str, Any]
    statistics: dict[str, Any]


FIELDS = ("id", "trigger", "verdict", "reason", "finished_at", "metric__slug")
WHOLE = ("fingerprint", "environment", "statistics")


def list_ended_checks(*more: str) -> QuerySet[ControlCheck, dict[str, Any]]:
    """The checks that came to an end, the newest first; of their long statistics only what is asked for."""
    checks = ControlCheck.objects.filter(state__in=ENDED, finished_at__isnull=False).order_by("-finished_at", "-pk")
    opened_versions = MetricVersion.objects.filter(opened_because=OuterRef("pk")).order_by("number")
    rows: QuerySet[ControlCheck, dict[str, Any]] = checks.values(
        *FIELDS,
        *more,
        version=F("control_set__metric_version__number"),
        decided_by=F("statistics__decided_by"),
        overall=F("statistics__overall"),
        opened_version=Subquery(opened_versions.values("number")[:1]),
    )
    return rows


@router.get(
    "/metrics/{slug}/checks",
    response={200: list[CheckItem], **ANY},
    summary="Checks of a metric",
    operation_id="checks",
)
@paginate(Pages)
def checks(
    request: HttpRequest,
    slug: MetricSlug,
    verdict: CheckVerdict | None = parameter("Only those with this verdict."),
) -> QuerySet[ControlCheck, dict[str, Any]]:
    """The control checks of a metric that came to an end, the newest first."""
    ended_checks = list_ended_checks().filter(metric_id=find_metric(slug).pk)
    return ended_checks.filter(verdict=verdict) if verdict else ended_checks


@router.get(
    "/metrics/{slug}/checks/{number}", response={200: WholeCheck, **ANY}, summary="A check", operation_id="check"
)
def check(request: HttpRequest, slug: MetricSlug, number: Number) -> dict[str, Any]:
    """One control check in full, by its id."""
    ended_check = list_ended_checks(*WHOLE).filter(metric_id=find_metric(slug).pk, pk=number).first()
    if ended_check is None:
        message = f"{slug} has no check {number} that has ended."
        raise Missing(message, field="number", value=number, remedy=f"GET /api/v1/metrics/{slug}/checks lists them.")
    hidden_slugs = LanguageModel.objects.hidden_slugs()
    return ended_check | {"statistics": public_statistics(ended_check["statistics"], hidden_slugs)}
