"""Continuations from a completions server: the same artefact, whatever the server does on the way."""

import email.utils
import socket
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from scoring.evaluation_sets.prompts import Prompt
from scoring.generation import (
    Continuation,
    Finish,
    GenerationSettings,
    continuations_table,
    server_continuations,
)
from scoring.generation.server import NO_CONTINUATIONS
from scoring.served import CompletionsServer, ServerRefused, ServerUnavailable, transport
from tests.scoring.completions_server import CompletionsStage, as_json, completion, completions_server

SECRET = "zebra-crossing"
PROMPTS = [Prompt(f"p-{n}", f"{SECRET} " + "very " * n) for n in range(6)]
SETTINGS = GenerationSettings(k=3, top_p=0.9, max_new_tokens=7)
KEY = "sk-not-a-real-one"


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[CompletionsStage]:
    monkeypatch.setattr(transport, "BACKOFF", 0.01)
    with completions_server() as found:
        yield found


def at(stage: CompletionsStage, **options: object) -> CompletionsServer:
    return CompletionsServer(**{"url": stage.url, "model": "small", "timeout": 5.0, "tries": 3, **options})


def expected(prompt: Prompt, k: int = SETTINGS.k) -> list[Continuation]:
    return [Continuation(f" went on {len(prompt.text)} {n}", 7, Finish.LENGTH) for n in range(k)]


ALL = [expected(prompt) for prompt in PROMPTS]


def test_one_request_a_prompt_brings_all_its_continuations_in_order(stage):
    seen: list[int] = []
    assert server_continuations(at(stage), PROMPTS, SETTINGS, seen.append) == ALL
    assert seen == [1, 2, 3, 4, 5, 6]
    assert len(stage.requests) == 6
    asked = next(request for request in stage.requests if request["prompt"] == PROMPTS[2].text)
    assert asked.pop("seed") >= 0
    assert asked == {
        "model": "small",
        "prompt": PROMPTS[2].text,
        "n": 3,
        "temperature": 1.0,
        "top_p": 0.9,
        "max_tokens": 7,
    }


def test_a_seed_belongs_to_prompt_and_continuation(stage):
    found = server_continuations(at(stage, seed_each=True), PROMPTS, SETTINGS)
    assert found == [[item[0]] * 3 for item in ALL]  # this server gives all the same text
    seeds = {(request["prompt"], request["seed"]) for request in stage.requests}
    assert len({seed for _, seed in seeds}) == len(seeds) == 18
    assert all(request["n"] == 1 for request in stage.requests)
    stage.requests.clear()
    server_continuations(at(stage, seed_each=True), PROMPTS[::-1], SETTINGS)
    assert {(request["prompt"], request["seed"]) for request in stage.requests} == seeds


def test_the_artefact_has_the_same_rows_as_that_of_a_model_that_runs_here(stage):
    table = continuations_table(PROMPTS, server_continuations(at(stage), PROMPTS, SETTINGS))
    assert table.num_rows == 18
    assert table.slice(4, 1).to_pylist() == [
        {
            "prompt_id": "p-1",
            "index": 1,
            "text": f" went on {len(PROMPTS[1].text)} 1",
            "n_tokens": 7,
            "finish": "length",
            "error": None,
            "truncated": False,
            "log_perplexity": None,
        }
    ]


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 529])
def test_a_passing_fault_is_tried_again(stage, status):
    stage.answers = [as_json({"error": "busy"}, status), as_json({}, status)]
    assert server_continuations(at(stage), PROMPTS, SETTINGS) == ALL
    assert len(stage.requests) == 8


def test_a_table_of_continuations_needs_those_of_every_prompt():
    with pytest.raises(ValueError, match="shorter"):
        continuations_table(PROMPTS, [[Continuation("and so on", 3, Finish.LENGTH, None)]])


@pytest.mark.slow
def test_waits_grow_and_are_never_quite_the_same(stage, monkeypatch):
    monkeypatch.setattr(transport, "BACKOFF", 0.1)
    stage.answers = [as_json({}, 500)] * 3
    server_continuations(at(stage, tries=4, concurrency=1), PROMPTS[:1], SETTINGS)
    waits = [later - before for before, later in zip(stage.times, stage.times[1:], strict=False)]
    assert [low <= wait for low, wait in zip([0.05, 0.1, 0.2], waits, strict=True)] == [True] * 3
    assert len({round(wait / 2**n, 5) for n, wait in enumerate(waits)}) == 3


