"""The checks of the scorers."""

from datetime import datetime
from typing import Any

from django.db.models import F, OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from ninja import Query, Schema
from ninja.pagination import paginate
from pydantic import Field

from leaderboard.api.metrics import found_metric
from leaderboard.api.problems import ANY, NotHere
from leaderboard.api.reading import MetricSlug, Number, Pages, reading_router
from leaderboard.models import ControlCheck, MetricVersion
from leaderboard.queries.drift import ENDED

router = reading_router("Checks")


class Check(Schema):
    """One rescoring of a metric's control set."""

    id: int
    metric: str
    version: int | None = Field(description="The version whose control set was scored again.")
    trigger: ControlCheck.Trigger
    verdict: ControlCheck.Verdict | None = Field(description="null where the check failed.")
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


class WholeCheck(Check):
    """A check with all its statistics."""

    fingerprint: str = Field(description="Of the scorer as it was then.")
    environment: dict[str, Any]
    statistics: dict[str, Any]


FIELDS = ("id", "trigger", "verdict", "reason", "finished_at", "metric__slug")
WHOLE = ("fingerprint", "environment", "statistics")


def ended(*more: str) -> QuerySet[ControlCheck, dict[str, Any]]:
    """The checks that came to an end, the newest first; of their long statistics only what is asked for."""
    found = ControlCheck.objects.filter(state__in=ENDED, finished_at__isnull=False).order_by("-finished_at", "-pk")
    opened = MetricVersion.objects.filter(opened_because=OuterRef("pk")).order_by("number")
    return found.values(
        *FIELDS,
        *more,
        version=F("control_set__metric_version__number"),
        decided_by=F("statistics__decided_by"),
        overall=F("statistics__overall"),
        opened_version=Subquery(opened.values("number")[:1]),
    )


@router.get(
    "/metrics/{slug}/checks", response={200: list[Check], **ANY}, summary="Checks of a metric", operation_id="checks"
)
@paginate(Pages)
def checks(
    request: HttpRequest,
    slug: MetricSlug,
    verdict: ControlCheck.Verdict | None = Query(None, description="Only those with this verdict."),
) -> QuerySet[ControlCheck, dict[str, Any]]:
    """The control checks of a metric that came to an end, the newest first."""
    found = ended().filter(metric_id=found_metric(slug).pk)
    return found.filter(verdict=verdict) if verdict else found


@router.get(
    "/metrics/{slug}/checks/{number}", response={200: WholeCheck, **ANY}, summary="A check", operation_id="check"
)
def check(request: HttpRequest, slug: MetricSlug, number: Number) -> dict[str, Any]:
    """One control check in full, by its id."""
    found = ended(*WHOLE).filter(metric_id=found_metric(slug).pk, pk=number).first()
    if found is None:
        message = f"{slug} has no check {number} that came to an end."
        raise NotHere("number", number, message, f"GET /api/v1/metrics/{slug}/checks lists those there are.")
    return found
