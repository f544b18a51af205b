"""Rankings over the versions of a metric: the ranks of every model, and what changed between two of them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import Count, F, IntegerField, Prefetch, Q, QuerySet, Value

from leaderboard.models import (
    LanguageModel,
    Metric,
    MetricVersion,
    OutdatedEntry,
    Provenance,
    Rescoring,
    Scoring,
    Standing,
    listed,
    unranked,
)
from leaderboard.services.comparison_words import coefficient
from leaderboard.services.record import paired_slices
from scoring.metrics.formulas import MEASURES, slices_in_order
from scoring.statistics.rank_changes import Entry, ModelApart, ModelChange, RankChanges, rank_changes

MOST_NAMED = 12  # models in a sentence


class Absence(NamedTuple):
    """Why a model has no place under a version: a word, and the reason."""

    label: str
    reason: str


class Place(NamedTuple):
    """Where a model stood under one version."""

    rank: int
    low: int | None
    high: int | None
    value: float
    printed_rank: int | None  # that its source gives

    @property
    def interval(self) -> str:
        """The ranks that cannot be excluded; empty where nothing is known of them."""
        return "" if self.low is None else f"{self.low}–{self.high}"  # noqa: RUF001 (a range wants an en dash)


@dataclass(frozen=True, slots=True)
class Line:
    """One model over versions; `places` are in their order, None where it is not ranked.

    `reasons` say why, by position, where the record knows.
    """

    slug: str
    name: str
    family: str
    places: tuple[Place | None, ...]
    absences: tuple[Absence | None, ...]

    @property
    def ranks(self) -> list[int | None]:
        """The rank of each place."""
        return [None if place is None else place.rank for place in self.places]

    @property
    def newest(self) -> int:
        """Its rank under the last version that ranks it."""
        return next(place.rank for place in reversed(self.places) if place)

    @property
    def cells(self) -> list[tuple[Place | None, Absence | None]]:
        """Each place with why there is none."""
        return list(zip(self.places, self.absences, strict=True))


@dataclass(frozen=True, slots=True)
class Step:
    """A version as the history tells it. `before` is the version that it followed; None for the first."""

    version: MetricVersion
    before: MetricVersion | None
    outdated: list[OutdatedEntry]
    incomplete: list[Scoring]  # entries that lack too many scores to be ranked

    @property
    def other_scorer(self) -> str:
        """The scorer before, where another one took over."""
        return self.before.scorer if self.before and self.before.scorer != self.version.scorer else ""

    @property
    def other_fingerprint(self) -> bool:
        """Whether what made its scores is not what made those before; of figures from papers nobody knows."""
        before = self.before
        return bool(before and self.version.measured and before.scorer_fingerprint != self.version.scorer_fingerprint)

    @property
    def rescoring(self) -> Rescoring | None:
        """The rescoring that made it."""
        return next(iter(self.version.rescorings_to.all()), None)

    @property
    def reason(self) -> str:
        """Why it was opened, in a sentence of the record."""
        check, rescoring = self.version.opened_because, self.rescoring
        if check:
            return str(check.statistics.get("decided_by", ""))
        if rescoring:
            return rescoring.reason
        return self.version.source


@dataclass(frozen=True, slots=True)
class Boards:
    """What a metric's versions rank on one measure: slices by version, and the populations there are."""

    slices: dict[int, list[str]]
    populations: list[str]


def told(metric: Metric) -> list[Step]:
    """The published versions of `metric` that make one history, oldest first, in four queries.

    Of one provenance, for nobody can say what a paper's figures and ours have to do with each other: measured ones, or
    published figures where there are no two measured versions and two of those.
    """
    versions = list(
        metric.versions.filter(published_at__isnull=False)
        .select_related("metric", "protocol", "opened_because")
        .prefetch_related(
            Prefetch("rescorings_to", Rescoring.objects.filter(state=Rescoring.State.PUBLISHED)),
            Prefetch(
                "outdated",
                OutdatedEntry.objects.filter(listed("model__")).select_related("model", "last_scoring__metric_version"),
            ),
            Prefetch(
                "scorings",
                Scoring.objects.filter(unranked(), listed("model__"), state=Scoring.State.DONE).select_related("model"),
                to_attr="incomplete",
            ),
        )
        .order_by("number")
    )
    of_each = [[version for version in versions if version.provenance == of] for of in Provenance.values]
    chosen = next((of for of in of_each if len(of) > 1), None) or next(filter(None, of_each), [])
    before = [None, *chosen]
    return [
        Step(version, last, list(version.outdated.all()), version.incomplete)
        for version, last in zip(chosen, before, strict=False)
    ]


def boards(versions: Sequence[MetricVersion], measure: str) -> Boards:
    """What `versions` rank `measure` on, in one query."""
    # Every ranking has a first; but where a source gave the ranks, that model may have been withdrawn.
    first = Q(rank=1) if all(version.measured for version in versions) else Q()
    found = set(
        Standing.objects.filter(first, metric_version__in=versions, measure=measure)
        .order_by()
        .values_list("metric_version_id", "slice", "population")
        .distinct()
    )
    populations = {population for _, _, population in found}
    return Boards(
        {version.pk: slices_in_order(name for pk, name, _ in found if pk == version.pk) for version in versions},
        [population for population in Standing.Population.values if population in populations],
    )


def spelled(of: Boards, name: str) -> dict[int, str]:
    """The slice that `name` is under each version: their scorers may spell an attribute differently.

    Versions that have none are left out.
    """
    found = {pk: paired_slices([name], there, name)[1] for pk, there in of.slices.items()}
    return {pk: counterpart for pk, counterpart in found.items() if counterpart}


