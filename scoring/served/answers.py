"""What a served model answers at temperature 0, through raw text or chat: to be compared with itself, never scored."""

from collections.abc import Sequence
from typing import Any

from scoring.evaluation_sets.prompts import Prompt
from scoring.served.transport import (
    CompletionsServer,
    PromptRefusedError,
    ServerSession,
    UselessError,
    open_session,
)

MOST_TOKENS = 24
COMPLETIONS, CHAT = "completions", "chat/completions"


def greedy_answers(server: CompletionsServer, prompts: Sequence[Prompt], chat_limit: str | None) -> list[str | None]:
    """The answer to each prompt, in their order; None where the server refuses it or gives no text.

    chat_limit: the field of a chat's request that limits tokens; None where the model continues raw text. Raises
    ServerRefused, ServerUnavailable, ServiceChanged.
    """
    with open_session(server) as session:
        return session.map(lambda prompt: greedy_answer(session, prompt.text, chat_limit), prompts)


def greedy_answer(session: ServerSession, text: str, chat_limit: str | None) -> str | None:
    """The answer to one text; as for `greedy_answers`."""
    body = {
        "model": session.server.model,
        "temperature": 0.0,
        "n": 1,
        "seed": 0,
        chat_limit or "max_tokens": MOST_TOKENS,
    }
    try:
        if chat_limit is None:
            return session.ask(COMPLETIONS, {**body, "prompt": text}, _read_text)
        return session.ask(CHAT, {**body, "messages": [{"role": "user", "content": text}]}, _read_chat)
    except (PromptRefusedError, UselessError):
        return None


def _read_text(answer: Any) -> str:
    return _require_text(_first_choice(answer).get("text"))


def _read_chat(answer: Any) -> str:
    message = _first_choice(answer).get("message")
    return _require_text(message.get("content") if isinstance(message, dict) else None)


def _first_choice(answer: Any) -> dict[str, Any]:
    choices = answer.get("choices") if isinstance(answer, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise UselessError("the answer holds no text")
    choice: dict[str, Any] = choices[0]
    return choice


def _require_text(text: Any) -> str:
    if not isinstance(text, str):
        raise UselessError("the answer holds no text")
    return text
