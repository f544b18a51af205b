"""Standings as they are, were under a version, or stood at the end of a day."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from leaderboard.models import LanguageModel, Metric, MetricVersion, Provenance, Result, Standing, Work
from leaderboard.services.publish import covariances, standings
from scoring.metrics.formulas import MEASURES, slice_parts, slices_in_order
from scoring.metrics.measures import Measure


class NoStandings(ValueError):
    """There is no such ranking; the message says what there is."""


@dataclass(frozen=True)
class Ranked:
    """The standings of a version on a measure and a slice, by population and rank; `as_of` a day or as published."""

    version: MetricVersion
    measure: Measure
    slice: str
    as_of: date | None
    standings: list[Standing]


def ranked(
    metric: Metric,
    measure: str | None = None,
    name: str | None = None,
    population: str | None = None,
    number: int | None = None,
    as_of: date | None = None,
) -> Ranked:
    """A ranking of `metric`: under the current version, under version `number`, or as it stood at the end of a day.

    as_of: the version that was current when that day ended in UTC, with the entries that were scored by then; their
    ranks are taken anew by the function that publishes, and nothing is stored. Models that were withdrawn since are
    left out, as they would be now. name: a slice, whole or its part alone. population: None for each kind by itself
    where the metric ranks kinds apart. Raises NoStandings; FileNotFoundError where an artefact is gone.
    """
    end = None if as_of is None else datetime.combine(as_of + timedelta(days=1), time(), UTC)
    version = version_of(metric, number, end)
    chosen = measure or metric.measure
    if chosen not in {of.key for of in metric.formula.ranked}:
        known = ", ".join(of.key for of in metric.formula.ranked)
        raise NoStandings(f"measure = {chosen!r}: {metric.slug} ranks {known}")
    rows = stored(version, chosen) if end is None else taken_anew(version, chosen, end)
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
    rows.sort(key=lambda row: (populations.index(row.population), row.rank, row.model.name))
    return Ranked(version, MEASURES[chosen], found, as_of, rows)


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
    if number is not None:
        fitting = [of for of in known if of.number == number]
    elif end is not None:
        # A version is current from its publication to that of the next one of its provenance.
        before = [(of.published_at, of) for of in known if of.published_at and of.published_at < end]
        fitting = [of for _, of in sorted(before, key=lambda pair: pair[0])]
    else:
        fitting = [of for of in known if of.status == MetricVersion.Status.CURRENT]
    for provenance in Provenance.values:
        of_one = [of for of in fitting if of.provenance == provenance]
        if of_one:
            return of_one[-1]
    what = f"version {number}" if number is not None else "version" if end is None else f"version before {end:%Y-%m-%d}"
    raise NoStandings(f"{metric.slug} has no published {what}; there is {there or 'none yet'}")


def stored(version: MetricVersion, measure: str) -> list[Standing]:
    """The standings that were published."""
    return list(version.standings.filter(measure=measure).select_related("model", "result__scoring"))


def taken_anew(version: MetricVersion, measure: str, end: datetime) -> list[Standing]:
    """Standings of the entries scored before `end`, as publication ranks them; not saved."""
    scorings = list(
        version.scorings.filter(state=Work.State.DONE)
        .filter(scored_at__lt=end)
        .exclude(model__access=LanguageModel.Access.WITHDRAWN)
        .select_related("model", "artefact", "replicates")
        .order_by("model__name", "pk")
    )
    if not scorings:
        return []
    results = Result.objects.filter(scoring__in=scorings, measure=measure).select_related("scoring")
    return standings(version, scorings, results, covariances(version, scorings) if version.measured else {})
