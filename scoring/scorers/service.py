"""The client of services that score texts: one way to keep to a quota, retry, keep replies and tell their snapshots.

A service is asked for one text a request (or for several votes on it), never faster than its quota. Its key stands in
a header and nowhere else. What it cannot be asked again, such as a text that it refuses, has a reason and no score.
"""

import hashlib
import math
import re
import threading
from abc import abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from http import HTTPStatus
from itertools import islice
from typing import Any, ClassVar
from urllib.parse import urlsplit

import httpx
import numpy as np

from scoring.certificates import read_certificates
from scoring.retries import retry_after, with_retries
from scoring.scorers.base import Cost, Progress, Scorer, ScorerState, ScorerUnavailable, Scores
from scoring.scorers.pacing import Pace
from scoring.scorers.replies import Reply, ReplyStore

TRIES = 6
BACKOFF = 1.0  # seconds before the second try, on average
LONGEST_WAIT = 300.0  # seconds; a service that wants more is unavailable
MOST_FAILED = 10  # texts without a usable answer, one after the other, before the service counts as unavailable
ROUNDS = 2  # of asking, where a service answers with another snapshot than it did before
TIMEOUT = httpx.Timeout(30.0, connect=10.0)
_CODE = re.compile(r"[A-Za-z][A-Za-z_]{1,60}")  # what may be shown of an answer: it may quote the text or the key

Question = tuple[str, str]  # the key of its reply, and the text


@dataclass(frozen=True, slots=True)
class ServiceAccess:
    """How a board asks a service. usd_per_1000_texts: its fee, None where nobody has declared one."""

    key: str = field(default="", repr=False)
    url: str = ""
    requests_per_second: float = 1.0
    usd_per_1000_texts: float | None = None

    def cost(self, requests: int = 1) -> Cost:
        """What a text costs that takes so many requests."""
        usd = None if self.usd_per_1000_texts is None else self.usd_per_1000_texts / 1000
        return Cost(requests, requests / self.requests_per_second, usd)


class PassingError(Exception):
    """This try failed in a way that another may not; `wait` is in seconds, 0 where the service names none."""

    def __init__(self, wait: float = 0.0) -> None:
        self.wait = wait


