"""Numbers recomputed from the tables that are kept, held against the numbers that were published.

The same code on the same machine gives the same bits; another processor or library adds in another order. So two
numbers are the same here where they differ by no more than TOLERANCE, absolute or relative; replicates, which are kept
as float32, by no more than REPLICATE_TOLERANCE. A tampered or stale number differs by far more.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from scoring.metrics.kinds import Collected, Formula
from scoring.metrics.measures import Measurement

TOLERANCE = 1e-12
REPLICATE_TOLERANCE = 1e-6  # a few roundings of float32
# Of a published number.
FIELDS = (
    *("value", "ci_low", "ci_high", "n", "missing", "missing_texts", "worst_low", "worst_high"),
    *("p_value", "p_adjusted"),
)

Place = tuple[str, str]  # measure and slice
Numbers = Mapping[str, Any]  # by the names in FIELDS; None where there is none


@dataclass(frozen=True)
class Recomputation:
    """What came of one entry: what differs, how many published numbers were compared, and the measures that were not.

    refusal: why the formula as it is now does not take what numbers of an older one were made of; empty where it does.
    """

    differences: list[str]
    compared: int
    left_out: frozenset[str]
    refusal: str = ""


def recompute(
    formula: Formula,
    version: int,
    outputs: Collected,
    replicates: pa.Table | None,
    published_numbers: Mapping[Place, Numbers],
) -> Recomputation:
    """Compute one entry again and compare its `published_numbers` with it.

    version: of the formula that they were published by. Only measures that this code defines as that version did are
    compared: none of them where the version is newer than this code. Raises ValueError and KeyError where tables of
    this very version do not go together.
    """
    keys = formula.measures_as_of(version)
    left_out = frozenset(measure for measure, _ in published_numbers) - keys
    differences = list(formula.value_differences(outputs))
    if not keys:
        return Recomputation(differences, 0, left_out)
    try:
        measurements = [one for one in formula.measure(outputs) if one.measure in keys]
    except (ValueError, KeyError) as error:
        if version == formula.version:
            raise
        return Recomputation(differences, 0, frozenset(measure for measure, _ in published_numbers), str(error))
    stored_numbers = {place: numbers for place, numbers in published_numbers.items() if place[0] in keys}
    differences += replicate_differences(rows_of_measures(replicates, keys), measurements)
    differences += result_differences(stored_numbers, measurements)
    return Recomputation(differences, len(stored_numbers), left_out)


def describe_left_out(formula: Formula, version: int, left_out: Iterable[str], refusal: str) -> str:
    """Say which measures of a version were not recomputed, and why; empty where all were."""
    measures = ", ".join(sorted(left_out))
    if not measures:
        return ""
    age = "an older formula" if version < formula.version else "a newer formula"
    reason = f" ({refusal})" if refusal else ""
    return (
        f"not recomputed: {measures}, as numbers of {age}: they are of version {version} of the formula "
        f"{formula.name}, this code has {formula.version}{reason}"
    )


def rows_of_measures(replicates: pa.Table | None, keys: frozenset[str]) -> pa.Table | None:
    """The rows of a `replicates` table that are of these measures."""
    if replicates is None:
        return None
    is_wanted = [measure in keys for measure in replicates["measure"].to_pylist()]
    return replicates.filter(pa.array(is_wanted, pa.bool_()))


def same(old: float | None, new: float | None) -> bool:
    """Whether two numbers, or their absence, are the same; see above."""
    if old is None or new is None:
        return old is new
    return math.isclose(old, new, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def result_differences(
    published_numbers: Mapping[Place, Numbers], measurements: Iterable[Measurement]
) -> Iterator[str]:
    """Say of each published number that differs from the one measured, is missing, or was never measured."""
    by_place = {(one.measure, one.slice): one for one in measurements}
    for place, numbers in published_numbers.items():
        name = " of ".join(place)
        if place not in by_place:
            yield f"{name}: is published, and the artefacts give no such number"
            continue
        for field in FIELDS:
            was, new_value = numbers.get(field), getattr(by_place[place], field)
            if not same(was, new_value):
                yield f"{name}: {field} is published as {was!r}, the artefacts give {new_value!r}"
    for place in by_place.keys() - published_numbers.keys():
        yield f"{' of '.join(place)}: the artefacts give it, and it is not published"


def replicate_differences(stored_table: pa.Table | None, measurements: Iterable[Measurement]) -> Iterator[str]:
    """Say of each row of a `replicates` table that differs from what the bootstrap gives, is missing or too many."""
    by_place = {(one.measure, one.slice): one.replicates for one in measurements if one.replicates is not None}
    stored_values: dict[Place, Any] = {}
    if stored_table is not None:
        names = zip(stored_table["measure"].to_pylist(), stored_table["slice"].to_pylist(), strict=True)
        stored_values = dict(zip(names, stored_table["values"], strict=True))
    if stored_values.keys() != by_place.keys():
        yield f"replicates: stored of {len(stored_values)} numbers, the artefacts give those of {len(by_place)}"
    for place in stored_values.keys() & by_place.keys():
        was = stored_values[place].values.to_numpy(zero_copy_only=False)
        new_values = np.asarray(by_place[place], dtype=np.float32)
        if was.shape != new_values.shape or not np.allclose(
            was, new_values, rtol=REPLICATE_TOLERANCE, atol=REPLICATE_TOLERANCE, equal_nan=True
        ):
            yield f"replicates of {' of '.join(place)}: differ from what the bootstrap gives"
