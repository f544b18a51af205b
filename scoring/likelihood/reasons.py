"""Why a text, or all texts, have no likelihood."""

from enum import StrEnum

from scoring.refusals import Refused


class NotApplicable(Refused):
    """The settings require something that the model does not have; the message names both."""


class Unscorable(StrEnum):
    """Why a text has no perplexity."""

    EMPTY = "no tokens"
    LONE = "a single token, which nothing precedes"
    NOT_UNICODE = "not valid Unicode: it holds half a surrogate pair"
    SPECIAL = "a special token's own name, which the tokenizer does not take as text"
    NOT_EMBEDDED = "a token that the model has no embedding for"
    NOT_FINITE = "the model's likelihood of a token is not a finite number"
    REFUSED = "the server refuses it, as too long for its context or against its policy"
    MISREAD = "the server's answer does not hold the tokens of the text, one likelihood each"
