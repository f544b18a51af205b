"""What the reader of an upload returns."""

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from leaderboard.submissions.services.uploads import most_bytes
from scoring.contributed import Limits


@dataclass(frozen=True)
class UploadContents:
    """Outputs as a table of `kind`, and their origin as JSON.

    `payload`: fields of the submission that the file states. `report`: remarks about the file for the submitter.
    """

    table: pa.Table
    kind: str
    provenance: dict[str, Any]
    payload: dict[str, Any] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)


def limits() -> Limits:
    """Return the limits of uploads to this board."""
    return Limits(sent_bytes=most_bytes())
