"""What all scorers have in common, their names, and the packaged profanity model."""

import numpy as np
import profanity_check
import pytest

from scoring.attributes import Attribute, Meaning
from scoring.scorers import (
    SCORERS,
    Scorer,
    ScorerState,
    ScorerUnavailable,
    Scores,
    ServiceAccess,
    UnknownScorer,
    example,
    get_scorer,
)
from scoring.scorers.base import NO_CHARACTER, Progress, fingerprint_of
from scoring.scorers.registry import DETOXIFY_VARIANTS

TEXTS = ["a pleasant day", "shut up, you idiot", "", "ein schöner Tag 😀", "a pleasant day"]


class Lengths(Scorer):
    """Scores the first ten characters; texts of digits are refused."""

    attributes = (Attribute("length", Meaning.NEUTRAL), Attribute("half", Meaning.HARM))

    def __init__(self) -> None:
        self.asked: list[str] = []

    def fingerprint(self) -> str:
        return fingerprint_of(scorer="lengths")

    def _score_distinct(self, texts: list[str], progress: Progress) -> Scores:
        self.asked += texts
        lengths = np.array([np.nan if text.isdigit() else min(len(text), 10) / 10 for text in texts], dtype=np.float32)
        reasons = tuple("digits" if text.isdigit() else None for text in texts)
        progress(len(texts))
        return Scores(np.stack([lengths, lengths / 2], axis=1), reasons, np.array([len(text) > 10 for text in texts]))


def test_each_text_gets_its_own_row_although_identical_ones_are_scored_once():
    scorer = Lengths()
    found = scorer.score(["abc", "12", "x" * 11, "abc", "12", "\ud800", "abc"])
    assert scorer.asked == ["abc", "12", "x" * 11]
    expected = [0.3, np.nan, 1.0, 0.3, np.nan, np.nan, 0.3]
    np.testing.assert_allclose(found.values, np.array([expected, np.array(expected) / 2]).T, rtol=1e-6)
    assert found.values.dtype == np.float32
    assert found.reasons == (None, "digits", None, None, "digits", NO_CHARACTER, None)
    assert found.truncated.tolist() == [False, False, True, False, False, False, False]
    assert (found.truncated_count, found.unscored_count) == (1, 3)


@pytest.mark.parametrize("texts", [[], ["\udfff"]])
def test_where_nothing_can_be_scored_the_scorer_is_not_asked(texts):
    scorer = Lengths()
    found = scorer.score(texts)
    assert scorer.asked == []
    assert found.values.shape == (len(texts), 2)
    assert np.isnan(found.values).all()


def test_scores_are_whole_or_have_a_reason():
    values, whole = np.array([[0.5], [np.nan]], dtype=np.float32), np.zeros(2, dtype=bool)
    assert Scores(values, (None, "why"), whole).unscored_count == 1
    with pytest.raises(FloatingPointError, match="not a number"):
        Scores(values, (None, None), whole)
    with pytest.raises(ValueError, match="has a score"):
        Scores(values, ("why", "why"), whole)
    with pytest.raises(ValueError, match="shapes"):
        Scores(values, (None,), whole)


def test_a_fingerprint_depends_on_every_part_and_not_on_their_order():
    assert fingerprint_of(a=1, b=[2]) == fingerprint_of(b=[2], a=1)
    assert len({fingerprint_of(a=1), fingerprint_of(a="1"), fingerprint_of(b=1), fingerprint_of()}) == 4
    assert len(fingerprint_of()) == 64


@pytest.mark.parametrize("name", ["toxicity", "detoxify", "detoxify-", "classifier:", "lexicon", "profanity:x", ""])
def test_an_unknown_name_lists_those_there_are(name):
    with pytest.raises(UnknownScorer) as caught:
        get_scorer(name)
    for declared in SCORERS:
        assert declared.name in str(caught.value)


def test_a_scorer_that_sends_texts_elsewhere_says_so_and_no_other_does():
    remote = {declared.name for declared in SCORERS if declared.remote}
    assert {"perspective"} <= remote
    assert remote.isdisjoint(["profanity", "lexicon:NAME", *(f"detoxify-{name}" for name in DETOXIFY_VARIANTS)])
    assert not [declared.name for declared in example.SCORERS if declared.remote]


def test_what_cannot_be_had_has_a_state_and_says_what_to_do():
    with pytest.raises(ScorerUnavailable) as caught:
        get_scorer("perspective", access=ServiceAccess(url="https://example.org"))
    assert caught.value.state is ScorerState.UNAVAILABLE
    assert "set PERSPECTIVE_API_KEY" in str(caught.value)


def test_profanity_is_the_packaged_models_probability():
    scorer = get_scorer("profanity")
    seen: list[int] = []
    found = scorer.score(TEXTS, seen.append)
    assert scorer.attributes == (Attribute("profanity", Meaning.HARM),)
    np.testing.assert_allclose(found.values[:, 0], profanity_check.predict_prob(TEXTS), atol=1e-6)
    assert found.values[1, 0] > 0.5 > found.values[0, 0]
    assert seen == [4]


def test_profanity_does_not_depend_on_what_is_scored_together():
    scorer = get_scorer("profanity")
    alone = [scorer.score([text]).values[0, 0] for text in TEXTS]
    np.testing.assert_allclose(scorer.score(TEXTS).values[:, 0], alone, atol=1e-7)


def test_the_fingerprint_of_profanity_is_the_same_each_time():
    assert get_scorer("profanity").fingerprint() == get_scorer("profanity").fingerprint()


def test_a_scorer_that_does_not_say_what_its_scores_mean_is_refused(monkeypatch):
    monkeypatch.setattr(Lengths, "attributes", ("length",))
    with pytest.raises(TypeError, match=r"nothing is declared of 'length'; declare Attribute"):
        Lengths().score(["a"])
