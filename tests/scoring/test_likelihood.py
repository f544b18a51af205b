"""Token log-likelihoods: exact, whatever the batch, the order and the length."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scoring.language_models import LoadedModel
from scoring.likelihood import LikelihoodSettings, Unscorable, token_log_likelihoods
from scoring.likelihood.batches import token_budget_batches, windows
from tests.scoring.reference import causal_sentence, masked_sentence

SETTINGS = LikelihoodSettings()
SENTENCES = [
    "The river rises in the mountains and flows north to the sea.",
    "She was elected to the council in 1987.",
    "It rained.",
    "Zoë’s café sold crème brûlée — 3,50 € — until “recently”.",
    "An unusually long sentence, with many clauses, each of which adds a little, goes on for a while, and then stops.",
    "emoji 🙂 and 漢字 are rare here",
]


def reference(loaded: LoadedModel, text: str) -> list[float]:
    return (causal_sentence if loaded.architecture.kind == "causal" else masked_sentence)(loaded, text)


def test_every_token_agrees_with_scoring_one_sentence_at_a_time(miniature):
    found = token_log_likelihoods(miniature, SENTENCES, SETTINGS)
    for text, likelihood in zip(SENTENCES, found, strict=True):
        np.testing.assert_allclose(likelihood.tokens, reference(miniature, text), atol=1e-4)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(range(len(SENTENCES))), kept=st.integers(1, len(SENTENCES)))
def test_order_and_company_of_a_text_do_not_change_its_value(miniature, order, kept):
    alone = token_log_likelihoods(miniature, SENTENCES, SETTINGS)
    chosen = list(order)[:kept]
    for index, likelihood in zip(
        chosen, token_log_likelihoods(miniature, [SENTENCES[i] for i in chosen], SETTINGS), strict=True
    ):
        np.testing.assert_allclose(likelihood.tokens, alone[index].tokens, atol=1e-4)


def test_the_same_texts_give_the_same_bits_twice(miniature):
    first, second = (token_log_likelihoods(miniature, SENTENCES, SETTINGS) for _ in range(2))
    assert all(a.tokens.tobytes() == b.tokens.tobytes() for a, b in zip(first, second, strict=True))


def test_identical_texts_are_scored_once(miniature):
    seen = []
    found = token_log_likelihoods(miniature, ["It rained."] * 5, SETTINGS, progress=seen.append)
    assert seen[-1] == 1
    assert len(found) == 5
    assert len({item.tokens.tobytes() for item in found}) == 1


def test_texts_without_a_perplexity_are_reported_with_the_reason(miniature):
    found = token_log_likelihoods(miniature, ["", "It rained."], SETTINGS)
    assert found[0].unscorable is Unscorable.EMPTY
    assert len(found[0].tokens) == 0
    assert found[1].unscorable is None


def test_a_single_token_has_a_pseudo_likelihood_but_no_causal_one(miniature):
    word = next(w for w in ("it", "the", "and") if len(miniature.tokenizer(w, add_special_tokens=False).input_ids) == 1)
    (found,) = token_log_likelihoods(miniature, [word], SETTINGS)
    causal = miniature.architecture.kind == "causal"
    assert found.unscorable is (Unscorable.LONE if causal else None)
    assert len(found.tokens) == (0 if causal else 1)


def test_a_special_token_written_out_in_a_text_is_ordinary_text(miniature):
    special = miniature.tokenizer.all_special_tokens[-1]
    (found,) = token_log_likelihoods(miniature, [f"He wrote {special} on the wall."], SETTINGS)
    assert found.unscorable is None
    assert np.isfinite(found.tokens).all()


def test_a_text_longer_than_the_context_is_scored_in_windows_with_each_token_once(miniature):
    long = " ".join(SENTENCES) * 12
    (found,) = token_log_likelihoods(miniature, [long], SETTINGS)
    ids = miniature.tokenizer(long, add_special_tokens=False, verbose=False).input_ids
    assert found.windows > 1
    assert len(found.tokens) == len(ids) - (miniature.architecture.kind == "causal")
    assert np.isfinite(found.tokens).all()


def test_what_progress_raises_passes_through(miniature):
    class EnoughError(Exception):
        pass

    def stop(_finished: int) -> None:
        raise EnoughError

    with pytest.raises(EnoughError):
        token_log_likelihoods(miniature, SENTENCES, SETTINGS, progress=stop)


@pytest.mark.parametrize("field", ["bos", "variant", "mask_token"])
def test_an_unknown_setting_is_refused_by_name(field):
    with pytest.raises(ValueError, match=field):
        LikelihoodSettings(**{field: "sideways"})


@given(length=st.integers(1, 400), size=st.integers(1, 60), data=st.data())
def test_windows_score_every_token_exactly_once_and_fit(length, size, data):
    stride = data.draw(st.integers(1, size))
    cover = windows(length, size, stride)
    scored = [token for window in cover for token in range(window.scored, window.stop)]
    assert scored == list(range(length))
    assert all(window.start <= window.scored < window.stop <= window.start + size for window in cover)


@given(lengths=st.lists(st.integers(1, 50), max_size=60), budget=st.integers(1, 200))
def test_batches_hold_every_text_once_and_keep_to_the_budget(lengths, budget):
    batches = list(token_budget_batches(lengths, budget))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[index] for index in batch) <= budget
