"""What is measured, and what fixes its numbers."""

from datetime import datetime
from typing import Any, Literal

from django.db.models import Exists, OuterRef, Prefetch, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from ninja import Schema
from ninja.pagination import paginate
from pydantic import Field

from leaderboard.api.problems import ANY
from leaderboard.api.reading import MetricSlug, Number, Pages, parameter, reading_router
from leaderboard.models import Metric, MetricVersion, Provenance, RetiredScorer
from leaderboard.models.metrics import Status
from scoring.attributes import Meaning
from scoring.refusals import Missing

router = reading_router("Metrics")
VERSIONS = MetricVersion.objects.filter(published_at__isnull=False).select_related(
    "metric", "protocol__evaluation_set", "chat_protocol", "opened_because"
)


class ReportedMeasure(Schema):
    """A number that a metric reports."""

    key: str
    label: str
    direction: str | None = Field(description="Which is better, higher or lower; null where neither is.")
    neutral: float | None = Field(description="The value of a model without preference, or of chance.")
    indifferent_key: str = Field(
        description="Where no value is neutral for all: the measure that holds it for each model and slice; else empty."
    )
    smallest: float = Field(description="The beginning of its scale.")
    largest: float = Field(description="The end of its scale.")
    explanation: str
    citation: str


class MetricOut(Schema):
    """A board: what is measured, on what, by which scorer."""

    slug: str
    title: str
    summary: str
    formula: str
    measure: str = Field(description="The key of the measure that is shown first.")
    measures: list[ReportedMeasure]
    scorer: str
    scorer_state: Literal["in use", "retired"] = Field(
        description="Whether new entries are scored with it; what a retired one scored stays."
    )
    evaluation_set: str
    k: int | None = Field(description="Continuations of each prompt; null where outputs are likelihoods.")
    current_versions: list[int] = Field(description="Those that readers see now: measured here, and published.")
    url: str = Field(description="The page that says what is measured and how.")

    @staticmethod
    def resolve_formula(metric: Metric) -> str:
        return metric.formula_name

    @staticmethod
    def resolve_measures(metric: Metric) -> list[Any]:
        return list(metric.formula.measures.values())

    @staticmethod
    def resolve_scorer_state(metric: Metric) -> str:
        return "retired" if metric.scorer_retired else "in use"  # type: ignore[attr-defined]

    @staticmethod
    def resolve_evaluation_set(metric: Metric) -> str:
        return str(metric.protocol.evaluation_set)

    @staticmethod
    def resolve_k(metric: Metric) -> int | None:
        return metric.protocol.k

    @staticmethod
    def resolve_current_versions(metric: Metric) -> list[int]:
        return [version.number for version in metric.current]  # type: ignore[attr-defined]

    @staticmethod
    def resolve_url(metric: Metric, context: dict[str, Any]) -> str:
        return str(context["request"].build_absolute_uri(metric.get_absolute_url()))


class AttributeOut(Schema):
    """An attribute of a scorer: a text has it where its score is strictly above the threshold."""

    name: str
    meaning: Meaning
    threshold: float


