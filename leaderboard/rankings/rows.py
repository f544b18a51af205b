"""The rows of rankings: filtered, ordered and paged by the database, for all rankings of a page at once."""

from collections import Counter
from datetime import datetime
from math import ceil
from typing import Any

import numpy as np
from django.db.models import Count, Expression, F, Max, Min, Q, Window
from django.db.models.functions import RowNumber

from leaderboard.models import (
    LanguageModel,
    Metric,
    MetricVersion,
    OutdatedEntry,
    Provenance,
    Result,
    Standing,
    Work,
    course_fields,
    is_listed,
    is_unranked,
    ranked_now,
    significance,
)
from leaderboard.rankings import days
from leaderboard.rankings.corrected import Correction, usual_corrections
from leaderboard.rankings.digits import digits_of
from leaderboard.rankings.indifferent import Indifferent, indifferent_results
from leaderboard.rankings.movement import RankMovement, read_movements
from leaderboard.rankings.populations import ALL, leading_count
from leaderboard.rankings.ranking import Choices, PopulationRows, Ranking, Row, SliceCell, extras_of
from leaderboard.rankings.scales import fit_scale, fit_shades
from leaderboard.rankings.selection import Selection, key_of_all
from leaderboard.rankings.versions import NoRanking
from leaderboard.rankings.view import Filters, View
from leaderboard.state_memo import once_a_state
from scoring.artefacts import ArtefactError
from scoring.metrics.measures import Measure
from scoring.statistics.ranks import Rank, competition_ranks

GONE = "The ranks of that day cannot be taken again: a file that they were made from is gone."
Ranks = dict[tuple[str, int], Rank]  # by population and result
ALL_OF_IT = ("model__identity", "result__scoring__run", "result__scoring__entry_check")  # what belongs to a row
SCORING = "result__scoring__"
RUN = f"{SCORING}run__"
# What no page, file or answer says of a row, by what it belongs to.
UNSAID = {
    "model__": ("heads", "hidden_size", "notes", "created_at"),
    "model__identity__": ("organisation", "family", "parameters", "licence", "aliases", "created_at"),
    SCORING: ("artefact", "replicates", "texts", "texts_missing"),
    f"{SCORING}entry_check__": ("state", "reason", "decided_by", "decided_at", "created_at"),
    RUN: (
        *("model", "protocol", "epoch", "artefact", "requester", "requests_made", "tokens_used"),
        *("loaded_files", "special_tokens", "tokenizer_report", "self_test"),
    ),
}
UNREAD = [
    *(*course_fields(SCORING), *course_fields(RUN)),
    *(f"{owner}{name}" for owner, names in UNSAID.items() for name in names),
]
GROUPED = (
    *("family", "kind", "access", "source", "hidden_note", "release_date__year"),
    *("precision", "weight_format", "licence"),
)
IS_CHAT_ANSWERS = Q(model__interface=LanguageModel.Interface.CHAT, metric_version__chat_protocol__isnull=False)
# Columns that a paper's figures may lack throughout, and entries of raw text.
KNOWN_OF_SOME = ("parameters", "context", "release_date", "n", "missing", "refusals")


def read_rankings(selections: list[Selection], view: View) -> list[Ranking]:
    """The rankings of a page as `view` asks, in a constant number of queries, at most one of each metric version.

    Ranks count all entries, whatever the filters. A single ranking may need new ranks: for numbers of different
    provenance, and for a day before entries were added. Raises NoRanking where a file that these need is gone.
    """
    if not selections:
        return []
    condition = entries_of_all(selections)
    new_ranks = ranks_anew(selections[0]) if len(selections) == 1 else None
    overview_rows = overview(selections, view.filters)
    visible_rows = [row for row in overview_rows if not row["model__hidden_note"]]
    sizes = Counter[tuple[int, str]]()
    for row in overview_rows:
        sizes[row["metric_version_id"], row["population"]] += row["entries"]
    condition &= is_listed("model__")
    page_standings = rows(condition, selections, view, new_ranks)
    tied = None if new_ranks is not None else ties(condition, page_standings)
    cells, indifferent = read_cells(page_standings, selections, view)
    outdated_entries = outdated_under(
        [selection for selection in selections if flags_outdated(selection)], view.filters
    )
    incomplete = unranked_under(selections, view.filters)
    movements = read_movements(selections) if new_ranks is None else {}
    corrections = usual_corrections(selections)
    rankings = []
    for selection in selections:
        keys = {version.pk for version in selection.versions}
        own_rows = [row for row in visible_rows if row["metric_version_id"] in keys]
        own_standings = [row for row in page_standings if row.metric_version_id in keys]
        rankings.append(
            assemble(
                selection,
                view,
                own_rows,
                sizes,
                own_standings,
                cells,
                indifferent,
                new_ranks,
                tied,
                outdated_entries,
                incomplete,
                movements.get(selection.versions[0].pk),
                corrections.get(selection.versions[0].pk),
            )
        )
    return rankings


