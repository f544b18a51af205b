"""How a scorer's scores moved between two versions: entry by entry, and over all of them."""

from dataclasses import dataclass
from typing import Any

from leaderboard.models import MetricVersion
from leaderboard.services.joined_scores import joined, shared_scorings, spelled_alike
from scoring.attributes import THRESHOLD
from scoring.metrics.agreement import AttributeShift, distribution_shift
from scoring.metrics.pooled_shift import PooledShift


@dataclass(frozen=True)
class Shifts:
    """Per entry, by the model's slug, and of the texts of all entries together."""

    pooled: list[AttributeShift]
    entries: dict[str, list[AttributeShift]]

    def as_json(self) -> dict[str, Any]:
        """The shifts as JSON can hold them."""
        return {
            "pooled": [shift.as_json() for shift in self.pooled],
            "entries": {slug: [shift.as_json() for shift in found] for slug, found in self.entries.items()},
        }


def shifts(before: MetricVersion, after: MetricVersion) -> Shifts | None:
    """How the scores of the same continuations moved, of attributes that both have, by the later version's names.

    One entry is in memory at a time, so what it costs is reading two artefacts an entry. None where there is nothing to
    compare: published figures, metrics that ask no scorer, versions that share no run.
    """
    pooled: dict[str, PooledShift] = {}
    entries = {}
    for pair in shared_scorings(before, after):
        then, now = spelled_alike(*joined(pair))
        entries[pair[0].model.slug] = distribution_shift(then, now, after.thresholds)
        for name in now:
            pooled.setdefault(name, PooledShift(after.thresholds.get(name, THRESHOLD))).add(then[name], now[name])
    whole = (of.shift(name) for name, of in pooled.items())
    return Shifts([shift for shift in whole if shift], entries) if entries else None