class ServiceScorer(Scorer):
    """A scorer that asks a service over HTTPS.

    title: what messages call it. remedy: what to check where it refuses every text. refusals: by code of an error, why
    a text is refused for what it is; such a text is not asked about again. votes: requests for each text.
    timeout: for an answer, where that is not the usual one.
    """

    title: ClassVar[str]
    remedy: ClassVar[str]
    refusals: ClassVar[Mapping[str, str]] = {}
    votes: ClassVar[int] = 1
    timeout: ClassVar[httpx.Timeout | None] = None
    _method: str  # the address that texts are posted to, after that of the service

    def __init__(
        self,
        access: ServiceAccess,
        *,
        headers: Mapping[str, str],
        epoch: str = "",
        concurrency: int = 8,
        replies: ReplyStore | None = None,
    ) -> None:
        """`replies` keeps answers, so that interrupted work goes on. Raises ValueError for a wrong option."""
        check_access(access, concurrency)
        self.epoch = epoch
        self.snapshot = ""  # what the service called itself in its last answer, where it says more than its name
        self.cost = access.cost(self.votes)
        self._base_url = access.url.rstrip("/")
        self._headers = dict(headers)
        self._concurrency = concurrency
        self._pace = Pace(access.requests_per_second)
        self._replies: ReplyStore = {} if replies is None else replies

    @abstractmethod
    def _body(self, text: str) -> dict[str, Any]:
        """The JSON to post for a text."""

    @abstractmethod
    def _scores(self, answer: Any) -> list[float]:
        """The scores in an answer, in the order of `attributes`. Raises PassingError where one is missing."""

    @abstractmethod
    def _codes(self, answer: Any) -> list[Any]:
        """The words of an error that a machine reads, unchecked. Raises LookupError, TypeError, AttributeError."""

    def _blames_text(self, codes: Sequence[str]) -> bool:
        """Whether a bad request is bad for its text, and not for what all requests have in common."""
        return True

    def _refuse(self, text: str) -> str | None:
        """Why the service is not even asked about a text; one of the values of `refusals`."""
        return None

    def _snapshot_in(self, answer: Any) -> str:
        """The version of itself that the service names in an answer. Raises ScorerUnavailable where it is wrong."""
        return ""

    def _combine(self, votes: Sequence[list[float]]) -> list[float]:
        """The scores of a text, of the scores in its votes."""
        return votes[0]

    def _score_distinct(self, texts: list[str], progress: Progress) -> Scores:
        fingerprint = self.fingerprint()
        keys = [[_key(fingerprint, text, vote) for vote in range(self.votes)] for text in texts]
        questions = [(key, text) for row, text in zip(keys, texts, strict=True) for key in row]
        replies = self._collect(questions, progress)
        rows, reasons = [], []
        for row in keys:
            votes = [replies[key] for key in row]
            reason = next((vote["reason"] for vote in votes if "reason" in vote), None)
            reasons.append(reason)
            nothing = [math.nan] * len(self.attributes)
            rows.append(nothing if reason else self._combine([vote["scores"] for vote in votes]))
        values = np.array(rows, dtype=np.float32)
        return Scores(values=values, reasons=tuple(reasons), truncated=np.zeros(len(texts), dtype=bool))

    def _collect(self, questions: list[Question], progress: Progress) -> dict[str, Reply]:
        """A reply to each question, all of one snapshot: those of an earlier one are asked for again."""
        open_questions = [question for question in questions if question[0] not in self._replies]
        for _ in range(ROUNDS):
            failures = self._ask_all(open_questions, len(questions) - len(open_questions), progress)
            replies = {key: failures.get(key) or self._replies[key] for key, _ in questions}
            names = [reply["snapshot"] for reply in replies.values() if "snapshot" in reply]
            newest = self.snapshot or (names[-1] if names else "")
            open_questions = [
                question for question in questions if replies[question[0]].get("snapshot", newest) != newest
            ]
            if not open_questions:
                return replies
        raise ScorerUnavailable(
            f"{self.title} answers as {' and '.join(sorted(set(names)))} in turn: score again once it has settled"
        )

    def _ask_all(self, questions: list[Question], count: int, progress: Progress) -> dict[str, Reply]:
        """Ask `questions` and keep the replies; returns those that are not kept, as another try may give a better one.

        count: of questions that have their replies already. Raises ScorerUnavailable where too many fail in a row.
        """
        failures: dict[str, Reply] = {}
        in_a_row = 0
        with closing(self._answers(questions)) as answers:
            for key, reply in answers:
                if reply.get("reason") in (None, *self.refusals.values()):
                    self._replies[key] = reply
                    in_a_row = 0
                else:
                    failures[key] = reply
                    in_a_row += 1
                if in_a_row == MOST_FAILED * self.votes:
                    raise ScorerUnavailable(
                        f"{reply['reason']}, for {MOST_FAILED} texts one after the other: score again later. Answers "
                        "that came are kept where a store was given"
                    )
                count += 1
                progress(count // self.votes)
        return failures

    def _answers(self, questions: list[Question]) -> Generator[tuple[str, Reply]]:
        """Yield key and reply of each question as answers come."""
        stop_event = threading.Event()
        queue = iter(questions)
        timeout = self.timeout or TIMEOUT
        trust = read_certificates()
        client = httpx.Client(base_url=self._base_url, headers=self._headers, timeout=timeout, verify=trust)
        with client, ThreadPoolExecutor(self._concurrency) as pool:
            try:
                futures: dict[Future[Reply], str] = {}
                while True:
                    for key, text in islice(queue, self._concurrency - len(futures)):
                        futures[pool.submit(self._ask, client, text, stop_event)] = key
                    if not futures:
                        return
                    for future in wait(futures, return_when=FIRST_COMPLETED).done:
                        yield futures.pop(future), future.result()
            finally:
                stop_event.set()

    def _ask(self, client: httpx.Client, text: str, stop_event: threading.Event) -> Reply:
        """The reply to one text. Raises ScorerUnavailable where no text would get one."""
        if refusal := self._refuse(text):
            return {"reason": refusal}
        # no connection, no answer in time, none that can be decoded
        passing_errors = (PassingError, httpx.RequestError)
        ask = with_retries(TRIES, BACKOFF, passing_errors, LONGEST_WAIT, stop_event)
        try:
            return ask(self._try, client, text, stop_event)
        except passing_errors:
            return self._unanswered

    @property
    def _unanswered(self) -> Reply:
        return {"reason": f"{self.title}: no answer in {TRIES} tries"}

    def _try(self, client: httpx.Client, text: str, stop_event: threading.Event) -> Reply:
        """The reply to one request. Raises ScorerUnavailable, or what another try may do better than."""
        if not self._pace.take(stop_event):
            return self._unanswered
        try:
            return self._read(client.post(self._method, json=self._body(text)))
        except PassingError as error:
            if error.wait > LONGEST_WAIT:
                raise ScorerUnavailable(
                    f"{self.title} asks to wait for {error.wait:.0f} seconds: score again then, or get more quota"
                ) from error
            self._pace.hold(error.wait)
            raise

    def _read(self, response: httpx.Response) -> Reply:
        status = response.status_code
        if status == HTTPStatus.OK:
            answer = _json(response)
            snapshot = self._snapshot_in(answer)
            self.snapshot = snapshot or self.snapshot
            return {"scores": self._scores(answer), **({"snapshot": snapshot} if snapshot else {})}
        codes = self._known_codes(_json(response))
        is_passing = status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS) or status >= 500
        if is_passing and "insufficient_quota" not in codes:
            raise PassingError(retry_after(response.headers.get("Retry-After")))
        for code in codes:
            if code in self.refusals:
                return {"reason": self.refusals[code]}
        codes_text = " ".join([str(status), *codes])
        if status == HTTPStatus.GONE:
            raise ScorerUnavailable(f"{self.title} has ended ({codes_text}): use another scorer", ScorerState.RETIRED)
        if status == HTTPStatus.BAD_REQUEST and self._blames_text(codes):
            return {"reason": f"{self.title}: refused ({codes_text})"}
        raise ScorerUnavailable(
            f"{self.title} refused to answer ({codes_text}): check {self.remedy}, and that {self._base_url} is the "
            "service's address"
        )

    def _known_codes(self, answer: Any) -> list[str]:
        words: list[Any] = []
        with suppress(LookupError, TypeError, AttributeError):
            words = self._codes(answer)
        return [code for code in words if isinstance(code, str) and _CODE.fullmatch(code)]


