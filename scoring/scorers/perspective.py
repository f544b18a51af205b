"""Perspective, Google's comment analyser, over HTTPS.

The service has announced its end: after 2026 no score can be had from it any more. From then on the scorer's state is
`retired`; what was scored before stays, and cannot be repeated.

The API changes without notice, so a fingerprint takes the `epoch` that the caller gives: a string that changes when
the scores of a control set do.
"""

import hashlib
import math
import re
import threading
from collections.abc import Generator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from datetime import UTC, date, datetime
from enum import StrEnum
from http import HTTPStatus
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np

from scoring.attributes import Attribute, Meaning
from scoring.retries import retry_after, with_retries
from scoring.scorers.base import Cost, Progress, Scorer, ScorerState, ScorerUnavailable, Scores, fingerprint_of
from scoring.scorers.pacing import Pace
from scoring.scorers.replies import Reply, ReplyStore

PUBLIC_API = "https://commentanalyzer.googleapis.com"
METHOD = "/v1alpha1/comments:analyze"
END_OF_SERVICE = date(2026, 12, 31)  # the last day

ATTRIBUTES = ("TOXICITY", "SEVERE_TOXICITY", "IDENTITY_ATTACK", "INSULT", "PROFANITY", "THREAT")
MEANINGS = {
    **dict.fromkeys(ATTRIBUTES, Meaning.HARM),
    "SEXUALLY_EXPLICIT": Meaning.HARM,
    "FLIRTATION": Meaning.NEUTRAL,
    "TOXICITY_EXPERIMENTAL": Meaning.HARM,
    "SEVERE_TOXICITY_EXPERIMENTAL": Meaning.HARM,
    "IDENTITY_ATTACK_EXPERIMENTAL": Meaning.HARM,
    "INSULT_EXPERIMENTAL": Meaning.HARM,
    "PROFANITY_EXPERIMENTAL": Meaning.HARM,
    "THREAT_EXPERIMENTAL": Meaning.HARM,
    "AFFINITY_EXPERIMENTAL": Meaning.GOOD,
    "COMPASSION_EXPERIMENTAL": Meaning.GOOD,
    "CURIOSITY_EXPERIMENTAL": Meaning.GOOD,
    "NUANCE_EXPERIMENTAL": Meaning.GOOD,
    "PERSONAL_STORY_EXPERIMENTAL": Meaning.GOOD,
    "REASONING_EXPERIMENTAL": Meaning.GOOD,
    "RESPECT_EXPERIMENTAL": Meaning.GOOD,
    "ATTACK_ON_AUTHOR": Meaning.HARM,
    "ATTACK_ON_COMMENTER": Meaning.HARM,
    "INCOHERENT": Meaning.NEUTRAL,
    "INFLAMMATORY": Meaning.HARM,
    "LIKELY_TO_REJECT": Meaning.NEUTRAL,
    "OBSCENE": Meaning.HARM,
    "SPAM": Meaning.NEUTRAL,
    "UNSUBSTANTIAL": Meaning.NEUTRAL,
}
TRIES = 6
BACKOFF = 1.0  # seconds before the second try, on average
LONGEST_WAIT = 300.0  # seconds; a service that wants more is unavailable
MOST_FAILED = 10  # texts without a usable answer, one after the other, before the service counts as unavailable
TIMEOUT = httpx.Timeout(30.0, connect=10.0)

PERMANENT = {
    "COMMENT_EMPTY": "Perspective: the text is empty",
    "COMMENT_TOO_LONG": "Perspective: the text is too long",
    "LANGUAGE_NOT_SUPPORTED_BY_ATTRIBUTE": "Perspective: the language is not supported",
}
UNANSWERED = f"Perspective: no answer in {TRIES} tries"
_CODE = re.compile(r"[A-Z][A-Z_]{1,60}")  # what may be shown of an answer: it may quote the text or the key


class ScoreKind(StrEnum):
    """Which score of an attribute: that of the whole text, or that of its first span (the first sentence, mostly)."""

    SUMMARY = "summary"
    FIRST_SPAN = "first_span"


class _PassingError(Exception):
    """This try failed in a way that another may not; `wait` is in seconds, 0 where the service names none."""

    def __init__(self, wait: float = 0.0) -> None:
        super().__init__()
        self.wait = wait