@pytest.mark.slow
@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_is_honoured(stage, form):
    now, clock = time.time(), time.monotonic()
    date = int(now) + 2  # a date has whole seconds
    asked = "1" if form == "seconds" else email.utils.formatdate(date, usegmt=True)
    stage.answers = [as_json({}, 429, Retry_After=asked)]
    server_continuations(at(stage), PROMPTS[:1], SETTINGS)
    earliest = stage.times[0] + 1 if form == "seconds" else clock + date - now
    assert stage.times[1] > earliest - 0.1


@pytest.mark.slow
def test_a_server_that_does_not_answer_in_time_is_asked_again(stage):
    stage.delays = [1.0]
    assert server_continuations(at(stage, timeout=0.3), PROMPTS[:2], SETTINGS) == ALL[:2]
    assert len(stage.requests) == 3


WRONG_ANSWERS = {
    "not JSON": (200, {}, b"<html>busy</html>"),
    "half of it": (200, {}, b'{"choices": [{"index": 0, "te'),
    "not UTF-8": (200, {}, b"\xff\xfe\x00"),
    "a list": as_json([1, 2]),
    "no choices": as_json({"object": "text_completion"}),
    "empty choices": as_json({"choices": []}),
    "too few": as_json({"choices": [{"index": 0, "text": " a", "finish_reason": "stop"}]}),
    "one twice": as_json({"choices": [{"index": 0, "text": " a", "finish_reason": "stop"}] * 3}),
    "no index": as_json({"choices": [{"text": " a", "finish_reason": "stop"}] * 3}),
    "strange indexes": as_json({"choices": [{"index": [n], "text": " a", "finish_reason": "stop"} for n in range(3)]}),
    "no text": as_json({"choices": [{"index": n, "text": None, "finish_reason": "stop"} for n in range(3)]}),
    "choices of another kind": as_json({"choices": ["a", "b", "c"]}),
}


@pytest.mark.parametrize("name", WRONG_ANSWERS)
def test_an_answer_that_holds_no_continuations_is_asked_for_again(stage, name):
    stage.answers = [WRONG_ANSWERS[name]]
    assert server_continuations(at(stage, concurrency=1), PROMPTS[:2], SETTINGS) == ALL[:2]
    assert len(stage.requests) == 3


def test_a_prompt_that_is_always_answered_wrongly_gets_a_reason_and_no_text(stage):
    stage.respond = lambda request: (
        as_json({"choices": []}) if request["prompt"] == PROMPTS[1].text else completion(request)
    )
    found = server_continuations(at(stage), PROMPTS, SETTINGS)
    assert found == [ALL[0], [Continuation(None, None, None, NO_CONTINUATIONS)] * 3, *ALL[2:]]
    assert len(stage.requests) == 5 + 3


@pytest.mark.parametrize("status", [400, 413, 422, 451])
def test_a_prompt_that_the_server_refuses_gets_the_reason_at_once_and_the_others_go_on(stage, status):
    stage.respond = lambda request: (
        as_json({"error": {"message": request["prompt"]}}, status)
        if request["prompt"] == PROMPTS[1].text
        else completion(request)
    )
    found = server_continuations(at(stage), PROMPTS, SETTINGS)
    assert found == [
        ALL[0],
        [Continuation(None, None, None, f"the server answered {status} to the prompt")] * 3,
        *ALL[2:],
    ]
    assert len(stage.requests) == 6
    rows = continuations_table(PROMPTS, found).to_pylist()
    assert [row["text"] for row in rows[3:6]] == [None] * 3  # and no empty text, which a scorer might call harmless
    assert not any(SECRET in (row["error"] or "") for row in rows)


@pytest.mark.parametrize(("status", "remedy"), [(401, "key"), (403, "key"), (404, "model 'small'"), (301, "address")])
def test_a_server_that_takes_no_such_request_ends_the_run_with_the_remedy(stage, status, remedy):
    stage.respond = lambda _request: as_json({}, status)
    with pytest.raises(ServerRefused, match=remedy) as refused:
        server_continuations(at(stage, key=KEY), PROMPTS, SETTINGS)
    assert KEY not in str(refused.value)


