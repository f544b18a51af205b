"""Random streams: which one a continuation draws from, whatever else is in the batch and wherever it is drawn."""

import hashlib
import json
from collections.abc import Iterable


def stream_keys(seed: int, continuations: Iterable[tuple[str, int]]) -> list[int]:
    """Keys, of 64 bits with a sign, of the streams of (prompt id, continuation index): the same on every machine."""
    digests = (
        hashlib.blake2b(json.dumps([seed, prompt, index]).encode(), digest_size=8).digest()
        for prompt, index in continuations
    )
    return [int.from_bytes(digest, "little", signed=True) for digest in digests]
