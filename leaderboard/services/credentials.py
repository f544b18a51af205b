"""Secrets that are shown once and known by their hash from then on."""

import hashlib
import secrets

BYTES = 32  # 256 bits: nobody guesses one, so a plain hash is enough to keep


def new_secret(prefix: str) -> str:
    """A random secret: the prefix, by which people and scanners of code know what it is, and 64 hexadecimal digits."""
    return prefix + secrets.token_hex(BYTES)


def digest(secret: str) -> str:
    """Its sha256 in hexadecimal digits: what the database holds and looks it up by."""
    return hashlib.sha256(secret.encode()).hexdigest()
