"""Reading the tokens of a prompt, and their likelihoods, from a server's answer: whole and in order, or not at all."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scoring.served import UselessError

UNKNOWN = "\N{REPLACEMENT CHARACTER}"  # where a token holds a part of a character
ASIDE = "▁"  # SentencePiece's mark of a space, which some servers leave in a piece
ROUNDING = 1e-3  # a log-likelihood above 0 by less is rounding
LOWEST = -9999.0  # which vLLM writes for minus infinity
LONGEST_FIRST = 40  # characters of a first token that a server does not name
# Names of special tokens: servers take them for the token, where the board reads them as text.
SPECIAL_NAME = re.compile(r"<\|[^<>|\s]+\|>|<(?:s|/s|pad|unk|bos|eos|mask)>|<(?:start|end)_of_turn>|\[/?INST\]")


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """The tokens of a text, without a leading one of the server's own.

    pieces: their texts. values: natural-log likelihoods, NaN where there is none. ids: in the server's vocabulary, None
    where it does not say them all.
    """

    pieces: list[str]
    values: list[float]
    ids: list[int] | None


def names_special_token(text: str) -> bool:
    """Whether a text holds what a server may take for a special token."""
    return SPECIAL_NAME.search(text) is not None


def read_prompt_logprobs(answer: Any, text: str, leads: bool) -> PromptTokens:
    """The tokens of vLLM's `prompt_logprobs`, whose first entry is null, and with it the name of the first token."""
    entries = _choice(answer).get("prompt_logprobs")
    if not isinstance(entries, list) or not entries:
        raise UselessError("the answer holds no prompt_logprobs")
    if entries[0] is not None:
        raise UselessError("prompt_logprobs give the first token a likelihood, which nothing precedes")
    ids, pieces, values = [], [], []
    for entry in entries[1:]:
        if not isinstance(entry, dict) or not entry:
            raise UselessError("prompt_logprobs lack a token")
        key, token = next(iter(entry.items()))  # the prompt's own token stands first
        if not isinstance(token, dict) or not isinstance(token.get("decoded_token"), str) or not key.isdecimal():
            raise UselessError("prompt_logprobs hold a token without id or text")
        ids.append(int(key))
        pieces.append(token["decoded_token"])
        values.append(_value(token.get("logprob")))
    if leads:
        _require_joined(pieces, text)
        return PromptTokens(pieces, values, ids)
    first_piece = _first_piece(pieces, text)
    return PromptTokens([first_piece, *pieces], [math.nan, *values], None)


def read_echo(answer: Any, text: str, leads: bool) -> PromptTokens:
    """The tokens of the prompt that `echo` returns, without the generated one."""
    logprobs = _choice(answer).get("logprobs")
    pieces = logprobs.get("tokens") if isinstance(logprobs, dict) else None
    likelihoods = logprobs.get("token_logprobs") if isinstance(logprobs, dict) else None
    if not isinstance(pieces, list) or not isinstance(likelihoods, list) or len(pieces) != len(likelihoods):
        raise UselessError("the answer holds no tokens with a likelihood each")
    if not all(isinstance(piece, str) for piece in pieces):
        raise UselessError("the answer holds a token that is no text")
    lead = 1 if leads else 0
    if leads and pieces[:1] and pieces[0].isspace():
        raise UselessError("the answer begins with a space, which is no token of the server's own")
    # The generated token is listed by most servers; llama-cpp-python counts it and leaves it out.
    stops = (len(pieces) - 1, len(pieces))
    stop = next((stop for stop in stops if stop > lead and joins_to(pieces[lead:stop], text)), None)
    if stop is None:
        raise UselessError("the tokens in the answer do not join to the text")
    if likelihoods[0] is not None:
        raise UselessError("the answer gives the first token a likelihood, which nothing precedes")
    values = [math.nan, *map(_value, likelihoods[1:stop])]
    return PromptTokens(pieces[lead:stop], values[lead:], None)


def trimmed_offsets(pieces: Sequence[str], text: str) -> list[tuple[int, int]] | None:
    """The characters of `text` that each piece covers, without spaces around it; None where pieces cut a character."""
    whole = "".join(pieces)
    shift = 1 if whole.lower() == f" {text.lower()}" else 0
    if whole[shift:].lower() != text.lower():
        return None
    offsets, start = [], -shift
    for piece in pieces:
        core = piece.strip()
        first = start + (len(piece) - len(piece.lstrip()) if core else len(piece))
        offsets.append((first, first + len(core)))
        start += len(piece)
    return offsets


def joins_to(pieces: Sequence[str], text: str) -> bool:
    """Whether pieces make up the whole of a text, but for a space before it, and capitals that the tokenizer drops.

    Parts of a character come as U+FFFD or as nothing: in their place anything beyond ASCII may stand.
    """
    whole = "".join(piece or UNKNOWN for piece in pieces).replace(ASIDE, " ")
    return any(_fits(whole, target) for target in (text, f" {text}"))


def _fits(whole: str, text: str) -> bool:
    whole, text = whole.lower(), text.lower()
    first, *others = whole.split(UNKNOWN)
    if not text.startswith(first):
        return False
    place = len(first)
    for part in others:
        found_at = text.find(part, place) if part else place
        if found_at < 0 or not _is_beyond_ascii(text[place:found_at]):
            return False
        place = found_at + len(part)
    rest = text[place:]
    return not rest or (bool(others) and _is_beyond_ascii(rest))


def _is_beyond_ascii(part: str) -> bool:
    return all(character > "\x7f" for character in part)


def _require_joined(pieces: Sequence[str], text: str) -> None:
    if not joins_to(pieces, text):
        raise UselessError("the tokens in the answer do not join to the text")


def _first_piece(pieces: Sequence[str], text: str) -> str:
    """The beginning of a text, which the other pieces do not cover: its first token."""
    tail = "".join(piece or UNKNOWN for piece in pieces).replace(ASIDE, " ")
    for length in range(1, min(LONGEST_FIRST, len(text)) + 1):
        head = text[:length]
        if len(head.split()) <= 1 and _fits(tail, text[length:]):
            return head
    raise UselessError("the tokens in the answer do not join to the text")


def _choice(answer: Any) -> dict[str, Any]:
    choices = answer.get("choices") if isinstance(answer, dict) else None
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise UselessError("the answer does not hold one continuation")
    choice: dict[str, Any] = choices[0]
    return choice


def _value(likelihood: Any) -> float:
    """A log-likelihood; minus infinity where the server writes its lowest number for it, or none."""
    if type(likelihood) not in (int, float) or likelihood > ROUNDING:
        raise UselessError("the answer holds a likelihood that is none")
    if math.isnan(likelihood) or likelihood <= LOWEST:
        return -math.inf
    return min(0.0, float(likelihood))