def test_a_server_that_stays_away_is_a_passing_fault_of_the_run(stage):
    stage.respond = lambda _request: as_json({}, 503)
    with pytest.raises(ServerUnavailable, match="3 tries failed, the last with status 503"):
        server_continuations(at(stage), PROMPTS, SETTINGS)


def test_nobody_at_the_address_is_a_passing_fault_of_the_run(monkeypatch):
    monkeypatch.setattr(transport, "BACKOFF", 0.01)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = CompletionsServer(f"http://127.0.0.1:{free.getsockname()[1]}", "small", tries=2)
        with pytest.raises(ServerUnavailable, match="ConnectError"):
            server_continuations(nobody, PROMPTS, SETTINGS)


def test_why_a_continuation_ended_is_kept(stage):
    ended = [("stop", " a"), ("length", " b"), ("content_filter", ""), ("tool_calls", " d"), ("stop", "\ud83d")]
    stage.respond = lambda _request: as_json(
        {"choices": [{"index": n, "text": text, "finish_reason": why} for n, (why, text) in enumerate(ended)]}
    )
    (found,) = server_continuations(at(stage), PROMPTS[:1], replace(SETTINGS, k=5))
    assert [(item.text, item.n_tokens, item.finish, item.error) for item in found] == [
        (" a", None, Finish.STOP, None),
        (" b", 7, Finish.LENGTH, None),
        (None, None, None, "the server stopped for content_filter"),
        (None, None, None, "the server stopped for an unknown reason"),
        (None, None, None, "the server's text is not valid Unicode"),
    ]


@pytest.mark.parametrize(("k", "count"), [(1, 4), (2, None)])
def test_the_tokens_of_an_answer_are_those_of_a_continuation_only_where_it_is_alone(stage, k, count):
    choices = [{"index": n, "text": f" {n}", "finish_reason": "stop"} for n in range(k)]
    stage.respond = lambda _request: as_json({"choices": choices, "usage": {"completion_tokens": 4}})
    (continuations,) = server_continuations(at(stage), PROMPTS[:1], replace(SETTINGS, k=k))
    assert [continuation.n_tokens for continuation in continuations] == [count] * k


@pytest.mark.slow
def test_no_more_requests_are_under_way_than_allowed(stage):
    stage.delays = [0.1] * 6
    server_continuations(at(stage, concurrency=2), PROMPTS, SETTINGS)
    assert stage.most_at_once == 2


def test_the_key_is_sent_where_there_is_one_and_never_shown(stage):
    server_continuations(at(stage), PROMPTS[:1], SETTINGS)
    server_continuations(at(stage, key=KEY), PROMPTS[:1], SETTINGS)
    assert stage.keys == [None, f"Bearer {KEY}"]
    assert KEY not in repr(at(stage, key=KEY))


def test_what_progress_raises_passes_through_and_stops_the_rest(stage):
    class EnoughError(Exception):
        pass

    def stop(_finished: int) -> None:
        raise EnoughError

    with pytest.raises(EnoughError):
        server_continuations(at(stage, concurrency=1), PROMPTS, SETTINGS, progress=stop)
    assert len(stage.requests) < len(PROMPTS)


def test_top_k_is_sent_where_it_is_set(stage):
    server_continuations(at(stage), PROMPTS[:1], replace(SETTINGS, top_k=40))
    assert stage.requests[0]["top_k"] == 40


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/", "/v1/completions"])
def test_the_address_may_be_given_in_any_of_its_forms(stage, ending):
    assert server_continuations(at(stage, url=stage.url + ending), PROMPTS[:1], SETTINGS) == ALL[:1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "ftp://host"},
        {"url": "no address"},
        {"url": "http://[::1"},
        {"concurrency": 0},
        {"tries": 0},
        {"timeout": 0},
    ],
    ids=str,
)
def test_settings_of_a_server_that_make_no_sense_are_refused_by_name(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        CompletionsServer(**{"url": "http://127.0.0.1:8000", "model": "small", **wrong})


def test_prompts_with_the_same_id_are_refused(stage):
    with pytest.raises(ValueError, match="same id"):
        server_continuations(at(stage), [PROMPTS[0], PROMPTS[0]], SETTINGS)
