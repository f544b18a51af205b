"""Continuations from a server by URL: anything that implements OpenAI's /v1/completions, such as vLLM.

The server receives the settings and a seed, and samples by itself. Only the server can ensure that the same seed gives
the same text again.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from scoring.evaluation_sets.prompts import Prompt
from scoring.generation.continuation import Continuation, Finish, failed_continuations
from scoring.generation.protocols import GenerationSettings
from scoring.generation.streams import stream_keys
from scoring.served import (
    CompletionsServer,
    PromptRefusedError,
    ServerSession,
    UselessError,
    describe_identity,
    identity_of_answer,
    open_session,
)

COMPLETIONS = "completions"
NO_CONTINUATIONS = "the server's answer holds no continuations"


def server_continuations(
    server: CompletionsServer,
    prompts: Sequence[Prompt],
    settings: GenerationSettings,
    progress: Callable[[int], None] = lambda _count: None,
) -> list[list[Continuation]]:
    """Return k continuations of each of `prompts`, in their order.

    A prompt that the server refuses, or keeps answering wrongly, gets the reason in place of its texts. After each
    prompt `progress` gets the number of prompts finished so far; what it raises passes through.

    Raises ServerRefused where the server accepts no request of this kind, ServerUnavailable where the tries are used
    up, ValueError where ids repeat.
    """
    if len({prompt.id for prompt in prompts}) < len(prompts):
        raise ValueError("two prompts have the same id, and would have the same seed: give each its own")
    with open_session(server) as session:
        return session.map(lambda prompt: _continue(session, prompt, settings), prompts, progress)


def _continue(session: ServerSession, prompt: Prompt, settings: GenerationSettings) -> list[Continuation]:
    """The k continuations of a prompt."""
    server = session.server
    indexes = range(settings.k if server.seed_each else 1)
    n = 1 if server.seed_each else settings.k
    continuations: list[Continuation] = []
    try:
        for key in stream_keys(settings.seed, [(prompt.id, index) for index in indexes]):
            request = _request(server, prompt.text, settings, n, key & 0x7FFF_FFFF)
            continuations += session.ask(
                COMPLETIONS, request, lambda answer: _read_answer(answer, n, settings.max_new_tokens)
            )
    except (PromptRefusedError, UselessError) as error:
        return failed_continuations(str(error), settings.k)
    return continuations


def _request(server: CompletionsServer, text: str, settings: GenerationSettings, n: int, seed: int) -> dict[str, Any]:
    extensions = {"top_k": settings.top_k} if settings.top_k else {}  # not OpenAI's own, but known to vLLM and others
    return {
        "model": server.model,
        "prompt": text,
        "n": n,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "max_tokens": settings.max_new_tokens,
        "seed": seed,
        **extensions,
    }


def _read_answer(answer: Any, n: int, most_tokens: int) -> list[Continuation]:
    """The n continuations of an answer, in the order of their indexes. Raises UselessError."""
    choices = answer.get("choices") if isinstance(answer, dict) else None
    if not isinstance(choices, list) or not choices or not all(isinstance(choice, dict) for choice in choices):
        raise UselessError(NO_CONTINUATIONS)
    by_index = {choice["index"]: choice for choice in choices if type(choice.get("index")) is int}
    if len(choices) != n or set(by_index) != set(range(n)):
        raise UselessError(f"the server's answer does not hold continuations 0 to {n - 1}, each once")
    usage = answer.get("usage")
    used = usage.get("completion_tokens") if isinstance(usage, dict) and n == 1 else None
    answered_by = describe_identity(identity_of_answer(answer))
    return [replace(_choice(by_index[index], used, most_tokens), answered_by=answered_by) for index in range(n)]


def _choice(choice: dict[str, Any], used: object, most_tokens: int) -> Continuation:
    text, finish = choice.get("text"), choice.get("finish_reason")
    if not isinstance(text, str):
        raise UselessError("the server's answer holds a continuation without text")
    if any("\ud800" <= character <= "\udfff" for character in text):
        return Continuation(None, None, None, "the server's text is not valid Unicode")
    if finish == "stop":
        return Continuation(text, used if type(used) is int else None, Finish.STOP)
    if finish == "length":
        return Continuation(text, most_tokens, Finish.LENGTH)
    reason = finish if finish == "content_filter" else "an unknown reason"
    return Continuation(None, None, None, f"the server stopped for {reason}")
