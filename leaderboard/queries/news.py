"""What is news to who follows the board: versions that moved ranks, entries, models, drifts. The newest first."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, OuterRef, Q, Subquery

from leaderboard.models import (
    AuditEvent,
    ControlCheck,
    LanguageModel,
    Metric,
    MetricVersion,
    Standing,
    listed,
    ranked_now,
)
from leaderboard.services.record import NoRecord, Side, compared, paired_slices
from scoring.metrics.formulas import MEASURES, slices_in_order
from scoring.statistics.rank_changes import ModelChange

MOST = 30  # items of a feed
MOST_PUBLICATIONS = 10  # each is compared with the version before
MOST_MOVED = 10  # models that are named
Board = tuple[int, str]  # of a version, and who is ranked among themselves


@dataclass(frozen=True, slots=True)
class Moved:
    """A model whose rank changed, with the populations that both of its ranks are of, in words."""

    change: ModelChange
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Publication:
    """A version took over from another. `models` are those of both; `moved` those whose rank changed most."""

    at: datetime
    before: MetricVersion
    after: MetricVersion
    slice: str
    models: int
    changed: int
    moved: list[Moved]

    @property
    def metric(self) -> Metric:
        return self.after.metric


@dataclass(frozen=True, slots=True)
class NewEntry:
    """A model has its first numbers of a metric, and stands among its ranks from then on."""

    at: datetime
    metric: Metric
    version: int
    slug: str
    name: str


@dataclass(frozen=True, slots=True)
class Drift:
    """A check found that a scorer has changed; `opened` is the version for which everything is scored again."""

    at: datetime
    check: int
    slug: str
    title: str
    version: int | None
    decided_by: str
    opened: int | None


def rank_changes(metric: Metric | None = None) -> list[Publication | NewEntry]:
    """What moved ranks, of all metrics or of one, in five queries."""
    found: list[Publication | NewEntry] = [*publications(metric), *new_entries(metric)]
    return sorted(found, key=lambda of: of.at, reverse=True)[:MOST]


def publications(metric: Metric | None) -> list[Publication]:
    """The last versions that took over from one of the same provenance, with what that changed."""
    versions = MetricVersion.objects.filter(published_at__isnull=False).select_related("metric", "protocol")
    if metric:
        versions = versions.filter(metric=metric)
    pairs: list[tuple[MetricVersion, MetricVersion]] = []
    last: dict[tuple[int, str], MetricVersion] = {}
    for version in versions.order_by("published_at", "number"):
        key = version.metric_id, version.provenance
        if key in last:
            pairs.append((last[key], version))
        last[key] = version
    pairs = pairs[-MOST_PUBLICATIONS:]
    slices = overall_slices(pairs)
    boards = boards_of(pairs, slices)
    return [found for pair in pairs if (found := publication(*pair, slices, boards))]


def overall_slices(pairs: Iterable[tuple[MetricVersion, MetricVersion]]) -> dict[int, str]:
    """By version the slice that it is compared on: the overall one, as both of a pair have it. In one query."""
    wanted = Q(pk__in=[])
    for before, after in pairs:
        wanted |= Q(metric_version__in=(before, after), measure=after.first_measure)
    names: dict[int, list[str]] = {}
    for pk, name in Standing.objects.filter(wanted).order_by().values_list("metric_version", "slice").distinct():
        names.setdefault(pk, []).append(name)
    found: dict[int, str] = {}
    for before, after in pairs:
        first, second = (slices_in_order(names.get(of.pk, [])) for of in (before, after))
        if first and second:
            chosen, counterpart = paired_slices(first, second, None)
            found |= {before.pk: found.get(before.pk, chosen or ""), after.pk: counterpart or ""}
    return found


def boards_of(
    pairs: Iterable[tuple[MetricVersion, MetricVersion]], slices: dict[int, str]
) -> dict[Board, list[Standing]]:
    """The standings of both of each pair, by who is ranked among themselves, in one query."""
    wanted = Q(pk__in=[])
    for pair in pairs:
        for of in pair:
            among = LanguageModel.Kind.values if of.metric.formula.by_kind else [Standing.Population.ALL.value]
            measure = pair[1].first_measure
            wanted |= Q(metric_version=of, measure=measure, slice=slices.get(of.pk, ""), population__in=among)
    rows = Standing.objects.filter(wanted, listed("model__")).select_related("model", "result").order_by()
    needed = ("metric_version_id", "population", "value", "model__name", "model__slug", "result__published_rank")
    found: dict[Board, list[Standing]] = {}
    for row in rows.only(*needed):
        found.setdefault((row.metric_version_id, row.population), []).append(row)
    return found


def publication(
    before: MetricVersion, after: MetricVersion, slices: dict[int, str], boards: dict[Board, list[Standing]]
) -> Publication | None:
    """What changed from one version to the next, over all who are ranked among themselves; None where none is in both.

    Where no model stood under the version before, there is nothing to tell.
    """
    measure = MEASURES[after.first_measure]
    models: list[Moved] = []
    for version, population in list(boards):
        if version != after.pk or (before.pk, population) not in boards:
            continue
        first, second = (
            Side(of, measure, slices[of.pk], population, boards[of.pk, population]) for of in (before, after)
        )
        try:
            models += [Moved(of, first.among, second.among) for of in compared(first, second).models]
        except NoRecord:
            continue
    if not models or after.published_at is None:
        return None
    changed = sorted(
        (of for of in models if of.change.change), key=lambda of: (-abs(of.change.change), of.change.model)
    )
    return Publication(
        after.published_at, before, after, slices[after.pk], len(models), len(changed), changed[:MOST_MOVED]
    )


def new_entries(metric: Metric | None) -> list[NewEntry]:
    """The last models that were ranked for the first time, in three queries."""
    events = AuditEvent.objects.filter(verb="add entry").order_by("-at", "-pk")
    if metric:
        events = events.filter(subject=f"metric {metric.slug}")
    found = list(events[:MOST])
    metrics = {of.slug: of for of in Metric.objects.all()}
    slugs = {event.detail.get("model", "") for event in found}
    ranked = LanguageModel.objects.filter(ranked_now(), slug__in=slugs)
    names = dict(ranked.values_list("slug", "name"))
    return [
        NewEntry(event.at, of, event.detail["version"], slug, names[slug])
        for event in found
        if (of := metrics.get(event.subject.removeprefix("metric "))) and (slug := event.detail.get("model")) in names
    ]


def new_models() -> list[LanguageModel]:
    """The models that were entered last, but for those that are withdrawn or hidden, in one query."""
    return list(LanguageModel.objects.filter(ranked_now()).order_by("-created_at", "-pk")[:MOST])


def drifts(metric: Metric | None = None) -> list[Drift]:
    """The last checks that found a drift, of all metrics or of one, in one query."""
    checks = ControlCheck.objects.filter(verdict=ControlCheck.Verdict.DRIFTED, finished_at__isnull=False)
    if metric:
        checks = checks.filter(metric=metric)
    opened = MetricVersion.objects.filter(opened_because=OuterRef("pk")).order_by("number").values("number")[:1]
    rows = checks.order_by("-finished_at", "-pk").values_list(
        "finished_at",
        "pk",
        "metric__slug",
        "metric__title",
        "control_set__metric_version__number",
        F("statistics__decided_by"),
        Subquery(opened),
    )
    return [
        Drift(at, check, slug, title, number, decided_by or "", opened_number)
        for at, check, slug, title, number, decided_by, opened_number in rows[:MOST]
        if at is not None
    ]
