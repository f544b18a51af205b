"""Who stands where: the rows of the page, and how they are ranked."""

from datetime import date, datetime
from typing import Any

from django.http import HttpRequest
from ninja import Query, Schema
from pydantic import Field

from leaderboard.api.problems import ANY, NotHere
from leaderboard.api.reading import MetricSlug, Page, Span, number, page, reading_router, text
from leaderboard.exports import described, entry, not_ranked, sheet_of
from leaderboard.models import LanguageModel, Metric, MetricVersion, Provenance, Standing
from leaderboard.queries.ranking_rows import rankings
from leaderboard.queries.ranking_view import View
from leaderboard.queries.rankings import Wanted, current_versions, metrics_with_versions, slices_of
from leaderboard.services.past import FIRST_DAY, LAST_DAY, current_at, end_of
from leaderboard.views.ranking_address import populations, published_versions
from scoring.metrics.formulas import MEASURES, slices_in_order

router = reading_router("Standings")
GONE = "The ranks of that day cannot be taken again: a file that they were made from is gone."


class Numbers(Schema):
    """What fixes the numbers of a ranking."""

    version: int
    status: MetricVersion.Status
    provenance: Provenance
    source: str
    published_at: datetime
    scorer: str
    scorer_fingerprint: str
    evaluation_set: str
    k: int | None
    decimals: int | None


class Entry(Schema):
    """A place in a ranking. `rank_low` to `rank_high` are the places that paired tests cannot exclude."""

    population: Standing.Population = Field(description="Among whom it is ranked: all models, or those of one kind.")
    population_size: int = Field(description="How many models are ranked there: `rank` is of so many.")
    rank: int
    rank_low: int | None
    rank_high: int | None
    model: str
    slug: str
    family: str
    kind: LanguageModel.Kind
    parameters: int | None
    revision: str
    version: int
    provenance: Provenance
    value: float
    ci_low: float | None
    ci_high: float | None
    indifferent: float | None = Field(description="What the model would have if it were indifferent, where known.")
    indifferent_derived: bool = Field(description="Whether that was worked out here from figures of the source.")
    n: int | None = Field(description="How many texts or prompts the value is of.")
    derived: bool = Field(description="Worked out here from figures of the source, which does not print it.")
    missing: int = Field(description="Texts or prompts without a score: left out of the value, never taken for 0.")
    missing_texts: int | None = Field(description="Continuations without a score, also where prompts are counted.")
    worst_low: float | None = Field(description="The least that the value would be, whatever the missing texts are.")
    worst_high: float | None = Field(description="The largest that it would be.")
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
    items: list[Entry]


class Asked(Span):
    """Which ranking."""

    version: int | None = number("A version by its number; without it, the current one.")
    as_of: date | None = Query(
        None, ge=FIRST_DAY, le=LAST_DAY, description="As it stood at the end of that day (UTC), as in 2026-11-21."
    )
    measure: str | None = text("Its key; without it, the one that the metric shows first.")
    slice: str | None = text(
        "A demographic, a part of the prompts, or an attribute on one; without it, the overall one."
    )
    population: Standing.Population | None = Query(
        None, description="Who is ranked among themselves; without it, each kind where kinds are ranked apart."
    )
    provenance: Provenance | None = Query(None, description="Without it, measured where there is such a version.")


@router.get(
    "/metrics/{slug}/standings", response={200: Standings, **ANY}, summary="Standings", operation_id="standings"
)
def standings(request: HttpRequest, slug: MetricSlug, asked: Query[Asked]) -> dict[str, Any]:
    """A ranking as its page shows it: now, under any version, or as it stood at the end of a day.

    Entries are by population and rank. With `as_of` the version is the one that was current then.
    """
    metric = next((of for of in metrics_with_versions() if of.slug == slug), None)
    if metric is None:
        raise NotHere("slug", slug, f"There is no metric {slug!r}.", "GET /api/v1/metrics lists those there are.")
    wanted = wanted_of(metric, asked)
    try:
        ranking = rankings([wanted], View(rows=None, columns=()))[0]
    except FileNotFoundError as error:
        raise NotHere("as_of", asked.as_of, GONE, "Choose a day of today's entries, or leave as_of out.") from error
    sheet = sheet_of(ranking, asked.as_of)
    return page(request, len(sheet.rows), asked) | {
        "metric": metric.slug,
        "versions": [described(of) for of in wanted.versions],
        "as_of": asked.as_of,
        "measure": wanted.measure.key,
        "direction": wanted.measure.direction,
        "neutral": wanted.measure.neutral,
        "slice": wanted.slice,
        "slices": wanted.all_slices,
        "not_ranked": [not_ranked(result) for result in sheet.unranked],
        "items": [entry(sheet, *row) for row in sheet.rows[asked.offset : asked.offset + asked.limit]],
    }


def wanted_of(metric: Metric, asked: Asked) -> Wanted:
    """The ranking asked for. Raises NotHere where something of it does not exist."""
    version = version_of(metric, asked)
    measure = asked.measure or (version.measure_on(asked.slice) if asked.slice else version.first_measure)
    known = [of.key for of in metric.formula.ranked]
    if measure not in known:
        message = f"{metric.slug} does not rank by {measure!r}."
        raise NotHere("measure", measure, message, f"Use one of {', '.join(known)}.")
    slices = slices_of({version: measure})
    there = slices_in_order(slices.get(version.pk, []))
    name = asked.slice or (there[0] if there else "")
    if name not in there:
        message = f"{version} has no slice {name!r} of {measure}."
        raise NotHere("slice", asked.slice, message, f"Use one of {', '.join(there) or 'none: it has no entries'}.")
    end = end_of(asked.as_of) if asked.as_of else None
    among = [asked.population.value] if asked.population else populations(metric, "")
    return Wanted(metric, [version], MEASURES[measure], name, slices, among, end)


def version_of(metric: Metric, asked: Asked) -> MetricVersion:
    """By its number, or current at the end of the day, or now; measured before published. Raises NotHere."""
    wanted = [asked.provenance.value] if asked.provenance else list(Provenance.values)
    known = [of for of in published_versions(metric) if of.provenance in wanted]
    end = end_of(asked.as_of) if asked.as_of else None
    if asked.version is not None:
        known = [of for of in known if of.number == asked.version and (not end or of.published_at < end)]
        found = known[0] if known else None
    elif end:
        found = next((of for of in (current_at(known, provenance, end) for provenance in wanted) if of), None)
    else:
        found = next(iter(current_versions(metric, wanted)), None)
    if found:
        return found
    field = "version" if asked.version else "as_of" if asked.as_of else "provenance" if asked.provenance else "slug"
    value = {"slug": metric.slug}.get(field) or getattr(asked, field)
    remedy = f"GET /api/v1/metrics/{metric.slug}/versions lists versions with the days on which they were published."
    raise NotHere(field, value, f"{metric.slug} has no such published version with entries.", remedy)
