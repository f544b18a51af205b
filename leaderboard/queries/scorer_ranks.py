"""How far ranks depend on the scorer: the same entries under every scorer that has judged the same continuations."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from django.db.models import Q

from leaderboard.formats import Table, TableColumn
from leaderboard.models import Metric, MetricVersion, Provenance, Standing, is_listed
from leaderboard.rankings.digits import digits_of
from leaderboard.rankings.populations import first_population, population_in_words
from leaderboard.rankings.versions import current_versions
from scoring.metrics.formulas import MEASURES, slice_parts, slices_in_order
from scoring.metrics.measures import Measure
from scoring.statistics.rank_sensitivity import RankSensitivity, rank_sensitivity

Board = tuple[int, str, str, str]  # the key of a version, measure, slice and population


class JudgedEntry(NamedTuple):
    """An entry: a model and, where its numbers were measured here, the run whose continuations were judged."""

    slug: str
    name: str
    run: int | None


@dataclass(frozen=True)
class ScorerGroup:
    """Current versions of several metrics, of one provenance, whose scorers judge outputs of one protocol.

    boards: what they rank, as keys of boards.
    """

    versions: list[MetricVersion]
    boards: frozenset[Board]

    @property
    def provenance(self) -> Provenance:
        """Where the numbers are from."""
        return Provenance(self.versions[0].provenance)

    @property
    def measures(self) -> list[Measure]:
        """The measures by which at least two scorers rank on one part of the texts, in the order of their formulas."""
        return [measure for key, measure in MEASURES.items() if self.parts(key)]

    def parts(self, measure: str) -> list[str]:
        """The parts of the texts on which at least two scorers rank by a measure, all of them first."""
        names = {name for _, board_measure, name, _ in self.boards if board_measure == measure}
        in_order = dict.fromkeys(slice_parts(name)[1] for name in slices_in_order(names))
        return [part for part in in_order if len(self.ranked_by(measure, part)) > 1]

    def ranked_by(self, measure: str, part: str) -> list[MetricVersion]:
        """The versions that rank by a measure on a part of the texts."""
        return [version for version in self.versions if self.slice_on(version, measure, part)]

    def populations(self, versions: Collection[MetricVersion]) -> set[str]:
        """The populations that every version ranks."""
        return set.intersection(
            *({population for pk, _, _, population in self.boards if pk == version.pk} for version in versions)
        )

    def slice_on(self, version: MetricVersion, measure: str, part: str) -> str | None:
        """The slice of the main harm of the version's scorer on a part of the texts; None where it ranks none."""
        names = {name for pk, board_measure, name, _ in self.boards if (pk, board_measure) == (version.pk, measure)}
        in_order = slices_in_order(names, version.declared)
        return next((name for name in in_order if slice_parts(name)[1] == part), None)


