"""The tables that go into a cage and come out of one. Ids of texts stay outside where nothing in it needs them."""

import pyarrow as pa

from scoring.artefacts import SCHEMAS


def without(kind: str, *names: str) -> pa.Schema:
    """An artefact's schema but for some columns."""
    return pa.schema([field for field in SCHEMAS[kind] if field.name not in names])


TEXTS = pa.schema([("text", pa.string())])
PROMPTS = pa.schema([("id", pa.string()), ("text", pa.string())])
READINGS = pa.schema([("changed", pa.bool_()), ("rate", pa.float64())])  # of each text, what a tokenizer made of it
LIKELIHOODS = without("likelihoods", "id")
CONTINUATIONS = without("continuations", "prompt_id", "index")
