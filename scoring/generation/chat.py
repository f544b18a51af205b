"""Prompts as the messages of a chat, rendered by the model's own template.

A template is code that a stranger wrote. It runs in jinja's sandbox, as transformers sets it up: without access to
files, modules or attributes that lead out. Here its time and the length of what it writes are bounded as well.
"""

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from jinja2.exceptions import TemplateError

from scoring.evaluation_sets.prompts import Prompt
from scoring.generation.answers import OPENING
from scoring.generation.encoded_prompts import NO_ROOM, NOT_EMBEDDED, EncodedPrompt
from scoring.generation.messages import SYSTEM_ROLES, Messages, messages_of
from scoring.generation.protocols import ChatSettings
from scoring.language_models.chat_template import pin_date
from scoring.language_models.refusals import ModelRefused

if TYPE_CHECKING:
    from scoring.language_models import LoadedModel

MOST_CHARACTERS = 100_000  # that a template may write for a prompt
MOST_SECONDS = 30.0  # that it may take for the prompts of a shard
PROBE = "The quick brown fox"


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """How a model is spoken to.

    system_role: where the system prompt stands: in a message of its own, or before the instruction, "user", as the
    template knows no system role. opening: what the template begins of the answer. template: with the day it may ask
    for.
    """

    system_role: str
    opening: str
    template: str


def find_format(model: "LoadedModel", settings: ChatSettings) -> ChatFormat:
    """How `model` is spoken to. Raises ModelRefused where its template cannot render the prompts."""
    template = model.tokenizer.chat_template
    if not isinstance(template, str):
        raise ModelRefused(
            f"{model.architecture.class_name} has no chat template: enter the model as raw text, or use a revision "
            "that holds one"
        )
    template = pin_date(template, settings.date)
    fault = "it leaves the prompt out"
    for role in SYSTEM_ROLES:
        try:
            text = _render(model, messages_of(PROBE, settings, role), template)
        except ModelRefused:
            raise
        except Exception as error:  # noqa: BLE001 - a template may raise anything
            fault = _describe_fault(error)
            continue
        if PROBE in text and settings.system_prompt in text:
            opening = OPENING if text.rstrip().endswith(OPENING) else ""
            return ChatFormat(role, opening, template)
    raise ModelRefused(f"the chat template cannot render a prompt ({fault}): correct it in tokenizer_config.json")


def encode_chats(model: "LoadedModel", prompts: Sequence[Prompt], settings: ChatSettings) -> list[EncodedPrompt]:
    """The token ids of the prompts as chats. Names of special tokens within a prompt count as ordinary text.

    A prompt that does not fit the context keeps its place with an error: cutting it would cut the template. Raises
    ModelRefused.
    """
    room = model.architecture.context - settings.max_new_tokens
    with time_limit(MOST_SECONDS):
        chat_format = find_format(model, settings)
        return [_encode(model, prompt, settings, chat_format, room) for prompt in prompts]


def _encode(
    model: "LoadedModel", prompt: Prompt, settings: ChatSettings, chat_format: ChatFormat, room: int
) -> EncodedPrompt:
    messages = messages_of(prompt.text, settings, chat_format.system_role)
    try:
        ids = model.tokenizer.apply_chat_template(
            messages, return_dict=False, sanitize_control_tokens=True, **_options(chat_format.template)
        )
    except ModelRefused:
        raise
    except Exception as error:  # a template may raise anything, and only for some prompts
        raise ModelRefused(
            f"the chat template cannot render prompt {prompt.id} ({_describe_fault(error)}): correct it in "
            "tokenizer_config.json"
        ) from error
    if len(ids) > room:
        return EncodedPrompt([], error=NO_ROOM)
    if not ids or max(ids) >= model.architecture.vocabulary:
        return EncodedPrompt([], error=NOT_EMBEDDED)
    return EncodedPrompt(ids, opening=chat_format.opening)


def _describe_fault(error: Exception) -> str:
    words = str(error) if isinstance(error, TemplateError) else f"{type(error).__name__}: {error}"
    return words[:300]


def _render(model: "LoadedModel", messages: Messages, template: str) -> str:
    text: str = model.tokenizer.apply_chat_template(messages, tokenize=False, **_options(template))
    if len(text) > MOST_CHARACTERS:
        raise ModelRefused(
            f"the chat template writes {len(text):,} characters for a short prompt, and {MOST_CHARACTERS:,} are read: "
            "correct it in tokenizer_config.json"
        )
    return text


def _options(template: str) -> dict[str, Any]:
    # Templates that know `enable_thinking` write an empty reasoning at False; others never look at it.
    return {"chat_template": template, "add_generation_prompt": True, "enable_thinking": False}


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise ModelRefused in the block after so many seconds. Only a process's main thread can be interrupted so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise ModelRefused(f"the chat template takes longer than {seconds:g} s: correct it in tokenizer_config.json")

    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
