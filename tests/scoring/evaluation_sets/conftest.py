"""What the tests of evaluation sets share: the folder of real data, and a small set to spoil."""

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# Harmless words stand for the texts: what matters is that none of them ever shows up in a message.
SECRET = "zebra-crossing unspoken sentence"
RECORDS: list[dict[str, Any]] = [
    {"id": 0, "text": f" {SECRET} one", "label": "hate", "toxicity_score": 4.5, "target_groups": ["dogs"]},
    {"id": 2, "text": f"{SECRET} two_x000D_", "label": "neutral", "toxicity_score": 1, "target_groups": ["dogs"]},
    {"id": "c-3", "text": f"{SECRET} three", "label": "hate", "toxicity_score": 5.0, "target_groups": ["cats", "dogs"]},
    {"id": 7, "text": f"{SECRET} four ☃", "label": "neutral", "toxicity_score": 2.25, "target_groups": ["cats"]},
]


@pytest.fixture
def records() -> list[dict[str, Any]]:
    """Four good records in the SafeNLP format; spoil them freely."""
    return copy.deepcopy(RECORDS)


@pytest.fixture
def written(tmp_path: Path) -> Callable[[Any], Path]:
    """Write what is given (bytes as they are, the rest as JSON) and return the file."""

    def write(content: Any) -> Path:
        path = tmp_path / "set.json"
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    return write


@pytest.fixture
def real_data() -> Path:
    """The folder of real evaluation data; the test is skipped where there is none."""
    folder = os.environ.get("PLUMBLINE_DATA")
    if not folder:
        pytest.skip("PLUMBLINE_DATA is not set: no real evaluation data to check against")
    return Path(folder)