def board_standings(measure: str, slices: dict[int, str], population: str) -> QuerySet[Standing]:
    """The standings that the versions' boards are made of. slices: by version, as of `spelled`."""
    wanted = Q(pk__in=[])
    for name in set(slices.values()):
        wanted |= Q(slice=name, metric_version__in=[pk for pk, of in slices.items() if of == name])
    return Standing.objects.filter(wanted, measure=measure, population=population).order_by()


def sizes(steps: Sequence[Step], measure: str, slices: dict[int, str], population: str) -> list[int]:
    """Of how many models the ranks under each version are, with those that were hidden since, in one query."""
    counted = board_standings(measure, slices, population).values_list("metric_version_id")
    by_version = dict(counted.annotate(Count("pk")))
    return [by_version.get(step.version.pk, 0) for step in steps]


def lines(steps: Sequence[Step], measure: str, slices: dict[int, str], population: str) -> list[Line]:
    """All models with their ranks under each version, by newest rank and then by name; the ranks in one query.

    slices: by version, as of `spelled`.
    """
    ranked = board_standings(measure, slices, population).filter(listed("model__"))
    measured = all(step.version.measured for step in steps)  # no source gives a rank, of which another table knows
    printed = Value(None, IntegerField()) if measured else F("result__published_rank")
    column = {step.version.pk: number for number, step in enumerate(steps)}
    places: dict[int, list[Place | None]] = {}
    for version, model, *place in ranked.values_list(
        "metric_version_id", "model_id", "rank", "rank_low", "rank_high", "value", printed
    ):
        places.setdefault(model, [None] * len(steps))[column[version]] = Place(*place)
    absences = {
        (number, entry.model_id): Absence("outdated", entry.reason)
        for number, step in enumerate(steps)
        for entry in step.outdated
    }
    absences |= {
        (number, scoring.model_id): Absence("not ranked", scoring.why_unranked)
        for number, step in enumerate(steps)
        for scoring in step.incomplete
    }
    models = LanguageModel.objects.filter(pk__in=ranked.values("model")).order_by()
    found = [
        Line(
            slug,
            name,
            family,
            tuple(places[pk]),
            tuple(absences.get((number, pk)) for number in range(len(steps))),
        )
        for pk, slug, name, family in models.values_list("pk", "slug", "name", "family")
    ]
    return sorted(found, key=lambda line: (line.newest, line.name, line.slug))


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed between two of the versions; `of` finds the line of each model that is on both boards."""

    before: MetricVersion
    after: MetricVersion
    positions: tuple[int, int]
    record: RankChanges
    of: dict[str, Line]

    @property
    def rows(self) -> list[tuple[Line, Place, Place, ModelChange]]:
        """Each model of both with its line and its places before and after, by rank after."""
        found = []
        for model in self.record.models:
            line = self.of[model.model]
            before, after = (line.places[position] for position in self.positions)
            if before and after:
                found.append((line, before, after, model))
        return found

    @property
    def others(self) -> bool:
        """Whether either version ranks models that the other does not: then a change is not that of the ranks shown."""
        return bool(self.record.only_before or self.record.only_after)


def changes(found: Sequence[Line], steps: Sequence[Step], measure: str, before: int, after: int) -> Changes:
    """What changed between the versions at positions `before` and `after` of `steps`, as the record has it.

    Equal values share a rank. Values count as changed as far as both sources print them.
    """
    direction = MEASURES[measure].direction
    if direction is None:
        raise ValueError(f"measure = {measure!r}: neither direction is better, so nothing is ranked by it")
    there = [line for line in found if line.places[before] or line.places[after]]
    known = Counter(line.name for line in there)
    of = {line.name if known[line.name] == 1 else line.slug: line for line in there}
    first, second = (
        {
            key: Entry(place.value, place.printed_rank)
            for key, line in of.items()
            if (place := line.places[position]) is not None
        }
        for position in (before, after)
    )
    versions = steps[before].version, steps[after].version
    decimals = [version.decimals for version in versions if version.decimals is not None]
    record = rank_changes(first, second, direction, "equal", min(decimals, default=None))
    return Changes(*versions, (before, after), record, of)


def summary(found: Changes, digits: int) -> list[str]:
    """What the changes come to, a sentence each; differences with one digit more than values are shown with."""
    record, before, after = found.record, found.before.number, found.after.number
    count, largest, mean = len(record.models), record.largest_difference, record.mean_abs_difference
    if largest is None or mean is None:
        return [f"No model is ranked under both version {before} and version {after}."]
    how = "" if record.decimals is None else f", as printed to {record.decimals} decimals"
    said = [
        f"{record.changed_ranks} of {count} ranks changed between version {before} and version {after}"
        f"{', counted among the models of both' if found.others else ''}.",
        f"{record.changed_values} of {count} values changed{how}.",
    ]
    if largest.difference:
        most = f"{largest.difference:+.{digits + 1}f}".replace("-", "−")  # noqa: RUF001 (a minus is as wide as a plus)
        said.append(
            f"A value changed by {mean:.{digits + 1}f} on average; most did that of {largest.model}, by {most}."
        )
    if record.kendall.value is not None:
        said.append(
            f"Of two models, both versions say the same about which is better in {50 * (1 + record.kendall.value):.0f} "
            f"of 100 cases: Kendall's tau of the two orders {coefficient(record.kendall)}, Spearman's rho "
            f"{coefficient(record.spearman)}."
        )
    for version, apart in ((before, record.only_before), (after, record.only_after)):
        if apart:
            said.append(f"Ranked under version {version} only, and in no rank counted here: {_named(apart)}.")
    return said


def _named(models: Sequence[ModelApart]) -> str:
    names = ", ".join(model.model for model in models[:MOST_NAMED])
    return names + (f" and {len(models) - MOST_NAMED} more" if len(models) > MOST_NAMED else "")
