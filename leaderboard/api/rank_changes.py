"""What changed from one version of a metric to another."""

from typing import Any, Literal

from django.http import HttpRequest
from ninja import Query, Schema
from pydantic import Field

from leaderboard.api.metrics import found_metric
from leaderboard.api.problems import ANY, not_here
from leaderboard.api.reading import MetricSlug, Page, Span, number, page, reading_router, text
from leaderboard.models import MetricVersion, Provenance, Standing
from leaderboard.services.record import NoRecord, Record, boards, compared, versions
from scoring.statistics.rank_changes import TieRule

router = reading_router("Rank changes")


class Side(Schema):
    """One of the two rankings."""

    metric: str
    version: int
    status: MetricVersion.Status
    provenance: Provenance
    source: str
    scorer: str
    scorer_fingerprint: str
    published_at: str
    measure: str
    slice: str
    population_size: int = Field(description="How many models it ranks: board ranks are of so many.")
    k: int | None
    decimals: int | None


class Moved(Schema):
    """A model of both rankings. Ranks count the models of both; board ranks are those of each as a whole."""

    model: str
    from_rank: int
    to_rank: int
    change: int = Field(description="Ranks gained: positive for a model that rose.")
    from_value: float
    to_value: float
    difference: float
    from_board_rank: int
    to_board_rank: int


class Apart(Schema):
    """A model of one of the rankings only."""

    model: str
    rank: int
    value: float


class Largest(Schema):
    """The model whose value changed most."""

    model: str
    difference: float


class RankChanges(Page):
    """The record of what changed; its items are a page of the models of both rankings."""

    metric: str
    measure: str
    slice: str
    population: Standing.Population
    from_: Side = Field(alias="from")
    to: Side
    n_models: int
    changed_ranks: int
    changed_values: int
    mean_abs_difference: float | None
    largest_difference: Largest | None
    kendall_tau: float | None
    kendall_tau_interval: list[float] | None
    spearman: float | None
    spearman_interval: list[float] | None
    direction: Literal["higher", "lower"]
    tie_rule: TieRule
    decimals: int | None
    only_before: list[Apart]
    only_after: list[Apart]
    items: list[Moved]


class Asked(Span):
    """Which two rankings."""

    from_: int | None = number("The version before; without it, the last but one.", alias="from")
    to: int | None = number("The version after; without it, the last.")
    measure: str | None = text("Its key; without it, the one that the metric shows first.")
    slice: str | None = text("Whole or its part alone: toxic finds TOXICITY:toxic; without it, the overall one.")
    population: Standing.Population | None = Query(
        None, description="Among whom ranks are; without it, the first kind where kinds are ranked apart, else all."
    )
    tie_rule: TieRule = Query(
        "equal", description="Equal values share a rank; or, by first, follow each other by name."
    )


@router.get(
    "/metrics/{slug}/rank-changes",
    response={200: RankChanges, **ANY},
    by_alias=True,
    summary="Rank changes",
    operation_id="rank_changes",
)
def rank_changes(request: HttpRequest, slug: MetricSlug, asked: Query[Asked]) -> dict[str, Any]:
    """What changed between two published versions: ranks, values, and how far the two orders agree.

    As `manage.py rank_changes` and the page of the history have it; by default between the last two versions.
    """
    metric = found_metric(slug)
    try:
        before, after = versions(metric, asked.from_, asked.to)
    except NoRecord as error:
        field, value = ("from", asked.from_) if asked.from_ else ("to", asked.to) if asked.to else ("slug", slug)
        raise not_here(error, field, value, f"GET /api/v1/metrics/{slug}/versions lists its versions.") from error
    try:
        sides = boards(before, after, asked.measure or after.first_measure, asked.slice, asked.population)
        record = Record(*sides, compared(*sides, asked.tie_rule)).as_json()
    except NoRecord as error:
        raise not_here(error, "slug", slug, "Compare versions of one provenance.") from error
    models = record.pop("models")[asked.offset : asked.offset + asked.limit]
    return record | page(request, record["n_models"], asked) | {"items": models}
