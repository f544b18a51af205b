"""What is news to who follows the board: versions that moved ranks, entries, models, drifts. The newest first."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, OuterRef, Subquery

from leaderboard.models import (
    AuditEvent,
    AuditVerb,
    ControlCheck,
    LanguageModel,
    Metric,
    MetricVersion,
    Scoring,
    Work,
    is_unranked,
    not_held,
    ranked_now,
)
from leaderboard.rankings.changes import BoardKey, Side, compare_sides, read_sides
from leaderboard.rankings.populations import ranked_populations
from leaderboard.rankings.slices import pair_slices, ranked_slices
from leaderboard.rankings.versions import NoRanking
from scoring.statistics.rank_changes import ModelChange

MOST = 30  # items of a feed
MOST_PUBLICATIONS = 10  # each is compared with the version before
MOST_MOVED = 10  # models that are named
Pair = tuple[MetricVersion, MetricVersion]  # a version and the one that took over from it


@dataclass(frozen=True, slots=True)
class MovedModel:
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
    moved: list[MovedModel]

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
    """What moved ranks, of all metrics or of one, in six queries."""
    news: list[Publication | NewEntry] = [*publications(metric), *new_entries(metric)]
    return sorted(news, key=lambda item: item.at, reverse=True)[:MOST]


def publications(metric: Metric | None) -> list[Publication]:
    """The last versions that took over from one of the same provenance, with what that changed."""
    return read_publications(list_successions(metric)[-MOST_PUBLICATIONS:])


def list_successions(metric: Metric | None) -> list[Pair]:
    """All versions that took over, each after the one of the same provenance before it, the newest last."""
    versions = MetricVersion.objects.filter(published_at__isnull=False).select_related("metric", "protocol")
    if metric:
        versions = versions.filter(metric=metric)
    pairs: list[Pair] = []
    last: dict[tuple[int, str], MetricVersion] = {}
    for version in versions.order_by("published_at", "number"):
        key = version.metric_id, version.provenance
        if key in last:
            pairs.append((last[key], version))
        last[key] = version
    return pairs


def read_publications(pairs: Sequence[Pair]) -> list[Publication]:
    """What changed from one version to the next, for those pairs where something is to be told."""
    boards = overall_boards(pairs)
    sides = read_sides([key for pair in boards for key in pair], [version for pair in pairs for version in pair])
    return [
        news for old_version, new_version in pairs if (news := publication(old_version, new_version, boards, sides))
    ]


def overall_boards(pairs: Sequence[Pair]) -> list[tuple[BoardKey, BoardKey]]:
    """The boards of each pair that are compared, by who is ranked among themselves; in two queries at most.

    They are of the overall slice, by the measure that the later version shows first, as both versions have it.
    """
    slices = ranked_slices({new_version: new_version.first_measure for _, new_version in pairs})
    earlier = ranked_slices({old_version: new_version.first_measure for old_version, new_version in pairs})
    boards = []
    for old_version, new_version in pairs:
        if not (earlier[old_version.pk] and slices[new_version.pk]):
            continue
        names = pair_slices(earlier[old_version.pk], slices[new_version.pk], None)
        for population in ranked_populations([new_version]):
            one, other = (
                BoardKey(version.pk, new_version.first_measure, name or "", population)
                for version, name in zip((old_version, new_version), names, strict=True)
            )
            boards.append((one, other))
    return boards


def publication(
    old_version: MetricVersion,
    new_version: MetricVersion,
    boards: Sequence[tuple[BoardKey, BoardKey]],
    sides: dict[BoardKey, Side],
) -> Publication | None:
    """What changed from one version to the next, over all who are ranked among themselves; None where none is in both.

    Where no model stood under the version before, there is nothing to tell.
    """
    own_boards = [pair for pair in boards if (pair[0].version, pair[1].version) == (old_version.pk, new_version.pk)]
    moves: list[MovedModel] = []
    for first, second in ((sides[one], sides[other]) for one, other in own_boards if one in sides and other in sides):
        words = first.population_words, second.population_words
        try:
            moves += [MovedModel(change, *words) for change in compare_sides(first, second).models]
        except NoRanking:
            continue
    if not moves or new_version.published_at is None:
        return None
    changed_moves = sorted(
        (move for move in moves if move.change.change), key=lambda move: (-abs(move.change.change), move.change.model)
    )
    return Publication(
        new_version.published_at,
        old_version,
        new_version,
        own_boards[0][1].slice,
        len(moves),
        len(changed_moves),
        changed_moves[:MOST_MOVED],
    )


def new_entries(metric: Metric | None) -> list[NewEntry]:
    """The last models that were ranked for the first time, in three queries.

    Without entries that are in no ranking that readers have: held back, of too few scores, or of a version to come.
    """
    events = AuditEvent.objects.filter(verb=AuditVerb.ADD_ENTRY).order_by("-at", "-pk")
    if metric:
        events = events.filter(subject=f"metric {metric.slug}")
    page_events = list(events[:MOST])
    metrics = {metric_of_event.slug: metric_of_event for metric_of_event in Metric.objects.all()}
    slugs = {event.detail.get("model", "") for event in page_events}
    ranked_entries = Scoring.objects.filter(
        ranked_now("model__"),
        not_held(),
        ~is_unranked(),
        state=Work.State.DONE,
        metric_version__published_at__isnull=False,
        model__slug__in=slugs,
    )
    names: dict[str, str] = {}
    numbers: dict[tuple[str, str], list[int]] = {}
    for metric_slug, number, slug, name in ranked_entries.order_by("metric_version__number").values_list(
        "metric_version__metric__slug", "metric_version__number", "model__slug", "model__name"
    ):
        names[slug] = name
        numbers.setdefault((metric_slug, slug), []).append(number)
    news = []
    for event in page_events:
        metric_of_event = metrics.get(event.subject.removeprefix("metric "))
        slug, number = event.detail.get("model", ""), event.detail.get("version")
        if metric_of_event and (own_numbers := numbers.get((metric_of_event.slug, slug))):
            # A version that was given up before it was published has no page: then it is of the first that was.
            number = number if number in own_numbers else own_numbers[0]
            news.append(NewEntry(event.at, metric_of_event, number, slug, names[slug]))
    return news


def new_models() -> list[LanguageModel]:
    """The models that were entered last, but for those that are withdrawn or hidden, in one query."""
    return list(LanguageModel.objects.filter(ranked_now()).order_by("-created_at", "-pk")[:MOST])


def drifts(metric: Metric | None = None) -> list[Drift]:
    """The last checks that found a drift, of all metrics or of one, in one query."""
    checks = ControlCheck.objects.filter(verdict=ControlCheck.Verdict.DRIFTED, finished_at__isnull=False)
    if metric:
        checks = checks.filter(metric=metric)
    opened_numbers = MetricVersion.objects.filter(opened_because=OuterRef("pk")).order_by("number").values("number")[:1]
    rows = checks.order_by("-finished_at", "-pk").values_list(
        "finished_at",
        "pk",
        "metric__slug",
        "metric__title",
        "control_set__metric_version__number",
        F("statistics__decided_by"),
        Subquery(opened_numbers),
    )
    return [
        Drift(finished_at, check, slug, title, number, decided_by or "", opened_number)
        for finished_at, check, slug, title, number, decided_by, opened_number in rows[:MOST]
        if finished_at is not None
    ]
