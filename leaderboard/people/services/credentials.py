"""Secrets: shown once, and stored as a hash."""

import hashlib
import secrets

BYTES = 32  # 256 bits: nobody guesses one, so a plain hash is enough to keep


def new_secret(prefix: str) -> str:
    """Make a random secret: the prefix, which people and code scanners recognise, and 64 hexadecimal digits."""
    return prefix + secrets.token_hex(BYTES)


def digest(secret: str) -> str:
    """Return the sha256 of a secret in hexadecimal digits, which the database stores and looks up."""
    return hashlib.sha256(secret.encode()).hexdigest()
