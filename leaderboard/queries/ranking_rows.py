"""The rows of rankings: filtered, ordered and paged by the database, for all rankings of a page at once."""

from collections import Counter
from datetime import datetime
from math import ceil
from typing import Any

import numpy as np
from django.db.models import Count, Expression, F, Max, Min, Q, Window
from django.db.models.functions import RowNumber

from leaderboard.models import (
    Metric,
    MetricVersion,
    OutdatedEntry,
    Provenance,
    Result,
    Standing,
    Work,
    listed,
    ranked_now,
    significance,
    unranked,
)
from leaderboard.queries.indifferent import Indifferent, indifferent_results
from leaderboard.queries.ranking_view import View
from leaderboard.queries.rankings import Cell, Choices, Group, Ranking, Row, Wanted, extras_of
from leaderboard.services import past
from leaderboard.services.places import leading_count
from scoring.metrics.measures import Measure
from scoring.statistics.ranks import Rank, competition_ranks

Ranks = dict[tuple[str, int], Rank]  # by population and result
ALL_OF_IT = ("model", "result__scoring__run", "result__scoring__entry_check")  # what belongs to a row
GROUPED = ("family", "kind", "access", "source", "hidden_note")
KNOWN_OF_SOME = ("parameters", "n", "missing")  # columns that a paper's figures may lack throughout


def rankings(wanted: list[Wanted], view: View) -> list[Ranking]:
    """Rankings as `view` asks, in a constant number of queries; two of one metric version there cannot be.

    Ranks are of all entries, whatever the filters. Of one ranking alone, ranks may be taken anew: among numbers of
    different provenance, and as they were at a time before entries were added.
    """
    if not wanted:
        return []
    among = Q(pk__in=[])
    for of in wanted:
        among |= entries(of)
    anew = ranks_anew(wanted[0]) if len(wanted) == 1 else None
    everybody = overview(among, view)
    counted = [row for row in everybody if not row["model__hidden_note"]]
    sizes = Counter[tuple[int, str]]()
    for row in everybody:
        sizes[row["metric_version_id"], row["population"]] += row["entries"]
    among &= listed("model__")
    shown = rows(among, wanted, view, anew)
    tied = None if anew is not None else ties(among, shown)
    cells, indifferent = beside(shown, wanted, view)
    outdated = outdated_under([of for of in wanted if flagged(of)])
    incomplete = unranked_under(wanted)
    found = []
    for of in wanted:
        keys = {version.pk for version in of.versions}
        mine = [row for row in counted if row["metric_version_id"] in keys]
        of_rows = [row for row in shown if row.metric_version_id in keys]
        found.append(assemble(of, view, mine, sizes, of_rows, cells, indifferent, anew, tied, outdated, incomplete))
    return found


def entries(wanted: Wanted) -> Q:
    """The standings of a ranking, with those of models that were hidden since."""
    found = Q(
        metric_version__in=wanted.versions,
        measure=wanted.measure.key,
        slice=wanted.slice,
        population__in=wanted.populations,
    )
    return found if wanted.end is None else found & past.stood(wanted.end)


def ranks_anew(wanted: Wanted) -> Ranks | None:
    """Ranks where the stored ones are not those asked for; None where they are.

    Of two versions (measured and published) without rank intervals: nothing pairs their texts.
    """
    if wanted.mixed:
        by_population: dict[str, list[tuple[int, float]]] = {}
        stored = Standing.objects.filter(entries(wanted), listed("model__")).order_by()
        for population, pk, value in stored.values_list("population", "result_id", "value"):
            by_population.setdefault(population, []).append((pk, value))
        direction = wanted.measure.direction or "higher"
        return {
            (population, pk): Rank(int(rank), None, None)
            for population, found in by_population.items()
            for (pk, _), rank in zip(
                found, competition_ranks(np.array([value for _, value in found]), direction), strict=True
            )
        }
    version = wanted.versions[0]
    if wanted.end is None or past.stands(version, wanted.end):
        return None
    again = past.taken_anew(version, wanted.measure.key, wanted.end, wanted.slice)
    return {(row.population, row.result_id): Rank(row.rank, row.rank_low, row.rank_high) for row in again}


def overview(among: Q, view: View) -> list[dict[str, Any]]:
    """How many entries there are and fit the filters, by version, population and what they can be filtered by."""
    counted = (
        Standing.objects.filter(among)
        .order_by()
        .values("metric_version_id", "population", *(f"model__{name}" for name in GROUPED))
        .annotate(
            entries=Count("pk"),
            fitting=Count("pk", filter=view.filters.condition) if view.filters.active else Count("pk"),
            first_ones=Count("pk", filter=Q(rank_low=1)),
            parameters=Count("model__parameters"),
            n=Count("result__n"),
            missing=Count("pk", filter=Q(metric_version__provenance=Provenance.MEASURED)),
            printed=Count("result__published_rank"),
            largest=Max("value"),
            highest=Max("result__ci_high"),
            smallest=Min("value"),
            lowest=Min("result__ci_low"),
            newest=Max("result__scoring__scored_at"),
        )
    )
    return [dict(row) for row in counted]


