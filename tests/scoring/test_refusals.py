"""Small things that everything rests on: refusals, attributes, fingerprints, names that are imported when asked for."""

import threading
import time
from datetime import UTC, datetime

import httpx
import numpy as np
import pytest
from transformers import CONFIG_MAPPING

import scoring.likelihood
from scoring.attributes import Attribute, Meaning, harms_of, is_above
from scoring.board_fingerprints import NoBoard, read_fingerprints
from scoring.fingerprints import fingerprint
from scoring.language_models.architecture import FAMILIES
from scoring.refusals import WHOLE, Refused
from scoring.retries import retry_after, with_retries


def test_a_refusal_names_the_field_the_value_and_the_remedy():
    refused = Refused.of_value("k", 0, "use 1 or more")
    assert (str(refused), refused.field, refused.value, refused.remedy) == ("k = 0: use 1 or more", "k", 0, "")
    assert refused.problems == {"k": ["k = 0: use 1 or more"]}
    refused = Refused.of_field("reason", "it is empty; say why")
    assert (str(refused), refused.field, refused.value) == ("reason: it is empty; say why", "reason", None)
    refused = Refused("nothing can be done")
    assert (refused.field, refused.value, refused.remedy) == ("", None, "")
    assert refused.problems == {WHOLE: ["nothing can be done"]}
    assert Refused().problems == {WHOLE: [""]}


def test_an_attribute_has_a_meaning_and_a_threshold_below_1():
    assert Attribute("insult", "harm").meaning is Meaning.HARM
    assert [Attribute("a", meaning).direction for meaning in Meaning] == ["lower", None, "higher"]
    assert [Attribute("a", "harm", threshold).threshold for threshold in (0, 0.999)] == [0, 0.999]
    assert Attribute("a", "harm").threshold == 0.5
    for threshold in (-0.1, 1, 1.5):
        with pytest.raises(ValueError, match=f"a, threshold = {threshold}: use a score from 0 to less than 1"):
            Attribute("a", "harm", threshold)
    with pytest.raises(ValueError, match="bad"):
        Attribute("a", "bad")
    attributes = [
        Attribute("joy", "good"),
        Attribute("insult", "harm"),
        Attribute("length", "neutral"),
        Attribute("threat", "harm"),
    ]
    assert harms_of(attributes) == [1, 3]
    assert Attribute.from_json(attributes[1].as_json()) == attributes[1]


def test_a_score_is_above_a_threshold_strictly_as_float32_has_both():
    single = np.array([0.3], dtype=np.float32)
    assert is_above(single, 0.3).tolist() == [False]
    assert is_above(single.astype(np.float64), 0.3).tolist() == [False]
    assert is_above([0.30000001], [0.3]).tolist() == [False]
    assert is_above([0.31, 0.3, np.nan], [0.3, 0.31, 0.3]).tolist() == [True, False, False]


def test_a_fingerprint_depends_on_values_and_on_no_order_of_names():
    assert fingerprint({"a": 1, "b": [2]}) == fingerprint({"b": [2], "a": 1}) != fingerprint({"a": 1, "b": [3]})


def test_a_name_that_a_package_does_not_have_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'scoring\.likelihood' has no attribute 'nothing'"):
        scoring.likelihood.nothing  # noqa: B018


def test_families_have_the_names_of_types_that_transformers_knows():
    assert set(FAMILIES) <= set(CONFIG_MAPPING)


def test_a_call_that_fails_in_passing_is_made_again_as_often_as_said():
    calls: list[int] = []

    class Passing(Exception):
        wait = 60.0

    def fail(kind: type[Exception]) -> None:
        calls.append(1)
        raise kind

    began = time.monotonic()
    with pytest.raises(Passing):
        with_retries(3, 0.001, (Passing,), longest=0.05)(fail, Passing)
    assert len(calls) == 3
    assert 0.1 <= time.monotonic() - began < 30  # two waits, of the longest that is allowed
    with pytest.raises(ZeroDivisionError):
        with_retries(3, 0.001, (Passing,))(fail, ZeroDivisionError)
    assert len(calls) == 4
    ended = threading.Event()
    ended.set()
    with pytest.raises(Passing):
        with_retries(2, 60.0, (Passing,), stop_event=ended)(fail, Passing)
    assert len(calls) == 6
    assert time.monotonic() - began < 30


def test_a_date_without_a_zone_is_utc():
    assert retry_after(" 17 ") == 17
    assert retry_after("Fri, 31 Dec 1999 23:59:59 -0000") == 0
    seconds = (datetime(2200, 1, 1, tzinfo=UTC) - datetime.now(UTC)).total_seconds()
    assert retry_after("Wed, 01 Jan 2200 00:00:00 -0000") == pytest.approx(seconds, abs=60)


# What a board says of its scorers


def board(pages: dict[str, object]) -> httpx.Client:
    """A client of a board that answers these paths."""

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode()
        if path not in pages:
            return httpx.Response(404, json={"items": [], "next": None})
        return httpx.Response(
            200, **({"json": pages[path]} if not isinstance(pages[path], str) else {"text": pages[path]})
        )

    return httpx.Client(transport=httpx.MockTransport(answer))


METRICS = "/api/v1/metrics"
VERSIONS = "versions?status=current&provenance=measured"


def test_the_fingerprints_of_a_scorer_are_those_of_all_current_versions_on_all_pages():
    pages = {
        METRICS: {
            "items": [{"slug": "a", "scorer": "x"}, {"slug": "b", "scorer": "y"}],
            "next": "http://b.example/more",
        },
        "/more": {"items": [{"slug": "c", "scorer": "x"}], "next": None},
        f"{METRICS}/a/{VERSIONS}": {"items": [{"metric": "a", "version": 2, "scorer_fingerprint": "f2"}], "next": None},
        f"{METRICS}/c/{VERSIONS}": {"items": [{"metric": "c", "version": 1, "scorer_fingerprint": "f1"}], "next": None},
    }
    with board(pages) as client:
        assert read_fingerprints("http://b.example/", "x", client) == {"a@2": "f2", "c@1": "f1"}
        assert read_fingerprints("http://b.example", "none", client) == {}


@pytest.mark.parametrize(
    "page",
    ["no JSON", [], {"next": None}, {"items": [{"slug": "a"}], "next": None}, {"items": [], "next": "http://["}],
    ids=str,
)
def test_what_is_no_list_of_a_board_is_refused_by_its_address(page):
    with board({METRICS: page}) as client, pytest.raises(NoBoard, match="no board answers there"):
        read_fingerprints("http://b.example", "x", client)
    with (
        board({}) as client,
        pytest.raises(NoBoard, match=r"^board = 'http://b.example/api/v1/metrics': no board") as refused,
    ):
        read_fingerprints("http://b.example", "x", client)
    assert (refused.value.field, refused.value.value) == ("board", "http://b.example/api/v1/metrics")
