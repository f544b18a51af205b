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

from scoring.metrics.formulas import Collected, Formula
from scoring.metrics.measures import Measurement
from scoring.metrics.safety import log_perplexities

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
    collected: Collected,
    per_text: pa.Table,
    replicates: pa.Table | None,
    stored: Mapping[Place, Numbers],
) -> Recomputation:
    """Compute one entry again and hold its `stored` numbers against it.

    version: of the formula that they were published by. Only measures that this code defines as that version did are
    compared: none of them where the version is newer than this code. per_text: the entry's kept log-perplexities or
    scores. Raises ValueError and KeyError where tables of this very version do not go together.
    """
    keys = formula.measures_as_of(version)
    left_out = frozenset(measure for measure, _ in stored) - keys
    differences = [] if formula.asks_scorer else list(log_perplexity_differences(per_text, collected.outputs))
    if not keys:
        return Recomputation(differences, 0, left_out)
    try:
        measured = [one for one in formula.measure(collected) if one.measure in keys]
    except (ValueError, KeyError) as error:
        if version == formula.version:
            raise
        return Recomputation(differences, 0, frozenset(measure for measure, _ in stored), str(error))
    kept = {place: numbers for place, numbers in stored.items() if place[0] in keys}
    differences += replicate_differences(rows_of_measures(replicates, keys), measured)
    differences += result_differences(kept, measured)
    return Recomputation(differences, len(kept), left_out)


def describe_left_out(formula: Formula, version: int, left_out: Iterable[str], refusal: str) -> str:
    """Say which measures of a version were not recomputed, and why; empty where all were."""
    measures = ", ".join(sorted(left_out))
    if not measures:
        return ""
    age = "an older formula" if version < formula.version else "a newer formula"
    why = f" ({refusal})" if refusal else ""
    return (
        f"not recomputed: {measures}, as numbers of {age}: they are of version {version} of the formula "
        f"{formula.name}, this code has {formula.version}{why}"
    )


def rows_of_measures(replicates: pa.Table | None, keys: frozenset[str]) -> pa.Table | None:
    """The rows of a `replicates` table that are of these measures."""
    if replicates is None:
        return None
    chosen = [measure in keys for measure in replicates["measure"].to_pylist()]
    return replicates.filter(pa.array(chosen, pa.bool_()))


def same(stored: float | None, found: float | None) -> bool:
    """Whether two numbers, or their absence, are the same; see above."""
    if stored is None or found is None:
        return stored is found
    return math.isclose(stored, found, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def result_differences(stored: Mapping[Place, Numbers], measured: Iterable[Measurement]) -> Iterator[str]:
    """Say of each published number that differs from the one measured, is missing, or was never measured."""
    found = {(one.measure, one.slice): one for one in measured}
    for place, numbers in stored.items():
        name = " of ".join(place)
        if place not in found:
            yield f"{name}: is published, and the artefacts give no such number"
            continue
        for field in FIELDS:
            was, now = numbers.get(field), getattr(found[place], field)
            if not same(was, now):
                yield f"{name}: {field} is published as {was!r}, the artefacts give {now!r}"
    for place in found.keys() - stored.keys():
        yield f"{' of '.join(place)}: the artefacts give it, and it is not published"


def replicate_differences(stored: pa.Table | None, measured: Iterable[Measurement]) -> Iterator[str]:
    """Say of each row of a `replicates` table that differs from what the bootstrap gives, is missing or too many."""
    found = {(one.measure, one.slice): one.replicates for one in measured if one.replicates is not None}
    kept: dict[Place, Any] = {}
    if stored is not None:
        names = zip(stored["measure"].to_pylist(), stored["slice"].to_pylist(), strict=True)
        kept = dict(zip(names, stored["values"], strict=True))
    if kept.keys() != found.keys():
        yield f"replicates: stored of {len(kept)} numbers, the artefacts give those of {len(found)}"
    for place in kept.keys() & found.keys():
        was = kept[place].values.to_numpy(zero_copy_only=False)
        now = np.asarray(found[place], dtype=np.float32)
        if was.shape != now.shape or not np.allclose(
            was, now, rtol=REPLICATE_TOLERANCE, atol=REPLICATE_TOLERANCE, equal_nan=True
        ):
            yield f"replicates of {' of '.join(place)}: differ from what the bootstrap gives"


def log_perplexity_differences(stored: pa.Table, likelihoods: pa.Table) -> Iterator[str]:
    """Say where a `log_perplexities` table is not what its `likelihoods` give."""
    if stored["id"].to_pylist() != likelihoods["id"].to_pylist():
        yield "log-perplexities: are of other texts than the likelihoods"
        return
    was = np.array(stored["log_perplexity"].to_pylist(), dtype=np.float64)
    now = log_perplexities(likelihoods)
    different = ~np.isclose(was, now, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
    if different.any():
        first = stored["id"][int(different.argmax())].as_py()
        count = int(different.sum())
        yield f"log-perplexities: {count} differ from what the likelihoods give, the first is that of {first}"
