"""What the locks pin."""

import re
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]


class Pin(NamedTuple):
    """One package of a lock: its version, the hashes of its files, and whether it is for this Python and system."""

    name: str
    version: str
    hashes: list[str]
    applies: bool


def read_lock(name: str) -> list[Pin]:
    """The pins of a lock in the repository's root, in its order."""
    pins = []
    for block in re.split(r"^(?=[a-z])", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        requirement = Requirement(block.partition("\n")[0].removesuffix("\\"))
        (specifier,) = requirement.specifier
        applies = requirement.marker is None or requirement.marker.evaluate()
        hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})", block)
        pins.append(Pin(requirement.name, specifier.version, hashes, applies))
    return pins
