"""A prompt as a model reads it."""

from dataclasses import dataclass

NOT_EMBEDDED = "the prompt has a token that the model has no embedding for"
NO_TOKENS = "the prompt has no tokens, and the tokenizer has no special token to begin with"
NO_ROOM = "the prompt does not fit the model's context"


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """A prompt's token ids, including special tokens; where it cannot be continued, no ids but an error.

    opening: what the prompt has already begun of the answer.
    """

    ids: list[int]
    truncated: bool = False
    error: str | None = None
    opening: str = ""
