"""A passage of a text has the likelihoods that its tokens have in the whole text."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.likelihood import LikelihoodSettings, Passage, Unscorable, token_log_likelihoods
from tests.scoring.conftest import SMALLEST, loaded_miniature

TEXT = "The nurse said that she unbelievably cleaned the room, and left."
PREPEND = LikelihoodSettings(bos="prepend")


def likelihoods(kind, *texts, how=PREPEND):
    return [one.tokens for one in token_log_likelihoods(loaded_miniature(SMALLEST[kind]), texts, how)]


@pytest.mark.parametrize("kind", SMALLEST)
@settings(max_examples=15, deadline=None)
@given(bounds=st.lists(st.integers(0, len(TEXT)), min_size=1, max_size=4, unique=True))
def test_passages_that_share_no_word_make_up_the_text(kind, bounds):
    spaces = [place for place, character in enumerate(TEXT) if character == " "]
    cuts = sorted({0, *(min(spaces, key=lambda place: abs(place - bound)) for bound in bounds)})
    # A passage begins at a letter: in some vocabularies a token starts with the space before it.
    starts = [cut + (TEXT[cut] == " ") for cut in cuts]
    passages = [
        Passage(TEXT, start, None if end is None else end - 1)
        for start, end in zip(starts, [*starts[1:], None], strict=True)
    ]
    whole, *parts = likelihoods(kind, TEXT, *passages)
    np.testing.assert_allclose(np.concatenate(parts), whole, atol=1e-4)


@pytest.mark.parametrize("kind", SMALLEST)
def test_a_passage_beyond_the_context_is_scored_once_with_what_stands_before_it(kind):
    loaded = loaded_miniature(SMALLEST[kind])
    start = 5 * 20 * loaded.architecture.context // 20
    text = "word " * (start // 5) + TEXT
    first, last = len(text) - 9, len(text)
    whole, part = likelihoods(kind, text, Passage(text, first, last))
    np.testing.assert_allclose(part, whole[-len(part) :], atol=1e-4)
    assert 1 <= len(part) < 9


@pytest.mark.parametrize("kind", SMALLEST)
def test_the_same_text_with_another_passage_is_another_item(kind):
    first, second = likelihoods(kind, Passage(TEXT, 0, 3), Passage(TEXT, 4, 9))
    assert len(first) != len(second) or not np.allclose(first, second)


def test_a_passage_without_a_token_and_the_first_token_alone_have_none():
    model = loaded_miniature(SMALLEST["causal"])
    how = LikelihoodSettings(bos="none")
    reasons = [one.unscorable for one in token_log_likelihoods(model, [Passage(TEXT, 7, 7), Passage(TEXT, 0, 3)], how)]
    assert reasons == [Unscorable.EMPTY, Unscorable.LONE]


def test_progress_counts_texts_whose_passage_leaves_windows_out():
    counts = []
    model = loaded_miniature(SMALLEST["masked"])
    text = "word " * (2 * model.architecture.context) + TEXT
    list(token_log_likelihoods(model, [Passage(text, len(text) - 5), TEXT], PREPEND, counts.append))
    assert counts[-1] == 2
