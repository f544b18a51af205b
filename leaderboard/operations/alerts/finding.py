"""A finding: what an incident is opened for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class AlertFinding:
    """A problem of the board. `once`: it has one incident ever. `over`: it needs no more attention."""

    key: str
    kind: str
    subject: str
    summary: str
    path: str
    once: bool = False
    over: bool = False
