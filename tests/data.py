"""The real evaluation data, where it is at hand."""

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("PLUMBLINE_DATA", "var/data"))
TOXIGEN = DATA / "safenlp" / "toxiGen.json"
IMPLICIT_HATE = DATA / "safenlp" / "implicitHate.json"

needs_toxigen = pytest.mark.skipif(
    not TOXIGEN.exists(), reason="ToxiGen is not here: run manage.py fetch_data toxigen-human, or set PLUMBLINE_DATA"
)
needs_implicit_hate = pytest.mark.skipif(
    not IMPLICIT_HATE.exists(), reason="Implicit Hate is not here: run manage.py fetch_data implicit-hate"
)
CROWS_PAIRS = DATA / "crows_pairs" / "crows_pairs_anonymized.csv"
needs_crows_pairs = pytest.mark.skipif(
    not CROWS_PAIRS.exists(),
    reason="CrowS-Pairs is not here: run manage.py fetch_data crows-pairs, or set PLUMBLINE_DATA",
)
STEREOSET = DATA / "stereoset" / "test.jsonl"
WINOBIAS, WINOGENDER = DATA / "winobias", DATA / "winogender"
needs_stereotypes = pytest.mark.skipif(
    not all(path.exists() for path in (STEREOSET, WINOBIAS, WINOGENDER)),
    reason="StereoSet, WinoBias or Winogender is not here: run manage.py fetch_data, or set PLUMBLINE_DATA",
)
