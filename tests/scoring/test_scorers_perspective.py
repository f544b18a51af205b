"""Perspective's client, against a real server on this machine that misbehaves."""

import logging
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise
from typing import Any

import httpx
import numpy as np
import pytest

from scoring.retries import backoff, retry_after
from scoring.scorers import (
    JsonLinesReplies,
    ScorerState,
    ScorerUnavailable,
    Scores,
    ServiceAccess,
    get_scorer,
)
from scoring.scorers import service as client
from scoring.scorers.perspective import ATTRIBUTES, MEANINGS, PUBLIC_API, PerspectiveScorer, unavailable
from scoring.scorers.service import MOST_FAILED, TRIES
from tests.standin_perspective import KEY, StandInPerspective, expected, serving

FAST = 1000.0  # requests a second


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInPerspective]:
    """The stand-in, and a client that is impatient."""
    monkeypatch.setattr(client, "BACKOFF", 0.01)
    monkeypatch.setattr(client, "TIMEOUT", httpx.Timeout(0.3))
    with serving() as stage:
        yield stage


def scorer(
    service: StandInPerspective,
    key: str = KEY,
    base_url: str = "",
    requests_per_second: float = FAST,
    **options: Any,
) -> PerspectiveScorer:
    access = ServiceAccess(key, base_url or service.address, requests_per_second, 0.0)
    perspective = get_scorer("perspective", access=access, **options)
    assert isinstance(perspective, PerspectiveScorer)
    return perspective


def check(scores: Scores, texts: list[str], attributes: tuple[str, ...] = ATTRIBUTES, kind: str = "summary") -> None:
    """Every text without a reason has the stand-in's scores, and every other has none."""
    for row, reason, text in zip(scores.values, scores.reasons, texts, strict=True):
        wanted = [expected(text, name, kind) if reason is None else np.nan for name in attributes]
        np.testing.assert_allclose(row, wanted, rtol=1e-6)


def test_the_attributes_are_those_that_the_service_documents():
    named = {*ATTRIBUTES, "SEXUALLY_EXPLICIT", "FLIRTATION", *(f"{name}_EXPERIMENTAL" for name in ATTRIBUTES)}
    bridging = ("AFFINITY", "COMPASSION", "CURIOSITY", "NUANCE", "PERSONAL_STORY", "REASONING", "RESPECT")
    named |= {f"{name}_EXPERIMENTAL" for name in bridging}
    newspaper = "ATTACK_ON_AUTHOR ATTACK_ON_COMMENTER INCOHERENT INFLAMMATORY LIKELY_TO_REJECT OBSCENE SPAM"
    assert set(MEANINGS) == {*named, *newspaper.split(), "UNSUBSTANTIAL"}


@pytest.mark.parametrize("kind", ["summary", "first_span"])
def test_scores_are_those_of_the_service_for_every_attribute(service, kind):
    texts = [f"text {number} – ü😀" for number in range(20)]
    attributes = tuple(MEANINGS)
    found = scorer(service, kind=kind, attributes=attributes).score(texts)
    assert found.values.dtype == np.float32
    assert found.reasons == (None,) * 20
    check(found, texts, attributes, kind)


def test_a_request_asks_for_the_attributes_and_leaves_nothing_with_the_service(service):
    scorer(service, attributes=("INSULT", "THREAT"), languages=("en", "de")).score(["hello"])
    scorer(service, languages=(), kind="first_span").score(["hello"])
    (_, path, key, body), (_, _, _, guessed) = service.requests
    assert (path, key) == ("/v1alpha1/comments:analyze", KEY)
    assert body == {
        "comment": {"text": "hello", "type": "PLAIN_TEXT"},
        "requestedAttributes": {"INSULT": {}, "THREAT": {}},
        "languages": ["en", "de"],
        "spanAnnotations": False,
        "doNotStore": True,
    }
    assert "languages" not in guessed
    assert guessed["spanAnnotations"] is True


PASSING = ["500", "502", "503", "408", "html", "late", "hang up", "malformed", "list", "bytes", "nothing", "empty"]
PASSING += ["no summary", "value null", 'value "0.5"', "value true", "value 1.5", "value -0.1", "value NaN", "429 0"]


