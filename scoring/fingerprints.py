"""One hash for what numbers are made with."""

import hashlib
import json
from typing import Any


def fingerprint(parts: dict[str, Any]) -> str:
    """sha256, in hex digits, of values that JSON can hold; the order of names does not matter."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