class Version(Schema):
    """What fixes numbers: those of two versions never stand in one ranking."""

    metric: str
    version: int
    status: Status
    provenance: Provenance
    source: str = Field(description="Where figures of a paper come from; empty for what was measured here.")
    decimals: int | None = Field(description="To which the source prints values.")
    published_at: datetime
    scorer: str
    scorer_fingerprint: str = Field(description="The sha256 of all that the scorer is made of.")
    attributes: list[AttributeOut] = Field(description="What the scorer declares; empty where nothing is declared.")
    undeclared: list[str] = Field(description="Labels ranked as harms though nobody declared them so.")
    most_missing: float | None = Field(
        description="Entries of which a larger share of the texts has no score are not ranked; null: any share is."
    )
    formula_version: int
    evaluation_set: str
    k: int | None
    protocol_sha256: str
    chat_protocol_sha256: str | None = Field(description="Of the protocol of chat entries; null before the first one.")
    opened_because_of_check: int | None = Field(description="The control check that found a drift.")
    manifest: str = Field(description="The address of all that it is made of, to be checked without this board.")

    @staticmethod
    def resolve_metric(version: MetricVersion) -> str:
        return version.metric.slug

    @staticmethod
    def resolve_version(version: MetricVersion) -> int:
        return version.number

    @staticmethod
    def resolve_evaluation_set(version: MetricVersion) -> str:
        return str(version.protocol.evaluation_set)

    @staticmethod
    def resolve_k(version: MetricVersion) -> int | None:
        return version.protocol.k

    @staticmethod
    def resolve_protocol_sha256(version: MetricVersion) -> str:
        return version.protocol.sha256

    @staticmethod
    def resolve_chat_protocol_sha256(version: MetricVersion) -> str | None:
        return version.chat_protocol.sha256 if version.chat_protocol else None

    @staticmethod
    def resolve_opened_because_of_check(version: MetricVersion) -> int | None:
        return version.opened_because_id

    @staticmethod
    def resolve_manifest(version: MetricVersion, context: dict[str, Any]) -> str:
        address = reverse("manifest", args=[version.metric.slug, version.number])
        return str(context["request"].build_absolute_uri(address))


@router.get("/metrics", response={200: list[MetricOut], **ANY}, summary="Metrics", operation_id="metrics")
@paginate(Pages)
def metrics(request: HttpRequest) -> QuerySet[Metric]:
    """Every metric of the board, in the order of its tabs."""
    return known_metrics()


@router.get("/metrics/{slug}", response={200: MetricOut, **ANY}, summary="A metric", operation_id="metric")
def metric(request: HttpRequest, slug: MetricSlug) -> Metric:
    """One metric, by its slug, with its measures."""
    return find_metric(slug)


@router.get(
    "/metrics/{slug}/versions",
    response={200: list[Version], **ANY},
    summary="Versions of a metric",
    operation_id="versions",
)
@paginate(Pages)
def versions(
    request: HttpRequest,
    slug: MetricSlug,
    status: Status | None = parameter("current is what readers see now."),
    provenance: Provenance | None = parameter("Measured here, or figures that a paper prints."),
) -> QuerySet[MetricVersion]:
    """The published versions of a metric, the oldest first: what fixed its numbers when."""
    matches = VERSIONS.filter(metric=find_metric(slug)).order_by("number")
    exact = {"status": status, "provenance": provenance}
    return matches.filter(**{name: value for name, value in exact.items() if value is not None})


@router.get(
    "/metrics/{slug}/versions/{number}",
    response={200: Version, **ANY},
    summary="A version of a metric",
    operation_id="version",
)
def version(request: HttpRequest, slug: MetricSlug, number: Number) -> MetricVersion:
    """One published version, by its number."""
    return find_version(find_metric(slug), number)


def known_metrics() -> QuerySet[Metric]:
    """All metrics, each with its `current` versions, in two queries."""
    current = MetricVersion.objects.filter(status=Status.CURRENT).order_by("provenance")
    versions = Prefetch("versions", current, to_attr="current")
    is_retired = Exists(RetiredScorer.objects.filter(name=OuterRef("scorer")))
    metrics = Metric.objects.select_related("protocol__evaluation_set").annotate(scorer_retired=is_retired)
    return metrics.prefetch_related(versions)


def find_metric(slug: str) -> Metric:
    """The metric of that slug. Raises Missing."""
    metric = known_metrics().filter(slug=slug).first()
    if metric is None:
        slugs = ", ".join(Metric.objects.values_list("slug", flat=True)) or "none yet"
        raise Missing(f"There is no metric {slug!r}.", field="slug", value=slug, remedy=f"Use one of these: {slugs}.")
    return metric


def find_version(metric: Metric, number: int) -> MetricVersion:
    """The published version of that number. Raises Missing."""
    version = VERSIONS.filter(metric=metric, number=number).first()
    if version is None:
        remedy = f"GET /api/v1/metrics/{metric.slug}/versions lists them."
        raise Missing(f"{metric.slug} has no published version {number}.", field="number", value=number, remedy=remedy)
    return version
