"""What reading a file that was sent gives."""

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from leaderboard.services.submissions.uploads import most_bytes
from scoring.contributed import Limits


@dataclass(frozen=True)
class Taken:
    """Outputs as a table of `kind`, and where they come from, as JSON can hold it.

    `payload`: what else the file told of the submission. `report`: what its submitter should know of what was taken.
    """

    table: pa.Table
    kind: str
    provenance: dict[str, Any]
    payload: dict[str, Any] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)


def limits() -> Limits:
    """What a file may have at most on this board."""
    return Limits(sent_bytes=most_bytes())