def rows(among: Q, wanted: list[Wanted], view: View, anew: Ranks | None) -> list[Standing]:
    """The standings of the page, in order; each with the model, the result and the scoring."""
    rank: Expression | F = F("rank")
    descending = False
    if anew is not None:  # stored ranks are of other entries; values are in the order of any ranks of theirs
        rank, descending = F("value"), wanted[0].measure.direction == "higher"
    order = view.order.by(rank, descending)
    fitting = Standing.objects.filter(among).filter(view.filters.condition)
    if view.rows is None:
        return list(fitting.select_related(*ALL_OF_IT).order_by(*order))
    apart = [F("population")] if any(of.mixed for of in wanted) else [F("metric_version"), F("population")]
    number = Window(RowNumber(), partition_by=apart, order_by=order)
    first = (view.page - 1) * view.rows
    shown = fitting.annotate(number=number).filter(number__gt=first, number__lte=first + view.rows)
    # Chosen by their keys first: sorting all of what belongs to every entry would take longer than all the rest.
    chosen = Standing.objects.filter(pk__in=shown.values("pk"))
    return list(chosen.select_related(*ALL_OF_IT).order_by(*order))


def ties(among: Q, shown: list[Standing]) -> set[tuple[int, str, int]]:
    """Ranks that several entries share, by version and population; of all entries, whatever is shown."""
    if not shown:
        return set()
    shared = Standing.objects.filter(among, rank__in={row.rank for row in shown}).order_by()
    counted = shared.values("metric_version_id", "population", "rank").annotate(entries=Count("pk"))
    return set(counted.filter(entries__gt=1).values_list("metric_version_id", "population", "rank"))


def beside(shown: list[Standing], wanted: list[Wanted], view: View) -> tuple[dict[tuple[int, str], Cell], Indifferent]:
    """Of other slices the values, and of the ranked ones the indifferent values; by scoring and slice, in one query."""
    columns = {name for of in wanted for name in of.columns(view)}
    measures = {version.pk: of.measure for of in wanted for version in of.versions}
    ranked = {of.slice for of in wanted}
    chosen = Q(pk__in=[])
    for measure in {measure.key: measure for measure in measures.values()}.values():
        scorings = {row.result.scoring_id for row in shown if row.measure == measure.key}
        chosen |= Q(scoring__in=scorings, measure=measure.key, slice__in=columns)
        chosen |= indifferent_results(measure, scorings, ranked)
    if not shown or not (columns or any(measure.indifferent_key for measure in measures.values())):
        return {}, {}
    printed = {version.pk: version.decimals for of in wanted for version in of.versions}
    digits = {
        row.result.scoring_id: measures[row.metric_version_id].digits
        if printed[row.metric_version_id] is None
        else printed[row.metric_version_id]
        for row in shown
    }
    key_of = {row.result.scoring_id: row.measure for row in shown}
    cells: dict[tuple[int, str], Cell] = {}
    indifferent: Indifferent = {}
    rows = Result.objects.filter(chosen).order_by()
    for scoring, name, key, value, p in rows.values_list("scoring_id", "slice", "measure", "value", "p_adjusted"):
        if key == key_of[scoring]:
            cells[scoring, name] = Cell(value, f"{value:.{digits[scoring]}f}", significance(key, p))
        else:
            indifferent[scoring, name] = value
    return cells, indifferent


def without_value(version: MetricVersion, slices: list[str], name: str) -> Cell:
    """Why there is no value on the slice `name` under `version`, which ranks on `slices`."""
    if not version.measured:
        return Cell(None, "not printed", None, f"The published figures do not have it: {version.source}")
    if name not in slices:
        return Cell(None, "not ranked", None, f"Metric version {version.number} ranks nobody on this slice")
    or_k = ", or no prompt has all k" if version.protocol.k else ""
    return Cell(None, "no text", None, f"Not one of its texts on this slice has a score{or_k}")


def flagged(wanted: Wanted) -> bool:
    """Whether entries may have been left behind as outdated: figures of a paper are not."""
    measured = any(version.measured for version in wanted.versions)
    return measured and wanted.metric.outdated_policy == Metric.OutdatedPolicy.FLAG


def outdated_under(wanted: list[Wanted]) -> list[OutdatedEntry]:
    """The entries that were left behind, with the reason."""
    versions = [version for of in wanted for version in of.versions if version.provenance == Provenance.MEASURED]
    if not versions:
        return []
    return list(
        OutdatedEntry.objects.filter(listed("model__"), metric_version__in=versions).select_related(
            "model", "last_scoring__metric_version"
        )
    )


