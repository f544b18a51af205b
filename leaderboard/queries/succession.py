"""A succession as pages and commands show it: what is left of texts, of ranks, and how much the scorer moved before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from django.utils import timezone

from leaderboard.models import LanguageModel, Metric, Provenance, Succession, Work
from leaderboard.rankings.changes import Record, choose_sides, compare_sides
from leaderboard.rankings.versions import NoRanking, metrics_with_versions, published_versions
from leaderboard.services.scorers import end_of
from leaderboard.services.succession_texts import CONTINUATIONS
from scoring.metrics.formulas import MEASURES
from scoring.metrics.measures import Measure
from scoring.scorers import find_declaration
from scoring.statistics.ranks import Direction
from scoring.succession import (
    EntryValues,
    OrderComparison,
    Preservation,
    ReversedPair,
    compare_orders,
    find_reversals,
    judge_ranks,
)

PAIRS_SHOWN = 100  # of a page; the file has them all

Attribute = Mapping[str, Any]  # as `scoring.succession.AttributePreservation` is stored


@dataclass(frozen=True)
class EntryReport:
    """The entries that readers may see, under the old scorer, the new one and the mapped one.

    names: what each entry is called, by slug. impossible: pairs of positions; None where that is not known.
    """

    measure: Measure
    attribute: str
    counterpart: str
    direction: Direction
    entries: Sequence[EntryValues]
    names: Mapping[str, str]
    impossible: frozenset[tuple[int, int]] | None

    @cached_property
    def comparison(self) -> OrderComparison:
        """Ranks, and how far the orders agree."""
        return compare_orders(self.entries, self.direction, self.impossible or frozenset())

    @cached_property
    def pairs(self) -> list[ReversedPair]:
        """Every pair of entries whose order changes, the settled ones first."""
        return list(find_reversals(self.entries, self.direction, self.impossible or frozenset()))

    @property
    def first_pairs(self) -> list[ReversedPair]:
        """As many of them as a page shows."""
        return list(islice(self.pairs, PAIRS_SHOWN))


@dataclass(frozen=True)
class SuccessionReport:
    """A finished comparison. yardstick: what changed when the old scorer itself was asked again, where that is known.

    after: what changed on the board when the successor took over, once it has.
    """

    succession: Succession
    orders: EntryReport | None
    yardstick: Record | None
    after: Record | None

    @property
    def sources(self) -> list[dict[str, Any]]:
        """The texts that both have scored, by origin, with the comparison of each attribute; the main one first."""
        sources: list[dict[str, Any]] = self.succession.result["sources"]
        return sources

    @property
    def main(self) -> Attribute:
        """The comparison that verdicts and the mapping come from: of the first source and attribute."""
        attribute: Attribute = self.sources[0]["attributes"][0]
        return attribute

    @property
    def shares_models(self) -> bool:
        """Whether both scorers have scored continuations of the same models."""
        return any(source["key"] == CONTINUATIONS for source in self.sources)

    @property
    def labels(self) -> Preservation:
        """What becomes of the labels of texts."""
        return Preservation(self.succession.result["labels"])

    @cached_property
    def ranks(self) -> Preservation:
        """What becomes of the ranks of entries."""
        return judge_ranks(self.orders.comparison if self.orders else None)

    def as_json(self) -> dict[str, Any]:
        """The succession as JSON can hold it, with all that is computed from what is stored."""
        row, orders = self.succession, self.orders
        return {
            "metric": row.metric.slug,
            "from": row.scorer,
            "to": row.successor,
            "fingerprint": row.fingerprint,
            "compared_at": row.finished_at and row.finished_at.isoformat(),
            "old_version": row.result["old_version"],
            "new_version": row.result["new_version"],
            "verdict": {"labels": self.labels, "ranks": self.ranks},
            "sources": [
                {**source, "attributes": [without_points(one) for one in source["attributes"]]}
                for source in self.sources
            ],
            "ranks": orders
            and {
                **row.result["orders"],
                "entries": [entry_as_json(entry) for entry in orders.entries],
                "comparison": orders.comparison.as_json(),
                "pairs": [pair.as_json() for pair in orders.pairs],
                "impossible": None if orders.impossible is None else len(orders.impossible),
            },
            "yardstick": self.yardstick and self.yardstick.as_json(),
            "after": self.after and self.after.as_json(),
        }


def without_points(attribute: Attribute) -> dict[str, Any]:
    """The comparison of an attribute without the points of its chart."""
    return {key: value for key, value in attribute.items() if key != "points"}


def entry_as_json(entry: EntryValues) -> dict[str, Any]:
    """An entry's values under the three, as JSON can hold them."""
    sides = {"old": entry.old, "new": entry.new, "mapped": entry.mapped}
    values = {key: side and {"value": side.value, "low": side.low, "high": side.high} for key, side in sides.items()}
    return {"model": entry.name, **values}