@pytest.mark.slow_cases
@pytest.mark.parametrize("fault", PASSING)
def test_a_passing_fault_is_tried_again_and_leaves_no_trace(service, fault):
    service.faults["b"] = [fault, fault]
    texts = ["a", "b", "c"]
    found = scorer(service).score(texts)
    assert found.reasons == (None, None, None)
    check(found, texts)
    assert Counter(service.texts) == {"a": 1, "b": 3, "c": 1}


@pytest.mark.slow_cases
@pytest.mark.parametrize("fault", [fault for fault in PASSING if fault != "late"])
def test_a_fault_that_does_not_pass_is_a_reason_and_never_a_score(service, fault):
    service.faults["b"] = [fault] * TRIES
    replies: dict[str, Any] = {}
    found = scorer(service, replies=replies).score(["a", "b", "c"])
    assert found.reasons == (None, f"Perspective: no answer in {TRIES} tries", None)
    assert np.isnan(found.values[1]).all()
    check(found, ["a", "b", "c"])
    again = scorer(service, replies=replies).score(["a", "b", "c"])
    assert again.reasons == (None, None, None)
    assert service.texts[3 + TRIES - 1 :] == ["b"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("LANGUAGE_NOT_SUPPORTED_BY_ATTRIBUTE", "Perspective: the language is not supported"),
        ("COMMENT_TOO_LONG", "Perspective: the text is too long"),
        ("COMMENT_EMPTY", "Perspective: the text is empty"),
    ],
)
def test_a_text_refused_for_what_it_is_keeps_its_reason_and_is_not_asked_about_again(service, code, reason):
    texts = [f"text {number}" for number in range(2 * MOST_FAILED)]
    for text in texts[1:]:
        service.faults[text] = [code]
    replies: dict[str, Any] = {}
    for _ in range(2):
        found = scorer(service, replies=replies).score(texts)
        assert found.reasons == (None, *[reason] * (len(texts) - 1))
        check(found, texts)
    assert Counter(service.texts) == dict.fromkeys(texts, 1)


def test_another_refusal_is_a_reason_too_until_all_texts_are_refused(service):
    service.faults["b"] = ["SOMETHING_NEW"]
    found = scorer(service).score(["a", "b"])
    assert found.reasons == (None, "Perspective: refused (400 SOMETHING_NEW INVALID_ARGUMENT)")
    check(found, ["a", "b"])
    texts = [f"text {number}" for number in range(3 * MOST_FAILED)]
    for text in texts:
        service.faults[text] = ["SOMETHING_NEW"]
    with pytest.raises(ScorerUnavailable, match=r"400 SOMETHING_NEW INVALID_ARGUMENT.*10 texts one after the other"):
        scorer(service).score(texts)


def test_a_text_that_gets_its_scores_ends_the_row_of_those_that_fail(service):
    texts = [f"text {number}" for number in range(2 * MOST_FAILED - 1)]
    answered_text = texts[MOST_FAILED - 1]
    for text in texts:
        service.faults[text] = ["SOMETHING_NEW"] * (text != answered_text)
    scores = scorer(service, concurrency=1).score(texts)
    assert [text for text, reason in zip(texts, scores.reasons, strict=True) if reason is None] == [answered_text]


@pytest.mark.parametrize(
    ("fault", "shown", "state"),
    [
        ("forbidden", "403 PERMISSION_DENIED", ScorerState.UNAVAILABLE),
        ("bad key", "400 API_KEY_INVALID INVALID_ARGUMENT", ScorerState.UNAVAILABLE),
        ("401", "401 UNAVAILABLE", ScorerState.UNAVAILABLE),
        ("404", "404 UNAVAILABLE", ScorerState.UNAVAILABLE),
        ("302", "302 UNAVAILABLE", ScorerState.UNAVAILABLE),
        ("410", "410 UNAVAILABLE", ScorerState.RETIRED),
    ],
)
def test_what_no_text_would_get_past_stops_at_once_without_naming_the_key(service, caplog, fault, shown, state):
    caplog.set_level(logging.DEBUG)
    texts = [f"secret text {number}" for number in range(50)]
    for text in texts:
        service.faults[text] = [fault] * TRIES
    with pytest.raises(ScorerUnavailable) as caught:
        scorer(service, concurrency=2).score(texts)
    assert shown in str(caught.value)
    assert caught.value.state is state
    assert len(service.requests) <= 4
    told = f"{caught.value!r} {caught.value.__cause__!r} {caplog.text}"
    assert KEY not in told
    assert "secret text" not in told