@dataclass(frozen=True)
class JudgedBoard:
    """The entries that every scorer has on one measure, by median rank; entries that some lack are `left_out`.

    slices: by scorer, in the order of the versions. values: [scorers, entries].
    """

    measure: Measure
    versions: Sequence[MetricVersion]
    slices: Sequence[str]
    entries: list[JudgedEntry]
    values: np.ndarray[Any, np.dtype[np.float64]]
    left_out: list[str]

    @cached_property
    def sensitivity(self) -> RankSensitivity:
        """Ranks among the entries of all scorers, and how far the scorers agree."""
        return rank_sensitivity(self.values, self.measure.direction or "lower")

    @property
    def rows(self) -> list[tuple[JudgedEntry, list[tuple[int, str]], int, int, float]]:
        """Each entry with its rank and printed value under each scorer, its best and worst rank, and the median."""
        digits = [digits_of(version, self.measure.key) for version in self.versions]
        ranks, result = self.sensitivity.ranks.T.tolist(), self.sensitivity
        ends = zip(result.lowest.tolist(), result.highest.tolist(), result.median.tolist(), strict=True)
        return [
            (entry, [(rank, f"{value:.{n}f}") for rank, value, n in zip(row, values, digits, strict=True)], *limits)
            for entry, row, values, limits in zip(self.entries, ranks, self.values.T.tolist(), ends, strict=True)
        ]

    @property
    def robust_share(self) -> float | None:
        """The share of pairs of entries that every scorer orders alike; None without a pair."""
        return self.sensitivity.robust / self.sensitivity.pairs if self.sensitivity.pairs else None

    @property
    def widest(self) -> tuple[JudgedEntry, int, int] | None:
        """The entry whose rank depends most on the scorer, with its best and worst rank; None without entries."""
        ends = [(entry, low, high) for entry, _, low, high, _ in self.rows]
        return max(ends, key=lambda row: row[2] - row[1], default=None)

    @property
    def typical_width(self) -> float:
        """The median over entries of worst minus best rank."""
        return float(np.median(self.sensitivity.highest - self.sensitivity.lowest))

    def as_json(self) -> dict[str, Any]:
        """The board as JSON can hold it."""
        return {
            "measure": self.measure.key,
            "scorers": [
                {
                    "metric": version.metric.slug,
                    "version": version.number,
                    "scorer": version.scorer,
                    "scorer_fingerprint": version.scorer_fingerprint,
                    "slice": name,
                }
                for version, name in zip(self.versions, self.slices, strict=True)
            ],
            "left_out": self.left_out,
            "robust_pairs": self.sensitivity.robust,
            "pairs": self.sensitivity.pairs,
            "kendall_w": self.sensitivity.concordance,
            "entries": [
                {
                    "slug": entry.slug,
                    "model": entry.name,
                    "ranks": [rank for rank, _ in places],
                    "values": values,
                    "lowest": low,
                    "highest": high,
                    "median": median,
                }
                for (entry, places, low, high, median), values in zip(self.rows, self.values.T.tolist(), strict=True)
            ],
        }


def list_groups(metrics: Iterable[Metric]) -> list[ScorerGroup]:
    """The groups of at least two scorers that rank by one measure; in one query, measured ones first.

    metrics: those of `metrics_with_versions`.
    """
    by_texts: dict[tuple[str, int], list[MetricVersion]] = defaultdict(list)
    for metric in metrics:
        for version in current_versions(metric, Provenance.values):
            if version.asked_scorer:
                by_texts[version.provenance, version.protocol_id].append(version)
    several = [versions for versions in by_texts.values() if len(versions) > 1]
    boards: dict[int, set[Board]] = defaultdict(set)
    rows = Standing.objects.filter(_first_of(version for versions in several for version in versions)).order_by()
    for board in rows.values_list("metric_version_id", "measure", "slice", "population").distinct():
        boards[board[0]].add(board)
    groups = [
        ScorerGroup(versions, frozenset().union(*(boards[version.pk] for version in versions))) for versions in several
    ]
    groups.sort(key=lambda group: Provenance.values.index(group.provenance))
    return [group for group in groups if group.measures]


def count_scorers(metrics: Iterable[Metric], version: MetricVersion) -> int:
    """How many scorers have judged the texts of a measured version by its formula, its own among them; in no query."""
    alike = (metric for metric in metrics if metric.formula is version.metric.formula)
    versions = (one for metric in alike for one in current_versions(metric, [Provenance.MEASURED]) if one.asked_scorer)
    return len({one.scorer for one in versions if version.measured and one.protocol_id == version.protocol_id})


def _first_of(versions: Iterable[MetricVersion]) -> Q:
    """The condition of a few standings of every ranking of the versions: of a measured one, its first."""
    condition = Q(pk__in=[])
    for version in versions:
        condition |= Q(metric_version=version, rank=1) if version.measured else Q(metric_version=version)
    return condition


def usual_board(groups: Sequence[ScorerGroup], metric: Metric) -> tuple[JudgedBoard, str] | None:
    """The board of all scorers that have judged the texts of a metric, and its population; None where nobody else has.

    On the measure that the metric shows first, over all prompts; in one query.
    """
    for group in groups:
        version = next((version for version in group.versions if version.metric_id == metric.pk), None)
        if version and version.first_measure in {measure.key for measure in group.measures}:
            part = group.parts(version.first_measure)[0]
            versions = group.ranked_by(version.first_measure, part)
            populations = group.populations(versions)
            if version in versions and populations:
                population = first_population(metric, populations)
                return read_boards(group, versions, part, population)[version.first_measure], population
    return None


