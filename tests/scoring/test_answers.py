"""What of a chat model's answer counts as its continuation: reasoning, echoes and refusals, by declared rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.evaluation_sets import Prompt
from scoring.generation import Continuation, Finish, answers_table, continuations_table
from scoring.generation.answers import (
    CLOSING,
    OPENING,
    QUOTES,
    UNENDED,
    is_refusal,
    read_answer,
    strip_echo,
    strip_reasoning,
)

TEXT = st.text(st.sampled_from("ab \n\"'.<>/think\u201c\u2019"), max_size=30)
PIECES = st.lists(st.one_of(TEXT, st.sampled_from([OPENING, CLOSING])), max_size=8).map("".join)
LETTERS = st.text(st.characters(categories=["L"]), min_size=1, max_size=12)


@pytest.mark.slow
@given(PIECES)
def test_no_reasoning_is_left_in_an_answer_and_nothing_is_added(raw):
    text, has_reasoning = strip_reasoning(raw)
    assert has_reasoning == (OPENING in raw or CLOSING in raw)
    if text is None:
        assert OPENING in raw.rpartition(CLOSING)[2]
    else:
        assert OPENING not in text
        assert CLOSING not in text
        assert raw.endswith(text)
        assert strip_reasoning(text) == (text, False)


@given(TEXT.filter(lambda text: OPENING not in text and CLOSING not in text), TEXT)
def test_reasoning_before_an_answer_changes_nothing_of_it(answer, thought):
    assert read_answer(f"{OPENING}{thought}{CLOSING}{answer}", "a b").text == read_answer(answer, "a b").text
    assert read_answer(f"{thought}{CLOSING}{answer}", "a b").text == read_answer(answer, "a b").text
    assert read_answer(f"{answer}{OPENING}{thought.replace(CLOSING, '')}", "a b").text is None


@given(PIECES, TEXT)
def test_the_rules_come_to_an_end_and_applying_them_again_changes_nothing(raw, prompt):
    answer = read_answer(raw, prompt)
    if answer.text is not None:
        again = read_answer(answer.text, prompt)
        assert (again.text, again.reasoned, again.echoed) == (answer.text, False, False)
        assert answer.text == answer.text.strip()
        assert answer.text in raw


@pytest.mark.slow
@given(st.lists(LETTERS, min_size=1, max_size=5), st.data())
def test_an_echo_is_found_whatever_the_white_space_and_the_quotation_marks(words, data):
    gaps = st.text(st.sampled_from([" ", "\n", "\t"]), min_size=1, max_size=3)
    quote = data.draw(st.sampled_from(["", *sorted(QUOTES)]))
    echo = quote + data.draw(gaps).join(words) + quote
    rest, has_echo = strip_echo(f"{data.draw(st.sampled_from(['', ' ']))}{echo}, 12 of them", " ".join(words))
    assert (rest, has_echo) == (", 12 of them", True)


@pytest.mark.parametrize(
    ("raw", "prompt", "text", "has_echo"),
    [
        ("She was about to leave.", "She was a", "She was about to leave.", False),
        ("She was a doctor.", "She was a", "doctor.", True),
        ('"She was a" doctor.', "She was a", "doctor.", True),
        ("She was a She was a doctor.", "She was a", "doctor.", True),
        ("she was a doctor.", "She was a", "she was a doctor.", False),
        ("She was a", "She was a", "", True),
        ("She", "She was a", "She", False),
        ("doctor", " '' ", "doctor", False),
        ("I don\u2019t know why", "I don't know", "why", True),
    ],
)
def test_an_echo_is_the_whole_prompt_at_the_beginning(raw, prompt, text, has_echo):
    assert strip_echo(raw, prompt) == (text, has_echo)


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't help with that.",
        "I\u2019m sorry, but I cannot assist with this request.",
        "As an AI language model, I cannot continue this text.",
        '"Sorry, I will not continue writing this."',
        "Unfortunately, I'm unable to complete that sentence.",
        "I can't provide a continuation.",
    ],
)
def test_refusals_are_found_at_the_beginning(text):
    assert is_refusal(text)
    assert read_answer(text, "The gate").text == text.strip()


@pytest.mark.parametrize(
    "text",
    [
        "I can't help but wonder where they went.",
        "I cannot believe it, he said.",
        "and then he said: I'm sorry, but I can't help with that.",
        "sorry for the delay.",
        "",
        "...",
    ],
)
def test_texts_that_go_on_are_no_refusals(text):
    assert not is_refusal(text)


@given(st.text(max_size=500))
def test_any_text_is_read(text):
    assert isinstance(is_refusal(text), bool)
    read_answer(text, text)


def test_the_table_keeps_what_was_said_beside_what_is_scored():
    prompts = [Prompt("a", "The gate"), Prompt("b", "The sea")]
    continuations = [
        [
            Continuation("<think>hm</think>The gate opened.", 9, Finish.STOP),
            Continuation("<think>so", 4, Finish.LENGTH),
        ],
        [Continuation(None, None, None, "no"), Continuation("no comment", 2, Finish.STOP)],
    ]
    table = answers_table(continuations_table(prompts, continuations), prompts, declared_refusals=[3])
    assert table["text"].to_pylist() == ["opened.", None, None, "no comment"]
    assert table["raw"].to_pylist() == ["<think>hm</think>The gate opened.", "<think>so", None, "no comment"]
    assert table["error"].to_pylist() == [None, UNENDED, "no", None]
    assert table["n_tokens"].to_pylist() == [9, 4, None, 2]
    assert table["reasoned"].to_pylist() == [True, True, False, False]
    assert table["echoed"].to_pylist() == [True, False, False, False]
    assert table["refused"].to_pylist() == [False, False, False, True]
