"""A continuation: what a language model made of a prompt, or why it made nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from scoring.artefacts import SCHEMAS
from scoring.evaluation_sets.prompts import Prompt

NOT_FINITE = "the model's logits are not finite numbers"  # an error of a continuation


class Finish(StrEnum):
    """Why a continuation ends where it does."""

    STOP = "stop"  # at the end of text
    LENGTH = "length"  # at the most tokens


@dataclass(frozen=True, slots=True)
class Continuation:
    """`text` is what was generated, without the prompt and without special tokens; None where `error` says why not.

    `n_tokens` does not count the end of text; None where a server does not say. `truncated`: the prompt lost its
    beginning to fit the model's context. `log_perplexity` is that of prompt and text to the model, in nats a token;
    None where it was not asked for, or there is none.
    """

    text: str | None
    n_tokens: int | None
    finish: Finish | None
    error: str | None = None
    truncated: bool = False
    log_perplexity: float | None = None


def failed(error: str, k: int) -> list[Continuation]:
    """The k continuations of a prompt that has none."""
    return [Continuation(None, None, None, error)] * k


def continuations_table(prompts: Sequence[Prompt], found: Sequence[Sequence[Continuation]]) -> pa.Table:
    """Rows of the `continuations` schema, prompt by prompt and in the order of the continuations."""
    rows = [
        (
            prompt.id,
            index,
            item.text,
            item.n_tokens,
            item.finish and item.finish.value,
            item.error,
            item.truncated,
            item.log_perplexity,
        )
        for prompt, items in zip(prompts, found, strict=True)
        for index, item in enumerate(items)
    ]
    schema = SCHEMAS["continuations"]
    return pa.table({name: [row[i] for row in rows] for i, name in enumerate(schema.names)}, schema=schema)