def unranked_under(wanted: list[Wanted]) -> list[Result]:
    """The numbers of entries that lack too many scores to be ranked, in one query."""
    among = Q(pk__in=[])
    for of in wanted:
        scored = Q() if of.end is None else Q(scoring__scored_at__lt=of.end)
        versions = [version for version in of.versions if version.measured]
        among |= scored & Q(scoring__metric_version__in=versions, measure=of.measure.key, slice=of.slice)
    found = Result.objects.filter(
        among, unranked("scoring__"), ranked_now("scoring__model__"), scoring__state=Work.State.DONE
    )
    return list(found.select_related("scoring__model", "scoring__metric_version").order_by("scoring__model__name"))


def assemble(
    wanted: Wanted,
    view: View,
    counted: list[dict[str, Any]],
    sizes: Counter[tuple[int, str]],
    shown: list[Standing],
    cells: dict[tuple[int, str], Cell],
    indifferent: Indifferent,
    anew: Ranks | None,
    tied: set[tuple[int, str, int]] | None,
    outdated: list[OutdatedEntry],
    incomplete: list[Result],
) -> Ranking:
    """A ranking of what was found."""
    columns = wanted.columns(view)
    versions = {version.pk: version for version in wanted.versions}
    shared = Counter((population, rank.rank) for (population, _), rank in (anew or {}).items())

    def row_of(standing: Standing, leads: bool) -> Row:
        version = versions[standing.metric_version_id]
        if anew is None:
            rank = Rank(standing.rank, standing.rank_low, standing.rank_high)
            is_tied = (version.pk, standing.population, rank.rank) in (tied or set())
        else:
            rank = anew[standing.population, standing.result_id]
            is_tied = shared[standing.population, rank.rank] > 1
        others = [
            cells.get((standing.result.scoring_id, name))
            or without_value(version, wanted.slices.get(version.pk, []), name)
            for name in columns
        ]
        first = leads and rank.low == 1
        return Row(
            standing.model,
            version,
            rank.rank,
            rank.low,
            rank.high,
            standing.result,
            others,
            is_tied,
            indifferent.get((standing.result.scoring_id, wanted.slice)),
            first,
        )

    groups = []
    for population in wanted.populations:
        of = [row for row in counted if row["population"] == population]
        if not of:
            continue
        fitting = sum(row["fitting"] for row in of)
        size = sum(sizes[pk, population] for pk in versions)
        first_ones = sum(row["first_ones"] for row in of)
        if anew is not None:
            first_ones = sum(of_rank.low == 1 for (among, _), of_rank in anew.items() if among == population)
        leads = leading_count(first_ones, size) > 0
        groups.append(
            Group(
                population=population,
                by_kind=wanted.metric.formula.by_kind,
                rows=[row_of(standing, leads) for standing in shown if standing.population == population],
                size=size,
                entries=sum(row["entries"] for row in of),
                fitting=fitting,
                first_ones=first_ones,
                page=view.page,
                first=(view.page - 1) * (view.rows or 0) + 1,
                pages=max(1, ceil(fitting / view.rows)) if view.rows else 1,
            )
        )
    return Ranking(
        wanted=wanted,
        columns=columns,
        extras=extras_of(view, {name for name in KNOWN_OF_SOME if not any(row[name] for row in counted)}),
        groups=groups,
        choices=choices_of(counted),
        most=farthest(wanted.measure, counted, [row.indifferent for group in groups for row in group.rows]),
        newest=newest_of(counted, wanted),
        carries_ranks=not wanted.mixed and any(row["printed"] for row in counted),
        anew=anew is not None,
        outdated=[entry for entry in outdated if entry.metric_version_id in versions],
        unranked=[result for result in incomplete if result.scoring.metric_version_id in versions],
    )


def farthest(measure: Measure, counted: list[dict[str, Any]], indifferent: list[float | None]) -> float:
    """How far from 0 the values of a ranking, the ends of their intervals and the `indifferent` ones shown lie."""
    ends = [abs(row[name]) for row in counted for name in ("largest", "highest", "smallest", "lowest") if row[name]]
    return max([*ends, *(value for value in indifferent if value)], default=measure.largest)


def choices_of(counted: list[dict[str, Any]]) -> Choices:
    """What there is to filter by."""
    return Choices(
        families={row["model__family"] for row in counted} - {""},
        kinds={row["model__kind"] for row in counted},
        accesses={row["model__access"] for row in counted},
        sources={row["model__source"] for row in counted},
    )


def newest_of(counted: list[dict[str, Any]], wanted: Wanted) -> datetime | None:
    """When the ranking last changed: by an entry, or by the publication of its version."""
    known = [row["newest"] for row in counted] + [version.published_at for version in wanted.versions]
    return max((when for when in known if when), default=None)
