"""Who stands where: the rows of the page, and how they are ranked."""

from datetime import date, datetime
from typing import Any

from django.http import HttpRequest
from ninja import Query, Schema
from pydantic import Field

from leaderboard.api.problems import ANY
from leaderboard.api.reading import MetricSlug, Page, Span, number, page, parameter, reading_router, text
from leaderboard.models import Provenance
from leaderboard.models.language_models import Interface, ModelKind, PromptingManner
from leaderboard.models.metrics import Population, Status
from leaderboard.rankings.days import FIRST_DAY, LAST_DAY
from leaderboard.rankings.exports import describe_version, entry, not_ranked
from leaderboard.rankings.rows import read_rankings
from leaderboard.rankings.selection import select_ranking
from leaderboard.rankings.sheets import sheet_of
from leaderboard.rankings.versions import metrics_with_versions
from leaderboard.rankings.view import View
from scoring.refusals import Missing

router = reading_router("Standings")


class Numbers(Schema):
    """What fixes the numbers of a ranking."""

    version: int
    status: Status
    provenance: Provenance
    source: str
    published_at: datetime
    scorer: str
    scorer_fingerprint: str
    evaluation_set: str
    k: int | None
    decimals: int | None


class Corrected(Schema):
    """A share of texts that the scorer labels, corrected for its error rates: an estimate, not ranked by."""

    value: float | None
    low: float | None
    high: float | None
    set: str = Field(description="The labelled texts that the error rates are from; empty where there are none.")
    reason: str = Field(description="Why there is no estimate; empty where there is one.")


class RankedEntry(Schema):
    """A place in a ranking. `rank_low` to `rank_high` are the places where the model could be, by paired tests."""

    population: Population = Field(
        description="Among whom it is ranked: all models, or those of one kind or one interface."
    )
    population_size: int = Field(description="How many models are ranked there: `rank` is out of this number.")
    rank: int
    rank_low: int | None
    rank_high: int | None
    model: str
    slug: str
    source_name: str = Field(description="What its source calls it; empty where that is its name.")
    family: str
    kind: ModelKind
    parameters: int | None
    context: int | None = Field(description="The longest text that it reads, in tokens.")
    interface: Interface = Field(description="How it is prompted: by raw text, or by messages of a chat.")
    prompting: PromptingManner = Field(description="That, and whether the model has a chat template.")
    precision: str = Field(description="What it is computed in, where declared; empty: as the protocol says.")
    weight_format: str = Field(description="How its weights are stored, as in bfloat16 or FP8; empty: unknown.")
    weights: str = Field(description="`open` where this board has them or they are on the hub, else `unknown`.")
    licence: str
    release_date: date | None
    revision: str
    version: int
    provenance: Provenance
    value: float
    ci_low: float | None
    ci_high: float | None
    interval_derived: bool = Field(
        description="Whether the interval was worked out here, from counts of texts: the source prints none."
    )
    indifferent: float | None = Field(description="What the model would have if it were indifferent, where known.")
    indifferent_derived: bool = Field(description="Whether that was worked out here from figures of the source.")
    n: int | None = Field(description="How many texts or prompts the value is of.")
    derived: bool = Field(description="Worked out here from figures of the source, which does not print it.")
    missing: int = Field(description="Texts or prompts without a score: left out of the value, never taken for 0.")
    missing_share: float = Field(description="Their share of all, from 0 to 1.")
    missing_texts: int | None = Field(description="Continuations without a score, also where prompts are counted.")
    worst_low: float | None = Field(description="The least that the value would be, whatever the missing texts are.")
    worst_high: float | None = Field(description="The largest that it would be.")
    refusal_rate: float | None = Field(
        description="The share of refusals among all answers of a chat; null for others."
    )
    corrected: Corrected | None = Field(
        description="The estimate beside a share of texts that the scorer labels, measured here; null for others."
    )
    k: int | None
    scored_at: datetime
    lost_files: str = Field(
        description="Which of the files that the number was made of are damaged or missing; empty where none is."
    )


class NotRanked(Schema):
    """An entry that lacks too many scores to be ranked, with its number and the reason."""

    model: str
    slug: str
    version: int
    value: float
    ci_low: float | None
    ci_high: float | None
    n: int | None
    missing: int
    missing_share: float
    missing_texts: int | None
    worst_low: float | None
    worst_high: float | None
    reason: str
    lost_files: str


class Standings(Page):
    """A ranking: a page of its entries, and what they are of."""

    metric: str
    versions: list[Numbers]
    as_of: date | None
    measure: str
    direction: str
    neutral: float | None
    slice: str
    slices: list[str] = Field(description="All that can be asked for here.")
    not_ranked: list[NotRanked] = Field(description="Entries that lack too many scores, with the reason.")
    items: list[RankedEntry]


class StandingsQuery(Span):
    """Which ranking."""

    version: int | None = number("A version by its number; without it, the current one.")
    as_of: date | None = parameter(
        "As it stood at the end of that day (UTC), as in 2026-11-21.", ge=FIRST_DAY, le=LAST_DAY
    )
    measure: str | None = text("Its key; without it, the one that the metric shows first.")
    slice: str | None = text(
        "A demographic, a part of the prompts, or an attribute on one; without it, the overall one."
    )
    population: Population | None = parameter(
        "Who is ranked among themselves; without it, each kind, or raw text and chat, where these are ranked apart."
    )
    provenance: Provenance | None = parameter("Without it, measured where there is such a version.")


@router.get(
    "/metrics/{slug}/standings", response={200: Standings, **ANY}, summary="Standings", operation_id="standings"
)
def standings(request: HttpRequest, slug: MetricSlug, query: Query[StandingsQuery]) -> dict[str, Any]:
    """A ranking as its page shows it: now, under any version, or as it stood at the end of a day.

    Entries are by population and rank. With `as_of` the version is the one that was current then.
    """
    metric = next((metric for metric in metrics_with_versions() if metric.slug == slug), None)
    if metric is None:
        raise Missing(
            f"There is no metric {slug!r}.",
            field="slug",
            value=slug,
            remedy="GET /api/v1/metrics lists them.",
        )
    choice = query.measure, query.slice, query.population and query.population.value
    selection = select_ranking(metric, query.version, query.as_of, query.provenance, *choice)
    ranking = read_rankings([selection], View(rows=None, columns=()))[0]
    sheet = sheet_of(ranking)
    return page(request, len(sheet.rows), query) | {
        "metric": metric.slug,
        "versions": [describe_version(version) for version in selection.versions],
        "as_of": query.as_of,
        "measure": selection.measure.key,
        "direction": selection.measure.direction,
        "neutral": selection.measure.neutral,
        "slice": selection.slice,
        "slices": selection.all_slices,
        "not_ranked": [not_ranked(result) for result in sheet.unranked],
        "items": [entry(sheet, *row) for row in sheet.rows[query.offset : query.offset + query.limit]],
    }
