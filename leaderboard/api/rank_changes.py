"""What changed from one version of a metric to another."""

from typing import Any, Literal

from django.http import HttpRequest
from ninja import Query, Schema
from pydantic import Field

from leaderboard.api.metrics import find_metric
from leaderboard.api.problems import ANY
from leaderboard.api.reading import MetricSlug, Page, Span, number, page, parameter, reading_router, text
from leaderboard.models import Provenance
from leaderboard.models.metrics import Population, Status
from leaderboard.rankings.changes import Record, choose_sides, compare_sides
from leaderboard.rankings.versions import with_versions
from scoring.statistics.rank_changes import TieRule

router = reading_router("Rank changes")


class RankingSide(Schema):
    """One of the two rankings."""

    metric: str
    version: int
    status: Status
    provenance: Provenance
    source: str
    scorer: str
    scorer_fingerprint: str
    published_at: str
    measure: str
    slice: str
    population_size: int = Field(description="How many models it ranks: board ranks are out of this number.")
    k: int | None
    decimals: int | None


class RankMove(Schema):
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


class RankChangesPage(Page):
    """The record of what changed; its items are a page of the models of both rankings."""

    metric: str
    measure: str
    slice: str
    population: Population
    from_: RankingSide = Field(alias="from")
    to: RankingSide
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
    items: list[RankMove]


class RankChangeQuery(Span):
    """Which two rankings."""

    from_: int | None = number("The version before; without it, the last but one.", alias="from")
    to: int | None = number("The version after; without it, the last.")
    measure: str | None = text("Its key; without it, the one that the metric shows first.")
    slice: str | None = text("Whole or its part alone: toxic finds TOXICITY:toxic; without it, the overall one.")
    population: Population | None = parameter(
        "Among whom ranks are; without it, the first kind where kinds are ranked apart, else all."
    )
    tie_rule: TieRule = parameter(
        "Equal values share a rank; or, by first, follow each other by name.", default="equal"
    )


@router.get(
    "/metrics/{slug}/rank-changes",
    response={200: RankChangesPage, **ANY},
    by_alias=True,
    summary="Rank changes",
    operation_id="rank_changes",
)
def rank_changes(request: HttpRequest, slug: MetricSlug, query: Query[RankChangeQuery]) -> dict[str, Any]:
    """What changed between two published versions: ranks, values, and how far the two orders agree.

    As `manage.py rank_changes` and the page of the history have it; by default between the last two versions.
    """
    metric = with_versions(find_metric(slug))
    population = query.population and query.population.value
    old_side, new_side = choose_sides(metric, query.measure, query.slice, query.from_, query.to, population)
    record = Record(old_side, new_side, compare_sides(old_side, new_side, query.tie_rule)).as_json()
    models = record.pop("models")[query.offset : query.offset + query.limit]
    return record | page(request, record["n_models"], query) | {"items": models}
