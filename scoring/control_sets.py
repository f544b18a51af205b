"""Control sets: the frozen texts that are scored again and again under one version of a metric.

They take the strata of an evaluation set in turn instead of sampling it proportionally: most texts of a set have scores
near 0, where no label flips, and a shift must show in demographics with few texts as well as in those with many. Beside
these stand probes: texts of ours, of the kinds that a scorer meets and an evaluation set may lack, such as other
languages, code, very long and empty texts, identities without hate, obfuscation.
"""

import hashlib
import json
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from scoring.artefacts import SCHEMAS

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]

FEWEST, DEFAULT_SIZE, MOST = 200, 350, 500
SEED = 20230126  # of the choice within strata: any fixed number
BANDS = (0.3, 0.7)  # of scores; the one between them gets twice the texts of each other
BAND_WEIGHTS = np.array([1.0, 2.0, 1.0])
LENGTHS = 3  # parts of equal size, by number of characters
PROBE_PREFIX = "probe:"
_PROBES_FILE = Path(__file__).with_name("probes.toml")


@dataclass(frozen=True, slots=True)
class ControlItem:
    """A frozen text; `demographics` holds the names of those it is about, none for a probe."""

    id: str
    text: str
    demographics: tuple[str, ...] = ()


@dataclass(frozen=True)
class Candidates:
    """Texts to choose from, in columns of n. Each has any number of `demographics`; the first is its stratum.

    A metric that scores texts gives `scores`, in 0..1 and NaN where a text has none; a likelihood metric gives
    `harmful`, the labels of sentences.
    """

    ids: Sequence[str]
    texts: Sequence[str]
    demographics: Sequence[Sequence[str]]
    scores: Array | None = None
    harmful: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        columns = {"texts": self.texts, "demographics": self.demographics}
        columns |= {name: getattr(self, name) for name in ("scores", "harmful") if getattr(self, name) is not None}
        for name, column in columns.items():
            if len(column) != len(self.ids):
                raise ValueError(f"{name}: there are {len(column)} for {len(self.ids)} ids; give each text its own")
        if (self.scores is None) == (self.harmful is None):
            raise ValueError("scores, harmful: give one of them; texts are stratified by scores or by labels")
        if len(set(self.ids)) != len(self.ids):
            raise ValueError("ids: one stands twice; give every text an id of its own")
        if any(identifier.startswith(PROBE_PREFIX) for identifier in self.ids):
            raise ValueError(f"ids: one begins with {PROBE_PREFIX!r}, as those of the built-in texts do; name it anew")
        if self.scores is not None and ((self.scores < 0) | (self.scores > 1)).any():
            raise ValueError("scores: one lies outside 0..1; give probabilities, and NaN where there is none")


def choose(candidates: Candidates, size: int = DEFAULT_SIZE, seed: int = SEED) -> list[ControlItem]:
    """Choose `size` items, sorted by id: the same ones for the same candidates in any order.

    Demographics take turns; texts without one form a group of their own. Within a demographic the bands of scores take
    turns, that from 0.3 to 0.7 twice as often as the others, or else the labels; within these the thirds by length.
    Within a stratum chance decides, by seed and id. An exhausted stratum leaves its turns to its neighbours. Equal
    texts are taken once, texts without a score never. With scores, the items include PROBES. If there are fewer
    candidates than `size`, all are chosen. Raises ValueError where the size is not in 200..500, or where no candidate
    remains.
    """
    if not FEWEST <= size <= MOST:
        raise ValueError(f"size: {size} is not in {FEWEST}..{MOST}; choose that many texts")
    probes = PROBES if candidates.scores is not None else ()
    rows = _distinct(candidates, {probe.text for probe in probes})
    if not len(rows):
        raise ValueError("candidates: not one has a text and a score of its own; score the evaluation set first")
    turn = _turns(candidates, rows, seed)
    chosen_rows = rows[np.argsort(turn)[: size - len(probes)]]
    items = (
        ControlItem(candidates.ids[row], candidates.texts[row], tuple(candidates.demographics[row]))
        for row in chosen_rows
    )
    return sorted(chain(items, probes), key=lambda item: item.id)


def checksum(items: Iterable[ControlItem]) -> str:
    """The sha256, in hex digits, of the items in their order: equal for equal control sets only."""
    content = json.dumps([[item.id, item.text, item.demographics] for item in items], ensure_ascii=True)
    return hashlib.sha256(content.encode()).hexdigest()


