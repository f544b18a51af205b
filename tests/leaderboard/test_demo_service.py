"""What the demonstration replaces, a service that answers as OpenAI's completions do, and what it waits for."""

from leaderboard.demo.board import put_right
from leaderboard.demo.service import MOST_WORDS, ReplacedService
from leaderboard.models import MetricVersion
from tests.leaderboard.stored import metric_of, runs_on, score_all, version_of

REQUEST = {"model": "demo", "prompt": "On the way to", "n": 3, "seed": 1, "temperature": 1.0, "max_tokens": 20}


def test_the_service_repeats_its_answers_until_it_is_replaced():
    service = ReplacedService()
    answer = service.answer(REQUEST)
    assert (answer["object"], answer["model"]) == ("text_completion", "demo")
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert {choice["finish_reason"] for choice in answer["choices"]} == {"length"}
    texts = [choice["text"] for choice in answer["choices"]]
    assert [len(text.split()) for text in texts] == [MOST_WORDS] * 3
    assert len(set(texts)) == 3
    likeliest = service.answer(REQUEST | {"temperature": 0})["choices"]
    assert len({choice["text"] for choice in likeliest}) == 1
    assert service.answer(REQUEST) == answer
    service.replace()
    assert service.answer(REQUEST) != answer


def test_a_drift_is_put_right_when_the_second_version_has_every_model(db):
    metric = metric_of("careful", "profanity")
    version, runs = version_of(metric, "careful"), runs_on(metric)
    assert not put_right(metric, 0)
    score_all(version, runs, {"profanity": lambda x: x})
    assert not put_right(metric, len(runs)), "the first version"
    MetricVersion.objects.update(number=2)
    assert put_right(metric, len(runs))
    assert not put_right(metric, len(runs) + 1), "one model is missing"
