"""Rankings as pages show them: the standings of a version, joined with the numbers of every slice."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from django.db.models import Exists, OuterRef, Prefetch, Q

from leaderboard.models import (
    LanguageModel,
    Metric,
    MetricVersion,
    OutdatedEntry,
    Result,
    RetiredScorer,
    Scoring,
    Standing,
    Work,
    unranked,
)
from leaderboard.queries.ranking_view import EXTRAS, SLICE, USUAL, View
from leaderboard.services.places import leading_count, population_in_words, population_title
from scoring.metrics.formulas import MEASURES, slice_parts, slices_in_order
from scoring.metrics.measures import Measure

ROUND_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # of a measure's scale
ALL_KINDS = Standing.Population.ALL.value
WITHIN_KIND = ""  # the default population: each kind of likelihood has a ranking of its own


@dataclass(frozen=True, slots=True)
class Cell:
    """A model's value on a slice beside the one it is ranked on, and as `text`; without one, `reason` says why."""

    value: float | None
    text: str
    significant: bool | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One model in a ranking; `cells` are its values in the order of the ranking's columns."""

    model: LanguageModel
    version: MetricVersion
    rank: int
    rank_low: int | None
    rank_high: int | None
    result: Result
    cells: list[Cell]
    tied: bool = False
    indifferent: float | None = None  # what the model would have if it were indifferent, where that is its own value
    leads: bool = False  # of its group: paired tests cannot tell it from the best, as they can others

    @property
    def indifferent_derived(self) -> bool:
        """Whether its own indifferent value was worked out here from what a paper prints: none prints it."""
        return self.indifferent is not None and not self.version.measured

    @property
    def differences(self) -> list[str]:
        """Where outputs that were made elsewhere were not made as the protocol asks, in words."""
        run = self.result.scoring.run
        return run.environment.get("differences", []) if run else []

    @property
    def flags(self) -> list[str]:
        """What stands out about its tokenizer or its numbers, in words."""
        check = getattr(self.result.scoring, "entry_check", None)
        return check.words if check else []


@dataclass(frozen=True, slots=True)
class Group:
    """Models that are ranked among themselves: those of a page, of those that fit the filters, of all.

    size: how many their ranks are of, with those that were hidden since. first_ones: how many cannot be told from the
    best.
    """

    population: str
    by_kind: bool
    rows: list[Row]
    size: int
    entries: int
    fitting: int
    first_ones: int
    page: int
    pages: int
    first: int  # of those that fit, on this page

    @property
    def title(self) -> str:
        """Who they are."""
        return population_title(self.population, self.by_kind)

    @property
    def among(self) -> str:
        """Of whom its ranks are, as in "5 causal models"."""
        return population_in_words(self.size, self.population, self.by_kind)

    @property
    def leading(self) -> int:
        """How many lead; nobody leads who is alone, or where nobody can be told from the best."""
        return leading_count(self.first_ones, self.size)

    @property
    def undecided(self) -> bool:
        """Whether none of several models can be told from the best."""
        return 1 < self.size == self.first_ones

    @property
    def hidden(self) -> int:
        """How many the filters hold back."""
        return self.entries - self.fitting

    @property
    def last(self) -> int:
        """The last of those that fit, on this page."""
        return self.first + len(self.rows) - 1

    @property
    def neighbours(self) -> list[int | None]:
        """The pages to go to from this one, None for a gap."""
        near = sorted({1, self.pages, *range(max(1, self.page - 2), min(self.pages, self.page + 2) + 1)})
        found: list[int | None] = []
        for before, number in zip([0, *near], near, strict=False):
            found += [None, number] if number > before + 1 else [number]
        return found


@dataclass(frozen=True)
class Wanted:
    """A ranking to show: of a measure on a slice, under one version or, asked for, under two of other provenance.

    slices: all that the measure is ranked on there. populations: those that are ranked among themselves. end: only
    entries scored before, ranked as they were then.
    """

    metric: Metric
    versions: list[MetricVersion]
    measure: Measure
    slice: str
    slices: dict[int, list[str]]  # by version
    populations: list[str]
    end: datetime | None = None

    @property
    def mixed(self) -> bool:
        """Whether numbers of different provenance stand in it."""
        return len(self.versions) > 1

    @cached_property
    def all_slices(self) -> list[str]:
        """Of any of its versions, in order."""
        return slices_in_order(name for version in self.versions for name in self.slices.get(version.pk, []))

    def columns(self, view: View) -> list[str]:
        """The slices whose values stand beside."""
        if view.columns is None:
            return columns_beside(self.slice, self.all_slices)
        return [name for name in self.all_slices if SLICE + name in view.columns and name != self.slice]