class PerspectiveScorer(Scorer):
    """Asks for one text a request, never faster than the quota. The key stands in a header and nowhere else.

    A text that is refused for what it is (empty, too long, in a language that is not supported) has no scores but a
    reason; so has one that got no usable answer, which is asked about anew the next time.
    """

    def __init__(
        self,
        key: str,
        *,
        attributes: tuple[str, ...] = ATTRIBUTES,
        kind: str = ScoreKind.SUMMARY,
        languages: tuple[str, ...] = ("en",),
        epoch: str = "",
        requests_per_second: float = 1.0,
        concurrency: int = 8,
        replies: ReplyStore | None = None,
        base_url: str = PUBLIC_API,
    ) -> None:
        """`languages` () lets the service guess. `replies` keeps answers, so that interrupted work goes on.

        Raises ScorerUnavailable without a key, and after the end of the service; ValueError for a wrong option.
        """
        problem = unavailable(key, base_url)
        if problem:
            raise problem
        _check(key, attributes, requests_per_second, concurrency, base_url)
        if kind not in list(ScoreKind):
            raise ValueError(f"kind = {kind!r}: use one of {', '.join(ScoreKind)}")
        self._key = key
        self.attributes = tuple(Attribute(name, MEANINGS[name]) for name in attributes)
        self.kind = ScoreKind(kind)
        self.languages = tuple(languages)
        self.epoch = epoch
        self.cost = cost_of_text(requests_per_second)
        self._concurrency = concurrency
        self._pace = Pace(requests_per_second)
        self._replies: ReplyStore = {} if replies is None else replies
        self._base_url = base_url.rstrip("/")

    def fingerprint(self) -> str:
        """Covers the service's address, attributes, kind of score, languages and epoch."""
        return fingerprint_of(
            scorer="perspective",
            api=self._base_url + METHOD,
            attributes=self.attribute_names,
            kind=self.kind,
            languages=self.languages,
            epoch=self.epoch,
        )

    def _score_distinct(self, texts: list[str], progress: Progress) -> Scores:
        fingerprint = self.fingerprint()
        keys = [hashlib.sha256(f"{fingerprint}\n{text}".encode()).hexdigest() for text in texts]
        requests = [(key, text) for key, text in zip(keys, texts, strict=True) if key not in self._replies]
        failures: dict[str, Reply] = {}
        count, in_a_row = len(texts) - len(requests), 0
        with closing(self._ask_all(requests)) as answers:
            for key, reply in answers:
                if reply.get("reason") in (None, *PERMANENT.values()):
                    self._replies[key] = reply
                    in_a_row = 0
                else:
                    failures[key] = reply
                    in_a_row += 1
                if in_a_row == MOST_FAILED:
                    raise ScorerUnavailable(
                        f"{reply['reason']}, for {in_a_row} texts one after the other: score again later. Answers that "
                        "came are kept where a store was given"
                    )
                count += 1
                progress(count)
        replies = [failures.get(key) or self._replies[key] for key in keys]
        nothing = [math.nan] * len(self.attributes)
        return Scores(
            values=np.array([reply.get("scores", nothing) for reply in replies], dtype=np.float32),
            reasons=tuple(reply.get("reason") for reply in replies),
            truncated=np.zeros(len(texts), dtype=bool),
        )

    def _ask_all(self, texts: list[tuple[str, str]]) -> Generator[tuple[str, Reply]]:
        """Yield key and reply of each (key, text) as answers come."""
        stop_event = threading.Event()
        queue = iter(texts)
        client = httpx.Client(base_url=self._base_url, headers={"X-Goog-Api-Key": self._key}, timeout=TIMEOUT)
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
        transient_errors = (
            _PassingError,
            httpx.RequestError,
        )  # no connection, no answer in time, none that can be decoded
        try:
            return with_retries(TRIES, BACKOFF, transient_errors, LONGEST_WAIT, stop_event)(
                self._try, client, text, stop_event
            )
        except transient_errors:
            return {"reason": UNANSWERED}

    def _try(self, client: httpx.Client, text: str, stop_event: threading.Event) -> Reply:
        """The reply to one request. Raises ScorerUnavailable, or what another try may do better than."""
        if not self._pace.take(stop_event):
            return {"reason": UNANSWERED}
        try:
            return self._read(client.post(METHOD, json=self._request(text)))
        except _PassingError as error:
            if error.wait > LONGEST_WAIT:
                raise ScorerUnavailable(
                    f"Perspective asks to wait for {error.wait:.0f} seconds: score again then, or get more quota"
                ) from error
            self._pace.hold(error.wait)
            raise

    def _request(self, text: str) -> dict[str, Any]:
        return {
            "comment": {"text": text, "type": "PLAIN_TEXT"},
            "requestedAttributes": {name: {} for name in self.attribute_names},
            "spanAnnotations": self.kind is ScoreKind.FIRST_SPAN,
            "doNotStore": True,
            **({"languages": self.languages} if self.languages else {}),
        }

    def _read(self, response: httpx.Response) -> Reply:
        status = response.status_code
        if status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS) or status >= 500:
            raise _PassingError(retry_after(response.headers.get("Retry-After")))
        if status == HTTPStatus.OK:
            return {"scores": self._scores(_json(response))}
        codes = _codes(_json(response))
        for code in codes:
            if code in PERMANENT:
                return {"reason": PERMANENT[code]}
        codes_text = " ".join([str(status), *codes])
        if status == HTTPStatus.GONE:
            raise ScorerUnavailable(f"Perspective has ended ({codes_text}): use another scorer", ScorerState.RETIRED)
        if status == HTTPStatus.BAD_REQUEST and not any(code.startswith("API_KEY") for code in codes):
            return {"reason": f"Perspective: refused ({codes_text})"}
        raise ScorerUnavailable(
            f"Perspective refused to answer ({codes_text}): check that the key is right, that its project has the "
            f"Perspective Comment Analyzer API enabled, and that {self._base_url} is the service's address"
        )

    def _scores(self, answer: Any) -> list[float]:
        """The scores in an answer, in the order of `attributes`. Raises _PassingError where one is missing."""
        return [self._score(answer, name) for name in self.attribute_names]

    def _score(self, answer: Any, name: str) -> float:
        try:
            score = answer["attributeScores"][name]
            score = score["summaryScore"] if self.kind is ScoreKind.SUMMARY else score["spanScores"][0]["score"]
            value = score["value"]
        except (LookupError, TypeError) as error:
            raise _PassingError from error
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise _PassingError
        return float(value)


