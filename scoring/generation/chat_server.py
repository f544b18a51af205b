"""Answers of a chat from a server by URL: anything that implements OpenAI's /v1/chat/completions.

The server renders the messages by the template of its own and samples by itself. It says which model answers: that has
to be the one that was asked for, or the snapshot of it that was pinned.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scoring.evaluation_sets.prompts import Prompt
from scoring.generation.answers import CLOSING, OPENING
from scoring.generation.continuation import Continuation, Finish, failed_continuations
from scoring.generation.messages import messages_of
from scoring.generation.protocols import ChatSettings
from scoring.generation.streams import stream_keys
from scoring.served import (
    Allowance,
    CompletionsServer,
    PromptRefusedError,
    ServerRefused,
    ServerSession,
    UselessError,
    describe_identity,
    identity_of_answer,
    open_session,
)

CHAT = "chat/completions"
TEMPLATE_TOKENS = 256  # at most, that a template puts around the messages
LONGEST_NAME = 100  # characters of a model's name that a message repeats


@dataclass(frozen=True)
class ChatService:
    """A chat model of a server, pinned.

    names: what the server may call the model that answers: its name and its snapshot. allowance: what may be spent.
    limit_name: the field of a request that limits tokens; OpenAI's own is max_completion_tokens, older servers know
    max_tokens. heard_names: what the server called the model.
    """

    server: CompletionsServer
    names: Collection[str]
    allowance: Allowance
    limit_name: str = "max_completion_tokens"
    heard_names: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class ServedAnswer:
    """One answer as it came, and whether the server declares it a refusal."""

    continuation: Continuation
    is_refusal: bool = False


def most_tokens(text: str, settings: ChatSettings) -> int:
    """The most tokens that one request for k answers to a prompt may take: no token is shorter than a byte."""
    message_bytes = sum(len(message["content"].encode()) for message in messages_of(text, settings))
    return message_bytes + TEMPLATE_TOKENS + settings.k * settings.max_new_tokens


def server_answers(
    service: ChatService,
    prompts: Sequence[Prompt],
    settings: ChatSettings,
    progress: Callable[[int], None] = lambda _count: None,
) -> list[list[ServedAnswer]]:
    """Return k answers to each of `prompts`, in their order; reasoning stands before them within <think> and </think>.

    A prompt that the server refuses, or keeps answering wrongly, gets the reason in place of its texts. After each
    prompt `progress` gets the number of prompts finished so far; what it raises passes through.

    Raises ServerRefused where the server accepts no request of this kind or another model answers, ServerUnavailable
    where the tries or the allowance are used up, ValueError where ids repeat.
    """
    if len({prompt.id for prompt in prompts}) < len(prompts):
        raise ValueError("two prompts have the same id, and would have the same seed: give each its own")
    with open_session(service.server) as session:
        return session.map(lambda prompt: _ask(service, session, prompt, settings), prompts, progress)


def _ask(service: ChatService, session: ServerSession, prompt: Prompt, settings: ChatSettings) -> list[ServedAnswer]:
    """The k answers to a prompt."""
    key = stream_keys(settings.seed, [(prompt.id, 0)])[0]
    request = {
        "model": service.server.model,
        "messages": messages_of(prompt.text, settings),
        "n": settings.k,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        service.limit_name: settings.max_new_tokens,
        "seed": key & 0x7FFF_FFFF,
    }
    reserve = most_tokens(prompt.text, settings)

    def read(answer: Any) -> list[ServedAnswer]:
        used = _check(answer, service, settings)
        if used is not None:
            service.allowance.settle(reserve, min(used, reserve))
        return _read_answer(answer, settings)

    try:
        return session.ask(CHAT, request, read, count=lambda: service.allowance.take(reserve))
    except (PromptRefusedError, UselessError) as error:
        return [ServedAnswer(continuation) for continuation in failed_continuations(str(error), settings.k)]


def _check(answer: Any, service: ChatService, settings: ChatSettings) -> int | None:
    """The tokens that an answer took, None where it does not say. Raises ServerRefused, UselessError."""
    if not isinstance(answer, dict):
        raise UselessError("the server's answer is no object")
    name = answer.get("model")
    if isinstance(name, str) and name:
        if name not in service.names:
            raise ServerRefused(
                f"{service.server.endpoint(CHAT)} answers as {name[:LONGEST_NAME]!r}, and pinned is "
                f"{' or '.join(sorted(service.names))}: enter what it serves now as a revision of its own"
            )
        service.heard_names.add(name)
    usage = answer.get("usage")
    if not isinstance(usage, dict):
        return None
    count, total = usage.get("completion_tokens"), usage.get("total_tokens")
    if type(count) is int and count > settings.k * settings.max_new_tokens:
        raise ServerRefused(
            f"{service.server.endpoint(CHAT)} wrote {count:,} tokens where {settings.k * settings.max_new_tokens:,} "
            f"are the most: it does not know {service.limit_name}; set CHAT_LIMIT_NAME to the name that it knows"
        )
    return total if type(total) is int and total >= 0 else None


def _read_answer(answer: dict[str, Any], settings: ChatSettings) -> list[ServedAnswer]:
    """The k answers, in the order of their indexes. Raises UselessError."""
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not all(isinstance(choice, dict) for choice in choices):
        raise UselessError("the server's answer holds no messages")
    by_index = {choice["index"]: choice for choice in choices if type(choice.get("index")) is int}
    if len(choices) != settings.k or set(by_index) != set(range(settings.k)):
        raise UselessError(f"the server's answer does not hold messages 0 to {settings.k - 1}, each once")
    usage = answer.get("usage")
    used = usage.get("completion_tokens") if isinstance(usage, dict) and settings.k == 1 else None
    answered_by = describe_identity(identity_of_answer(answer))
    served_answers = [_choice(by_index[index], used, settings.max_new_tokens) for index in range(settings.k)]
    return [replace(item, continuation=replace(item.continuation, answered_by=answered_by)) for item in served_answers]


def _choice(choice: dict[str, Any], used: object, limit: int) -> ServedAnswer:
    message, finish = choice.get("message"), choice.get("finish_reason")
    if not isinstance(message, dict):
        raise UselessError("the server's answer holds a choice without a message")
    if finish not in ("stop", "length"):
        reason = finish if finish == "content_filter" else "an unknown reason"
        return ServedAnswer(Continuation(None, None, None, f"the server stopped for {reason}"))
    refusal = message.get("refusal")
    is_refusal = isinstance(refusal, str) and bool(refusal)
    text = refusal if isinstance(refusal, str) and refusal else _text_of(message, finish)
    if any("\ud800" <= character <= "\udfff" for character in text):
        return ServedAnswer(Continuation(None, None, None, "the server's text is not valid Unicode"), is_refusal)
    if finish == "length":
        return ServedAnswer(Continuation(text, limit, Finish.LENGTH), is_refusal)
    return ServedAnswer(Continuation(text, used if type(used) is int else None, Finish.STOP), is_refusal)


def _text_of(message: dict[str, Any], finish: str) -> str:
    """What a message says, its reasoning before it. Raises UselessError where it says nothing at all."""
    content = message.get("content")
    thoughts = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(thoughts, str):
        end = CLOSING if content or finish == "stop" else ""
        return f"{OPENING}{thoughts}{end}{content if isinstance(content, str) else ''}"
    if not isinstance(content, str):
        raise UselessError("the server's answer holds a message without text")
    return content
