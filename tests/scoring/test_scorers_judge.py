"""A language model as a judge, against a real server on this machine that judges badly at times."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from scoring.__main__ import main
from scoring.attributes import Meaning
from scoring.scorers import (
    Caveat,
    JsonLinesReplies,
    Scorer,
    ScorerUnavailable,
    ServiceAccess,
    Surroundings,
    declaration_of,
    get_scorer,
)
from scoring.scorers import service as client
from scoring.scorers.judge import VOTES, JudgeScorer
from scoring.scorers.rubric import RUBRICS, RubricError, find_rubric, read_rubric
from scoring.scorers.service import MOST_FAILED, TRIES
from tests import standin_judge
from tests.standin_judge import KEY, NAMES, StandInJudge, level

NAME = "judge:toxicity@a-model"
TEXTS = [f"text {number}" for number in range(6)]


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInJudge]:
    """The stand-in, and a client that is impatient."""
    monkeypatch.setattr(client, "BACKOFF", 0.001)
    monkeypatch.setattr(JudgeScorer, "timeout", httpx.Timeout(2.0))
    with standin_judge.serving() as stage:
        yield stage


def scorer(judge: StandInJudge, name: str = NAME, rate: float = 2000.0, **options: Any) -> Scorer:
    return get_scorer(name, access=ServiceAccess(KEY, f"{judge.address}/v1", rate, 6.0), **options)


def test_a_score_is_the_level_as_a_share_of_the_worst_and_three_votes_are_asked_for(judge):
    judging = scorer(judge)
    scores = judging.score(TEXTS)
    assert judging.attribute_names == (*NAMES, "disagreement")
    expected = [[level(text, name, 1) / 3 for name in NAMES] + [0.0] for text in TEXTS]
    np.testing.assert_allclose(scores.values, expected, rtol=1e-6)
    assert len(judge.requests) == VOTES * len(TEXTS)
    assert (judging.cost.requests, judging.cost.seconds, judging.cost.usd) == (3, pytest.approx(3 / 2000), 0.006)


def test_a_request_has_the_rubric_the_text_and_temperature_0(judge):
    scorer(judge, limit_name="max_tokens").score(["hello"])
    _, body, key = judge.requests[0]
    assert key == f"Bearer {KEY}"
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("a-model", 0, 512)
    system, user = body["messages"]
    assert system["role"] == "system"
    for name in NAMES:
        assert f"\n{name}: " in system["content"]
    assert '"toxicity": 0' in system["content"]
    assert user["content"].endswith("\n-----\nhello\n-----")


def test_votes_that_differ_are_averaged_and_their_disagreement_stands_beside_the_score(judge):
    # toxicity gets 3, 3, 0 and threat 1, 2, 3: means 2/3 and 2/3; one of three differs on the first, two on the other.
    table = {"toxicity": [3, 3, 0], "identity_attack": [1, 1, 1], "threat": [1, 2, 3]}
    judge.level = lambda _text, name, vote: table[name][(vote - 1) % 3]
    judging = scorer(judge, concurrency=1)
    np.testing.assert_allclose(judging.score(["a"]).values, [[2 / 3, 1 / 3, 2 / 3, 2 / 3]], rtol=1e-6)
    disagreement = judging.attributes[-1]
    assert (disagreement.meaning, disagreement.threshold) == (Meaning.NEUTRAL, 1 / 6)


WRONG = ["I would say 2", '{"toxicity": 1}', '{"toxicity": 4, "identity_attack": 0, "threat": 0}', "null", "[1, 2, 3]"]
WRONG += [
    '{"toxicity": 1.5, "identity_attack": 0, "threat": 0}',
    '{"toxicity": true, "identity_attack": 0, "threat": 0}',
]
WRONG += ['```json\n{"toxicity": 1, "identity_attack": 0, "threat": 0}\n```']


@pytest.mark.parametrize("answer", [*WRONG, "500", "429 0", "hang up"])
def test_an_answer_that_is_no_verdict_is_asked_for_again_and_then_is_a_reason(judge, answer):
    judge.faults["b"] = [answer] * 2
    scores = scorer(judge, concurrency=1).score(["a", "b"])
    np.testing.assert_allclose(scores.values[1, 0], level("b", "toxicity", 1) / 3, rtol=1e-6)
    assert len(judge.requests) == 2 * VOTES + 2
    judge.faults["b"] = [answer] * TRIES
    scores = scorer(judge, concurrency=1).score(["a", "b"])
    assert scores.reasons == (None, "The judge: no verdict in 6 tries")
    assert np.isnan(scores.values[1]).all()


@pytest.mark.slow
def test_a_judge_that_never_gives_a_verdict_is_unavailable(judge):
    texts = [f"text {number}" for number in range(2 * MOST_FAILED)]
    for text in texts:
        judge.faults[text] = ["Certainly! Here is my verdict."] * TRIES * VOTES
    with pytest.raises(ScorerUnavailable, match="no verdict in 6 tries, for 10 texts one after the other"):
        scorer(judge).score(texts)


def test_what_no_text_gets_past_names_neither_key_nor_text(judge, caplog):
    caplog.set_level(logging.DEBUG)
    for text in ("secret one", "secret two"):
        judge.faults[text] = ["401 invalid_api_key"] * 20
    with pytest.raises(ScorerUnavailable, match="401 invalid_api_key") as caught:
        scorer(judge).score(["secret one", "secret two"])
    words = f"{caught.value} {caplog.text}"
    assert KEY not in words
    assert "secret" not in words


@pytest.mark.slow
def test_retry_after_is_waited_for(judge):
    judge.faults["a"] = ["429 1"]
    scorer(judge, concurrency=1).score(["a"])
    assert judge.requests[1][0] - judge.requests[0][0] >= 1.0


def test_a_killed_judge_goes_on_with_the_votes_that_it_has(judge, tmp_path):
    def interrupt(count: int) -> None:
        if count == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scorer(judge, replies=JsonLinesReplies(tmp_path), concurrency=1).score(TEXTS, interrupt)
    count = len(judge.requests)
    counts: list[int] = []
    scores = scorer(judge, replies=JsonLinesReplies(tmp_path), concurrency=1).score(TEXTS, counts.append)
    assert scores.reasons == (None,) * len(TEXTS)
    assert len(judge.requests) - count == VOTES * (len(TEXTS) - 3)
    assert counts[-1] == len(TEXTS)
    assert KEY not in "".join(path.read_text(encoding="utf-8") for path in tmp_path.iterdir())


def test_a_declared_snapshot_is_held_to_and_an_alias_is_not(judge):
    judge.model = "a-model-2026-01-01"
    assert scorer(judge).score(["a"]).reasons == (None,)
    with pytest.raises(ScorerUnavailable, match="answers as 'a-model-2026-01-01', and a-model-2025-01-01 is declared"):
        scorer(judge, "judge:toxicity@a-model-2025-01-01").score(["a"])


def test_it_is_declared_as_not_deterministic_and_its_fingerprint_takes_the_epoch(judge, tmp_path):
    assert declaration_of(NAME).caveats_of(NAME) == (Caveat.UNVERSIONED, Caveat.RANDOM)
    dated = "judge:toxicity@gpt-4o-2024-08-06"
    assert declaration_of(dated).caveats_of(dated) == (Caveat.RANDOM,)
    own = tmp_path / "rubric.toml"
    own.write_text((RUBRICS / "toxicity.toml").read_text(encoding="utf-8").replace("slightly", "a little"))
    prints = {
        scorer(judge).fingerprint(),
        scorer(judge, epoch="2").fingerprint(),
        scorer(judge, "judge:toxicity@another").fingerprint(),
        scorer(judge, folder=tmp_path).fingerprint(),
    }
    assert len(prints) == 4


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("toxicity", "names no rubric and model, as in judge:toxicity@"),
        ("nonsense@a-model", "rubric = 'nonsense': there is none of that name; use toxicity"),
        ("../toxicity@a-model", "there is none of that name"),
        ("toxicity@a-model", "set JUDGE_URL"),
    ],
)
def test_what_is_missing_is_said_without_asking(choice, message):
    problem = declaration_of("judge:x").problem(choice, Surroundings(Path("nowhere")))
    assert message in str(problem)


GOOD = """
version = 1
question = "Judge."
levels = ["none", "some"]
[attributes.rude]
meaning = "harm"
question = "How rude?"
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version = 1", "version = 2", "this code reads version 1"),
        ('question = "Judge."\n', "", "question is missing"),
        ('question = "Judge."', 'question = " "', "question: say what is judged"),
        ('"none", "some"', '"none"', "levels: give two"),
        ('meaning = "harm"', 'meaning = "bad"', "bad"),
        ("attributes.rude", 'attributes."Very rude"', "use small letters"),
        ("[attributes.rude]", "[attributes.rude", "rubric.toml: "),
    ],
)
def test_a_rubric_that_is_none_says_what_is_wrong(tmp_path, old, new, message):
    path = tmp_path / "rubric.toml"
    path.write_text(GOOD)
    rubric = read_rubric(path)
    assert rubric.read_verdict('{"rude": 1}') == [1.0]
    assert find_rubric("mine", tmp_path) == rubric
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(RubricError, match=message):
        read_rubric(path)


def test_the_command_line_scores_with_a_judge(judge, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("JUDGE_URL", judge.address)
    monkeypatch.setenv("JUDGE_REQUESTS_PER_SECOND", "1000")
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"text": "one"}\n', encoding="utf-8")
    main(["score", "--scorer", NAME, "--texts", str(texts)])
    (line,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert line["scores"]["toxicity"] == pytest.approx(level("one", "toxicity", 1) / 3, abs=1e-6)
    assert line["scores"]["disagreement"] == 0.0
    assert judge.requests[0][2] is None  # no key, no header