def entries_of_all(selections: list[Selection]) -> Q:
    """The condition of the standings of several rankings."""
    condition = Q(pk__in=[])
    for selection in selections:
        condition |= entries(selection)
    return condition


def entries(selection: Selection) -> Q:
    """The condition of the standings of a ranking, with models hidden since."""
    condition = Q(
        metric_version__in=selection.versions,
        measure=selection.measure.key,
        slice=selection.slice,
        population__in=selection.populations,
    )
    if selection.interface:
        condition &= Q(model__interface=selection.interface)
    return condition if selection.end is None else condition & days.standings_before(selection.end)


def ranks_anew(selection: Selection) -> Ranks | None:
    """New ranks where the stored ones do not answer the request; None where they do.

    Ranks across two versions (measured and published) have no intervals: nothing pairs their texts.
    """
    if selection.is_mixed:
        by_population: dict[str, list[tuple[int, float]]] = {}
        standings = Standing.objects.filter(entries(selection), is_listed("model__")).order_by()
        for population, pk, value in standings.values_list("population", "result_id", "value"):
            by_population.setdefault(population, []).append((pk, value))
        direction = selection.measure.direction or "higher"
        return {
            (population, pk): Rank(int(rank), None, None)
            for population, pairs in by_population.items()
            for (pk, _), rank in zip(
                pairs, competition_ranks(np.array([value for _, value in pairs]), direction), strict=True
            )
        }
    version = selection.versions[0]
    if selection.end is None or days.is_unchanged(version, selection.end):
        return None
    try:
        new_standings = days.rank_again(version, selection.measure.key, selection.slice, selection.end)
    except (FileNotFoundError, ArtefactError) as error:
        raise NoRanking(GONE, field="as_of", value=selection.day) from error
    return {(row.population, row.result_id): Rank(row.rank, row.rank_low, row.rank_high) for row in new_standings}


@once_a_state(lambda selections, filters: (key_of_all(selections), filters))
def overview(selections: list[Selection], filters: Filters) -> list[dict[str, Any]]:
    """How many entries exist and fit the filters, by version, population and the values of filters."""
    groups = (
        Standing.objects.filter(entries_of_all(selections))
        .order_by()
        .values("metric_version_id", "population", *(f"model__{name}" for name in GROUPED))
        .annotate(
            entries=Count("pk"),
            fitting=Count("pk", filter=filters.condition()) if filters.active else Count("pk"),
            first_ones=Count("pk", filter=Q(rank_low=1)),
            parameters=Count("model__parameters"),
            context=Count("model__context"),
            release_date=Count("model__release_date"),
            n=Count("result__n"),
            missing=Count("pk", filter=Q(metric_version__provenance=Provenance.MEASURED)),
            refusals=Count("pk", filter=IS_CHAT_ANSWERS),
            printed=Count("result__published_rank"),
            largest=Max("value"),
            highest=Max("result__ci_high"),
            smallest=Min("value"),
            lowest=Min("result__ci_low"),
            newest=Max("result__scoring__scored_at"),
        )
    )
    return [dict(row) for row in groups]


