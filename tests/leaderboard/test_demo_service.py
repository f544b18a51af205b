"""What the demonstration replaces: a service that answers as OpenAI's completions do."""

from leaderboard.demo.service import MOST_WORDS, ReplacedService

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