def today() -> date:
    """The day in UTC, by which services end."""
    return datetime.now(UTC).date()


def read_share(read: Callable[[], Any], largest: float = 1.0) -> float:
    """The number that `read` takes out of an answer, as a share of `largest`.

    Raises PassingError where there is none, or one outside 0..largest.
    """
    try:
        value = read()
    except (LookupError, TypeError) as error:
        raise PassingError from error
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= largest:
        raise PassingError
    return float(value) / largest


def check_access(access: ServiceAccess, concurrency: int) -> None:
    """Raise ValueError where a service cannot be asked so; the message never shows the key."""
    if access.key and not re.fullmatch(r"[!-~]+", access.key):
        raise ValueError("the key has characters that no key has, such as spaces: copy it again")
    if not 0 < access.requests_per_second < math.inf:
        raise ValueError(f"requests_per_second = {access.requests_per_second}: give the quota, a number above 0")
    if concurrency < 1:
        raise ValueError(f"concurrency = {concurrency}: give 1 or more requests at a time")
    address = urlsplit(access.url)
    is_local = address.hostname in ("localhost", "127.0.0.1", "::1")
    if address.scheme != "https" and not (address.scheme == "http" and (is_local or not access.key)):
        raise ValueError("base_url: the key travels with every request, so give an https:// address")
    if address.username or address.password or address.query or address.fragment:
        raise ValueError("base_url: give scheme, host and path alone, without a user, a password or a query")


def _key(fingerprint: str, text: str, vote: int) -> str:
    content = f"{vote} {fingerprint}\n{text}" if vote else f"{fingerprint}\n{text}"
    return hashlib.sha256(content.encode()).hexdigest()


def _json(response: httpx.Response) -> Any:
    try:
        return response.json()
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, nested too deeply
        if response.status_code == HTTPStatus.OK:
            raise PassingError from error
        return None