def rows(condition: Q, selections: list[Selection], view: View, new_ranks: Ranks | None) -> list[Standing]:
    """The standings of the page, in order; each with the model, the result and the scoring."""
    rank: Expression | F = F("rank")
    is_descending = False
    if new_ranks is not None:  # stored ranks are of other entries; values are in the order of any ranks of theirs
        rank, is_descending = F("value"), selections[0].measure.direction == "higher"
    order = view.order.expressions(rank, is_descending)
    standings = Standing.objects.filter(condition).filter(view.filters.condition())
    if view.rows is None:
        return list(standings.select_related(*ALL_OF_IT).defer(*UNREAD).order_by(*order))
    partition = (
        [F("population")]
        if any(selection.is_mixed for selection in selections)
        else [F("metric_version"), F("population")]
    )
    number = Window(RowNumber(), partition_by=partition, order_by=order)
    first = (view.page - 1) * view.rows
    page_keys = standings.annotate(number=number).filter(number__gt=first, number__lte=first + view.rows)
    # Chosen by their keys first: sorting all of what belongs to every entry would take longer than all the rest.
    page_standings = Standing.objects.filter(pk__in=page_keys.values("pk"))
    return list(page_standings.select_related(*ALL_OF_IT).defer(*UNREAD).order_by(*order))


def ties(condition: Q, page_standings: list[Standing]) -> set[tuple[int, str, int]]:
    """Ranks that several entries share, by version and population; of all entries, whatever is shown."""
    if not page_standings:
        return set()
    standings = Standing.objects.filter(condition, rank__in={row.rank for row in page_standings}).order_by()
    groups = standings.values("metric_version_id", "population", "rank").annotate(entries=Count("pk"))
    return set(groups.filter(entries__gt=1).values_list("metric_version_id", "population", "rank"))


def read_cells(
    page_standings: list[Standing], selections: list[Selection], view: View
) -> tuple[dict[tuple[int, str], SliceCell], Indifferent]:
    """Values on the other slices and indifferent values on the ranked ones, by scoring and slice, in one query."""
    columns = {name for selection in selections for name in selection.columns(view)}
    measures = {version.pk: selection.measure for selection in selections for version in selection.versions}
    slices = columns | {selection.slice for selection in selections}
    condition = Q(pk__in=[])
    for measure in {measure.key: measure for measure in measures.values()}.values():
        scorings = {row.result.scoring_id for row in page_standings if row.measure == measure.key}
        condition |= Q(scoring__in=scorings, measure__in={measure.key, measure.tested_key}, slice__in=columns)
        condition |= indifferent_results(measure, scorings, slices)
    if not page_standings or not (columns or any(measure.indifferent_key for measure in measures.values())):
        return {}, {}
    versions = {version.pk: version for selection in selections for version in selection.versions}
    digits = {row.result.scoring_id: digits_of(versions[row.metric_version_id], row.measure) for row in page_standings}
    measure_of = {row.result.scoring_id: measures[row.metric_version_id] for row in page_standings}
    values, indifferent, verdicts = sort_results(condition, measure_of)
    levels: dict[tuple[int, str], int] = {}
    for selection in selections:
        if selection.metric.formula.by_demographic:
            levels |= shade_values(values, indifferent, selection, page_standings)
    cells = {
        key: SliceCell(
            value, f"{value:.{digits[key[0]]}f}", verdicts.get(key), "", levels.get(key), indifferent.get(key)
        )
        for key, value in values.items()
    }
    return cells, indifferent


def sort_results(
    condition: Q, measure_of: dict[int, Measure]
) -> tuple[Indifferent, Indifferent, dict[tuple[int, str], bool | None]]:
    """Values, indifferent values and verdicts by scoring and slice. measure_of: the one shown, by scoring."""
    values: Indifferent = {}
    indifferent: Indifferent = {}
    verdicts: dict[tuple[int, str], bool | None] = {}
    rows = Result.objects.filter(condition).order_by()
    for scoring, name, key, value, p in rows.values_list("scoring_id", "slice", "measure", "value", "p_adjusted"):
        measure = measure_of[scoring]
        if key == measure.key:
            values[scoring, name] = value
        elif key == measure.indifferent_key:
            indifferent[scoring, name] = value
        if key == measure.tested_key:
            verdicts[scoring, name] = significance(key, p)
    return values, indifferent, verdicts