@dataclass(frozen=True, slots=True)
class Choices:
    """What the models of a ranking can be filtered by, unfiltered."""

    families: set[str] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)
    accesses: set[str] = field(default_factory=set)
    sources: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Ranking:
    """A page of a ranking. `most` is the value or end of an interval farthest from 0 in all of it."""

    wanted: Wanted
    columns: list[str]
    extras: list[str]
    groups: list[Group]
    choices: Choices
    most: float
    newest: datetime | None
    carries_ranks: bool  # those that its source gives
    anew: bool  # whether its ranks were taken for this page
    outdated: list[OutdatedEntry] = field(default_factory=list)
    unranked: list[Result] = field(default_factory=list)  # of entries that lack too many scores

    @property
    def identity(self) -> str:
        """What tells it from other rankings of a page."""
        return f"{self.metric.slug}-{self.versions[0].number}"

    @property
    def metric(self) -> Metric:
        return self.wanted.metric

    @property
    def versions(self) -> list[MetricVersion]:
        return self.wanted.versions

    @property
    def measure(self) -> Measure:
        return self.wanted.measure

    @property
    def slice(self) -> str:
        return self.wanted.slice

    @property
    def mixed(self) -> bool:
        return self.wanted.mixed

    @property
    def derived(self) -> bool:
        """Whether any value on this page was worked out here from what its source prints."""
        return any(row.result.derived or row.indifferent_derived for group in self.groups for row in group.rows)

    @property
    def has_history(self) -> bool:
        """Whether its metric has versions to compare."""
        return has_history(self.metric)

    @property
    def k(self) -> int | None:
        """Continuations of each prompt that the values are of; None where they are not of continuations."""
        return self.versions[0].protocol.k

    @property
    def scale(self) -> float:
        """The end of the scale of whiskers; see `scale_start`."""
        return scale_end(self.measure, self.most)

    @property
    def scale_start(self) -> float:
        """Where the scale of whiskers begins."""
        return scale_start(self.measure, self.scale)

    def facts(self, group: Group) -> list[str]:
        """The columns of a group's table between the value and the slices, in order: of EXTRAS, and provenance."""
        kind = {"kind"} if group.population == ALL_KINDS and self.metric.formula.by_kind else set()
        there = [name for name in EXTRAS if name in kind or name in self.extras]
        return ["provenance", *there] if self.mixed else there

    @property
    def models(self) -> int:
        """How many models it ranks."""
        return sum(group.entries for group in self.groups)

    @property
    def fitting(self) -> int:
        """How many of them fit the filters."""
        return sum(group.fitting for group in self.groups)

    @property
    def ticked(self) -> bool:
        """Whether indifferent values stand beside values."""
        return any(row.indifferent is not None for group in self.groups for row in group.rows)

    @property
    def pages(self) -> int:
        """Of the longest table."""
        return max((group.pages for group in self.groups), default=1)


def scale_end(measure: Measure, most: float) -> float:
    """The end of a scale of `measure`: its own, or a round part of it that holds values up to `most`."""
    ends = [share * measure.largest for share in ROUND_SHARES]
    return next((end for end in ends if end >= most), measure.largest)


def scale_start(measure: Measure, end: float) -> float:
    """Where a scale that ends at `end` begins: at 0, or as far below it where values may be negative."""
    return -end if measure.smallest < 0 else 0.0


def columns_beside(name: str, slices: Iterable[str]) -> list[str]:
    """The slices whose values stand beside those of slice `name`, in order.

    Of a scorer's attributes on parts of the prompts: the other parts of this attribute, and this part of the others.
    """
    attribute, part = slice_parts(name)
    others = [other for other in slices_in_order(slices) if other != name]
    return [other for other in others if not attribute or attribute in slice_parts(other) or part in slice_parts(other)]


def usual_columns(name: str, slices: Iterable[str]) -> set[str]:
    """The columns shown beside slice `name` where nobody chose."""
    return {*USUAL, *(SLICE + other for other in columns_beside(name, slices))}


def extras_of(view: View, unknown: set[str]) -> list[str]:
    """The columns of EXTRAS to show; not those `unknown` of all models, as papers rarely print them."""
    chosen = USUAL if view.columns is None else view.columns
    return [name for name in EXTRAS if name in chosen and name not in unknown]


def slices_of(measures: Mapping[MetricVersion, str]) -> dict[int, list[str]]:
    """The slices that each version ranks its measure of `measures` on, the overall one first, in one query.

    Also those that only entries which lack too many scores to be ranked have.
    """
    by_pk = {version.pk: version for version in measures}
    ranking, scored = Q(pk__in=[]), Q(pk__in=[])
    for measure in set(measures.values()):
        versions = [version for version, chosen in measures.items() if chosen == measure]
        ranking |= Q(measure=measure, metric_version__in=versions)
        scored |= Q(measure=measure, scoring__metric_version__in=versions)
    ranked = Standing.objects.filter(ranking).order_by()
    incomplete = Result.objects.filter(scored, unranked("scoring__"), scoring__state=Work.State.DONE).order_by()
    both = ranked.values_list("metric_version_id", "slice").union(
        incomplete.values_list("scoring__metric_version_id", "slice")
    )
    found: dict[int, list[str]] = {}
    for pk, name in both:
        if by_pk[pk].ranks(MEASURES[measures[by_pk[pk]]], name):
            found.setdefault(pk, []).append(name)
    return {pk: slices_in_order(names) for pk, names in found.items()}


def metrics_with_versions() -> list[Metric]:
    """All metrics, each with those of its versions that have entries, in two queries.

    `in_use` says of each whether no operator has retired its scorer.
    """
    entries = Exists(Scoring.objects.filter(metric_version=OuterRef("pk"), state=Work.State.DONE))
    versions = MetricVersion.objects.select_related("protocol__evaluation_set").filter(entries).order_by("number")
    in_use = ~Exists(RetiredScorer.objects.filter(name=OuterRef("scorer")))
    metrics = Metric.objects.select_related("protocol__evaluation_set").annotate(in_use=in_use)
    return list(metrics.prefetch_related(Prefetch("versions", versions)))


def has_history(metric: Metric) -> bool:
    """Whether two published versions of one provenance can be compared; of a metric of `metrics_with_versions`."""
    provenances = [version.provenance for version in metric.versions.all() if version.published_at]
    return len(provenances) > len(set(provenances))


def current_versions(metric: Metric, provenances: Sequence[str]) -> list[MetricVersion]:
    """The current versions of a metric of `metrics_with_versions`, measured before published."""
    found = [
        version
        for version in metric.versions.all()
        if version.status == MetricVersion.Status.CURRENT and version.provenance in provenances
    ]
    return sorted(found, key=lambda version: version.provenance)
