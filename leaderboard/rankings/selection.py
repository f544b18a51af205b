"""Which ranking a request means: its metric, version, measure, slice, population and day.

The defaults are the same everywhere: the version as in `versions`; the measure that the version shows first, or the
first one that ranks the chosen slice; the overall slice; the populations as in `populations`.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property

from leaderboard.models import LanguageModel, Metric, MetricVersion, Provenance, Standing
from leaderboard.rankings.days import MOST_SHOWN, end_of
from leaderboard.rankings.populations import ALL, apart_populations, ranked_populations
from leaderboard.rankings.slices import find_slice, slices_of
from leaderboard.rankings.versions import NoRanking, choose_version, choose_versions, current_versions
from leaderboard.rankings.view import SLICE, USUAL, View
from scoring.metrics.formulas import MEASURES, slice_parts, slices_in_order
from scoring.metrics.measures import Measure
from scoring.metrics.safety import AVERAGE, DISTILLED

BOTH = "both"  # in place of a provenance: figures of both in one ranking


@dataclass(frozen=True)
class Selection:
    """A ranking to show: of a measure on a slice, under one version or, on request, two of different provenance.

    slices: all that the measure is ranked on, by version. populations: those that are ranked among themselves. day: at
    the end of which it stood; None for now. interface: the only one whose entries are ranked; "" for every one.
    """

    metric: Metric
    versions: list[MetricVersion]
    measure: Measure
    slice: str
    slices: dict[int, list[str]]
    populations: list[str]
    day: date | None = None
    interface: str = ""

    @property
    def end(self) -> datetime | None:
        """Only entries scored before it count, ranked as they were then."""
        return None if self.day is None else end_of(self.day)

    @property
    def is_mixed(self) -> bool:
        """Whether numbers of different provenance stand in it."""
        return len(self.versions) > 1

    @cached_property
    def all_slices(self) -> list[str]:
        """Of any of its versions, in order."""
        return slices_in_order(name for version in self.versions for name in self.slices.get(version.pk, []))

    def columns(self, view: View) -> list[str]:
        """The slices whose values stand beside the value."""
        if view.columns is None:
            return columns_beside(self.slice, self.all_slices)
        return [name for name in self.all_slices if SLICE + name in view.columns and name != self.slice]


def key_of_all(selections: Iterable[Selection]) -> Hashable:
    """What tells these rankings from others, whatever of them is shown."""
    return tuple(
        (
            tuple(version.pk for version in selection.versions),
            selection.measure.key,
            selection.slice,
            tuple(selection.populations),
            selection.day,
            selection.interface,
        )
        for selection in selections
    )


def select_ranking(
    metric: Metric,
    number: int | None = None,
    day: date | None = None,
    provenance: str | None = None,
    measure: str | None = None,
    name: str | None = None,
    population: str | None = None,
) -> Selection:
    """The ranking that a program requests: of the version `number`, as it stood on `day`, on the slice `name`.

    metric: one of `metrics_with_versions`. name: a slice, whole or its part alone. Raises NoRanking.
    """
    version = choose_version(metric, number, day, provenance)
    ranked_measure = measure or (version.measure_on(name) if name else version.first_measure)
    measure_keys = [option.key for option in metric.formula.ranked]
    if ranked_measure not in measure_keys:
        raise NoRanking(
            f"measure = {ranked_measure!r}: {metric.slug} ranks {', '.join(measure_keys)}",
            field="measure",
            value=ranked_measure,
        )
    slices = slices_of({version: ranked_measure})
    slice_names = slices.get(version.pk, [])
    place = find_slice(slice_names, name)
    if place is None:
        message = f"slice = {name!r}: {version} has no such slice of {ranked_measure}; there is "
        raise NoRanking(message + (", ".join(slice_names) or "none: it has no entries"), field="slice", value=name)
    populations = ranked_populations([version], population)
    return Selection(metric, [version], MEASURES[ranked_measure], place, slices, populations, day)


@dataclass(frozen=True)
class PageSelection:
    """The rankings of a page, one under the other; of them `slices` can be chosen, the overall one first.

    slice: the one that is ranked on. measure: that of the first ranking; `usual`: the one it has where nobody chose.
    """

    rankings: list[Selection]
    slice: str
    slices: list[str]
    measure: str
    usual: str


def select_page(
    metric: Metric,
    metrics: Sequence[Metric],
    number: int | None,
    day: date | None,
    provenance: str,
    measure: str,
    name: str,
    population: str,
) -> PageSelection:
    """The rankings of a page of `metric`: one a provenance, or with BOTH one of all; "" or None where nobody chose.

    Where nobody chose a provenance, a version or a day, the first published ranking of a metric like it comes last, see
    `borrowable_versions`. Raises NoRanking for a slice that does not exist.
    """
    own = own_versions(metric, number, day, provenance)
    borrowable = [] if number or day else borrowable_versions(metric, metrics)
    tables = [*((metric, versions) for versions in own), *borrowable]
    usual = {version: first_measure(versions) for _, versions in tables for version in versions}
    measures = {version: measure or first for version, first in usual.items()}
    slices = slices_of(measures)
    if name and not measure and not any(find_slice(names, name) for names in slices.values()):
        usual |= {version: version.measure_on(name) for versions in own for version in versions}
        measures |= usual
        slices = slices_of(measures)
    slice_names = known_slices(metric, own, slices)
    ranked_slice = choose_slice(metric, name, slice_names)
    is_default = not (provenance or number or day)
    page_tables = [
        (metric, versions, ranked_slice)
        for versions in own
        if ranks_slice(versions, ranked_slice, slices) or versions[0].measured or not is_default
    ]
    if is_default and all(versions[0].measured for _, versions, _ in page_tables):
        lender = next((table for table in borrowable if ranks_any(table[1], slices)), None)
        page_tables += [(*lender, slices[lender[1][0].pk][0])] if lender else []
    rankings = [
        Selection(
            board,
            versions,
            MEASURES[measures[versions[0]]],
            place,
            slices,
            page_populations(versions, population),
            day,
            comparable_interface(versions, population),
        )
        for board, versions, place in page_tables
    ]
    first = rankings[0] if rankings else None
    return PageSelection(
        rankings,
        ranked_slice,
        slice_names,
        first.measure.key if first else measure or metric.measure,
        usual[first.versions[0]] if first else metric.measure,
    )


def page_populations(versions: Sequence[MetricVersion], population: str) -> list[str]:
    """The populations of a table; the form of the page may send along one that only another metric ranks apart."""
    known_populations = (ALL, *apart_populations(versions))
    return ranked_populations(versions, population if population in known_populations else None)


def comparable_interface(versions: Sequence[MetricVersion], population: str) -> str:
    """The interface whose entries stand beside figures from papers, which are of raw text, unless all are asked for."""
    is_divided = any(version.ranks_interfaces for version in versions) and not apart_populations(versions)
    return LanguageModel.Interface.TEXT.value if is_divided and population != ALL else ""


def own_versions(metric: Metric, number: int | None, day: date | None, provenance: str) -> list[list[MetricVersion]]:
    """The versions of `metric` that a page shows, by ranking: one each, or with BOTH all in one.

    Those that rank nothing but what comes with the board stand last.
    """
    provenances = [provenance] if provenance in Provenance.values and number is None else Provenance.values
    versions = choose_versions(metric, number, day, provenances)
    if provenance == BOTH and versions:
        return [versions]
    return [[version] for version in sorted(versions, key=lambda version: not version.has_known)]  # type: ignore[attr-defined]


def borrowable_versions(metric: Metric, metrics: Sequence[Metric]) -> list[tuple[Metric, list[MetricVersion]]]:
    """Other metrics of the same formula with published figures, and the versions that hold these.

    A metric of likelihoods without published figures borrows those of the first metric that has some, so that a new
    board shows what such numbers look like; the table names the metric it is of. One of continuations does not: figures
    of another scorer say little about its own.
    """
    if not metric.formula.borrows_figures:
        return []
    others = [other for other in metrics if other != metric and other.formula_name == metric.formula_name]
    figures = [(other, current_versions(other, [Provenance.PUBLISHED])) for other in others]
    return [(other, versions) for other, versions in figures if versions]


def first_measure(versions: Sequence[MetricVersion]) -> str:
    """The measure that is shown first of versions in one ranking: one that falls back decides for all."""
    fallbacks = (version.fallback_measure for version in versions)
    return next(filter(None, fallbacks), versions[0].first_measure)


def ranks_slice(versions: Iterable[MetricVersion], name: str, slices: dict[int, list[str]]) -> bool:
    """Whether any of `versions` ranks on the slice."""
    return any(name in slices.get(version.pk, []) for version in versions)


def ranks_any(versions: Iterable[MetricVersion], slices: dict[int, list[str]]) -> bool:
    """Whether any of `versions` ranks on any slice."""
    return any(slices.get(version.pk) for version in versions)


def known_slices(metric: Metric, own: Iterable[list[MetricVersion]], slices: dict[int, list[str]]) -> list[str]:
    """The slices to choose from, the overall one first; what is to come where nothing is ranked yet."""
    names = {name for versions in own for version in versions for name in slices.get(version.pk, [])}
    counts = metric.protocol.evaluation_set.counts
    if not names and metric.formula.by_kind:
        names = set(counts) | ({AVERAGE} if len(counts) > 1 else set())
    return slices_in_order(names) or [AVERAGE]


def choose_slice(metric: Metric, name: str, slice_names: Sequence[str]) -> str:
    """The slice that `name` means; one that only another version or measure has is kept, and has no numbers here.

    Raises NoRanking.
    """
    if not name:
        return slice_names[0]
    if name not in slice_names and is_ranked_elsewhere(metric, name):
        return name
    place = find_slice(slice_names, name)
    if place is None:
        message = f"slice = {name[:MOST_SHOWN]!r} does not exist here. Known: {', '.join(slice_names)}"
        raise NoRanking(message, field="slice", value=name)
    return place


def is_ranked_elsewhere(metric: Metric, name: str) -> bool:
    """Whether another version or measure of `metric` is ranked on the slice: then it exists, if not in this view."""
    return Standing.objects.filter(metric_version__metric=metric, slice=name).exists()


def columns_beside(name: str, slices: Iterable[str]) -> list[str]:
    """The slices whose values stand beside those of slice `name`, in order.

    Of a scorer's attributes on parts of the prompts: the other parts of this attribute, and this part of the others.
    Models distilled from one teacher stand by themselves: they have no value on another slice.
    """
    attribute, part = slice_parts(name)
    others = [other for other in slices_in_order(slices) if other != name and not {name, other} & set(DISTILLED)]
    return [other for other in others if not attribute or attribute in slice_parts(other) or part in slice_parts(other)]


def usual_columns(metric: Metric, name: str, slices: Iterable[str]) -> set[str]:
    """The default columns beside the slice `name`."""
    of_chats = {"refusals"} if metric.has_chat_protocol else set()
    return {*USUAL} - {"refusals"} | of_chats | {*(SLICE + other for other in columns_beside(name, slices))}
