"""Signs that people should check before an entry is ranked."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Flag:
    """One such sign: its key, and a sentence with the numbers."""

    key: str
    words: str