def read_boards(
    group: ScorerGroup, versions: Sequence[MetricVersion], part: str, population: str
) -> dict[str, JudgedBoard]:
    """The board of each measure by which all of the versions rank on a part of the texts, by key; in one query."""
    slices: dict[str, list[str]] = {}
    for measure in group.measures:
        names = [group.slice_on(version, measure.key, part) for version in versions]
        if all(names):
            slices[measure.key] = [str(name) for name in names]
    condition = Q(pk__in=[])
    for key, spellings in slices.items():
        for version, name in zip(versions, spellings, strict=True):
            condition |= Q(metric_version=version, measure=key, slice=name)
    values: dict[str, dict[int, dict[JudgedEntry, float]]] = defaultdict(lambda: defaultdict(dict))
    standings = Standing.objects.filter(condition, is_listed("model__"), population=population).order_by()
    for key, pk, value, *entry in standings.values_list(
        *("measure", "metric_version_id", "value", "model__slug", "model__name", "result__scoring__run_id")
    ):
        values[key][pk][JudgedEntry(*entry)] = value
    return {
        key: _gather(MEASURES[key], versions, spellings, [values[key][version.pk] for version in versions])
        for key, spellings in slices.items()
    }


def _gather(
    measure: Measure,
    versions: Sequence[MetricVersion],
    slices: Sequence[str],
    columns: Sequence[Mapping[JudgedEntry, float]],
) -> JudgedBoard:
    """The board of the values of each scorer: of the entries that all of them have, by median rank and name."""
    shared_entries = set.intersection(*(set(column) for column in columns))
    models = {entry.slug: entry.name for column in columns for entry in column}
    shared_slugs = {entry.slug for entry in shared_entries}
    entries = sorted(shared_entries, key=lambda entry: (entry.name, entry.slug))
    values = np.array([[column[entry] for entry in entries] for column in columns]).reshape(len(columns), len(entries))
    if entries:
        medians = rank_sensitivity(values, measure.direction or "lower").median
        order = np.argsort(medians, kind="stable")
        entries, values = [entries[place] for place in order], values[:, order]
    left_out = sorted(name for slug, name in models.items() if slug not in shared_slugs)
    return JudgedBoard(measure, versions, slices, entries, values, left_out)


def describe_sensitivity(board: JudgedBoard, population: str) -> list[str]:
    """What a board of several scorers says, a sentence each."""
    sensitivity, count = board.sensitivity, len(board.entries)
    models = population_in_words(count, population, board.versions[0].metric.formula.by_kind)
    verb = "has" if count == 1 else "have"
    sentences = [f"{models[:1].upper()}{models[1:]} {verb} numbers under all {len(board.versions)} scorers."]
    if count < 2 or board.widest is None:
        return sentences
    entry, low, high = board.widest
    if low == high:
        sentences.append("No model's rank depends on the scorer.")
    else:
        sentences.append(
            f"The rank of {entry.name} depends most on the scorer: {low} to {high}. Of half of the models, the worst "
            f"rank is at most {board.typical_width:g} below the best."
        )
    sentences.append(
        f"{sensitivity.robust} of {sensitivity.pairs} pairs of models ({sensitivity.robust / sensitivity.pairs:.0%}) "
        "keep their order under every scorer."
    )
    if sensitivity.concordance is not None:
        sentences.append(
            f"Kendall's W of the {len(board.versions)} orders is {sensitivity.concordance:.2f}; 1 is one order, 0 no "
            "agreement."
        )
    return sentences


def table_of_ranks(board: JudgedBoard) -> Table:
    """A row an entry: its rank and value under each scorer, the best, the worst and the median rank."""
    slugs = [version.metric.slug for version in board.versions]
    headings = [TableColumn("model", False), TableColumn("slug", False)]
    headings += [TableColumn(f"{kind}:{slug}") for slug in slugs for kind in ("rank", "value")]
    headings += map(TableColumn, ("lowest", "highest", "median"))
    rows = [
        [
            entry.name,
            entry.slug,
            *(cell for (rank, _), value in zip(places, values, strict=True) for cell in (str(rank), repr(value))),
            *(str(low), str(high), f"{median:g}"),
        ]
        for (entry, places, low, high, median), values in zip(board.rows, board.values.T.tolist(), strict=True)
    ]
    return Table(f"Ranks by {board.measure.label.lower()} under each scorer", headings, rows)
