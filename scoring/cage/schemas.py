"""The tables that go into a cage and come out of one. Ids of texts stay outside where nothing in it needs them."""

from collections.abc import Sequence

import pyarrow as pa

from scoring.artefacts import SCHEMAS
from scoring.evaluation_sets.prompts import Prompt
from scoring.likelihood import Passage


def drop_columns(kind: str, *names: str) -> pa.Schema:
    """An artefact's schema but for some columns."""
    return pa.schema([field for field in SCHEMAS[kind] if field.name not in names])


TEXTS = pa.schema([("text", pa.string())])
PASSAGES = pa.schema([("text", pa.string()), ("start", pa.int32()), ("end", pa.int32())])  # as Passage has them
PROMPTS = pa.schema([("id", pa.string()), ("text", pa.string())])
READINGS = pa.schema([("changed", pa.bool_()), ("rate", pa.float64())])  # of each text, what a tokenizer made of it
TOKENS = pa.schema([("tokens", pa.list_(pa.int32()))])  # of each text, without special tokens
LIKELIHOODS = drop_columns("likelihoods", "id")
CONTINUATIONS = drop_columns("continuations", "prompt_id", "index")


def read_texts(table: pa.Table | None) -> list[str]:
    """The texts of a table of TEXTS."""
    texts: list[str] = table["text"].to_pylist() if table else []
    return texts


def passages_table(texts: Sequence[str | Passage]) -> pa.Table:
    """Rows of PASSAGES."""
    passages = [text if isinstance(text, Passage) else Passage(text) for text in texts]
    return pa.table(
        {name: [getattr(passage, name) for passage in passages] for name in PASSAGES.names}, schema=PASSAGES
    )


def read_passages(table: pa.Table | None) -> list[Passage]:
    """The passages of a table of PASSAGES."""
    return [Passage(**row) for row in (table.to_pylist() if table else [])]


def read_prompts(table: pa.Table | None) -> list[Prompt]:
    """The prompts of a table of PROMPTS."""
    return [Prompt(**row) for row in (table.to_pylist() if table else [])]