def shade_values(
    values: Indifferent, indifferent: Indifferent, selection: Selection, page_standings: list[Standing]
) -> dict[tuple[int, str], int]:
    """The shades of the values of one ranking, by scoring and slice."""
    versions = {version.pk for version in selection.versions}
    scorings = {row.result.scoring_id for row in page_standings if row.metric_version_id in versions}
    keys = [key for key in values if key[0] in scorings]
    own_values = [indifferent.get(key) for key in keys]
    shades = fit_shades(selection.measure, [values[key] for key in keys], own_values)
    return {key: shades.level(values[key], own) for key, own in zip(keys, own_values, strict=True)}


def without_value(version: MetricVersion, slices: list[str], name: str) -> SliceCell:
    """Why there is no value on the slice `name` under `version`, which ranks on `slices`."""
    if not version.measured:
        return SliceCell(None, "not printed", None, f"The published figures do not have it: {version.source}")
    if name not in slices:
        return SliceCell(None, "not ranked", None, f"Metric version {version.number} ranks nobody on this slice")
    or_k = ", or no prompt has all k" if version.protocol.k else ""
    return SliceCell(None, "no text", None, f"Not one of its texts on this slice has a score{or_k}")


def flags_outdated(selection: Selection) -> bool:
    """Whether the ranking shows outdated entries: figures from papers have none."""
    is_measured = any(version.measured for version in selection.versions)
    return is_measured and selection.metric.outdated_policy == Metric.OutdatedPolicy.FLAG


@once_a_state(lambda selections, filters: (key_of_all(selections), filters))
def outdated_under(selections: list[Selection], filters: Filters) -> list[OutdatedEntry]:
    """The entries that were left behind and fit the filters, with the reason."""
    if not selections:
        return []
    condition = Q(pk__in=[])
    for selection in selections:
        versions = [version for version in selection.versions if version.measured]
        condition |= fits_unranked(selection, filters, "model__") & Q(metric_version__in=versions)
    return list(
        OutdatedEntry.objects.filter(condition, is_listed("model__"))
        .select_related("model", "last_scoring__metric_version")
        .defer(*course_fields("last_scoring__"))
    )


@once_a_state(lambda selections, filters: (key_of_all(selections), filters))
def unranked_under(selections: list[Selection], filters: Filters) -> list[Result]:
    """The numbers of entries that lack too many scores to be ranked and fit the filters, in one query."""
    condition = Q(pk__in=[])
    for selection in selections:
        time_limit = Q() if selection.end is None else Q(scoring__scored_at__lt=selection.end)
        exact = {"measure": selection.measure.key, "slice": selection.slice}
        versions = [version for version in selection.versions if version.measured]
        fits = fits_unranked(selection, filters, "scoring__model__")
        condition |= fits & time_limit & Q(scoring__metric_version__in=versions, **exact)
    results = Result.objects.filter(
        condition, is_unranked("scoring__"), ranked_now("scoring__model__"), scoring__state=Work.State.DONE
    )
    return list(
        results.select_related("scoring__model__identity", "scoring__metric_version")
        .defer(*course_fields("scoring__"))
        .order_by("scoring__model__name")
    )


def fits_unranked(selection: Selection, filters: Filters, model: str) -> Q:
    """The condition that the ranking would show an entry without a rank, had it one. model: the prefix of its model."""
    condition = filters.condition(model)
    if selection.interface:
        condition &= Q(**{f"{model}interface": selection.interface})
    if ALL in selection.populations:
        return condition
    names = selection.populations
    return condition & (Q(**{f"{model}kind__in": names}) | Q(**{f"{model}interface__in": names}))


