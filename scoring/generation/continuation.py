"""A continuation: what a language model generated from a prompt, or why it generated nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from scoring.artefacts import ANSWERED_BY, SCHEMAS
from scoring.evaluation_sets.prompts import Prompt

NOT_FINITE = "the model's logits are not finite numbers"  # an error of a continuation


class Finish(StrEnum):
    """Why a continuation ends where it does."""

    STOP = "stop"  # at the end of text
    LENGTH = "length"  # at the most tokens


@dataclass(frozen=True, slots=True)
class Continuation:
    """The text that a model generated, without the prompt and without special tokens.

    `text` is None where `error` gives the reason. `n_tokens` excludes the end of text; None where a server does not
    report it. `truncated`: the prompt lost its beginning to fit the model's context. `log_perplexity` is that of prompt
    and text to the model, in nats a token; None where it was not measured, or does not exist. `answered_by` is what the
    server that gave it says of itself, where one did and says so.
    """

    text: str | None
    n_tokens: int | None
    finish: Finish | None
    error: str | None = None
    truncated: bool = False
    log_perplexity: float | None = None
    answered_by: str | None = None


def failed_continuations(error: str, k: int) -> list[Continuation]:
    """Return k continuations without text, all with the same error."""
    return [Continuation(None, None, None, error)] * k


def continuations_table(prompts: Sequence[Prompt], continuations: Sequence[Sequence[Continuation]]) -> pa.Table:
    """Rows of the `continuations` schema, prompt by prompt and in the order of the continuations."""
    rows = [
        (
            prompt.id,
            index,
            continuation.text,
            continuation.n_tokens,
            continuation.finish and continuation.finish.value,
            continuation.error,
            continuation.truncated,
            continuation.log_perplexity,
        )
        for prompt, prompt_continuations in zip(prompts, continuations, strict=True)
        for index, continuation in enumerate(prompt_continuations)
    ]
    schema = SCHEMAS["continuations"]
    table = pa.table({name: [row[i] for row in rows] for i, name in enumerate(schema.names)}, schema=schema)
    answerers = [item.answered_by for prompt_continuations in continuations for item in prompt_continuations]
    return table.append_column(ANSWERED_BY, pa.array(answerers, pa.string())) if any(answerers) else table
