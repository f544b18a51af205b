"""How a scorer's scores moved between two versions: entry by entry, and over all of them."""

from dataclasses import dataclass
from typing import Any

from leaderboard.models import MetricVersion
from leaderboard.services.joined_scores import align_names, join_scores, shared_scorings
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
            "entries": {
                slug: [shift.as_json() for shift in entry_shifts] for slug, entry_shifts in self.entries.items()
            },
        }


def shifts(old_version: MetricVersion, new_version: MetricVersion) -> Shifts | None:
    """How the scores of the same continuations moved, of attributes that both have, by the later version's names.

    One entry is in memory at a time, so what it costs is reading two artefacts an entry. None where there is nothing to
    compare: published figures, metrics that ask no scorer, versions that share no run.
    """
    pools: dict[str, PooledShift] = {}
    entries = {}
    for pair in shared_scorings(old_version, new_version):
        old_scores, new_scores = align_names(*join_scores(pair))
        entries[pair[0].model.slug] = distribution_shift(old_scores, new_scores, new_version.thresholds)
        for name in new_scores:
            pools.setdefault(name, PooledShift(new_version.thresholds.get(name, THRESHOLD))).add(
                old_scores[name], new_scores[name]
            )
    whole = (pool.shift(name) for name, pool in pools.items())
    return Shifts([shift for shift in whole if shift], entries) if entries else None
