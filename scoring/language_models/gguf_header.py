"""The header of a GGUF file, read within limits before any library sees it.

The format: magic, version, the numbers of tensors and of metadata; each metadatum a key, a type and a value; each
tensor a name, its dimensions, a type and where its data begin after the header (ggml's docs/gguf.md).
"""

import math
import re
import struct
from collections import Counter
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType, LlamaFileType

from scoring.language_models.bounded_json import MB
from scoring.language_models.refusals import ModelRefused

VERSIONS = (2, 3)
MOST_METADATA = 4096
MOST_TENSORS = 100_000
MOST_DIMENSIONS = 4
LONGEST_TEXT = 4 * MB  # bytes; chat templates are the longest
LONGEST_KEY = 512
MOST_ITEMS = 4 * 2**20  # of an array: merges of the largest vocabularies
MOST_HEADER_BYTES = 256 * MB
STRING, ARRAY = 8, 9
LICENCE, CHAT_TEMPLATE = "general.license", "tokenizer.chat_template"
FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
# Sizes of the architecture, by the end of their keys.
RANGES = (
    (re.compile(r".*\.block_count"), 1, 1000),
    (re.compile(r".*\.attention\.head_count(?:_kv)?"), 0, 4096),
    (re.compile(r".*\.(?:embedding|feed_forward|key|value)_length"), 0, 2**20),
    (re.compile(r".*\.context_length"), 1, 2**24),
    (re.compile(r".*\.vocab_size"), 1, 2**22),
    (re.compile(r".*\.expert_(?:used_)?count"), 0, 4096),
    (re.compile(r"general\.alignment"), 8, 2**16),
)


class _Damaged(ValueError):
    """What is wrong with the file."""


