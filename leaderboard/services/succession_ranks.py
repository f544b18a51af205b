"""The entries of a metric under its scorer, under a successor, and under the successor mapped to the old scale."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leaderboard.services import artefacts
from leaderboard.services.joined_scores import load_scores
from leaderboard.services.leases import Lease
from leaderboard.services.succession_texts import SuccessionVersions
from scoring.artefacts import SCORE
from scoring.attributes import Attribute
from scoring.metrics import toxicity
from scoring.metrics.kinds import Collected, Formula
from scoring.metrics.measures import Measurement, slice_of
from scoring.metrics.safety import ALL
from scoring.metrics.toxicity import EXPECTED_MAX_TOXICITY, MEAN_TOXICITY, TOXIC_FRACTION, TOXICITY_PROBABILITY
from scoring.statistics.ranks import Direction
from scoring.succession import (
    EntryValues,
    ScoreMapping,
    ScorerValue,
    dominated_pairs,
    exceedance,
)

Scores = NDArray[np.float32]
GRID = 1_001  # points at which distributions of scores are compared, quantiles of the successor's scores
# The measures that are means of a non-decreasing function of scores: of each text, or of the worst text of a prompt.
UNITS: dict[str, Callable[[Scores], Scores]] = {
    MEAN_TOXICITY.key: np.ravel,
    TOXIC_FRACTION.key: np.ravel,
    EXPECTED_MAX_TOXICITY.key: lambda scores: np.fmax.reduce(scores, axis=1),
    TOXICITY_PROBABILITY.key: lambda scores: np.fmax.reduce(scores, axis=1),
}


@dataclass(frozen=True)
class EntryOrders:
    """The entries' values by a measure on an attribute of each scorer.

    impossible: pairs of positions whose old order no monotone mapping can give; None where the measure is no mean of
    scores, so that this is not known.
    """

    measure: str
    attribute: str
    counterpart: str
    direction: Direction
    entries: list[EntryValues]
    impossible: frozenset[tuple[int, int]] | None

    def as_json(self) -> dict[str, Any]:
        """The orders as JSON can hold them; entries by slug."""
        return {
            "measure": self.measure,
            "attribute": self.attribute,
            "counterpart": self.counterpart,
            "direction": self.direction,
            "entries": [asdict(entry) for entry in self.entries],
            "impossible": None if self.impossible is None else sorted(map(list, self.impossible)),
        }


def compare_entries(
    versions: SuccessionVersions,
    names: tuple[str, str],
    mapping: ScoreMapping | None,
    successor_scores: NDArray[np.floating[Any]],
    lease: Lease,
) -> EntryOrders | None:
    """The entries of the runs that both versions scored, by the measure that the old version shows first.

    Everything is computed by the old metric's formula from the stored scores, so that the three differ in the scores
    alone. names: of the attribute, by both scorers. successor_scores: of the texts that the grid is made of. None where
    the measure is not of the scores of one attribute, as toxicity is and regard is not, or has no better direction.
    """
    old, new = versions.old, versions.new
    if old is None or new is None or old.first_measure not in toxicity.MEASURES:
        return None
    formula, measure = old.metric.formula, old.first_measure
    direction = formula.measures[measure].direction
    if direction is None:
        return None
    attributes = [
        next(one for one in version.declared if one.name == name)
        for version, name in zip((old, new), names, strict=True)
    ]
    grid = np.unique(np.nanquantile(successor_scores.astype(np.float64), np.linspace(0, 1, GRID)))
    entries, curves, texts_by_set = [], {}, {}
    for number, pair in enumerate(versions.pairs):
        lease.check()
        lease.note(total=len(versions.pairs), done=number)
        run = pair[0].run
        if run is None:
            continue
        evaluation_set = run.protocol.evaluation_set
        if evaluation_set.pk not in texts_by_set:
            texts_by_set[evaluation_set.pk] = artefacts.load(evaluation_set.artefact)
        texts = texts_by_set[evaluation_set.pk]
        reader = EntryReader(formula, measure, texts, artefacts.load(run.artefact), pair[0].model.kind)
        columns = [
            load_scores(scoring.artefact)[SCORE + attribute.name]
            for scoring, attribute in zip(pair, attributes, strict=True)
        ]
        values = [
            reader.measure_entry(column, attribute) for column, attribute in zip(columns, attributes, strict=True)
        ]
        mapped_value = reader.measure_entry(map_scores(columns[1], mapping), attributes[0]) if mapping else None
        if values[0] is None or values[1] is None or (mapping and mapped_value is None):
            continue
        name = pair[0].model.slug
        entries.append(EntryValues(name, values[0], values[1], mapped_value))
        if measure in UNITS:
            scores = columns[1].to_numpy(zero_copy_only=False).astype(np.float32)
            curves[name] = exceedance(UNITS[measure](scores.reshape(texts.num_rows, -1)), grid)
    if not entries:
        return None
    impossible = dominated_pairs(entries, direction, curves) if measure in UNITS else None
    return EntryOrders(measure, *names, direction, entries, impossible)


def map_scores(scores: pa.ChunkedArray, mapping: ScoreMapping) -> pa.Array:
    """The successor's scores on the old scale, null where there is none."""
    mapped_scores = mapping.apply(scores.to_numpy(zero_copy_only=False).astype(np.float64))
    return pa.array(mapped_scores.astype(np.float32), from_pandas=True)


@dataclass(frozen=True)
class EntryReader:
    """An entry's texts and outputs, whose scores a formula makes a value of."""

    formula: Formula
    measure: str
    texts: pa.Table
    outputs: pa.Table
    model_kind: str

    def measure_entry(self, scores: pa.ChunkedArray | pa.Array, attribute: Attribute) -> ScorerValue | None:
        """The measure's value over all texts from the scores of one attribute; None where the formula gives none."""
        table = pa.table({SCORE + attribute.name: scores})
        collection = Collected(self.texts, self.outputs, table, attributes=(attribute,), model_kind=self.model_kind)
        measurement = find_measurement(self.formula.measure(collection), self.measure, attribute.name)
        if measurement is None:
            return None
        return ScorerValue(measurement.value, measurement.ci_low, measurement.ci_high)


def find_measurement(measurements: Sequence[Measurement], measure: str, attribute: str) -> Measurement | None:
    """The measurement over all texts of an attribute, as each formula names its slice."""
    slices = (slice_of(attribute, ALL), attribute)
    return next((one for one in measurements if one.measure == measure and one.slice in slices), None)
