"""What a server says of a prompt's tokens: read where it is whole, and else refused by what is wrong with it."""

import math
from typing import Any

import pytest

from scoring.likelihood.served_tokens import read_echo, read_prompt_logprobs
from scoring.served import UselessError

TEXT = "At noon"


def token(piece: Any, likelihood: Any = -1.0) -> dict[str, Any]:
    return {"decoded_token": piece, "logprob": likelihood}


def listed(*entries: Any) -> dict[str, Any]:
    """An answer with these entries of prompt_logprobs."""
    return {"choices": [{"prompt_logprobs": list(entries)}]}


def echoed(tokens: Any, likelihoods: Any) -> dict[str, Any]:
    """An answer that echoes the prompt as these tokens."""
    return {"choices": [{"logprobs": {"tokens": tokens, "token_logprobs": likelihoods}}]}


WHOLE = listed(None, {"5": token("At", -2.0)}, {"7": token(" noon", -0.5)})
ECHO = echoed(["At", " noon", "!"], [None, -0.5, -9.0])


def test_prompt_logprobs_give_the_tokens_with_their_ids():
    tokens = read_prompt_logprobs(WHOLE, TEXT, leads=True)
    assert (tokens.pieces, tokens.values, tokens.ids) == (["At", " noon"], [-2.0, -0.5], [5, 7])


def test_without_a_token_before_the_text_its_first_one_is_what_the_others_leave():
    tokens = read_prompt_logprobs(listed(None, {"7": token(" noon", -0.5)}), TEXT, leads=False)
    assert (tokens.pieces, tokens.values[1:], tokens.ids) == (["At", " noon"], [-0.5], None)
    assert math.isnan(tokens.values[0])


def test_an_echo_gives_the_tokens_without_the_generated_one():
    tokens = read_echo(ECHO, TEXT, leads=False)
    assert (tokens.pieces, tokens.values[1:]) == (["At", " noon"], [-0.5])
    assert math.isnan(tokens.values[0])
    after_a_start = echoed(["<s>", "At", " noon", "!"], [None, -2.0, -0.5, -9.0])
    assert read_echo(after_a_start, TEXT, leads=True).values == [-2.0, -0.5]


@pytest.mark.parametrize(
    ("likelihood", "value"), [(1e-9, 0.0), (-9999.0, -math.inf), (math.nan, -math.inf), (-3, -3.0)]
)
def test_a_likelihood_is_at_most_certain_and_the_lowest_number_is_impossible(likelihood, value):
    entries = listed(None, {"5": token("At", likelihood)}, {"7": token(" noon")})
    assert read_prompt_logprobs(entries, TEXT, leads=True).values[0] == value


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([], "does not hold one continuation"),
        ({"choices": []}, "does not hold one continuation"),
        ({"choices": [{}, {}]}, "does not hold one continuation"),
        ({"choices": ["text"]}, "does not hold one continuation"),
        ({"choices": [{}]}, "holds no prompt_logprobs"),
        (listed(), "holds no prompt_logprobs"),
        (listed({"5": token("At")}), "give the first token a likelihood, which nothing precedes"),
        (listed(None, None), "lack a token"),
        (listed(None, {}), "lack a token"),
        (listed(None, {"5": "At"}), "hold a token without id or text"),
        (listed(None, {"5": token(None)}), "hold a token without id or text"),
        (listed(None, {"five": token("At")}), "hold a token without id or text"),
        (listed(None, {"5": token("At", None)}), "holds a likelihood that is none"),
        (listed(None, {"5": token("At", True)}), "holds a likelihood that is none"),
        (listed(None, {"5": token("At", 0.5)}), "holds a likelihood that is none"),
        (listed(None, {"5": token("At")}), "do not join to the text"),
    ],
)
def test_prompt_logprobs_that_say_something_else_are_of_no_use(answer: Any, message: str):
    with pytest.raises(UselessError, match=message):
        read_prompt_logprobs(answer, TEXT, leads=True)


@pytest.mark.parametrize(
    ("answer", "leads", "message"),
    [
        ({"choices": [{}]}, False, "holds no tokens with a likelihood each"),
        (echoed("At noon", [None]), False, "holds no tokens with a likelihood each"),
        (echoed(["At", " noon"], [None]), False, "holds no tokens with a likelihood each"),
        (echoed(["At", 7], [None, -1.0]), False, "holds a token that is no text"),
        (
            echoed([" ", "At", " noon"], [None, -1.0, -1.0]),
            True,
            "begins with a space, which is no token of the server's",
        ),
        (echoed(["At", " night"], [None, -1.0]), False, "do not join to the text"),
        (echoed(["At", " noon"], [-1.0, -1.0]), False, "give.* the first token a likelihood, which nothing precedes"),
        (echoed(["At", " noon"], [None, "low"]), False, "holds a likelihood that is none"),
    ],
)
def test_an_echo_that_says_something_else_is_of_no_use(answer: Any, leads: bool, message: str):
    with pytest.raises(UselessError, match=message):
        read_echo(answer, TEXT, leads)
