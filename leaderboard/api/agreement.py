"""Do metrics agree: coefficients between measures, and between a measure and the size of its models."""

from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Schema
from ninja.pagination import paginate
from pydantic import Field, StringConstraints

from leaderboard.api.problems import ANY
from leaderboard.api.reading import TEXT, Pages, parameter, reading_router, text
from leaderboard.queries.agreement import (
    MOST_COLUMNS,
    choose_columns,
    first_slices,
    require_values,
    usual_numbers,
    values_of,
    versions_by_metric,
)
from leaderboard.queries.agreement_rows import correlation_rows, size_rows
from leaderboard.queries.coefficients import ModelGroup, model_groups
from leaderboard.rankings.versions import metrics_with_versions

router = reading_router("Agreement")

Numbers = Literal["measured", "published", "both"]
Kind = Literal["causal", "masked", "permutation", "each", "all"]
Column = Annotated[str, StringConstraints(pattern=TEXT, max_length=240)]
COLUMNS = parameter(
    f"A measure as METRIC/MEASURE/SLICE, again for each, at most {MOST_COLUMNS}; without any, what each metric shows "
    "first.",
    default=[],
    max_length=MOST_COLUMNS,
)
SLICE = text("Without c: a slice, such as women, on which metrics show their first measure; else the overall one.")
NUMBERS = parameter("Measured here, published by papers, or both; without it, those that can be compared.")
KIND = parameter(
    "Kind of models; each: every kind separately, and then all. Without it, all models, and in measures of likelihoods "
    "those of one kind."
)


class Coefficients(Schema):
    """Three coefficients of the same models with 95% intervals; p is adjusted by Holm over the table of a page."""

    n: int = Field(description="How many models have both values.")
    pearson: float | None
    pearson_low: float | None
    pearson_high: float | None
    pearson_p_holm: float | None
    spearman: float | None
    spearman_low: float | None
    spearman_high: float | None
    spearman_p_holm: float | None
    kendall: float | None
    kendall_low: float | None
    kendall_high: float | None
    kendall_p_holm: float | None
    reason: str = Field(description="Why there is no coefficient; empty where there is one.")


class MeasureCorrelation(Coefficients):
    """Two measures over the same models."""

    models: str = Field(description="Which models, in words.")
    a_metric: str
    a_version: str = Field(description="The number of its version; of both provenances, two numbers.")
    a_measure: str
    a_slice: str
    b_metric: str
    b_version: str
    b_measure: str
    b_slice: str
    n_measured: int = Field(description="Models with both values measured here.")
    n_published: int = Field(description="Models with both values published elsewhere.")
    n_mixed: int = Field(description="Models with one of each.")


class SizeCorrelation(Coefficients):
    """A measure against a property of its models."""

    models: str = Field(description="Which models, in words.")
    family: str = Field(description="Which of them, in words: all, one kind, or one family.")
    metric: str
    version: str
    measure: str
    slice: str
    property: Literal["layers", "heads", "hidden_size", "log_parameters"]


def choose_groups(columns: list[str], part: str | None, numbers: str | None, kind: str | None) -> list[ModelGroup]:
    """The groups of models that a request means, with their values."""
    metrics = metrics_with_versions()
    versions = versions_by_metric(metrics, numbers or usual_numbers(metrics))
    values = values_of(choose_columns(columns, versions, first_slices(list(versions.values())), part or ""))
    if columns:
        require_values(values)
    return model_groups(values, kind or "")


@router.get(
    "/agreement", response={200: list[MeasureCorrelation], **ANY}, summary="Agreement", operation_id="agreement"
)
@paginate(Pages)
def agreement(
    request: HttpRequest,
    c: list[Column] = COLUMNS,
    slice: str | None = SLICE,
    numbers: Numbers | None = NUMBERS,
    kind: Kind | None = KIND,
) -> list[dict[str, Any]]:
    """How far every two measures agree over the models that have both, as the page /agreement/ shows it."""
    return list(correlation_rows(choose_groups(c, slice, numbers, kind)))


@router.get(
    "/agreement/sizes",
    response={200: list[SizeCorrelation], **ANY},
    summary="Measures and size",
    operation_id="agreement_sizes",
)
@paginate(Pages)
def agreement_sizes(
    request: HttpRequest,
    c: list[Column] = COLUMNS,
    slice: str | None = SLICE,
    numbers: Numbers | None = NUMBERS,
    kind: Kind | None = KIND,
) -> list[dict[str, Any]]:
    """How measures go with layers, heads, hidden size and log parameters: over all models, kinds and families."""
    return list(size_rows(choose_groups(c, slice, numbers, kind)))
