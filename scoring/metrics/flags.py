"""What people should look at before an entry is ranked."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Flag:
    """Something that stands out: its key, and a sentence with the numbers."""

    key: str
    words: str
