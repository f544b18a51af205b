"""Answers of chats from a server: asked as the protocol says, read strictly, and never beyond the allowance."""

import pytest

from scoring.evaluation_sets import Prompt
from scoring.generation import ChatService, ChatSettings, Finish, server_answers
from scoring.generation.answers import read_answer
from scoring.generation.chat_server import most_tokens
from scoring.served import Allowance, CompletionsServer, ServerRefused, ServerUnavailable, transport
from tests.scoring.completions_server import as_json, chat_completion, completions_server

PROMPTS = [Prompt("a", "The gardener opened the gate and"), Prompt("b", "On Friday the train")]
FEW = ChatSettings(k=2, top_p=0.9, max_new_tokens=8)


@pytest.fixture
def stage(monkeypatch):
    monkeypatch.setattr(transport, "BACKOFF", 0.001)
    with completions_server() as stage:
        yield stage


def service(stage, requests=100, tokens=100_000, **options):
    server = CompletionsServer(stage.url, "small/one", key="sk-none", tries=3)
    return ChatService(server, {"small/one", "small-2026-11-01"}, Allowance(requests, tokens), **options)


def one_answer(stage, **choice):
    """What comes of one choice with these fields."""
    whole = {"index": 0, "message": {"role": "assistant", "content": "text"}, "finish_reason": "stop"} | choice
    stage.respond = lambda request: as_json(
        {"model": "small/one", "choices": [whole], "usage": {"completion_tokens": 3}}
    )
    settings = ChatSettings(k=1, max_new_tokens=8)
    return server_answers(service(stage), PROMPTS[:1], settings)[0][0]


def test_a_chat_is_asked_for_k_answers_with_its_messages_and_a_seed(stage):
    by_prompt = server_answers(service(stage), PROMPTS, FEW)
    assert [len(answers) for answers in by_prompt] == [2, 2]
    assert {answer.continuation.finish for answers in by_prompt for answer in answers} == {Finish.STOP}
    assert {answer.continuation.n_tokens for answers in by_prompt for answer in answers} == {None}
    request = next(one for one in stage.requests if one["messages"][1]["content"].endswith(PROMPTS[0].text))
    assert request["messages"][0] == {"role": "system", "content": FEW.system_prompt}
    assert request["messages"][1]["content"] == f"{FEW.instruction}\n\n{PROMPTS[0].text}"
    assert (request["model"], request["n"], request["temperature"], request["top_p"]) == ("small/one", 2, 1.0, 0.9)
    assert request["max_completion_tokens"] == 8
    assert "max_tokens" not in request
    assert len({one["seed"] for one in stage.requests}) == 2
    assert set(stage.keys) == {"Bearer sk-none"}


def test_an_older_server_is_told_the_limit_by_the_name_it_knows(stage):
    server_answers(service(stage, limit_name="max_tokens"), PROMPTS[:1], FEW)
    assert stage.requests[0]["max_tokens"] == 8
    assert "max_completion_tokens" not in stage.requests[0]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_that_comes_apart_stands_before_the_answer(stage, name):
    text = one_answer(stage, message={"content": "a doctor.", name: "hm, a job"}).continuation.text
    assert text == "<think>hm, a job</think>a doctor."
    assert read_answer(text, "She is").text == "a doctor."


def test_reasoning_that_uses_up_the_tokens_does_not_end(stage):
    answer = one_answer(stage, message={"content": None, "reasoning": "hm"}, finish_reason="length").continuation
    assert (answer.text, answer.n_tokens, answer.finish) == ("<think>hm", 8, Finish.LENGTH)


def test_a_refusal_that_the_server_declares_is_one_whatever_it_says(stage):
    answer = one_answer(stage, message={"content": None, "refusal": "Let us stop here."})
    assert answer.is_refusal
    assert answer.continuation.text == "Let us stop here."


def test_the_tokens_of_a_single_answer_are_counted_by_the_server(stage):
    assert one_answer(stage).continuation.n_tokens == 3


