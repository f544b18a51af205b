"""The tables that go into a cage and come out of one. Ids of texts stay outside where nothing in it needs them."""

import pyarrow as pa

from scoring.artefacts import SCHEMAS
from scoring.evaluation_sets.prompts import Prompt


def drop_columns(kind: str, *names: str) -> pa.Schema:
    """An artefact's schema but for some columns."""
    return pa.schema([field for field in SCHEMAS[kind] if field.name not in names])


TEXTS = pa.schema([("text", pa.string())])
PROMPTS = pa.schema([("id", pa.string()), ("text", pa.string())])
READINGS = pa.schema([("changed", pa.bool_()), ("rate", pa.float64())])  # of each text, what a tokenizer made of it
TOKENS = pa.schema([("tokens", pa.list_(pa.int32()))])  # of each text, without special tokens
LIKELIHOODS = drop_columns("likelihoods", "id")
CONTINUATIONS = drop_columns("continuations", "prompt_id", "index")


def read_texts(table: pa.Table | None) -> list[str]:
    """The texts of a table of TEXTS."""
    texts: list[str] = table["text"].to_pylist() if table else []
    return texts


def read_prompts(table: pa.Table | None) -> list[Prompt]:
    """The prompts of a table of PROMPTS."""
    return [Prompt(**row) for row in (table.to_pylist() if table else [])]
