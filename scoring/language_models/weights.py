"""Weights as safetensors: the index of the shards and the header of each, read within limits before any library."""

import json
import math
import re
import struct
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeGuard

from scoring.language_models.bounded_json import MB, parse_json, read_json
from scoring.language_models.refusals import ModelRefused

WHOLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
SHARD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,200}\.safetensors", re.ASCII)
MOST_SHARDS = 1000
MOST_INDEX_BYTES = 16 * MB
MOST_HEADER_BYTES = 32 * MB
MOST_TENSORS = 500_000
MOST_DIMENSIONS = 8
LONGEST_NAME = 512  # characters, of a tensor
ITEM_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
ITEM_BYTES |= {"F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1}  # of quantised weights and of their scales
SPARE = 0.1  # of what the architecture needs, that files may hold beyond it


class StoredTensor(NamedTuple):
    """The type of a tensor's numbers, as the format names it, and how many there are."""

    kind: str
    size: int


@dataclass(frozen=True, slots=True)
class Weights:
    """Names of the files that hold a model's weights, and their tensors."""

    files: tuple[str, ...]
    tensors: dict[str, StoredTensor]

    def count_elements(self, prefixes: tuple[str, ...] = ("",)) -> int:
        """The numbers in tensors whose names begin with one of `prefixes`."""
        return sum(tensor.size for name, tensor in self.tensors.items() if name.startswith(prefixes))

    @property
    def kinds(self) -> Counter[str]:
        """How many numbers there are of each type."""
        counts: Counter[str] = Counter()
        for tensor in self.tensors.values():
            counts[tensor.kind] += tensor.size
        return counts

    @property
    def integer_weights(self) -> list[str]:
        """The tensors that are called weights and hold whole numbers."""
        weights = (name for name in self.tensors if name.endswith((".weight", "_packed", "_blocks")))
        return [name for name in weights if self.tensors[name].kind[0] in "IU"]


def choose_weights(folder: Path, name: str, files: Collection[str]) -> tuple[str, ...]:
    """The files of weights that are loaded from a repository of `files`: one, or the shards that the index names.

    The index, where there is one, lies in `folder`. Raises ModelRefused where it names what is no shard of the list.
    """
    if WHOLE in files:
        return (WHOLE,)
    return tuple(sorted(set(read_index(folder, name, files).values())))


def read_index(folder: Path, name: str, files: Collection[str]) -> dict[str, str]:
    """Which file holds which tensor, as the index in `folder` says. Raises as `choose_weights` does."""
    content = read_json(folder / INDEX, name, MOST_INDEX_BYTES, 2 * MOST_TENSORS)
    places = content.get("weight_map")
    if not isinstance(places, dict) or not places or not all(isinstance(file, str) for file in places.values()):
        raise ModelRefused(f"{INDEX} of {name} has no weight_map of names to files: save the model again")
    shards = set(places.values())
    if len(shards) > MOST_SHARDS:
        raise ModelRefused(f"{INDEX} of {name} names {len(shards):,} shards, and {MOST_SHARDS:,} are read: use fewer")
    for shard in sorted(shards):
        if not SHARD.fullmatch(shard) or shard.startswith("."):
            raise ModelRefused(
                f"{INDEX} of {name} names {shard[:80]!a} as a shard, and only .safetensors files beside it are "
                "read: correct it"
            )
        if shard not in files:
            raise ModelRefused(f"{INDEX} of {name} names {shard}, which the model does not have: upload it, or correct")
    return places


def read_weights(folder: Path, name: str, files: Collection[str]) -> Weights:
    """The weights that `folder` holds, their headers read and compared with the index. Raises ModelRefused."""
    names = choose_weights(folder, name, files)
    shapes = {file: read_header(folder / file, name) for file in names}
    if names != (WHOLE,):
        places = read_index(folder, name, files)
        absent = sorted(tensor for tensor, file in places.items() if tensor not in shapes[file])
        if absent:
            raise ModelRefused(
                f"{INDEX} of {name} puts {len(absent):,} tensors into files that lack them "
                f"({absent[0][:80]!a}): save the model again"
            )
    tensors: dict[str, StoredTensor] = {}
    for header in shapes.values():
        for tensor, entry in header.items():
            earlier_size = tensors[tensor].size if tensor in tensors else 0
            tensors[tensor] = StoredTensor(entry.kind, entry.size + earlier_size)
    return Weights(names, tensors)


def read_header(path: Path, name: str) -> dict[str, StoredTensor]:
    """The tensors of a safetensors file.

    Raises ModelRefused unless the header is within bounds and the tensors fill the file, one after the other, as the
    format asks.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        if not 2 <= length <= min(MOST_HEADER_BYTES, size - 8):
            raise _damage_refusal(path, name, f"its header claims {length:,} bytes of {size:,}")
        header = file.read(length)
    content = parse_json(header, path.name, name, 16 * MOST_TENSORS)
    content.pop("__metadata__", None)
    if not 0 < len(content) <= MOST_TENSORS:
        raise _damage_refusal(path, name, f"it holds {len(content):,} tensors, not 1 to {MOST_TENSORS:,}")
    tensors, spans = {}, []
    for tensor, entry in content.items():
        tensors[tensor], span = _read_entry(tensor, entry, path, name)
        spans.append(span)
    end = 0
    for first, last in sorted(spans):
        if first != end:
            raise _damage_refusal(path, name, "its tensors overlap or leave holes")
        end = last
    if 8 + length + end != size:
        raise _damage_refusal(path, name, f"its tensors end at byte {8 + length + end:,} of {size:,}")
    return tensors


def _read_entry(tensor: str, entry: object, path: Path, name: str) -> tuple[StoredTensor, tuple[int, int]]:
    label = ascii(tensor[:80])
    if len(tensor) > LONGEST_NAME or not isinstance(entry, dict):
        raise _damage_refusal(path, name, f"the entry of {label} is none")
    dtype, shape, span = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in ITEM_BYTES:
        raise _damage_refusal(path, name, f"{label} has the type {json.dumps(dtype)[:40]!a}, which is none of weights")
    if not _are_counts(shape) or len(shape) > MOST_DIMENSIONS:
        raise _damage_refusal(path, name, f"{label} has no shape of up to {MOST_DIMENSIONS} whole numbers")
    if not _are_counts(span) or len(span) != 2:
        raise _damage_refusal(path, name, f"{label} does not say where its data lie")
    if span[1] - span[0] != math.prod(shape) * ITEM_BYTES[dtype]:
        raise _damage_refusal(path, name, f"the data of {label} have another length than its shape")
    return StoredTensor(dtype, math.prod(shape)), (span[0], span[1])


def _are_counts(values: object) -> TypeGuard[list[int]]:
    return isinstance(values, list) and all(type(value) is int and 0 <= value < 2**48 for value in values)


def refuse_excess(stored_count: int, needed_count: int, name: str, class_name: str) -> None:
    """Raise ModelRefused where files hold over a tenth more numbers than the architecture needs."""
    if stored_count > (1 + SPARE) * needed_count:
        raise ModelRefused(
            f"the weights of {name} hold {stored_count:,} numbers and {class_name} needs {needed_count:,}: take out "
            "what is not this "
            "model's"
        )


def _damage_refusal(path: Path, name: str, problem: str) -> ModelRefused:
    return ModelRefused(f"{path.name} of {name} cannot be loaded as safetensors ({problem}): save it again")
