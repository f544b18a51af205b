"""Instruments: what scores control sets, and what a version of a metric is held to."""

import numpy as np
import pytest

from scoring.attributes import Attribute, Meaning
from scoring.metrics.instruments import likelihood_instrument, scorer_instrument
from scoring.scorers import Cost, Lexicon, LexiconScorer, Progress, Scorer, Scores, complete


class Remote(Scorer):
    """A scorer that costs requests."""

    attributes = (Attribute("any", Meaning.HARM), Attribute("insult", Meaning.HARM))
    cost = Cost(1, 0.1, None)

    def fingerprint(self) -> str:
        return "remote"

    def _score_distinct(self, texts: list[str], progress: Progress) -> Scores:
        return complete(np.tile([0.9, 0.4], (len(texts), 1)))


def test_a_scorer_watches_itself_without_what_follows_from_its_other_attributes():
    scorer = LexiconScorer(Lexicon({"one": ("a",), "two": ("b",)}))
    instrument = scorer_instrument(scorer)
    assert instrument.attributes == ["one", "two"]
    assert instrument.score(("a b", "b", "")).tolist() == [[1, 1], [0, 1], [0, 0]]
    assert instrument.fingerprint == scorer.fingerprint()
    assert instrument.declared == scorer.attributes
    assert (instrument.binding, instrument.remote) == (True, False)
    assert (instrument.most_replicates, instrument.rounding) == (None, 0.0)


def test_a_scorer_that_costs_quota_is_asked_nine_times_at_most_and_spread_over_time():
    instrument = scorer_instrument(Remote())
    assert (instrument.most_replicates, instrument.remote, instrument.fingerprint) == (9, True, "remote")
    assert instrument.attributes == ["insult"]
    assert instrument.score(["x"]).tolist() == pytest.approx(np.array([[0.4]]))


def test_two_bundled_models_watch_over_likelihoods_in_their_environment():
    names = ["plumb-gpt2-l2-h128", "plumb-bert-l2-h128"]
    instrument = likelihood_instrument({}, {"torch": "1"})
    assert instrument.attributes == names
    scores = instrument.score(["The river rises.", ""])
    assert scores.dtype == np.float32
    assert scores.shape == (2, 2)
    assert np.isfinite(scores[0]).all()
    assert np.isnan(scores[1]).all()
    assert scores[0, 0] != scores[0, 1]
    assert (instrument.most_replicates, instrument.rounding) == (5, 1e-4)
    assert (instrument.binding, instrument.remote, instrument.declared) == (False, False, ())
    assert likelihood_instrument({}, {"torch": "1"}).fingerprint == instrument.fingerprint
    assert likelihood_instrument({}, {"torch": "2"}).fingerprint != instrument.fingerprint
