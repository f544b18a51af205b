"""Continuations from a server by URL: anything that speaks OpenAI's /v1/completions, as vLLM does.

How such a server draws is its own affair: it is told our settings and a seed. Whether the same seed gives the same text
again is for the server to keep.
"""

import email.utils
import json
import secrets
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import httpx

from scoring.evaluation_sets.prompts import Prompt
from scoring.generation.continuation import Continuation, Finish, failed
from scoring.generation.protocols import GenerationSettings
from scoring.generation.streams import stream_keys

BACKOFF = 1.0  # seconds before the second try; doubled for each one after
LONGEST_WAIT = 300.0  # seconds, whatever a server asks for
# The server refuses this text and no other: too long, or not to its liking.
OF_THE_PROMPT = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.UNAVAILABLE_FOR_LEGAL_REASONS,
)
EXAMPLE = "http://127.0.0.1:8000/v1"
NO_CONTINUATIONS = "the server's answer holds no continuations"


class ServerRefused(ValueError):
    """The server will not do this at all: wrong key, address or model. The message says what to correct."""


class ServerUnavailable(ConnectionError):
    """The server did not answer as one after many tries: a passing fault, not a refusal."""


@dataclass(frozen=True, slots=True)
class CompletionsServer:
    """Where to ask and how.

    url: the server's address, with or without /v1 or /v1/completions. model: as the server names it. key: sent as a
    bearer token, where there is one. concurrency: requests at a time. tries: of each request. timeout: seconds for an
    answer. seed_each: a request of its own, with its own seed, for each continuation; else one request a prompt.
    """

    url: str
    model: str
    key: str | None = field(default=None, repr=False)
    concurrency: int = 8
    tries: int = 6
    timeout: float = 120.0
    seed_each: bool = False

    def __post_init__(self) -> None:
        try:
            address = httpx.URL(self.url)
        except httpx.InvalidURL as error:
            raise ValueError(f"url = {self.url!r} is no address ({error}): give one as in {EXAMPLE}") from error
        if address.scheme not in ("http", "https") or not address.host:
            raise ValueError(f"url = {self.url!r}: give an http or https address, as in {EXAMPLE}")
        for name in ("concurrency", "tries"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)}: use 1 or more")
        if self.timeout <= 0:
            raise ValueError(f"timeout = {self.timeout}: it counts seconds, use more than 0")

    @property
    def endpoint(self) -> str:
        """The address that requests go to."""
        base = self.url.rstrip("/").removesuffix("/completions").removesuffix("/v1")
        return f"{base}/v1/completions"


def server_continuations(
    server: CompletionsServer,
    prompts: Sequence[Prompt],
    settings: GenerationSettings,
    progress: Callable[[int], None] = lambda _finished: None,
) -> list[list[Continuation]]:
    """Return k continuations of each of `prompts`, in their order.

    Timeouts, 429 and 5xx are tried again, after what Retry-After says or an exponential backoff with jitter; so are
    answers that are not what was asked for. A prompt that the server refuses, or keeps answering wrongly, gets the
    reason in place of its texts. `progress` gets the number of prompts finished so far, after each; what it raises
    passes through.

    Raises ServerRefused where the server takes no request of this kind, ServerUnavailable where its tries are used up,
    ValueError where ids repeat.
    """
    if len({prompt.id for prompt in prompts}) < len(prompts):
        raise ValueError("two prompts have the same id, and would have the same seed: give each its own")
    headers = {"Authorization": f"Bearer {server.key}"} if server.key else {}
    limits = httpx.Limits(max_connections=server.concurrency, max_keepalive_connections=server.concurrency)
    with (
        httpx.Client(timeout=server.timeout, headers=headers, limits=limits) as client,
        ThreadPoolExecutor(server.concurrency) as pool,
    ):
        asking = _Asking(server, client)
        waiting = {pool.submit(asking.prompt, prompt, settings): number for number, prompt in enumerate(prompts)}
        found: dict[int, list[Continuation]] = {}
        try:
            for done in as_completed(waiting):
                found[waiting[done]] = done.result()
                progress(len(found))
        finally:
            asking.given_up.set()
            pool.shutdown(cancel_futures=True)
    return [found[number] for number in range(len(prompts))]


class _UselessError(Exception):
    """The answer is not what was asked for; another may be."""


class _PromptRefusedError(Exception):
    """No other answer is to be expected for this prompt."""