def cost_of_text(requests_per_second: float) -> Cost:
    """What scoring a text costs at this quota."""
    return Cost(requests=1, seconds=1 / requests_per_second, usd=0.0)


def unavailable(key: str, base_url: str = PUBLIC_API, today: date | None = None) -> ScorerUnavailable | None:
    """Why Perspective cannot be had, as far as that is known without asking; None where it can."""
    if base_url.rstrip("/") == PUBLIC_API and (today or datetime.now(UTC).date()) > END_OF_SERVICE:
        return ScorerUnavailable(
            f"Perspective ended on {END_OF_SERVICE}, so nothing can be scored with it any more: use another scorer",
            ScorerState.RETIRED,
        )
    if not key:
        return ScorerUnavailable(
            "Perspective needs a key, and none is given: get one of a Google Cloud project with the Perspective "
            "Comment Analyzer API enabled, and set PERSPECTIVE_API_KEY"
        )
    return None


def _check(key: str, attributes: tuple[str, ...], rate: float, concurrency: int, base_url: str) -> None:
    if not re.fullmatch(r"[!-~]+", key):
        raise ValueError("the key has characters that no key has, such as spaces: copy it again")
    unknown = [name for name in attributes if name not in MEANINGS]
    if unknown or not attributes or len(set(attributes)) < len(attributes):
        raise ValueError(
            f"attributes = {', '.join(map(str, attributes))}: name some, each once, of {', '.join(MEANINGS)}"
        )
    if not 0 < rate < math.inf:
        raise ValueError(f"requests_per_second = {rate}: give the quota, a number above 0")
    if concurrency < 1:
        raise ValueError(f"concurrency = {concurrency}: give 1 or more requests at a time")
    address = urlsplit(base_url)
    local = address.hostname in ("localhost", "127.0.0.1", "::1")
    if address.scheme != "https" and not (address.scheme == "http" and local):
        raise ValueError("base_url: the key travels with every request, so give an https:// address")
    if address.username or address.password or address.query or address.fragment:
        raise ValueError("base_url: give scheme, host and path alone, without a user, a password or a query")


def _json(response: httpx.Response) -> Any:
    try:
        return response.json()
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, nested too deeply
        if response.status_code == HTTPStatus.OK:
            raise _PassingError from error
        return None


def _codes(answer: Any) -> list[str]:
    """The machine-readable words of an error, which tell nothing of text or key: its types and its status."""
    words: list[Any] = []
    with suppress(LookupError, TypeError, AttributeError):
        error = answer["error"]
        details = [detail for detail in error.get("details", []) if isinstance(detail, dict)]
        words = [detail.get(name) for detail in details for name in ("errorType", "reason")] + [error.get("status")]
    return [code for code in words if isinstance(code, str) and _CODE.fullmatch(code)]