def test_the_key_stands_in_no_log_fingerprint_address_or_kept_reply(service, caplog, tmp_path):
    caplog.set_level(logging.DEBUG)
    service.faults["b"] = ["500", "429 0", "hang up"]
    asked = scorer(service, replies=JsonLinesReplies(tmp_path))
    asked.score(["a", "b"])
    assert caplog.records
    kept = "".join(path.read_text(encoding="utf-8") for path in tmp_path.iterdir())
    for told in (caplog.text, asked.fingerprint(), repr(asked), kept, *(path for _, path, _, _ in service.requests)):
        assert KEY not in told
    assert scorer(service, key="another").fingerprint() == asked.fingerprint()


@pytest.mark.slow
@pytest.mark.parametrize("as_date", [False, True])
def test_nothing_is_asked_before_retry_after_is_over(service, as_date):
    moment = datetime.now(UTC) + timedelta(seconds=3)
    service.faults["a"] = [f"429 {format_datetime(moment, usegmt=True) if as_date else 1}"]
    texts = ["a", *(f"text {number}" for number in range(5))]
    found = scorer(service, concurrency=1).score(texts)
    check(found, texts)
    waited = service.requests[1][0] - service.requests[0][0]
    assert (1.5 if as_date else 1.0) <= waited < 4  # a date has no fractions of a second


def test_a_service_that_asks_to_wait_for_long_is_unavailable(service):
    service.faults["a"] = ["429 86400"]
    with pytest.raises(ScorerUnavailable, match="asks to wait for 86400 seconds"):
        scorer(service).score(["a"])


@pytest.mark.slow
def test_the_quota_is_kept_by_all_threads_together(service):
    service.seconds = 0.1
    texts = [f"text {number}" for number in range(25)]
    scorer(service, requests_per_second=50.0, concurrency=10).score(texts)
    moments = sorted(moment for moment, *_ in service.requests)
    # 25 requests are 24 steps of 1/50 second; the way to the server takes some more or less.
    assert moments[-1] - moments[0] >= 24 / 50 - 0.05
    for width in (5, 10):
        steps = [moments[i + width] - moments[i] for i in range(len(moments) - width)]
        assert min(steps) >= width / 50 - 0.05
    assert 2 <= service.together <= 10


@pytest.mark.slow
def test_no_more_requests_run_at_once_than_allowed(service):
    service.seconds = 0.05
    scorer(service, concurrency=3).score([f"text {number}" for number in range(20)])
    assert 2 <= service.together <= 3


@pytest.mark.parametrize("kept", ["mapping", "folder"])
def test_interrupted_work_goes_on_with_what_has_no_answer_yet(service, tmp_path, kept):
    texts = [f"text {number}" for number in range(30)]
    mapping: dict[str, Any] = {}

    def store() -> Any:
        return mapping if kept == "mapping" else JsonLinesReplies(tmp_path)

    def interrupt(finished: int) -> None:
        if finished == 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scorer(service, replies=store(), concurrency=4).score(texts, interrupt)
    first = len(service.requests)
    assert first < len(texts)
    seen: list[int] = []
    found = scorer(service, replies=store(), concurrency=4).score(texts, seen.append)
    check(found, texts)
    assert len(service.requests) - first == len(texts) - 12
    assert seen == list(range(13, 31))


def test_a_reply_cut_off_as_its_writer_was_killed_is_asked_for_again(service, tmp_path):
    scorer(service, replies=JsonLinesReplies(tmp_path)).score(["a", "b"])
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-20])
    found = scorer(service, replies=JsonLinesReplies(tmp_path)).score(["a", "b"])
    check(found, ["a", "b"])
    assert len(service.requests) == 3


def test_replies_to_another_question_are_not_taken_for_this_one(service):
    replies: dict[str, Any] = {}
    scorer(service, replies=replies).score(["a"])
    for change in ({"kind": "first_span"}, {"epoch": "2"}, {"languages": ("de",)}, {"attributes": ("THREAT",)}):
        other = scorer(service, replies=replies, **change)
        check(other.score(["a"]), ["a"], other.attribute_names, other.kind)
    assert len(service.requests) == 5