def assemble(
    selection: Selection,
    view: View,
    visible_rows: list[dict[str, Any]],
    sizes: Counter[tuple[int, str]],
    page_standings: list[Standing],
    cells: dict[tuple[int, str], SliceCell],
    indifferent: Indifferent,
    new_ranks: Ranks | None,
    tied: set[tuple[int, str, int]] | None,
    outdated_entries: list[OutdatedEntry],
    incomplete: list[Result],
    movement: RankMovement | None,
    correction: Correction | None,
) -> Ranking:
    """A ranking from the rows that were read."""
    columns = selection.columns(view)
    versions = {version.pk: version for version in selection.versions}
    tie_sizes = Counter((population, rank.rank) for (population, _), rank in (new_ranks or {}).items())

    def row_of(standing: Standing, leads: bool) -> Row:
        version = versions[standing.metric_version_id]
        if new_ranks is None:
            rank = Rank(standing.rank, standing.rank_low, standing.rank_high)
            is_tied = (version.pk, standing.population, rank.rank) in (tied or set())
        else:
            rank = new_ranks[standing.population, standing.result_id]
            is_tied = tie_sizes[standing.population, rank.rank] > 1
        others = [
            cells.get((standing.result.scoring_id, name))
            or without_value(version, selection.slices.get(version.pk, []), name)
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
            indifferent.get((standing.result.scoring_id, selection.slice)),
            first,
            correction.correct(standing.result) if correction else None,
            movement.gained.get((standing.population, standing.model.slug)) if movement else None,
        )

    groups = []
    for population in selection.populations:
        population_rows = [row for row in visible_rows if row["population"] == population]
        if not population_rows:
            continue
        fitting_count = sum(row["fitting"] for row in population_rows)
        size = sum(sizes[pk, population] for pk in versions)
        first_ones = sum(row["first_ones"] for row in population_rows)
        if new_ranks is not None:
            first_ones = sum(
                new_rank.low == 1 for (key_population, _), new_rank in new_ranks.items() if key_population == population
            )
        leads = leading_count(first_ones, size) > 0
        groups.append(
            PopulationRows(
                population=population,
                by_kind=selection.metric.formula.by_kind,
                rows=[row_of(standing, leads) for standing in page_standings if standing.population == population],
                size=size,
                entries=sum(row["entries"] for row in population_rows),
                fitting=fitting_count,
                first_ones=first_ones,
                page=view.page,
                first=(view.page - 1) * (view.rows or 0) + 1,
                pages=max(1, ceil(fitting_count / view.rows)) if view.rows else 1,
            )
        )
    return Ranking(
        selection=selection,
        columns=columns,
        extras=extras_of(view, {name for name in KNOWN_OF_SOME if not any(row[name] for row in visible_rows)}),
        groups=groups,
        choices=choices_of(visible_rows),
        scale=fit_scale(
            selection.measure,
            drawn_values(visible_rows, [row.indifferent for group in groups for row in group.rows]),
        ),
        newest=newest_of(visible_rows, selection),
        carries_ranks=not selection.is_mixed and any(row["printed"] for row in visible_rows),
        anew=new_ranks is not None and not selection.is_mixed,
        outdated=[entry for entry in outdated_entries if entry.metric_version_id in versions],
        unranked=[result for result in incomplete if result.scoring.metric_version_id in versions],
        movement=movement,
        has_chosen_columns=view.columns is not None,
        correction=correction,
    )


def drawn_values(visible_rows: list[dict[str, Any]], indifferent: list[float | None]) -> list[float]:
    """The ends of the values of a ranking and of their intervals, and the `indifferent` ones shown."""
    ends = [row[name] for row in visible_rows for name in ("largest", "highest", "smallest", "lowest")]
    return [value for value in (*ends, *indifferent) if value is not None]


def choices_of(visible_rows: list[dict[str, Any]]) -> Choices:
    """The values of filters."""
    return Choices(
        families={row["model__family"] for row in visible_rows} - {""},
        kinds={row["model__kind"] for row in visible_rows},
        accesses={row["model__access"] for row in visible_rows},
        sources={row["model__source"] for row in visible_rows},
        years={row["model__release_date__year"] for row in visible_rows} - {None},
        precisions={row["model__precision"] for row in visible_rows},
        weight_formats={row["model__weight_format"] for row in visible_rows} - {""},
        licences={row["model__licence"] for row in visible_rows} - {""},
    )


def newest_of(visible_rows: list[dict[str, Any]], selection: Selection) -> datetime | None:
    """When the ranking last changed: by an entry, or by the publication of its version."""
    moments = [row["newest"] for row in visible_rows] + [version.published_at for version in selection.versions]
    return max((moment for moment in moments if moment), default=None)
