"""Rankings over the versions of a metric: the ranks of every model, and what changed between two of them."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from django.db.models import Count, Prefetch, Q, QuerySet

from leaderboard.models import (
    LanguageModel,
    Metric,
    MetricVersion,
    OutdatedEntry,
    Rescoring,
    Scoring,
    Standing,
    is_listed,
    is_unranked,
)
from leaderboard.numbers import plus
from leaderboard.rankings.changes import BoardEntry, Side, compare_sides, label_models
from leaderboard.rankings.slices import pair_slices
from leaderboard.rankings.versions import choose_history
from leaderboard.rankings.words import coefficient
from leaderboard.state_memo import large_answers, once_a_state
from scoring.metrics.formulas import MEASURES
from scoring.statistics.rank_changes import ModelApart, ModelChange, RankChanges

MOST_NAMED = 12  # models in a sentence
ABSENT = 0  # in place of a rank: ranks begin at 1
Ends = tuple[int, int]  # the positions of two versions in a history


class Absence(NamedTuple):
    """Why a model has no place under a version: a word, and the reason."""

    label: str
    reason: str


class PastPlace(NamedTuple):
    """Where a model stood under one version."""

    rank: int
    low: int | None
    high: int | None
    value: float
    printed_rank: int | None = None  # that its source gives

    @property
    def interval(self) -> str:
        """The ranks that cannot be excluded; empty where nothing is known of them."""
        return "" if self.low is None else f"{self.low}–{self.high}"  # noqa: RUF001 (a range wants an en dash)


@dataclass(frozen=True, slots=True)
class ModelHistory:
    """One model over versions; `places` are in their order, None where it is not ranked.

    `reasons` say why, by position, where the record knows.
    """

    slug: str
    name: str
    family: str
    places: tuple[PastPlace | None, ...]
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
    def cells(self) -> list[tuple[PastPlace | None, Absence | None]]:
        """Each place with why there is none."""
        return list(zip(self.places, self.absences, strict=True))


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """A version in a history. `before` is its predecessor; None for the first."""

    version: MetricVersion
    before: MetricVersion | None
    outdated: list[OutdatedEntry]
    incomplete: list[Scoring]  # entries that lack too many scores to be ranked

    @property
    def other_scorer(self) -> str:
        """The scorer of its predecessor, where it is another one."""
        return self.before.scorer if self.before and self.before.scorer != self.version.scorer else ""

    @property
    def other_fingerprint(self) -> bool:
        """Whether another scorer made its scores than those of its predecessor; unknown for figures from papers."""
        predecessor = self.before
        return bool(
            predecessor and self.version.measured and predecessor.scorer_fingerprint != self.version.scorer_fingerprint
        )

    @property
    def rescoring(self) -> Rescoring | None:
        """The rescoring that made it."""
        return next(iter(self.version.rescorings_to.all()), None)

    @property
    def cause(self) -> str:
        """Why it was opened, in two or three words."""
        if not self.version.measured:
            return "published figures"
        if self.version.opened_because:
            return f"scorer {self.version.opened_because.get_verdict_display().lower()}"
        if self.rescoring:
            return "upgrade" if self.rescoring.by_upgrade else "on request"
        return "other scorer" if self.other_scorer else "first measured"

    @property
    def reason(self) -> str:
        """The recorded reason why it was opened."""
        check, rescoring = self.version.opened_because, self.rescoring
        if check:
            return str(check.statistics.get("decided_by", ""))
        if rescoring:
            return rescoring.reason
        return self.version.source


def list_steps(metric: Metric, number: str = "") -> list[HistoryStep]:
    """The published versions of `metric` that make one history, oldest first, in four queries.

    number: as for `choose_history`.
    """
    history = choose_history(_read_versions(metric), number)
    predecessors = [None, *history]
    return [
        HistoryStep(version, predecessor, list(version.outdated.all()), version.incomplete)  # type: ignore[attr-defined]
        for version, predecessor in zip(history, predecessors, strict=False)
    ]


@once_a_state(lambda metric: metric.pk)
def _read_versions(metric: Metric) -> list[MetricVersion]:
    """The published versions of `metric` with what their steps of a history show, oldest first."""
    return list(
        metric.versions.filter(published_at__isnull=False)
        .select_related("metric", "protocol", "opened_because")
        .prefetch_related(
            Prefetch("rescorings_to", Rescoring.objects.filter(state=Rescoring.State.PUBLISHED)),
            Prefetch(
                "outdated",
                OutdatedEntry.objects.filter(is_listed("model__")).select_related(
                    "model", "last_scoring__metric_version"
                ),
            ),
            Prefetch(
                "scorings",
                Scoring.objects.filter(is_unranked(), is_listed("model__"), state=Scoring.State.DONE).select_related(
                    "model"
                ),
                to_attr="incomplete",
            ),
        )
        .order_by("number")
    )


def spell_slice(slices: dict[int, list[str]], name: str) -> dict[int, str]:
    """The slice that `name` means under each version: their scorers may spell an attribute differently.

    slices: by version. Versions without such a slice are left out.
    """
    spellings = {pk: pair_slices([name], names, name)[1] for pk, names in slices.items()}
    return {pk: counterpart for pk, counterpart in spellings.items() if counterpart}


def board_standings(measure: str, slices: dict[int, str], population: str) -> QuerySet[Standing]:
    """The standings of the boards of several versions. slices: by version, as from `spell_slice`."""
    condition = Q(pk__in=[])
    for name in set(slices.values()):
        condition |= Q(slice=name, metric_version__in=[pk for pk, slice_name in slices.items() if slice_name == name])
    return Standing.objects.filter(condition, measure=measure, population=population).order_by()


def sizes(steps: Sequence[HistoryStep], measure: str, slices: dict[int, str], population: str) -> list[int]:
    """How many models each version ranks, with those hidden since, in one query."""
    standings = board_standings(measure, slices, population).values_list("metric_version_id")
    by_version = dict(standings.annotate(Count("pk")))
    return [by_version.get(step.version.pk, 0) for step in steps]


@once_a_state(
    lambda steps, measure, slices, population: (
        tuple(step.version.pk for step in steps),
        measure,
        frozenset(slices.items()),
        population,
    ),
    large_answers,
)
def lines(steps: Sequence[HistoryStep], measure: str, slices: dict[int, str], population: str) -> list[ModelHistory]:
    """All models with their ranks under each version, by newest rank and then by name; the ranks in one query.

    slices: by version, as of `spell_slice`.
    """
    standings = board_standings(measure, slices, population).filter(is_listed("model__"))
    is_measured = all(step.version.measured for step in steps)  # no source gives a rank, of which another table knows
    source_rank = [] if is_measured else ["result__published_rank"]
    column = {step.version.pk: number for number, step in enumerate(steps)}
    places: dict[int, list[PastPlace | None]] = defaultdict(lambda: [None] * len(steps))
    for row in standings.values_list(
        "metric_version_id", "model_id", "rank", "rank_low", "rank_high", "value", *source_rank
    ):
        places[row[1]][column[row[0]]] = PastPlace(*row[2:])
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
    models = LanguageModel.objects.filter(pk__in=standings.values("model")).order_by()
    model_lines = [
        ModelHistory(
            slug,
            name,
            family,
            tuple(places[pk]),
            tuple(absences.get((number, pk)) for number in range(len(steps))),
        )
        for pk, slug, name, family in models.values_list("pk", "slug", "name", "family")
    ]
    return sorted(model_lines, key=lambda line: (line.newest, line.name, line.slug))


def list_moves(lines: Sequence[ModelHistory]) -> dict[str, list[int | None]]:
    """Of each model the ranks that it gained from each version to the next, among the models of both.

    None where it is not on both. lines: all of them, as ranks are counted anew without the models of one version only.
    """
    columns = np.array([[place.rank if place else ABSENT for place in line.places] for line in lines]).T
    gains, on_both = [], []
    for old_ranks, new_ranks in pairwise(columns):
        is_on_both = (old_ranks != ABSENT) & (new_ranks != ABSENT)
        old_places, new_places = (
            np.searchsorted(np.sort(ranks[is_on_both]), ranks) for ranks in (old_ranks, new_ranks)
        )
        gains.append(old_places - new_places)
        on_both.append(is_on_both)
    if not gains:
        return {line.slug: [] for line in lines}
    rows = zip(lines, np.array(gains).T.tolist(), np.array(on_both).T.tolist(), strict=True)
    return {
        line.slug: [gain if counts else None for gain, counts in zip(own_gains, own_counts, strict=True)]
        for line, own_gains, own_counts in rows
    }


@dataclass(frozen=True)
class VersionChanges:
    """What changed between two of the versions; `of` finds the line of each model that is on both boards."""

    before: MetricVersion
    after: MetricVersion
    positions: Ends
    record: RankChanges
    of: dict[str, ModelHistory]

    @cached_property
    def rows(self) -> list[tuple[ModelHistory, PastPlace, PastPlace, ModelChange]]:
        """Each model of both with its line and its places before and after, by rank after."""
        rows = []
        for model in self.record.models:
            line = self.of[model.model]
            old_place, new_place = (line.places[position] for position in self.positions)
            if old_place and new_place:
                rows.append((line, old_place, new_place, model))
        return rows

    @cached_property
    def is_counted_anew(self) -> bool:
        """Whether changes can differ from those of the ranks: models are on one of both alone, or ranks have gaps."""
        has_gaps = any(old.rank - new.rank != model.change for _, old, new, model in self.rows)
        return has_gaps or bool(self.record.only_before or self.record.only_after)


def changes(
    lines: Sequence[ModelHistory],
    steps: Sequence[HistoryStep],
    measure: str,
    slices: dict[int, str],
    population: str,
    ends: Ends,
) -> VersionChanges:
    """What changed between the versions at the positions `ends` of `steps`, as the record has it.

    slices: by version, as of `spell_slice`.
    """
    old_side, new_side = (side_of(lines, steps, measure, slices, population, position) for position in ends)
    labels = label_models(old_side, new_side)
    lines_by_label = {labels[line.slug]: line for line in lines if line.slug in labels}
    return VersionChanges(old_side.version, new_side.version, ends, compare_sides(old_side, new_side), lines_by_label)


def side_of(
    lines: Sequence[ModelHistory],
    steps: Sequence[HistoryStep],
    measure: str,
    slices: dict[int, str],
    population: str,
    position: int,
) -> Side:
    """The board of the version at a position of `steps`."""
    version = steps[position].version
    places = ((line, line.places[position]) for line in lines)
    entries = [
        BoardEntry(line.slug, line.name, place.value, place.rank, place.printed_rank) for line, place in places if place
    ]
    return Side(version, MEASURES[measure], slices.get(version.pk, ""), population, entries)


def summary(comparison: VersionChanges, digits: int) -> list[str]:
    """A summary of the changes in sentences; differences have one digit more than values."""
    record, old_number, new_number = comparison.record, comparison.before.number, comparison.after.number
    count, largest, mean = len(record.models), record.largest_difference, record.mean_abs_difference
    if largest is None or mean is None:
        return [f"No model is ranked under both version {old_number} and version {new_number}."]
    precision = "" if record.decimals is None else f", as printed to {record.decimals} decimals"
    sentences = [
        f"{record.changed_ranks} of {count} ranks changed between version {old_number} and version {new_number}"
        f"{', counted among the models of both' if comparison.is_counted_anew else ''}.",
        f"{record.changed_values} of {count} values changed{precision}.",
    ]
    if largest.difference:
        most = plus(largest.difference, digits + 1)
        sentences.append(
            f"A value changed by {mean:.{digits + 1}f} on average; most did that of {largest.model}, by {most}."
        )
    if record.share_alike is not None:
        sentences.append(
            f"Of two models, both versions say the same about which is better in {100 * record.share_alike:.0f} "
            f"of 100 cases: Kendall's tau of the two orders {coefficient(record.kendall)}, Spearman's rho "
            f"{coefficient(record.spearman)}."
        )
    for version, models in ((old_number, record.only_before), (new_number, record.only_after)):
        if models:
            sentences.append(
                f"Ranked under version {version} only, and in no rank counted here: {_name_models(models)}."
            )
    return sentences


def _name_models(models: Sequence[ModelApart]) -> str:
    names = ", ".join(model.model for model in models[:MOST_NAMED])
    return names + (f" and {len(models) - MOST_NAMED} more" if len(models) > MOST_NAMED else "")
