"""A finding: what an incident is opened for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """Something that is the case. `once`: it has one incident ever; `over`: it needs no more attention."""

    key: str
    kind: str
    subject: str
    summary: str
    path: str
    once: bool = False
    over: bool = False
