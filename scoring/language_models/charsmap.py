"""Precompiled character maps of SentencePiece: which texts they rewrite, and whether they may.

The format is SentencePiece's: the length of a double-array trie (Darts-clone: 32-bit units), the trie, and the
replacements, each ended by a zero byte. A leaf holds where its replacement begins.
"""

import hashlib
import struct
import unicodedata
from functools import cache

import numpy as np

from scoring.language_models.refusals import ModelRefused

MOST_BYTES = 2**20
MOST_ENTRIES = 2**19  # SentencePiece's own have 227,000
LONGEST_KEY = 32  # bytes; 12 in SentencePiece's own
MOST_GROWTH = 18  # characters for one, as in SentencePiece's own: U+FDFA is a sentence
# nmt_nfkc, nfkc, nmt_nfkc_cf and nfkc_cf of SentencePiece 0.2, which checking entry by entry takes seconds to accept.
REVIEWED = {
    "1e2c7b43d3ee9755ceaa2ac335e253d8703604e0249ee1e81156c92b46423844",
    "7e46d9e08af4b6a37991b04fb8388644c1595a0abcd0f26d6a5d575e2a3663ea",
    "2c03512e62f9ed965ec90d85314211b63b5b8aa0395311ea2147eec9ff738907",
    "d8dfef3d6db0eef0742f8b55a73aee7fce6c1e21d26a09b8d3d4b52c42a791cb",
}
_SPACES = {"\u2581", "\ufffd"}  # which SentencePiece turns into spaces as well


def check_charsmap(charsmap: bytes, name: str) -> None:
    """Raise ModelRefused where the map does more than Unicode's compatibility forms, case folding and spaces.

    A map that does more can replace whole sentences before the model reads them.
    """
    if hashlib.sha256(charsmap).hexdigest() in REVIEWED:
        return
    for key, value in read_charsmap(charsmap, name).items():
        if not _is_same_text(key, value):
            raise ModelRefused(
                f"the tokenizer of {name} rewrites a text of {len(key)} characters as another one of {len(value)} by "
                "its precompiled character map, and only Unicode's compatibility forms, case folding and spaces are "
                "accepted: train the tokenizer with nmt_nfkc, nfkc, nmt_nfkc_cf, nfkc_cf or identity"
            )


def read_charsmap(charsmap: bytes, name: str) -> dict[str, str]:
    """What each text that the map knows becomes. Raises ModelRefused where the map is damaged or too large."""
    try:
        return _entries(charsmap)
    except (ValueError, IndexError, struct.error) as error:
        raise ModelRefused(
            f"the tokenizer of {name} has a precompiled character map that cannot be read ({error}): save it again"
        ) from error


def _entries(charsmap: bytes) -> dict[str, str]:
    if len(charsmap) > MOST_BYTES:
        raise ValueError(f"it has {len(charsmap):,} bytes, and at most {MOST_BYTES:,} are read")
    (length,) = struct.unpack_from("<I", charsmap)
    if length % 4 or not 4 <= length <= len(charsmap) - 4:
        raise ValueError(f"its trie of {length:,} bytes does not fit into it")
    units = np.frombuffer(charsmap, "<u4", length // 4, 4).astype(np.int64)
    replacements = charsmap[4 + length :]
    offsets = (units >> 10) << ((units & 0x200) >> 6)
    labels = units & 0x800000FF
    # A child lies at its parent's base with the bits of its own label flipped, so each names its parent.
    places = np.flatnonzero((labels > 0) & (labels < 256))
    children: dict[int, list[tuple[bytes, int, bool]]] = {}
    columns = (places ^ labels[places], labels[places], places ^ offsets[places], units[places] >> 8 & 1)
    for base, label, child, is_end in zip(*(column.tolist() for column in columns), strict=True):
        children.setdefault(base, []).append((bytes([label]), child, bool(is_end)))
    entries: dict[str, str] = {}
    stack = [(int(offsets[0]), b"")]
    while stack:
        base, key = stack.pop()
        for label, child, is_end in children.get(base, ()):
            longer = key + label
            if len(longer) > LONGEST_KEY or len(entries) > MOST_ENTRIES or len(stack) > MOST_ENTRIES:
                raise ValueError("it has more or longer entries than SentencePiece writes")
            if is_end:
                start = int(units[child]) & 0x7FFFFFFF
                entries[longer.decode()] = replacements[start : replacements.index(b"\0", start)].decode()
            stack.append((child, longer))
    return entries


def _is_same_text(key: str, value: str) -> bool:
    if len(value) > MOST_GROWTH * len(key):
        return False
    # A later Unicode than this Python's may fold what is no character yet; no text holds it.
    return fold(key) == fold(value) or key in _SPACES or any(unicodedata.category(char) == "Cn" for char in key)


@cache
def _fold_character(character: str) -> str:
    text = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", character).casefold())
    text = unicodedata.normalize("NFKD", text.casefold())
    return "".join(part for part in text if unicodedata.category(part)[0] not in "MZC")


def fold(text: str) -> str:
    """`text` without case, accents, compatibility forms, spaces and control characters."""
    return "".join(map(_fold_character, unicodedata.normalize("NFC", text)))
