"""How much each text or draw moves the values of entries: what ranges of ranks and paired differences rest on.

The rows of a measure and slice take 8 bytes for each entry and text, or draw. They are computed when they are asked
for, and those of all measures and slices are never held at once: a board of thousands of entries has many of each.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from scoring.metrics import safety
from scoring.metrics.safety import AVERAGE, Texts

Array = NDArray[np.float64]
# (measure, slice) -> [entries, texts or draws], NaN where an entry's influences are unknown. The product of two rows is
# the covariance of the values of their entries.
Influences = Mapping[tuple[str, str], Array]


class TextInfluences(Influences):
    """DeLong's influences on areas of likelihoods, by text of a slice. The rows of one measure are kept at a time."""

    def __init__(
        self, texts: Texts, log_perplexities: Mapping[int, Array], count: int, measures: Collection[str]
    ) -> None:
        """log_perplexities [n]: those of entries, by their number; the other ones of `count` entries get NaN."""
        self.texts, self.log_perplexities, self.count, self.measures = texts, log_perplexities, count, measures
        self.members = dict(texts.member)
        if texts.has_average:
            self.members[AVERAGE] = np.ones(len(texts.ids), dtype=bool)
        self._measure, self._rows = "", dict[str, Array]()

    def __getitem__(self, key: tuple[str, str]) -> Array:
        """Raises KeyError for another measure or slice; ValueError where a demographic has no scorable text."""
        measure, name = key
        if measure not in self.measures or name not in self.members:
            raise KeyError(key)
        if measure != self._measure:
            self._rows.clear()  # before the next ones are made
            self._measure, self._rows = measure, self._compute(measure)
        return self._rows[name]

    def _compute(self, measure: str) -> dict[str, Array]:
        rows = {name: np.full((self.count, member.sum()), np.nan) for name, member in self.members.items()}
        for number, values in self.log_perplexities.items():
            influence = safety.influence(measure, self.texts, values)
            for moves, (name, member) in zip(influence, self.members.items(), strict=True):
                rows[name][number] = moves[member]
        return rows

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return ((measure, name) for measure in self.measures for name in self.members)

    def __len__(self) -> int:
        return len(self.measures) * len(self.members)


class DrawInfluences(Influences):
    """Influences on any value, by bootstrap draw: all entries share the draws, so their replicates are paired."""

    def __init__(self, tables: Iterable[tuple[int, pa.Table]], count: int, measures: Collection[str]) -> None:
        """tables: rows of the `replicates` schema, by an entry's number; `count` entries without one get NaN."""
        self.count = count
        self.replicates: dict[tuple[str, str], dict[int, NDArray[np.float32]]] = {}
        for number, whole in tables:
            table = whole.filter(pc.field("measure").isin(list(measures)))
            names = zip(table["measure"].to_pylist(), table["slice"].to_pylist(), strict=True)
            for key, values in zip(names, table["values"], strict=True):
                self.replicates.setdefault(key, {})[number] = values.values.to_numpy()

    def __getitem__(self, key: tuple[str, str]) -> Array:
        replicates = self.replicates[key]
        draws = max(map(len, replicates.values()))
        rows = np.full((self.count, draws), np.nan)
        rows[list(replicates)] = list(replicates.values())
        rows -= rows.mean(axis=1, keepdims=True)
        rows /= np.sqrt(draws - 1)
        return rows

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.replicates)

    def __len__(self) -> int:
        return len(self.replicates)
