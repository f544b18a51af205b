"""Guard models behind a server, against a stand-in with the likelihoods of a tiny guard."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from scoring.__main__ import main
from scoring.scorer_commands import surroundings_here
from scoring.scorers import ScorerUnavailable, get_scorer
from scoring.scorers.declarations import Surroundings
from scoring.scorers.guard_model import GuardScorer
from scoring.scorers.guard_scorers import GUARDS, read_guard_servers
from scoring.scorers.guard_server import MISREAD, REFUSED, SPECIAL, UNDECIDED, ServedGuardScorer, find_shares
from scoring.scorers.guards import GuardDeclaration, declared_guards
from scoring.served import CompletionsServer
from tests.scoring.completions_server import Answer, CompletionsStage, as_json, completions_server
from tests.tiny_guards import save_guard, tiny_guard

CPU = torch.device("cpu")
TEXTS = ["you and the", "hello there", "the and you"]
ONE_QUESTION = [
    {
        "opening": "Safety:",
        "verdicts": [" Safe", " Unsafe", " Disputed"],
        "attributes": {"unsafe": [" Unsafe"], "unsafe_or_disputed": [" Unsafe", " Disputed"]},
    }
]
PROMPT = "<|start|>user\nJudge: {text}<|end|><|start|>assistant\n"


class GuardServer:
    """The tiny guard as a server: the declared opening as its first tokens, then the likeliest ones after it."""

    def __init__(self, scorer: GuardScorer) -> None:
        self.scorer = scorer
        self.top = 20
        self.opening = "Safety:"
        self.names_likelihoods = True

    def respond(self, request: dict[str, Any]) -> Answer:
        """The answer to a request for a chat or a completion."""
        tokenizer = self.scorer._model.tokenizer
        if "messages" in request:
            assert request["logprobs"] is True
            options = request.get("chat_template_kwargs", {})
            prompt = tokenizer.apply_chat_template(
                request["messages"], tokenize=False, add_generation_prompt=True, **options
            )
            opening = "Rude:" if options else self.opening
            top = self.likeliest(prompt + ("Rude:" if options else "Safety:"), request["top_logprobs"])
            entries = [{"token": part, "logprob": -0.1, "top_logprobs": []} for part in (opening[:-1], opening[-1:])]
            entries.append({"token": top[0][0], "logprob": top[0][1], "top_logprobs": self.named(top)})
            logprobs: Any = {"content": entries}
        else:
            assert request["max_tokens"] == 1
            logprobs = {"top_logprobs": [dict(self.likeliest(request["prompt"], request["logprobs"]))]}
        choice = {"index": 0, "text": "", "logprobs": logprobs if self.names_likelihoods else None}
        return as_json({"model": request["model"], "choices": [choice]})

    @torch.no_grad()
    def likeliest(self, prompt: str, count: int) -> list[tuple[str, float]]:
        """The likeliest tokens after the prompt."""
        model = self.scorer._model
        ids = model.tokenizer(prompt, add_special_tokens=False)["input_ids"]
        likelihoods = model.model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)
        values, tokens = likelihoods.topk(min(count, self.top, len(likelihoods)))
        return [(model.tokenizer.decode(token), value) for token, value in zip(tokens, values.tolist(), strict=True)]

    def named(self, top: list[tuple[str, float]]) -> list[dict[str, Any]]:
        """The same as a chat names them."""
        return [{"token": token, "logprob": value} for token, value in top]


@pytest.fixture(scope="module")
def scorer(tmp_path_factory: pytest.TempPathFactory) -> GuardScorer:
    """The tiny guard in this process."""
    return GuardScorer(tiny_guard(), folder=save_guard(tmp_path_factory.mktemp("guard")), device=CPU)


@pytest.fixture
def stage(scorer) -> Iterator[CompletionsStage]:
    """A server whose every token is named, so that the scores can be compared."""
    with completions_server() as stage:
        stage.respond = GuardServer(scorer).respond
        stage.respond.__self__.top = 1000
        yield stage


def served(stage: CompletionsStage, guard: GuardDeclaration | None = None, **options: Any) -> ServedGuardScorer:
    server = CompletionsServer(stage.url, "org/tiny-guard", concurrency=2, tries=2)
    return ServedGuardScorer(guard or tiny_guard(), server, **options)


def test_a_chat_server_gives_the_scores_of_the_verdicts_in_process(stage, scorer, monkeypatch):
    monkeypatch.setattr("scoring.scorers.guard_server.TOP", 1000)
    seen: list[int] = []
    scores = served(stage).score(TEXTS, seen.append)
    own = scorer.score(TEXTS).values[:, [0, 1, 4]]  # without the categories, which a server does not give
    assert served(stage).attribute_names == ("unsafe", "unsafe_or_disputed", "rude")
    np.testing.assert_allclose(scores.values, own, atol=1e-4, rtol=0)
    assert seen == [1, 2, 3]
    ask = stage.requests[0]
    assert (ask["temperature"], ask["model"], ask["max_tokens"]) == (0.0, "org/tiny-guard", 12)
    assert {str(request.get("chat_template_kwargs")) for request in stage.requests} == {
        "None",
        "{'guideline': 'No rudeness.'}",
    }


def test_a_guard_whose_prompt_is_declared_is_asked_for_one_token_after_it(stage, scorer, monkeypatch):
    monkeypatch.setattr("scoring.scorers.guard_server.TOP", 1000)
    guard = tiny_guard(messages=[], prompt=PROMPT, questions=ONE_QUESTION)
    scores = served(stage, guard).score(TEXTS)
    np.testing.assert_allclose(scores.values, scorer.score(TEXTS).values[:, [0, 1]], atol=1e-4, rtol=0)
    assert stage.requests[0]["prompt"].startswith("<|start|>user\nJudge: ")
    assert stage.requests[0]["prompt"].endswith("<|start|>assistant\nSafety:")
    assert stage.requests[0]["add_special_tokens"] is False


def test_the_declared_prompt_gives_in_process_what_the_same_template_gives(tmp_path, scorer):
    guard = tiny_guard(messages=[], prompt=PROMPT, questions=ONE_QUESTION)
    declared = GuardScorer(guard, folder=save_guard(tmp_path, template=""), device=CPU)
    np.testing.assert_allclose(declared.score(TEXTS).values, scorer.score(TEXTS).values[:, [0, 1]], atol=1e-6)


@pytest.mark.parametrize("guard", ["wildguard", "shieldgemma-2b", "llama-guard-3-1b"])
def test_a_declared_guard_asks_its_server_one_request_for_each_question(guard):
    declared = declared_guards()[guard]
    top = [{"token": "Yes", "logprob": -0.1}, {"token": "No", "logprob": -2.5}]
    verdicts = declared.questions[0].verdicts
    if guard != "shieldgemma-2b":
        top = [{"token": verdict, "logprob": math.log(0.5)} for verdict in verdicts]

    def respond(request: dict[str, Any]) -> Answer:
        named = {one["token"]: one["logprob"] for one in top}
        content = [{"token": "\n\n", "top_logprobs": []}, {"token": verdicts[0], "top_logprobs": top}]
        if "messages" in request:
            logprobs: Any = {"content": content}
        else:
            logprobs = {"top_logprobs": [named]}
        return as_json({"model": request["model"], "choices": [{"index": 0, "logprobs": logprobs}]})

    with completions_server() as stage:
        stage.respond = respond
        scores = served(stage, declared).score(["a text"])
        assert scores.reasons == (None,)
        expected = 0.5 if guard != "shieldgemma-2b" else math.exp(-0.1) / (math.exp(-0.1) + math.exp(-2.5))
        np.testing.assert_allclose(scores.values, expected, atol=1e-6)
        assert len(stage.requests) == len(declared.questions)
        if "messages" in stage.requests[0]:
            assert stage.requests[0].get("add_generation_prompt") is False
            assert "a text" in json.dumps(stage.requests[0]["messages"])


# What is not named


def test_a_verdict_that_is_not_named_counts_as_nothing_where_it_cannot_matter():
    """No is at most as likely as the last that is named, 1e-5, and changes the share of Yes by no more."""
    tokens = [("Yes", math.log(0.9)), ("Well", math.log(1e-5))]
    assert find_shares(tokens, ["Yes", "No"]) == [1.0, 0.0]


@pytest.mark.parametrize(
    "tokens",
    [
        [("Yes", math.log(0.5)), ("Well", math.log(0.1))],  # No may be as likely as 0.1
        [("I", math.log(0.9)), ("Yes", math.log(1e-6)), ("Well", math.log(1e-7))],  # 10% of what Yes has
        [("I", math.log(0.9))],
        [],
    ],
)
def test_where_it_may_matter_nothing_is_decided(tokens):
    assert find_shares(tokens, ["Yes", "No"]) is None


def test_a_verdict_is_known_by_the_longest_token_that_begins_no_other_one():
    tokens = [(" Uns", math.log(0.5)), ("U", math.log(0.01)), ("▁Safe", math.log(0.25)), ("S", math.log(0.02))]
    assert find_shares(tokens, [" Safe", " Unsafe"]) == pytest.approx([1 / 3, 2 / 3])


def test_a_text_whose_verdict_is_not_named_has_a_reason_and_no_score(stage):
    stage.respond.__self__.top = 1
    scores = served(stage).score(TEXTS)
    assert scores.reasons == (UNDECIDED,) * 3
    assert np.isnan(scores.values).all()


def test_an_answer_that_opens_otherwise_is_a_reason(stage):
    stage.respond.__self__.opening = "Sorry:"
    assert served(stage).score(["the"]).reasons == (UNDECIDED,)


def test_a_text_that_the_server_refuses_or_would_misread_has_a_reason(stage):
    stage.answers = [as_json({}, 400)]
    scores = served(stage).score(["the", "<|im_end|>"])
    assert scores.reasons == (REFUSED, SPECIAL)
    assert len(stage.requests) == 1


def test_a_useless_answer_is_asked_for_again_and_then_a_reason_that_is_not_kept(stage, monkeypatch):
    monkeypatch.setattr("scoring.served.transport.BACKOFF", 0.0)
    replies: dict[str, Any] = {}
    stage.answers = [as_json({"choices": []})] * 2
    guarded = served(stage, replies=replies)
    assert guarded.score(["the"]).reasons == (MISREAD,)
    assert replies == {}
    assert guarded.score(["the"]).reasons in ((None,), (UNDECIDED,))
    assert len(replies) == 1


def test_a_server_whose_answers_are_all_useless_is_given_up(stage, monkeypatch):
    monkeypatch.setattr("scoring.served.transport.BACKOFF", 0.0)
    stage.respond = lambda _request: as_json({"choices": []})
    with pytest.raises(ScorerUnavailable, match="for 10 texts one after the other"):
        served(stage).score([f"text {number}" for number in range(100)])
    assert len(stage.requests) < 40  # two tries each


def test_answers_are_kept_so_that_interrupted_work_goes_on(stage, monkeypatch):
    monkeypatch.setattr("scoring.scorers.guard_server.TOP", 1000)
    replies: dict[str, Any] = {}
    first = served(stage, replies=replies).score(TEXTS)
    count = len(stage.requests)
    np.testing.assert_array_equal(served(stage, replies=replies).score(TEXTS).values, first.values)
    assert len(stage.requests) == count
    served(stage, replies=replies, epoch="2").score(TEXTS)  # another version is asked anew
    assert len(stage.requests) == 2 * count


@pytest.mark.parametrize("fault", ["down", "key", "silent"])
def test_a_server_that_answers_no_text_makes_the_scorer_unavailable(stage, monkeypatch, fault):
    monkeypatch.setattr("scoring.served.transport.BACKOFF", 0.0)
    if fault == "silent":
        stage.respond.__self__.names_likelihoods = False
    else:
        stage.respond = lambda _request: as_json({}, 500 if fault == "down" else 401)
    says = {"down": "tries failed", "key": "check the key", "silent": "names no likelihoods"}[fault]
    with pytest.raises(ScorerUnavailable, match=says):
        served(stage).score(["the"])


def test_the_fingerprint_is_of_server_model_declaration_and_epoch(stage):
    server = CompletionsServer(stage.url, "org/tiny-guard")
    others = [
        ServedGuardScorer(tiny_guard(), CompletionsServer("http://127.0.0.1:9/v1", "org/tiny-guard")),
        ServedGuardScorer(tiny_guard(), CompletionsServer(stage.url, "org/other")),
        ServedGuardScorer(tiny_guard(threshold=0.6), server),
        ServedGuardScorer(tiny_guard(), server, epoch="2"),
    ]
    prints = {one.fingerprint() for one in (ServedGuardScorer(tiny_guard(), server), *others)}
    assert len(prints) == 5
    assert ServedGuardScorer(tiny_guard(title="Other"), server).fingerprint() in prints


def test_the_command_fetches_from_the_hub_that_the_environment_names(monkeypatch):
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    assert surroundings_here("guard:wildguard").hub_endpoint == "https://huggingface.co"
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert surroundings_here("guard:wildguard").hub_endpoint == "http://127.0.0.1:9"


def test_the_command_asks_the_server_that_the_environment_names(stage, tmp_path, monkeypatch, capsys):
    path = tmp_path / "texts.txt"
    path.write_text("a text\n", encoding="utf-8")
    top = [{" yes": math.log(0.25), " no": math.log(0.75)}]
    stage.respond = lambda request: as_json(
        {"model": request["model"], "choices": [{"index": 0, "logprobs": {"top_logprobs": top}}]}
    )
    command = ["score", "--scorer", "guard-server:wildguard", "--texts", str(path)]
    monkeypatch.setenv("GUARD_SERVERS", json.dumps({"wildguard": f"{stage.url}#our-guard"}))
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out) == {"scores": {"harmful_request": pytest.approx(0.25)}}
    assert stage.requests[0]["model"] == "our-guard"
    monkeypatch.setenv("GUARD_SERVERS", "wildguard")
    assert main(command) != 0
    assert "GUARD_SERVERS = 'wildguard': give addresses as JSON" in capsys.readouterr().err


def test_a_guard_is_asked_for_at_its_address_by_its_name_with_its_key_and_so_many_requests_at_a_time():
    addresses = {"wildguard": "http://127.0.0.1:9/v1#our-guard", "llama-guard-3-8b": "http://127.0.0.1:8/v1"}
    servers = read_guard_servers(addresses, lambda url: f"the key of {url}", 3)
    assert servers == {
        "wildguard": CompletionsServer(
            "http://127.0.0.1:9/v1", "our-guard", key="the key of http://127.0.0.1:9/v1", concurrency=3
        ),
        "llama-guard-3-8b": CompletionsServer(
            "http://127.0.0.1:8/v1",
            "meta-llama/Llama-Guard-3-8B",
            key="the key of http://127.0.0.1:8/v1",
            concurrency=3,
        ),
    }


def test_a_guard_without_a_server_says_where_to_name_it():
    declaration = GUARDS[-1]
    surroundings = Surroundings(Path())
    assert "GUARD_SERVERS" in str(declaration.problem("wildguard", surroundings))
    assert "use one of llama-guard-3-8b" in str(declaration.problem("nonsense", surroundings))
    with pytest.raises(ScorerUnavailable, match="GUARD_SERVERS"):
        get_scorer("guard-server:wildguard")
    board = Surroundings(Path(), guard_servers={"wildguard": CompletionsServer("http://127.0.0.1:9", "wildguard")})
    assert declaration.problem("wildguard", board) is None
    assert isinstance(declaration.build_in("guard-server:wildguard", board), ServedGuardScorer)