@pytest.mark.slow
def test_a_service_that_is_gone_is_unavailable(service, monkeypatch):
    monkeypatch.setattr(client, "BACKOFF", 0.001)
    texts = [f"text {number}" for number in range(40)]
    for text in texts:
        service.faults[text] = ["hang up"] * TRIES
    with pytest.raises(ScorerUnavailable, match="no answer in 6 tries, for 10 texts one after the other"):
        scorer(service).score(texts)


def test_identical_texts_are_asked_about_once(service):
    texts = ["b", "a", "b", "b"]
    check(scorer(service).score(texts), texts)
    assert sorted(service.texts) == ["a", "b"]


def test_the_fingerprint_covers_the_question(service):
    changes: list[dict[str, Any]] = [
        {},
        {"attributes": ("THREAT",)},
        {"kind": "first_span"},
        {"languages": ()},
        {"epoch": "2026-11"},
        {"base_url": "https://example.org"},
    ]
    assert len({scorer(service, **change).fingerprint() for change in changes}) == len(changes)
    assert scorer(service, requests_per_second=5, concurrency=1).fingerprint() == scorer(service).fingerprint()


def test_a_text_costs_a_request_and_its_share_of_the_quota(service):
    cost = scorer(service, requests_per_second=4.0).cost
    assert cost is not None
    assert (cost.requests, cost.seconds, cost.usd) == (1, 0.25, 0.0)


def test_without_a_key_it_is_unavailable_and_says_what_to_do():
    with pytest.raises(ScorerUnavailable, match="set PERSPECTIVE_API_KEY") as caught:
        get_scorer("perspective", access=ServiceAccess(url="https://example.org"))
    assert caught.value.state is ScorerState.UNAVAILABLE


def test_after_its_end_the_service_is_retired_but_another_address_is_not(monkeypatch):
    monkeypatch.setattr(client, "today", lambda: date(2026, 12, 31))
    assert unavailable(ServiceAccess(KEY, PUBLIC_API)) is None
    monkeypatch.setattr(client, "today", lambda: date(2027, 1, 1))
    ended = unavailable(ServiceAccess(KEY, f"{PUBLIC_API}/"))
    assert ended is not None
    assert ended.state is ScorerState.RETIRED
    assert unavailable(ServiceAccess(KEY, "https://example.org")) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attributes": ("TOXICITY", "POLITENESS")}, "attributes = TOXICITY, POLITENESS: name some"),
        ({"attributes": ()}, "name some"),
        ({"attributes": ("TOXICITY", "TOXICITY")}, "each once"),
        ({"kind": "mean"}, "kind = 'mean': use one of summary, first_span"),
        ({"requests_per_second": 0.0}, "requests_per_second = 0.0"),
        ({"concurrency": 0}, "concurrency = 0"),
        ({"key": "with a space"}, "copy it again"),
        ({"key": "line\nbreak"}, "copy it again"),
        ({"base_url": "http://example.org"}, "give an https:// address"),
        ({"base_url": "https://user:word@example.org"}, "without a user"),
    ],
)
def test_a_wrong_option_is_refused_by_name(service, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        scorer(service, **options)
    assert options.get("key", KEY) not in str(caught.value)
    assert "word@" not in str(caught.value)


def test_waits_between_tries_double_up_to_a_limit_and_are_never_the_same():
    for tries, middle in ((1, 1.0), (2, 2.0), (5, 16.0), (40, 60.0)):
        waits = [backoff(1.0, tries) for _ in range(200)]
        assert 0.5 * middle <= min(waits) < 0.8 * middle
        assert 1.2 * middle < max(waits) <= 1.5 * middle


def test_retry_after_is_read_as_seconds_or_as_a_date():
    assert retry_after("17") == 17.0
    later = datetime.now(UTC) + timedelta(minutes=2)
    assert 110 < retry_after(format_datetime(later, usegmt=True)) <= 120
    assert [retry_after(header) for header in (None, "", "soon", "-5", "Fri, 31 Dec 1999 23:59:59 GMT")] == [0.0] * 5


@pytest.mark.slow
def test_the_pauses_after_one_fault_grow(service, monkeypatch):
    monkeypatch.setattr(client, "BACKOFF", 0.04)
    service.faults["a"] = ["500"] * (TRIES - 1)
    check(scorer(service).score(["a"]), ["a"])
    pauses = [later[0] - earlier[0] for earlier, later in pairwise(service.requests)]
    for number, pause in enumerate(pauses):
        assert pause >= 0.5 * 0.04 * 2**number