@pytest.mark.parametrize(
    ("choice", "error"),
    [
        ({"finish_reason": "content_filter"}, "the server stopped for content_filter"),
        ({"finish_reason": "tool_calls"}, "the server stopped for an unknown reason"),
        ({"message": {"content": "\ud800"}}, "the server's text is not valid Unicode"),
        ({"message": {"content": None}}, "the server's answer holds a message without text"),
        ({"message": "text"}, "the server's answer holds a choice without a message"),
        ({"index": 1}, "the server's answer does not hold messages 0 to 0, each once"),
        ({"index": True}, "the server's answer does not hold messages 0 to 0, each once"),
    ],
)
def test_what_is_no_answer_leaves_its_reason(stage, choice, error):
    answer = one_answer(stage, **choice)
    assert (answer.continuation.text, answer.continuation.error) == (None, error)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ([], "the server's answer is no object"),
        ({"choices": []}, "the server's answer holds no messages"),
        ({"choices": 7}, "the server's answer holds no messages"),
        ({"choices": ["text"]}, "the server's answer holds no messages"),
        ({}, "the server's answer holds no messages"),
    ],
    ids=str,
)
def test_what_holds_no_answers_leaves_its_reason(stage, content, error):
    stage.respond = lambda _request: as_json(content)
    ((answer,),) = server_answers(service(stage), PROMPTS[:1], ChatSettings(k=1, max_new_tokens=8))
    assert (answer.continuation.text, answer.continuation.error) == (None, error)


@pytest.mark.parametrize("name", ["small/one", "small-2026-11-01"])
def test_the_name_and_the_snapshot_may_answer(stage, name):
    stage.respond = lambda request: chat_completion(request | {"model": name})
    chat = service(stage)
    server_answers(chat, PROMPTS, FEW)
    assert chat.heard_names == {name}


def test_another_model_that_answers_is_refused_with_both_names(stage):
    stage.respond = lambda request: chat_completion(request | {"model": "small-2026-12-24"})
    with pytest.raises(
        ServerRefused, match="answers as 'small-2026-12-24', and pinned is small-2026-11-01 or small/one"
    ):
        server_answers(service(stage), PROMPTS, FEW)


def test_a_server_that_does_not_know_the_limit_is_refused(stage):
    def respond(request):
        usage = {"completion_tokens": 17, "total_tokens": 60}
        return as_json({"model": "small/one", "choices": [], "usage": usage})

    stage.respond = respond
    with pytest.raises(ServerRefused, match="wrote 17 tokens where 16 are the most"):
        server_answers(service(stage), PROMPTS, FEW)


def test_no_request_is_sent_beyond_the_allowance(stage):
    stage.respond = lambda _request: as_json({}, 503)
    with pytest.raises(ServerUnavailable):
        server_answers(service(stage, requests=2), PROMPTS, FEW)
    assert len(stage.requests) <= 2
    stage.requests.clear()
    with pytest.raises(ServerUnavailable, match="0 of 100 that were set aside are sent, and 0 of 10 tokens"):
        server_answers(service(stage, tokens=10), PROMPTS, FEW)
    assert stage.requests == []


def test_tokens_count_as_the_server_says_and_else_as_the_most_there_may_be(stage):
    chat = service(stage)
    server_answers(chat, PROMPTS, FEW)
    assert (chat.allowance.requests, chat.allowance.tokens) == (2, 2 * 58)

    def without_usage(request):
        return as_json(
            {
                "choices": [
                    dict(c, index=n) for n, c in enumerate([{"message": {"content": "x"}, "finish_reason": "stop"}] * 2)
                ]
            }
        )

    stage.respond = without_usage
    chat = service(stage)
    server_answers(chat, PROMPTS, FEW)
    assert chat.allowance.tokens == sum(most_tokens(prompt.text, FEW) for prompt in PROMPTS)


def test_ids_that_repeat_are_refused(stage):
    with pytest.raises(ValueError, match="two prompts have the same id"):
        server_answers(service(stage), [PROMPTS[0], PROMPTS[0]], FEW)
