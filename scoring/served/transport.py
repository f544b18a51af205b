"""Requests to a server of models: concurrent, retried, and refused where no other try can help."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeVar

import httpx

from scoring.certificates import read_certificates
from scoring.refusals import Refused
from scoring.retries import retry_after, with_retries
from scoring.served.identity import (
    PLACES,
    Identity,
    describe_changes,
    find_changes,
    identity_of_answer,
    read_model_list,
    read_place,
)

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

Item = TypeVar("Item")
Value = TypeVar("Value")


class ServerRefused(Refused):
    """The server refuses every request: wrong key, address or model. The message says what to correct."""


class ServerUnavailable(ConnectionError):
    """The server gave no valid answer after many tries: a temporary fault, not a refusal."""


class ServiceChanged(Refused):
    """The server says that another model answers than before: what it gives now belongs to another revision."""

    def __init__(self, changes: dict[str, tuple[str, str]], successor: str = "") -> None:
        now = f". It goes on as {successor}" if successor else ""
        super().__init__(
            f"the service is another one than when the model was entered: {describe_changes(changes)}{now}"
        )
        self.changes = changes

    @property
    def change(self) -> str:
        """What is said otherwise, as in "system_fingerprint was fp_1 and is fp_2"."""
        return describe_changes(self.changes)


class UselessError(Exception):
    """The answer does not fit the request; another one may."""


class PromptRefusedError(Exception):
    """The server refuses this prompt; another try would not help."""


class _ServerBusy(Exception):
    """A temporary failure; `wait`: the seconds that the server asks to wait."""

    def __init__(self, fault: str, wait: float) -> None:
        super().__init__(fault)
        self.wait = wait


@dataclass(frozen=True, slots=True)
class CompletionsServer:
    """A server of completions and how to send requests to it.

    url: the server's address, with or without /v1 or /v1/completions. model: the server's name of the model. key: sent
    as a bearer token, if any. concurrency: requests at a time. tries: of each request. timeout: seconds for an answer.
    seed_each: one request with a seed of its own for each continuation; otherwise one request for each prompt.
    identity: what it said of itself when the model was entered, which it is held to; empty: to its first answer.
    """

    url: str
    model: str
    key: str | None = field(default=None, repr=False)
    concurrency: int = 8
    tries: int = 6
    timeout: float = 120.0
    seed_each: bool = False
    identity: Identity = field(default_factory=dict, hash=False)

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
    def root(self) -> str:
        """The address without /v1 and what follows it."""
        return self.url.rstrip("/").removesuffix("/completions").removesuffix("/chat").removesuffix("/v1")

    def endpoint(self, path: str) -> str:
        """The address under /v1 that requests for `path` go to, as "completions"."""
        return f"{self.root}/v1/{path}"


@contextmanager
def open_session(server: CompletionsServer) -> Iterator["ServerSession"]:
    """A session with `server`, which ends with the block."""
    headers = {"Authorization": f"Bearer {server.key}"} if server.key else {}
    limits = httpx.Limits(max_connections=server.concurrency, max_keepalive_connections=server.concurrency)
    trust = read_certificates()
    with httpx.Client(timeout=server.timeout, headers=headers, limits=limits, verify=trust) as client:
        yield ServerSession(server, client)


class ServerSession:
    """The client that the threads of a session share. Timeouts, 408, 429, 5xx and useless answers are retried.

    The time between two tries is what Retry-After says, or an exponential backoff with jitter.
    """

    def __init__(self, server: CompletionsServer, client: httpx.Client) -> None:
        self.server = server
        self._client = client
        self._given_up = threading.Event()
        self._identity: Identity = dict(server.identity)

    def map(
        self,
        ask: Callable[[Item], Value],
        items: Sequence[Item],
        progress: Callable[[int], None] = lambda _count: None,
    ) -> list[Value]:
        """The value of `ask` for each item, in their order, as many at a time as the server is to answer.

        After each item `progress` gets the number of items finished so far; what either raises ends the session.
        """
        values: dict[int, Value] = {}
        with ThreadPoolExecutor(self.server.concurrency) as pool:
            futures = {pool.submit(ask, item): number for number, item in enumerate(items)}
            try:
                for future in as_completed(futures):
                    values[futures[future]] = future.result()
                    progress(len(values))
            except BaseException:
                self._given_up.set()
                raise
            finally:
                pool.shutdown(cancel_futures=True)
        return [values[number] for number in range(len(items))]

    def ask(
        self,
        path: str,
        body: dict[str, Any],
        read: Callable[[Any], Value],
        count: Callable[[], None] = lambda: None,
    ) -> Value:
        """Post `body` to `path` under /v1 and return what `read` makes of the answer's JSON.

        `count` is called before each try, and what it raises passes through. `read` raises UselessError for an answer
        that does not fit the request. Raises PromptRefusedError, UselessError where every try brings such an answer,
        ServerRefused, ServerUnavailable, ServiceChanged.
        """
        tries, passing_errors = self.server.tries, (_ServerBusy, httpx.RequestError)
        post_with_retries = with_retries(tries, BACKOFF, (*passing_errors, UselessError), LONGEST_WAIT, self._given_up)
        endpoint = self.server.endpoint(path)
        try:
            value: Value = post_with_retries(self._try, endpoint, body, read, count)
            return value
        except passing_errors as error:
            fault = str(error) if isinstance(error, _ServerBusy) else type(error).__name__
            raise ServerUnavailable(f"{endpoint}: {tries} tries failed, the last with {fault}") from error

    def look_up(self, path: str) -> Any:
        """The JSON at `path` under the server's root, asked once; None where it gives none."""
        try:
            response = self._client.get(f"{self.server.root}/{path}")
        except httpx.RequestError:
            return None
        if response.status_code != HTTPStatus.OK:
            return None
        try:
            return json.loads(response.content)
        except (ValueError, RecursionError):
            return None

    def describe(self) -> Identity:
        """What the server says of itself and the model where it is asked, in a few requests. Raises ServiceChanged."""
        identity = read_model_list(self.look_up("v1/models"), self.server.model)
        for place in PLACES:
            identity |= read_place(place, self.look_up(place))
        self._hold_to(identity)
        return identity

    @property
    def identity(self) -> Identity:
        """What the server has said of itself so far."""
        return dict(self._identity)

    def _hold_to(self, identity: Identity) -> None:
        """Raise ServiceChanged where the server said something else before. The name that is asked for is no news."""
        alias = ("model", self.server.model)
        new_identity = {name: value for name, value in identity.items() if (name, value) != alias}
        if changes := find_changes(self._identity, new_identity):
            raise ServiceChanged(changes)
        self._identity = {**new_identity, **self._identity}

    def _try(
        self, endpoint: str, body: dict[str, Any], read: Callable[[Any], Value], count: Callable[[], None]
    ) -> Value:
        if self._given_up.is_set():
            raise ServerUnavailable(f"{endpoint}: given up")
        count()
        response = self._client.post(endpoint, json=body)
        if response.status_code != HTTPStatus.OK:
            self._check_status(endpoint, response.status_code)
            raise _ServerBusy(f"status {response.status_code}", retry_after(response.headers.get("Retry-After")))
        try:
            answer = json.loads(response.content)
        except (ValueError, RecursionError) as error:
            raise UselessError("the server's answer is not JSON") from error
        self._hold_to(identity_of_answer(answer))
        return read(answer)

    def _check_status(self, endpoint: str, status: int) -> None:
        """Return where another try may succeed; raise otherwise."""
        if status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS) or status >= 500:
            return
        if status in OF_THE_PROMPT:
            raise PromptRefusedError(f"the server answered {status} to the prompt")
        remedies = {
            HTTPStatus.UNAUTHORIZED: "check the key",
            HTTPStatus.FORBIDDEN: "check the key and what it allows",
            HTTPStatus.NOT_FOUND: f"check the address, and that it has a model {self.server.model!r}",
        }
        remedy = next((advice for code, advice in remedies.items() if code == status), "check the address")
        raise ServerRefused(f"{endpoint} answered {status}: {remedy}")