def to_table(items: Iterable[ControlItem]) -> pa.Table:
    """The items as rows of the `control_items` schema."""
    rows = list(items)
    schema = SCHEMAS["control_items"]
    return pa.table({name: [getattr(row, name) for row in rows] for name in schema.names}, schema=schema)


def from_table(table: pa.Table) -> list[ControlItem]:
    """The inverse of `to_table`."""
    return [ControlItem(row["id"], row["text"], tuple(row["demographics"])) for row in table.to_pylist()]


def stratum_of(identifier: str) -> str:
    """The kind of text that a control item is, one of STRATA; "" where it comes from an evaluation set."""
    return _STRATUM_OF.get(identifier, "")


def with_all_probes(table: pa.Table) -> pa.Table:
    """The items of an earlier control set, with the probes that there have been since; the same table where none."""
    items = from_table(table)
    ids = {item.id for item in items}
    texts = {item.text for item in items}
    probes = [probe for probe in PROBES if probe.id not in ids and probe.text not in texts]
    return to_table(sorted(chain(items, probes), key=lambda item: item.id)) if probes else table


def _distinct(candidates: Candidates, probe_texts: set[str]) -> Numbers:
    """The rows to choose from, sorted by id; among equal texts, the one with the first id."""
    is_scorable = np.ones(len(candidates.ids), bool) if candidates.scores is None else ~np.isnan(candidates.scores)
    first: dict[str, int] = dict.fromkeys(probe_texts, -1)
    for row in sorted(np.flatnonzero(is_scorable).tolist(), key=candidates.ids.__getitem__):
        first.setdefault(candidates.texts[row], row)
    return np.array([row for row in first.values() if row >= 0], dtype=np.int64)


def _turns(candidates: Candidates, rows: Numbers, seed: int) -> Numbers:
    """The turn of each row, counted from 0."""
    names = sorted({tuple(candidates.demographics[row][:1]) for row in rows})
    number = {name: place for place, name in enumerate(names)}
    demographic = np.array([number[tuple(candidates.demographics[row][:1])] for row in rows])
    if candidates.scores is not None:
        kind, weights = np.searchsorted(BANDS, candidates.scores[rows], side="right"), BAND_WEIGHTS
    else:
        kind, weights = np.asarray(candidates.harmful, dtype=np.int64)[rows], np.ones(2)
    characters = np.array([len(candidates.texts[row]) for row in rows])
    length = np.searchsorted(np.quantile(characters, np.arange(1, LENGTHS) / LENGTHS), characters, side="left")
    band = demographic * len(weights) + kind
    chance = np.random.default_rng(seed).permutation(len(rows)).astype(np.float64)
    within_length = _places(band * LENGTHS + length, chance, chance)
    within_band = _places(band, within_length, chance)
    within_demographic = _places(demographic, (within_band + 0.5) / weights[kind], chance)
    return _places(np.zeros_like(band), within_demographic, chance)


def _places(group: Numbers, priority: NDArray[np.float64] | Numbers, chance: Array) -> Numbers:
    """The place of each row in its group, from 0, by priority; chance decides between equals."""
    order = np.lexsort((chance, priority, group))
    sizes = np.bincount(group)
    places = np.empty_like(group)
    places[order] = np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return places


def _read_probes() -> dict[str, tuple[ControlItem, ...]]:
    content: dict[str, dict[str, str | dict[str, Any]]] = tomllib.loads(_PROBES_FILE.read_text(encoding="utf-8"))
    return {
        stratum: tuple(ControlItem(PROBE_PREFIX + name, _expand(text)) for name, text in texts.items())
        for stratum, texts in content.items()
    }


def _expand(text: str | dict[str, Any]) -> str:
    return text if isinstance(text, str) else text["text"] * text["times"] + text.get("end", "")


# Texts of the kinds that scorers meet, among them those that break tokenizers and services: the same in every control
# set of a metric that scores texts.
STRATA = _read_probes()
PROBES = tuple(sorted((probe for probes in STRATA.values() for probe in probes), key=lambda probe: probe.id))
_STRATUM_OF = {probe.id: stratum for stratum, probes in STRATA.items() for probe in probes}
