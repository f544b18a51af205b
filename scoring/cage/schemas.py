"""The tables that go into a cage and come out of one. Ids of texts stay outside where nothing in it needs them."""

import pyarrow as pa

from scoring.artefacts import SCHEMAS


def without(kind: str, *names: str) -> pa.Schema:
    """An artefact's schema but for some columns."""
    return pa.schema([field for field in SCHEMAS[kind] if field.name not in names])


TEXTS = pa.schema([("text", pa.string())])
GROUPED = pa.schema([("text", pa.string()), ("groups", pa.list_(pa.int32()))])
PROMPTS = pa.schema([("id", pa.string()), ("text", pa.string())])
LIKELIHOODS = without("likelihoods", "id")
CONTINUATIONS = without("continuations", "prompt_id", "index")
