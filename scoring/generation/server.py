"""Continuations from a server by URL: anything that implements OpenAI's /v1/completions, such as vLLM.

The server receives the settings and a seed, and samples by itself. Only the server can ensure that the same seed gives
the same text again.
"""

import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import httpx

from scoring.evaluation_sets.prompts import Prompt
from scoring.generation.continuation import Continuation, Finish, failed_continuations
from scoring.generation.protocols import GenerationSettings
from scoring.generation.streams import stream_keys
from scoring.refusals import Refused
from scoring.retries import retry_after, with_retries

BACKOFF = 1.0  # seconds before the second try; doubled for each one after
LONGEST_WAIT = 300.0  # seconds, whatever a server asks for
# Statuses by which a server refuses one text only, as too long or against its policy.
OF_THE_PROMPT = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.UNAVAILABLE_FOR_LEGAL_REASONS,
)
EXAMPLE = "http://127.0.0.1:8000/v1"
NO_CONTINUATIONS = "the server's answer holds no continuations"


class ServerRefused(Refused):
    """The server refuses every request: wrong key, address or model. The message says what to correct."""


class ServerUnavailable(ConnectionError):
    """The server gave no valid answer after many tries: a temporary fault, not a refusal."""


@dataclass(frozen=True, slots=True)
class CompletionsServer:
    """A completions server and how to send requests to it.

    url: the server's address, with or without /v1 or /v1/completions. model: the server's name of the model. key: sent
    as a bearer token, if any. concurrency: requests at a time. tries: of each request. timeout: seconds for an answer.
    seed_each: one request with a seed of its own for each continuation; otherwise one request for each prompt.
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
            raise Refused.of_value(
                "url", self.url, f"it is not an address ({error}); give one as in {EXAMPLE}"
            ) from error
        if address.scheme not in ("http", "https") or not address.host:
            raise Refused.of_value("url", self.url, f"give an http or https address, as in {EXAMPLE}")
        for name in ("concurrency", "tries"):
            if getattr(self, name) < 1:
                raise Refused.of_value(name, getattr(self, name), "use 1 or more")
        if self.timeout <= 0:
            raise Refused.of_value("timeout", self.timeout, "it counts seconds, use more than 0")

    @property
    def endpoint(self) -> str:
        """The address that requests go to."""
        base = self.url.rstrip("/").removesuffix("/completions").removesuffix("/v1")
        return f"{base}/v1/completions"


def server_continuations(
    server: CompletionsServer,
    prompts: Sequence[Prompt],
    settings: GenerationSettings,
    progress: Callable[[int], None] = lambda _count: None,
) -> list[list[Continuation]]:
    """Return k continuations of each of `prompts`, in their order.

    Timeouts, 429, 5xx and invalid answers are retried, after the time that Retry-After gives or an exponential backoff
    with jitter. A prompt that the server refuses, or keeps answering wrongly, gets the reason in place of its texts.
    After each prompt `progress` gets the number of prompts finished so far; what it raises passes through.

    Raises ServerRefused where the server accepts no request of this kind, ServerUnavailable where the tries are used
    up, ValueError where ids repeat.
    """
    if len({prompt.id for prompt in prompts}) < len(prompts):
        raise ValueError("two prompts have the same id, and would have the same seed: give each its own")
    headers = {"Authorization": f"Bearer {server.key}"} if server.key else {}
    limits = httpx.Limits(max_connections=server.concurrency, max_keepalive_connections=server.concurrency)
    with (
        httpx.Client(timeout=server.timeout, headers=headers, limits=limits) as client,
        ThreadPoolExecutor(server.concurrency) as pool,
    ):
        session = _Session(server, client)
        futures = {pool.submit(session.prompt, prompt, settings): number for number, prompt in enumerate(prompts)}
        continuations: dict[int, list[Continuation]] = {}
        try:
            for future in as_completed(futures):
                continuations[futures[future]] = future.result()
                progress(len(continuations))
        finally:
            session.given_up.set()
            pool.shutdown(cancel_futures=True)
    return [continuations[number] for number in range(len(prompts))]


class _ServerBusy(Exception):
    """A temporary failure; `wait`: the seconds that the server asks to wait."""

    def __init__(self, fault: str, wait: float) -> None:
        super().__init__(fault)
        self.wait = wait


class _UselessError(Exception):
    """The answer does not fit the request; another one may."""


class _PromptRefusedError(Exception):
    """The server refuses this prompt; another try would not help."""


class _Session:
    """The client and the stop event that threads share."""

    def __init__(self, server: CompletionsServer, client: httpx.Client) -> None:
        self._server = server
        self._client = client
        self.given_up = threading.Event()

    def prompt(self, prompt: Prompt, settings: GenerationSettings) -> list[Continuation]:
        """The k continuations of a prompt."""
        indexes = range(settings.k if self._server.seed_each else 1)
        seeds = [key & 0x7FFF_FFFF for key in stream_keys(settings.seed, [(prompt.id, i) for i in indexes])]
        n = 1 if self._server.seed_each else settings.k
        continuations: list[Continuation] = []
        try:
            for seed in seeds:
                continuations += self._ask(
                    _request(self._server, prompt.text, settings, n, seed), n, settings.max_new_tokens
                )
        except (_PromptRefusedError, _UselessError) as error:
            return failed_continuations(str(error), settings.k)
        return continuations

    def _ask(self, request: dict[str, Any], n: int, most_tokens: int) -> list[Continuation]:
        tries, passing_errors = self._server.tries, (_ServerBusy, httpx.RequestError)
        post_with_retries = with_retries(tries, BACKOFF, (*passing_errors, _UselessError), LONGEST_WAIT, self.given_up)
        try:
            return post_with_retries(self._try, request, n, most_tokens)
        except passing_errors as error:
            fault = str(error) if isinstance(error, _ServerBusy) else type(error).__name__
            raise ServerUnavailable(f"{self._server.endpoint}: {tries} tries failed, the last with {fault}") from error

    def _try(self, request: dict[str, Any], n: int, most_tokens: int) -> list[Continuation]:
        if self.given_up.is_set():
            raise ServerUnavailable(f"{self._server.endpoint}: given up")
        response = self._client.post(self._server.endpoint, json=request)
        if response.status_code == HTTPStatus.OK:
            return _read_answer(response, n, most_tokens)
        self._check_status(response.status_code)
        raise _ServerBusy(f"status {response.status_code}", retry_after(response.headers.get("Retry-After")))

    def _check_status(self, status: int) -> None:
        """Return where another try may succeed; raise otherwise."""
        if status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS) or status >= 500:
            return
        if status in OF_THE_PROMPT:
            raise _PromptRefusedError(f"the server answered {status} to the prompt")
        remedies = {
            HTTPStatus.UNAUTHORIZED: "check the key",
            HTTPStatus.FORBIDDEN: "check the key and what it allows",
            HTTPStatus.NOT_FOUND: f"check the address, and that it has a model {self._server.model!r}",
        }
        remedy = next((advice for code, advice in remedies.items() if code == status), "check the address")
        raise ServerRefused(f"{self._server.endpoint} answered {status}: {remedy}")


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


def _read_answer(response: httpx.Response, n: int, most_tokens: int) -> list[Continuation]:
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