class _Asking:
    """What the threads share."""

    def __init__(self, server: CompletionsServer, client: httpx.Client) -> None:
        self._server = server
        self._client = client
        self.given_up = threading.Event()

    def prompt(self, prompt: Prompt, settings: GenerationSettings) -> list[Continuation]:
        """The k continuations of a prompt."""
        indexes = range(settings.k if self._server.seed_each else 1)
        seeds = [key & 0x7FFF_FFFF for key in stream_keys(settings.seed, [(prompt.id, i) for i in indexes])]
        n = 1 if self._server.seed_each else settings.k
        found: list[Continuation] = []
        try:
            for seed in seeds:
                found += self._ask(_request(self._server, prompt.text, settings, n, seed), n, settings.max_new_tokens)
        except (_PromptRefusedError, _UselessError) as error:
            return failed(str(error), settings.k)
        return found

    def _ask(self, request: dict[str, Any], n: int, most_tokens: int) -> list[Continuation]:
        for number in range(1, self._server.tries + 1):
            fault, wait, last = "", 0.0, number == self._server.tries
            try:
                response = self._client.post(self._server.endpoint, json=request)
                if response.status_code == HTTPStatus.OK:
                    return _read(response, n, most_tokens)
                self._check_status(response.status_code)
                fault, wait = f"status {response.status_code}", _asked_wait(response)
            except httpx.RequestError as error:
                fault = type(error).__name__
            except _UselessError:
                if last:
                    raise
            if last:
                raise ServerUnavailable(f"{self._server.endpoint}: {number} tries failed, the last with {fault}")
            # Jitter, so that many requests refused together do not come back together.
            backoff = BACKOFF * 2 ** (number - 1) * (0.5 + secrets.randbelow(1000) / 1000)
            if self.given_up.wait(min(max(wait, backoff), LONGEST_WAIT)):
                raise ServerUnavailable(f"{self._server.endpoint}: given up")
        raise AssertionError("the last try returns or raises")

    def _check_status(self, status: int) -> None:
        """Pass where another try may do better."""
        if status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS) or status >= 500:
            return
        if status in OF_THE_PROMPT:
            raise _PromptRefusedError(f"the server answered {status} to the prompt")
        remedies = {
            HTTPStatus.UNAUTHORIZED: "check the key",
            HTTPStatus.FORBIDDEN: "check the key and what it allows",
            HTTPStatus.NOT_FOUND: f"check the address, and that it has a model {self._server.model!r}",
        }
        remedy = next((said for code, said in remedies.items() if code == status), "check the address")
        raise ServerRefused(f"{self._server.endpoint} answered {status}: {remedy}")


def _request(server: CompletionsServer, text: str, settings: GenerationSettings, n: int, seed: int) -> dict[str, Any]:
    beyond = {"top_k": settings.top_k} if settings.top_k else {}  # not OpenAI's own, but known to vLLM and others
    return {
        "model": server.model,
        "prompt": text,
        "n": n,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "max_tokens": settings.max_new_tokens,
        "seed": seed,
        **beyond,
    }


def _read(response: httpx.Response, n: int, most_tokens: int) -> list[Continuation]:
    """The n continuations of an answer, in the order of their indexes. Raises _UselessError."""
    try:
        answer = json.loads(response.content)
    except (ValueError, RecursionError) as error:
        raise _UselessError("the server's answer is not JSON") from error
    choices = answer.get("choices") if isinstance(answer, dict) else None
    if not isinstance(choices, list) or not choices or not all(isinstance(choice, dict) for choice in choices):
        raise _UselessError(NO_CONTINUATIONS)
    by_index = {choice["index"]: choice for choice in choices if type(choice.get("index")) is int}
    if len(choices) != n or set(by_index) != set(range(n)):
        raise _UselessError(f"the server's answer does not hold continuations 0 to {n - 1}, each once")
    usage = answer.get("usage")
    used = usage.get("completion_tokens") if isinstance(usage, dict) and n == 1 else None
    return [_choice(by_index[index], used, most_tokens) for index in range(n)]


def _choice(choice: dict[str, Any], used: object, most_tokens: int) -> Continuation:
    text, finish = choice.get("text"), choice.get("finish_reason")
    if not isinstance(text, str):
        raise _UselessError("the server's answer holds a continuation without text")
    if any("\ud800" <= character <= "\udfff" for character in text):
        return Continuation(None, None, None, "the server's text is not valid Unicode")
    if finish == "stop":
        return Continuation(text, used if type(used) is int else None, Finish.STOP)
    if finish == "length":
        return Continuation(text, most_tokens, Finish.LENGTH)
    reason = finish if finish == "content_filter" else "an unknown reason"
    return Continuation(None, None, None, f"the server stopped for {reason}")


def _asked_wait(response: httpx.Response) -> float:
    """Seconds to wait as Retry-After says, as a number or a date; 0 where it says nothing."""
    asked = response.headers.get("Retry-After", "")
    if asked.isdecimal():
        return float(asked)
    try:
        until = email.utils.parsedate_to_datetime(asked)
    except ValueError:
        return 0.0
    return (until.replace(tzinfo=until.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