def list_successions(metric: Metric) -> list[Succession]:
    """The newest finished comparison of the metric with each successor, by successor; in one query."""
    rows = Succession.objects.filter(metric=metric, state=Work.State.DONE).select_related(
        "metric", "rescoring__from_version", "rescoring__to_version"
    )
    newest = {row.successor: row for row in rows.order_by("finished_at", "pk")}
    return sorted(newest.values(), key=lambda row: row.successor)


def list_unfinished(metric: Metric) -> list[Succession]:
    """The comparisons that wait, run or have failed since the last one with that successor was done."""
    done_keys = {row.successor: row.pk for row in list_successions(metric)}
    rows = Succession.objects.filter(metric=metric, state__in=Work.UNENDED).order_by("pk")
    return [row for row in rows if row.pk > done_keys.get(row.successor, 0)]


def newest_succession(metric: Metric, successor: str) -> Succession | None:
    """The newest finished comparison of the metric with the successor."""
    return next((row for row in list_successions(metric) if row.successor == successor), None)


def show_succession(succession: Succession) -> SuccessionReport:
    """A finished comparison with what the board knows beside it."""
    metrics = metrics_with_versions()
    return SuccessionReport(
        succession,
        read_orders(succession.result["orders"]),
        find_yardstick(metrics, succession),
        record_hand_over(metrics, succession),
    )


def read_orders(content: Mapping[str, Any] | None) -> EntryReport | None:
    """The stored orders without the entries that readers may not see; None where there are none."""
    if content is None:
        return None
    slugs = [entry["name"] for entry in content["entries"]]
    names = dict(LanguageModel.objects.listed().filter(slug__in=slugs).values_list("slug", "name"))
    places = {place: number for number, place in enumerate(n for n, slug in enumerate(slugs) if slug in names)}
    impossible = None
    if content["impossible"] is not None:
        pairs = (pair for pair in content["impossible"] if all(place in places for place in pair))
        impossible = frozenset((places[ahead], places[second]) for ahead, second in pairs)
    return EntryReport(
        MEASURES[content["measure"]],
        content["attribute"],
        content["counterpart"],
        content["direction"],
        [EntryValues.from_json(content["entries"][place]) for place in places],
        names,
        impossible,
    )


def find_yardstick(metrics: Sequence[Metric], succession: Succession) -> Record | None:
    """What changed between two published versions by the scorer itself: of its metric, else of another one.

    HELM's numbers are such: the same texts, given to the same service twice. metrics: of `metrics_with_versions`.
    """
    for metric in sorted(metrics, key=lambda one: one.pk != succession.metric_id):
        numbers = [
            version.number
            for version in published_versions(metric)
            if version.scorer == succession.scorer and version.provenance == Provenance.PUBLISHED
        ]
        if len(numbers) > 1 and (record := record_between(metric, min(numbers), max(numbers))):
            return record
    return None


def record_hand_over(metrics: Sequence[Metric], succession: Succession) -> Record | None:
    """What changed on the board when the successor took over; None where it has not, or not yet."""
    rescoring = succession.rescoring
    if rescoring is None or rescoring.to_version.published_at is None:
        return None
    metric = next(one for one in metrics if one.pk == succession.metric_id)
    return record_between(metric, rescoring.from_version.number, rescoring.to_version.number)


def record_between(metric: Metric, first: int, last: int) -> Record | None:
    """The changes of rank between two published versions, by the measure shown first; None where no board is shared."""
    try:
        sides = choose_sides(metric, from_number=first, to_number=last)
        return Record(*sides, compare_sides(*sides))
    except NoRanking:
        return None


def announced_end(scorer: str) -> str:
    """The sentence that says when the service behind a scorer ends; "" where no end is announced."""
    end, declaration = end_of(scorer), find_declaration(scorer)
    if declaration is None or end is None:
        return ""
    day = f"{end:%-d %B %Y}"
    if timezone.now().date() > end:
        return f"{declaration.title} ended on {day}: nothing can be scored with it any more."
    return f"{declaration.title} ends on {day}: nothing can be scored with it after that day."
