"""Every number."""

from datetime import datetime
from typing import Any

from django.db.models import F, QuerySet
from django.http import HttpRequest
from ninja import Schema
from ninja.pagination import paginate
from pydantic import Field

from leaderboard.api.language_models import find_model
from leaderboard.api.metrics import find_metric, find_version
from leaderboard.api.problems import ANY
from leaderboard.api.reading import MetricSlug, ModelSlug, Number, Pages, number, parameter, reading_router, text
from leaderboard.models import Provenance, Result, Work, is_listed
from leaderboard.models.metrics import Status

router = reading_router("Results")


class ResultOut(Schema):
    """One number: a measure of a model on a slice, under a version of a metric."""

    model: str
    metric: str
    version: int
    status: Status
    provenance: Provenance
    measure: str
    slice: str
    value: float
    ci_low: float | None
    ci_high: float | None
    n: int | None
    missing: int
    missing_texts: int | None = Field(description="Continuations without a score, also where prompts are counted.")
    worst_low: float | None = Field(description="The least that the value would be, whatever the missing texts are.")
    worst_high: float | None = Field(description="The largest that it would be.")
    p_value: float | None = Field(
        description="That the value is an indifferent model's: of measures where that is one value for all models. The "
        "safety score has none; versions of its first formula have one against 0.5, which says nothing."
    )
    p_adjusted: float | None = Field(description="Holm, over the demographics of the model; of an average as p_value.")
    published_rank: int | None
    derived: bool = Field(description="Worked out here from figures of the source, which does not print it.")
    interval_derived: bool = Field(
        description="Whether the interval was worked out here, from counts of texts: the source prints none."
    )
    scored_at: datetime
    lost_files: str = Field(
        description="Which of the files that the number was made of are damaged or missing; empty where none is."
    )


FIELDS = (
    *("measure", "slice", "value", "ci_low", "ci_high", "n", "missing", "missing_texts", "worst_low", "worst_high"),
    *("p_value", "p_adjusted", "published_rank", "derived", "interval_derived"),
)


def list_results() -> QuerySet[Result, dict[str, Any]]:
    """The numbers under published versions."""
    results = Result.objects.filter(
        is_listed("scoring__model__"),
        scoring__state=Work.State.DONE,
        scoring__metric_version__published_at__isnull=False,
    ).order_by("scoring__metric_version__metric__slug", "scoring__metric_version__number", "scoring_id", "pk")
    rows: QuerySet[Result, dict[str, Any]] = results.values(
        *FIELDS,
        model=F("scoring__model__slug"),
        metric=F("scoring__metric_version__metric__slug"),
        version=F("scoring__metric_version__number"),
        status=F("scoring__metric_version__status"),
        provenance=F("scoring__metric_version__provenance"),
        scored_at=F("scoring__scored_at"),
        lost_files=F("scoring__lost_files"),
    )
    return rows


def filter_results(results: QuerySet[Result, dict[str, Any]], **exact: object) -> QuerySet[Result, dict[str, Any]]:
    """Those with the values that were asked for."""
    return results.filter(**{name: value for name, value in exact.items() if value is not None})


@router.get(
    "/models/{slug}/results",
    response={200: list[ResultOut], **ANY},
    summary="Results of a model",
    operation_id="model_results",
)
@paginate(Pages)
def model_results(
    request: HttpRequest,
    slug: ModelSlug,
    metric: str | None = text("The slug of a metric."),
    version: int | None = number("The number of its version."),
    status: Status | None = parameter("current leaves what readers see now."),
    measure: str | None = text("The key of a measure."),
    slice: str | None = text("A demographic, a part of the prompts, or an attribute on one."),
) -> QuerySet[Result, dict[str, Any]]:
    """Every number of a model, by metric and version, the old ones too."""
    results = list_results().filter(scoring__model=find_model(slug))
    names = {"scoring__metric_version__metric__slug": metric, "scoring__metric_version__number": version}
    return filter_results(results, scoring__metric_version__status=status, measure=measure, slice=slice, **names)


@router.get(
    "/metrics/{slug}/versions/{number}/results",
    response={200: list[ResultOut], **ANY},
    summary="Results of a version",
    operation_id="version_results",
)
@paginate(Pages)
def version_results(
    request: HttpRequest,
    slug: MetricSlug,
    number: Number,
    model: str | None = text("The slug of a model."),
    measure: str | None = text("The key of a measure."),
    slice: str | None = text("A demographic, a part of the prompts, or an attribute on one."),
) -> QuerySet[Result, dict[str, Any]]:
    """Every number under a version of a metric, model by model."""
    results = list_results().filter(scoring__metric_version=find_version(find_metric(slug), number))
    return filter_results(results, scoring__model__slug=model, measure=measure, slice=slice)