class _HeaderReader:
    """Reads little-endian values, no further than MOST_HEADER_BYTES."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.left = MOST_HEADER_BYTES

    def take(self, length: int) -> bytes:
        self.left -= length
        if self.left < 0:
            raise _Damaged(f"its header is longer than {MOST_HEADER_BYTES:,} bytes")
        content = self.file.read(length)
        if len(content) < length:
            raise _Damaged("it ends within its header")
        return content

    def number(self, form: str) -> int | float:
        value: int | float = struct.unpack(f"<{form}", self.take(struct.calcsize(form)))[0]
        return value

    def count(self, form: str, most: int, noun: str) -> int:
        number = int(self.number(form))
        if number > most:
            raise _Damaged(f"it claims {number:,} {noun}, and {most:,} are read")
        return number

    def text(self, most: int) -> str:
        return self.take(self.count("Q", most, "bytes of a text")).decode()


class GgufHeader(NamedTuple):
    """What the header of a GGUF file says: how many numbers its tensors hold, and what their format is called.

    licence, chat_template: "" where it names none.
    """

    elements: int
    weight_format: str
    licence: str
    chat_template: str


def read_gguf_header(path: Path) -> GgufHeader:
    """Read the whole header of the file. Raises ModelRefused."""
    try:
        with path.open("rb") as file:
            return _read(_HeaderReader(file), path.stat().st_size)
    except (_Damaged, UnicodeDecodeError) as error:
        raise ModelRefused(
            f"{path} cannot be read as the GGUF of a known architecture ({error}): fetch it again, or use safetensors"
        ) from error


def _read(reader: _HeaderReader, size: int) -> GgufHeader:
    if reader.take(4) != b"GGUF":
        raise _Damaged("it does not begin with GGUF")
    version = reader.number("I")
    if version not in VERSIONS:
        raise _Damaged(f"it is version {version} of the format, not 2 or 3")
    tensors = reader.count("Q", MOST_TENSORS, "tensors")
    alignment, file_type = 32, -1
    keys: set[str] = set()
    texts = dict.fromkeys((LICENCE, CHAT_TEMPLATE), "")
    for _ in range(reader.count("Q", MOST_METADATA, "metadata")):
        key = reader.text(LONGEST_KEY)
        if key in keys:
            raise _Damaged(f"it gives {key[:80]!a} twice")
        keys.add(key)
        kind = int(reader.number("I"))
        if kind == STRING and key in texts:
            texts[key] = reader.text(LONGEST_TEXT)
            continue
        for value in _read_value(reader, kind):
            _check(key, value)
            if key == "general.alignment":
                alignment = int(value)
            elif key == "general.file_type":
                file_type = int(value)
    spans = []
    counts: Counter[str] = Counter()
    for _ in range(tensors):
        length, count, offset, quantisation = _read_tensor(reader)
        spans.append((offset, length))
        counts[quantisation] += count
    header = MOST_HEADER_BYTES - reader.left
    start = -(-header // alignment) * alignment
    if any(start + offset + length > size for offset, length in spans):
        raise _Damaged("its tensors reach beyond its end")
    weight_format = f"GGUF {_name_type(file_type, counts)}".strip()
    return GgufHeader(counts.total(), weight_format, texts[LICENCE], texts[CHAT_TEMPLATE])


def _name_type(file_type: int, counts: Counter[str]) -> str:
    """What the file calls its mixture of types, as in Q4_K_M, where it fits its tensors; else most of their type."""
    names = {member.value: member.name.removeprefix("MOSTLY_").removeprefix("ALL_") for member in LlamaFileType}
    name: str = names.get(file_type, "")
    if any(name.startswith(kind) for kind in counts):
        return name
    return max(counts, key=lambda kind: counts[kind], default="")


def _read_value(reader: _HeaderReader, kind: int) -> list[int | float]:
    """The numbers of a metadatum; of texts none, which are only read."""
    if kind == STRING:
        reader.text(LONGEST_TEXT)
        return []
    if kind in FORMATS:
        return [reader.number(FORMATS[kind])]
    if kind != ARRAY:
        raise _Damaged(f"it holds a value of type {kind}, which is none")
    kind = int(reader.number("I"))
    items = reader.count("Q", MOST_ITEMS, "items of an array")
    if kind == STRING:
        for _ in range(items):
            reader.text(LONGEST_TEXT)
        return []
    if kind not in FORMATS:
        raise _Damaged(f"it holds an array of type {kind}, which is none that is read")
    form = FORMATS[kind]
    return list(struct.unpack(f"<{items}{form}", reader.take(items * struct.calcsize(form))))


def _check(key: str, value: int | float) -> None:
    if not math.isfinite(value) and not key.startswith("tokenizer."):
        raise _Damaged(f"it gives {key[:80]!a} = {value}, which is no finite number")
    for keys, low, high in RANGES:
        if keys.fullmatch(key) and not low <= value <= high:
            raise _Damaged(f"it gives {key[:80]!a} = {value:,}, and {low:,} to {high:,} are accepted")


def _read_tensor(reader: _HeaderReader) -> tuple[int, int, int, str]:
    """Bytes, numbers, offset and type of a tensor."""
    name = ascii(reader.text(LONGEST_KEY)[:80])
    dimensions = [int(reader.number("Q")) for _ in range(reader.count("I", MOST_DIMENSIONS, "dimensions"))]
    kind, offset = int(reader.number("I")), int(reader.number("Q"))
    count = math.prod(dimensions)
    if count >= 2**48 or offset >= 2**48:
        raise _Damaged(f"the tensor {name} claims {count:,} numbers")
    try:
        quantisation = GGMLQuantizationType(kind)
        block, block_bytes = GGML_QUANT_SIZES[quantisation]
    except (KeyError, ValueError) as error:
        raise _Damaged(f"the tensor {name} has type {kind}, which is none") from error
    if count % block:
        raise _Damaged(f"the tensor {name} has {count:,} numbers, no multiple of its blocks of {block}")
    return count // block * block_bytes, count, offset, quantisation.name
