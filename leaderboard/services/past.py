"""Standings as they are, were under a version, or stood at the end of a day."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from django.db.models import Exists, OuterRef, Q

from leaderboard.models import (
    LanguageModel,
    Metric,
    MetricVersion,
    Provenance,
    Result,
    Standing,
    Work,
    listed,
    not_held,
    ranked_now,
    unranked,
)
from leaderboard.services.publish import covariances, standings
from scoring.metrics.formulas import MEASURES, slice_parts, slices_in_order
from scoring.metrics.measures import Measure

FIRST_DAY, LAST_DAY = date(2000, 1, 1), date(2999, 12, 31)  # of which rankings can be asked for
MOST_SHOWN = 200  # characters of a wrong value that a message repeats


class NoStandings(ValueError):
    """There is no such ranking; the message says what there is."""


def parse_day(text: str) -> date:
    """A day written as 2026-11-21, from FIRST_DAY to LAST_DAY. Raises ValueError, which says what to write."""
    try:
        day = date.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{text[:MOST_SHOWN]!r} is no day: write it as 2026-11-21") from error
    if not FIRST_DAY <= day <= LAST_DAY:
        raise ValueError(f"{text!r} is too early or too late: use a day from {FIRST_DAY} to {LAST_DAY}")
    return day


@dataclass(frozen=True)
class Ranked:
    """The standings of a version on a measure and a slice, by population and rank; `as_of` a day or as published.

    unranked: the numbers of entries that lack too many scores to be ranked.
    """

    version: MetricVersion
    measure: Measure
    slice: str
    as_of: date | None
    standings: list[Standing]
    unranked: list[Result]


def ranked(
    metric: Metric,
    measure: str | None = None,
    name: str | None = None,
    population: str | None = None,
    number: int | None = None,
    as_of: date | None = None,
) -> Ranked:
    """A ranking of `metric`: under the current version, under version `number`, or as it stood at the end of a day.

    as_of: the version that was current when that day ended in UTC, with the entries that were scored by then. Where
    entries were added or withdrawn since, ranks are taken anew by the function that publishes, and nothing is stored.
    Models that were withdrawn or hidden since are left out, as they would be now. name: a slice, whole or its part
    alone. population: None for each kind by itself where the metric ranks kinds apart. Raises NoStandings;
    FileNotFoundError where an artefact is gone.
    """
    end = None if as_of is None else end_of(as_of)
    version = version_of(metric, number, end)
    chosen = measure or (version.measure_on(name) if name else version.first_measure)
    if chosen not in {of.key for of in metric.formula.ranked}:
        known = ", ".join(of.key for of in metric.formula.ranked)
        raise NoStandings(f"measure = {chosen!r}: {metric.slug} ranks {known}")
    rows = stored(version, chosen) if end is None or stands(version, end) else taken_anew(version, chosen, end)
    there = slices_in_order(row.slice for row in rows)
    found = next((of for of in there if name in (None, of)), None) or next(
        (of for of in there if slice_parts(of)[1] == name), None
    )
    if found is None:
        known = ", ".join(there) or "none: it had no entries then"
        raise NoStandings(f"slice = {name!r}: {version} has no such slice of {chosen}; there is {known}")
    populations = [population or Standing.Population.ALL]
    if population is None and metric.formula.by_kind:
        populations = LanguageModel.Kind.values
    rows = [row for row in rows if row.slice == found and row.population in populations]
    rows.sort(key=lambda row: (populations.index(row.population), row.rank, row.model.name, row.model_id))
    incomplete = Result.objects.filter(
        unranked("scoring__"),
        ranked_now("scoring__model__"),
        scoring__metric_version=version,
        scoring__state=Work.State.DONE,
        measure=chosen,
        slice=found,
    ).select_related("scoring__model", "scoring__metric_version")
    if end is not None:
        incomplete = incomplete.filter(scoring__scored_at__lt=end)
    return Ranked(version, MEASURES[chosen], found, as_of, rows, list(incomplete.order_by("scoring__model__name")))


def version_of(metric: Metric, number: int | None, end: datetime | None) -> MetricVersion:
    """The version by its number; or that was current before `end`; or is now. Measured ones before published ones."""
    known = list(
        metric.versions.filter(published_at__isnull=False)
        .select_related("metric", "protocol__evaluation_set")
        .order_by("number")
    )
    there = ", ".join(
        f"{of.number} (published {of.published_at:%Y-%m-%d %H:%M} UTC, {of.status})" for of in known if of.published_at
    )
    for provenance in Provenance.values:
        if number is not None:
            found = next((of for of in known if of.number == number and of.provenance == provenance), None)
        elif end is not None:
            found = current_at(known, provenance, end)
        else:
            current = [of for of in known if of.status == MetricVersion.Status.CURRENT]
            found = next((of for of in current if of.provenance == provenance), None)
        if found:
            return found
    what = f"version {number}" if number is not None else "version" if end is None else f"version before {end:%Y-%m-%d}"
    raise NoStandings(f"{metric.slug} has no published {what}; there is {there or 'none yet'}")


def stored(version: MetricVersion, measure: str) -> list[Standing]:
    """The standings that were published, without models that are hidden."""
    shown = version.standings.filter(listed("model__"), measure=measure)
    return list(shown.select_related("model", "result__scoring"))


def end_of(day: date) -> datetime:
    """When the day is over, in UTC."""
    return datetime.combine(day + timedelta(days=1), time(), UTC)


def current_at(versions: Iterable[MetricVersion], provenance: str, end: datetime) -> MetricVersion | None:
    """That of `versions` which was current just before `end`: from its publication to that of the next one."""
    before = [
        (of.published_at, of)
        for of in versions
        if of.provenance == provenance and of.published_at and of.published_at < end
    ]
    return max(before, key=lambda pair: pair[0], default=(None, None))[1]


def stood(end: datetime) -> Q:
    """Of stored standings those of entries that were scored before `end` and are neither withdrawn nor hidden."""
    return Q(result__scoring__scored_at__lt=end) & ranked_now("model__")


def stands(version: MetricVersion, end: datetime) -> bool:
    """Whether the stored standings of `version` are those of `end`: no entry was added, withdrawn or hidden since."""
    others = version.scorings.filter(Q(scored_at__gte=end) | ~ranked_now("model__"))
    ranked = version.standings.filter(model=OuterRef("model"))
    return not others.filter(Exists(ranked), state=Work.State.DONE).exists()


def taken_anew(version: MetricVersion, measure: str, end: datetime, name: str | None = None) -> list[Standing]:
    """Standings of the entries scored before `end`, as publication ranks them; not saved. name: of that slice alone."""
    scorings = list(
        version.scorings.filter(state=Work.State.DONE)
        .filter(scored_at__lt=end)
        .filter(ranked_now("model__"), not_held())
        .select_related("model", "artefact", "replicates")
        .order_by("model__name", "pk")
    )
    if not scorings:
        return []
    results = Result.objects.filter(scoring__in=scorings, measure=measure).select_related("scoring")
    if name is not None:
        results = results.filter(slice=name)
    return standings(version, scorings, results, covariances(version, scorings, [measure]) if version.measured else {})
