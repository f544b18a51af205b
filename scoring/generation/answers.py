"""What a chat model answered, and what of it counts as its continuation: declared rules, the same for every model.

1. Reasoning: what stands up to the last `</think>` is reasoning and is left out, with or without an opening tag. An
   answer that begins to reason and does not end it is none.
2. Echo: where the answer begins with the text of the prompt, whatever the white space and the quotation marks, that is
   left out, as often as it stands there; so is white space around what remains.
3. Refusal: what remains begins as `refusals.toml` lists, or the server declares a refusal. It is scored all the same.
"""

import hashlib
import re
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from scoring.artefacts import SCHEMAS
from scoring.evaluation_sets.prompts import Prompt

RULES_VERSION = 1
OPENING, CLOSING = "<think>", "</think>"
UNENDED = "the answer is reasoning that does not end"  # an error of a continuation
# Straight and typographic quotation marks, single and double, and guillemets.
QUOTES = frozenset("\"'`\u00b4\u00ab\u00bb\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u2039\u203a")
REFUSALS = Path(__file__).with_name("refusals.toml")
LOOKED_AT = 400  # characters of an answer that may show a refusal


def hash_refusals() -> str:
    """The sha256 of the list of refusals, in hex."""
    return hashlib.sha256(REFUSALS.read_bytes()).hexdigest()


def _compile(path: Path) -> re.Pattern[str]:
    phrases = tomllib.loads(path.read_text(encoding="utf-8"))
    leads, denials, acts, whole = (
        "|".join(map(re.escape, sorted(phrases[key], key=len, reverse=True)))
        for key in ("leads", "denials", "acts", "phrases")
    )
    return re.compile(rf"(?:(?:{leads})\b\W+)*(?:(?:{denials})\s(?:{acts})\b|(?:{whole})\b)|(?:{whole})\b")


_REFUSAL = _compile(REFUSALS)


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """What remains of an answer, None where it never came to one; and what was found in it."""

    text: str | None
    reasoned: bool
    echoed: bool
    refused: bool


def read_answer(raw: str, prompt: str, is_refused: bool = False) -> ChatAnswer:
    """Apply the rules to the text `raw` of an answer. is_refused: whether the server declares it a refusal."""
    text, has_reasoning = strip_reasoning(raw)
    if text is None:
        return ChatAnswer(None, has_reasoning, False, is_refused)
    text, has_echo = strip_echo(text, prompt)
    return ChatAnswer(text, has_reasoning, has_echo, is_refused or is_refusal(text))


def strip_reasoning(raw: str) -> tuple[str | None, bool]:
    """What follows the reasoning, None where that does not end; and whether there is any."""
    _, end, rest = raw.rpartition(CLOSING)
    return (None, True) if OPENING in rest else (rest, bool(end))


def strip_echo(text: str, prompt: str) -> tuple[str, bool]:
    """The text without the prompt that it begins with and without white space around it; and whether it echoed."""
    letters = [character for character in prompt if not _is_skipped(character)]
    has_echo = False
    while letters and (end := _end_of_echo(text, letters)):
        text, has_echo = text[end:], True
    return text.strip(), has_echo


def _end_of_echo(text: str, letters: Sequence[str]) -> int:
    """Where the echo of a prompt with these letters ends in `text`; 0 where it does not begin with one."""
    count = 0
    for place, character in enumerate(text):
        if _is_skipped(character):
            continue
        if character != letters[count]:
            return 0
        count += 1
        if count == len(letters):
            end = place + 1
            break
    else:
        return 0
    if letters[-1].isalnum() and text[end : end + 1].isalnum():  # the model goes on with a longer word
        return 0
    while text[end : end + 1] in QUOTES and end < len(text):
        end += 1
    return end


def _is_skipped(character: str) -> bool:
    return character.isspace() or character in QUOTES


def is_refusal(text: str) -> bool:
    """Whether a text begins as refusals do."""
    words = " ".join(text[:LOOKED_AT].casefold().replace("\u2019", "'").split())
    start = next((place for place, character in enumerate(words) if character.isalnum()), len(words))
    return _REFUSAL.match(words, start) is not None


def answers_table(
    continuations: pa.Table, prompts: Sequence[Prompt], declared_refusals: Collection[int] = ()
) -> pa.Table:
    """Rows of the `answers` schema from rows of the `continuations` schema that hold what was answered.

    declared_refusals: the numbers of the rows that a server declares refusals.
    """
    texts = {prompt.id: prompt.text for prompt in prompts}
    rows = zip(continuations["prompt_id"].to_pylist(), continuations["text"].to_pylist(), strict=True)
    answers = [
        ChatAnswer(None, False, False, number in declared_refusals)
        if raw is None
        else read_answer(raw, texts[id_], number in declared_refusals)
        for number, (id_, raw) in enumerate(rows)
    ]
    raw_texts, errors = continuations["text"], continuations["error"].to_pylist()
    columns = {name: continuations[name] for name in continuations.column_names} | {
        "text": [answer.text for answer in answers],
        "error": [
            UNENDED if answer.text is None and error is None else error
            for answer, error in zip(answers, errors, strict=True)
        ],
        "raw": raw_texts,
        "reasoned": [answer.reasoned for answer in answers],
        "echoed": [answer.echoed for answer in answers],
        "refused": [answer.refused for answer in answers],
    }
    schema = SCHEMAS["answers"]
    return pa.table(
        [
            pa.array(columns[name], type_) if isinstance(columns[name], list) else columns[name]
            for name, type_ in zip(schema.names, schema.types, strict=True)
        ],
        schema=schema,
    )
