"""Random streams: each continuation has its own, which depends neither on its batch nor on the machine."""

import hashlib
import json
from collections.abc import Iterable


def stream_keys(seed: int, continuations: Iterable[tuple[str, int]]) -> list[int]:
    """The signed 64-bit key of each stream of (prompt id, continuation index), the same on every machine."""
    digests = (
        hashlib.blake2b(json.dumps([seed, prompt, index]).encode(), digest_size=8).digest()
        for prompt, index in continuations
    )
    return [int.from_bytes(digest, "little", signed=True) for digest in digests]
