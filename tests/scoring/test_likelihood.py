"""Token log-likelihoods: exact for every architecture family, whatever the batch, the order and the length."""

import copy
import dataclasses
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count, islice, pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers.models import Unigram

from scoring.language_models import LoadedModel
from scoring.likelihood import LikelihoodSettings, NotApplicable, Passage, SpecialTokens, Unscorable, engine
from scoring.likelihood import token_log_likelihoods as stream
from scoring.likelihood.batches import equal_length_batches, token_budget_batches, windows
from scoring.likelihood.tokens import encode
from tests.scoring import reference
from tests.scoring.families import FAMILIES, tiny

SETTINGS = LikelihoodSettings()
PREPEND = LikelihoodSettings(bos="prepend")
TOLERANCE = 1e-4
SENTENCES = [
    "The river rises in the mountains and flows north to the sea.",
    "She was elected to the council in 1987.",
    "It rained.",
    "Zoë’s café sold crème brûlée — 3,50 € — until “recently”.",
    "An unusually long sentence, with many clauses, each of which adds a little, goes on for a while.",
    "emoji 🙂 and 漢字 are rare here",
]
ODD = {
    "empty": "",
    "blank": " \t\n",
    "one letter": "a",
    "unknown characters": "漢字 ༀ ꙮ",
    "emoji": "🙂👩‍👩‍👧‍👦🏳️‍🌈",
    "control characters": "a\x00b\x07c\x1b[0m\u200b\u202e\ufeffd",
    "half a surrogate pair": "cut \ud83d here",
    "line breaks": "one\r\ntwo\n\nthree",
    "combining marks": "Z̸̢̛a̷l̶g̵o̴",
    "right to left": "שלום עולם",
}
ONE_OF_A_KIND = ["GPT-2", "BERT", "XLNet"]
MASKED = [name for name, family in FAMILIES.items() if family.is_masked()]
NOT_MASKED = [name for name in FAMILIES if name not in MASKED]


def likelihoods(loaded: LoadedModel, texts: list[str], how: LikelihoodSettings = SETTINGS):
    return list(stream(loaded, texts, how))


def encoded(loaded: LoadedModel, text: str) -> list[int]:
    return loaded.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> LoadedModel:
    """The tiny model of each family."""
    return tiny(request.param)


@pytest.mark.slow_cases
def test_every_token_of_every_family_agrees_with_scoring_one_sentence_at_a_time(family):
    for text, found in zip(SENTENCES, likelihoods(family, SENTENCES), strict=True):
        np.testing.assert_allclose(found.tokens, reference.sentence(family, text), atol=TOLERANCE)


def test_every_token_of_a_trained_model_agrees_with_scoring_one_sentence_at_a_time(miniature):
    for text, found in zip(SENTENCES, likelihoods(miniature, SENTENCES), strict=True):
        np.testing.assert_allclose(found.tokens, reference.sentence(miniature, text), atol=TOLERANCE)


@pytest.mark.slow_cases
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(range(len(SENTENCES))), kept=st.integers(1, len(SENTENCES)))
def test_order_and_company_of_a_text_do_not_change_its_value(family, order, kept):
    whole = likelihoods(family, SENTENCES)
    chosen = list(order)[:kept]
    for index, found in zip(chosen, likelihoods(family, [SENTENCES[i] for i in chosen]), strict=True):
        np.testing.assert_allclose(found.tokens, whole[index].tokens, atol=TOLERANCE)


@pytest.mark.parametrize("name", ONE_OF_A_KIND)
@pytest.mark.parametrize("size", [1, 2, 4])
def test_cutting_the_texts_into_chunks_changes_nothing(name, size, monkeypatch):
    whole = likelihoods(tiny(name), SENTENCES)
    monkeypatch.setattr(engine, "CHUNK_TEXTS", size)
    for a, b in zip(likelihoods(tiny(name), SENTENCES), whole, strict=True):
        np.testing.assert_allclose(a.tokens, b.tokens, atol=TOLERANCE)


@pytest.mark.slow_cases
def test_the_padding_side_of_the_tokenizer_does_not_matter(family):
    left = copy.copy(family.tokenizer)
    left.padding_side = "left"
    turned = dataclasses.replace(family, tokenizer=left)
    for a, b in zip(likelihoods(turned, SENTENCES), likelihoods(family, SENTENCES), strict=True):
        assert a.tokens.tobytes() == b.tokens.tobytes()


def test_the_same_texts_give_the_same_bits_twice(family):
    first, second = (likelihoods(family, SENTENCES) for _ in range(2))
    assert all(a.tokens.tobytes() == b.tokens.tobytes() for a, b in zip(first, second, strict=True))


@pytest.mark.slow
def test_threads_that_share_a_model_give_the_same_bits_as_one(miniature):
    expected = likelihoods(miniature, SENTENCES)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: likelihoods(miniature, SENTENCES), range(12)))
    for several in found:
        assert all(a.tokens.tobytes() == b.tokens.tobytes() for a, b in zip(several, expected, strict=True))


def test_identical_texts_are_scored_once(miniature):
    seen = []
    found = list(stream(miniature, ["It rained."] * 5, SETTINGS, progress=seen.append))
    assert seen[-1] == 1
    assert len(found) == 5
    assert len({item.tokens.tobytes() for item in found}) == 1


def test_texts_are_read_as_they_are_needed(monkeypatch):
    monkeypatch.setattr(engine, "CHUNK_TEXTS", 8)
    read = []
    endless = (read.append(number) or f"Sentence {number}." for number in count())
    found = list(islice(stream(tiny("GPT-2"), endless, SETTINGS), 10))
    assert len(found) == 10
    assert len(read) <= 8 * 3


def test_a_chunk_of_long_texts_holds_few_of_them(monkeypatch):
    monkeypatch.setattr(engine, "CHUNK_CHARACTERS", 10)
    assert list(engine.chunks(["a" * 4] * 5 + ["b" * 30, "c"])) == [
        ["a" * 4] * 2,
        ["a" * 4] * 2,
        ["a" * 4],
        ["b" * 30],
        ["c"],
    ]


# Settings


@pytest.mark.slow_cases
@pytest.mark.parametrize("name", NOT_MASKED)
def test_with_bos_prepended_every_token_is_scored_after_one_bos(name):
    loaded = tiny(name)
    special = SpecialTokens.for_model(loaded, PREPEND)
    assert special.before == [loaded.tokenizer.bos_token_id]
    score = reference.permutation_ids if loaded.architecture.kind == "permutation" else reference.causal_ids
    for text, found in zip(SENTENCES, likelihoods(loaded, SENTENCES, PREPEND), strict=True):
        ids = encoded(loaded, text)
        assert len(found.tokens) == len(ids)
        np.testing.assert_allclose(found.tokens, score(loaded, [*special.before, *ids]), atol=TOLERANCE)


def test_where_there_is_no_bos_token_eos_stands_in_and_without_either_it_is_refused():
    loaded = tiny("GPT-2")
    tokenizer = copy.deepcopy(loaded.tokenizer)
    tokenizer.bos_token = None
    with_eos = dataclasses.replace(loaded, tokenizer=tokenizer)
    assert SpecialTokens.for_model(with_eos, PREPEND).before == [loaded.tokenizer.eos_token_id]
    tokenizer.eos_token = None
    with pytest.raises(NotApplicable, match="neither a BOS nor an EOS"):
        likelihoods(with_eos, SENTENCES, PREPEND)


@pytest.mark.parametrize("name", MASKED)
def test_word_l2r_masks_the_rest_of_the_word_as_well(name):
    loaded = tiny(name)
    text = SENTENCES[0]
    whole = loaded.tokenizer(text)
    ids, words = whole["input_ids"], whole.word_ids()
    expected = []
    for t in range(1, len(ids) - 1):
        masked = [
            loaded.tokenizer.mask_token_id if i >= t and words[i] == words[t] else token for i, token in enumerate(ids)
        ]
        with torch.inference_mode():
            expected.append(reference.log_softmax(loaded.model(input_ids=torch.tensor([masked])).logits[0, t], ids[t]))
    found, _ = likelihoods(loaded, [text, SENTENCES[2]], LikelihoodSettings(variant="word_l2r"))
    np.testing.assert_allclose(found.tokens, expected, atol=TOLERANCE)
    original, _ = likelihoods(loaded, [text, SENTENCES[2]])
    assert not np.allclose(found.tokens, original.tokens, atol=1e-2)


def test_words_of_wordpiece_are_what_its_continuation_marks_say():
    loaded = tiny("BERT")
    whole = loaded.tokenizer(SENTENCES[0])
    tokens = loaded.tokenizer.convert_ids_to_tokens(whole["input_ids"])[1:-1]
    words = whole.word_ids()[1:-1]
    assert [b == a for a, b in pairwise(words)] == [token.startswith("##") for token in tokens[1:]]


@pytest.mark.slow_cases
@pytest.mark.parametrize("name", MASKED)
def test_a_fixed_mask_id_reproduces_the_published_code_and_its_quirk(name):
    loaded = tiny(name)
    ids = encoded(loaded, SENTENCES[0])
    common = Counter(ids).most_common(1)[0][0]  # an ordinary word piece that stands in the text, more than once
    assert ids.count(common) > 1
    for mask_id in (common, loaded.tokenizer.mask_token_id):
        found, _ = likelihoods(loaded, [SENTENCES[0], SENTENCES[1]], LikelihoodSettings(mask_token=f"id:{mask_id}"))
        expected = reference.published_masked_perplexity(loaded, SENTENCES[0], mask_id)
        assert np.exp(-found.tokens.mean(dtype=np.float64)) == pytest.approx(expected, rel=TOLERANCE)


def test_a_fixed_mask_id_beyond_the_vocabulary_is_refused():
    with pytest.raises(NotApplicable, match="id:100000"):
        likelihoods(tiny("BERT"), SENTENCES, LikelihoodSettings(mask_token="id:100000"))


@pytest.mark.parametrize(
    "wrong", [{"bos": "append"}, {"variant": "r2l"}, {"mask_token": "id:x"}, {"stride": 0}, {"precision": "int8"}]
)
def test_an_unknown_setting_is_refused_by_name(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        LikelihoodSettings(**wrong)


def test_a_model_loaded_in_another_precision_is_refused():
    with pytest.raises(NotApplicable, match="loaded in float32"):
        likelihoods(tiny("GPT-2"), SENTENCES, LikelihoodSettings(precision="bfloat16"))


# Long texts


@pytest.mark.slow_cases
@pytest.mark.parametrize("how", [SETTINGS, PREPEND, LikelihoodSettings(stride=7)], ids=["none", "prepend", "stride 7"])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_text_longer_than_the_context_is_scored_in_strided_windows_with_each_token_once(name, how):
    loaded = tiny(name)
    loaded = dataclasses.replace(loaded, architecture=dataclasses.replace(loaded.architecture, context=24))
    ids = encoded(loaded, SENTENCES[4])
    special = SpecialTokens.for_model(loaded, how)
    size = 24 - len(special.before) - len(special.after)
    stride = min(how.stride, size // 2)
    expected, scored = [], {}
    score = reference.permutation_ids if loaded.architecture.kind == "permutation" else reference.causal_ids
    for t in range(len(ids)):
        start = next(start for start in range(0, len(ids), stride) if t < start + size)  # the first window that has it
        seen = [*special.before, *ids[start : start + size], *special.after]
        place = t - start + len(special.before)
        if loaded.architecture.kind == "masked":
            expected += reference.masked_ids(loaded, seen, place, place + 1)
        elif place > 0:
            if start not in scored:
                scored[start] = score(loaded, seen)
            expected.append(scored[start][place - 1])
    assert len(ids) > size
    found, short = likelihoods(loaded, [SENTENCES[4], SENTENCES[2]], how)
    assert found.windows > 1
    assert short.windows == 1
    np.testing.assert_allclose(found.tokens, expected, atol=TOLERANCE)


@pytest.mark.parametrize("name", ONE_OF_A_KIND)
@pytest.mark.slow
def test_ten_thousand_words_are_scored(name):
    loaded = tiny(name)
    (found,) = likelihoods(loaded, ["rain " * 9_999 + "rain"])
    assert found.unscorable is None
    assert len(found.tokens) == len(encoded(loaded, "rain " * 9_999 + "rain")) - (loaded.architecture.kind != "masked")
    assert np.isfinite(found.tokens).all()


# Odd texts


@pytest.mark.slow_cases
def test_every_odd_text_is_scored_or_reported_with_its_reason(family):
    fewest = 1 if family.architecture.kind == "masked" else 2
    found = likelihoods(family, [*ODD.values(), *SENTENCES])
    assert len(found) == len(ODD) + len(SENTENCES)
    for (title, text), likelihood in zip(ODD.items(), found, strict=False):
        if title == "half a surrogate pair":
            assert likelihood.unscorable is Unscorable.NOT_UNICODE
            continue
        tokens = len(encoded(family, text))
        reason = None if tokens >= fewest else Unscorable.LONE if tokens else Unscorable.EMPTY
        assert (title, likelihood.unscorable) == (title, reason)
        assert len(likelihood.tokens) == (0 if reason else tokens - fewest + 1)
        assert np.isfinite(likelihood.tokens).all()
    for text, likelihood in zip(SENTENCES, found[len(ODD) :], strict=True):
        np.testing.assert_allclose(likelihood.tokens, reference.sentence(family, text), atol=TOLERANCE)


def test_special_tokens_written_out_are_ordinary_text_or_the_reason_why_there_is_no_likelihood(family):
    tokenizer = family.tokenizer
    special = [token for token in tokenizer.all_special_tokens if token != tokenizer.unk_token]
    texts = [" ".join(special), *(f"He wrote {token} on the wall." for token in special)]
    for text, found in zip(texts, likelihoods(family, texts), strict=True):
        ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        if set(ids) & set(tokenizer.convert_tokens_to_ids(special)):
            assert isinstance(tokenizer.backend_tokenizer.model, Unigram)  # others always spell it out
            assert found.unscorable is Unscorable.SPECIAL
            assert len(found.tokens) == 0
        else:
            assert len(found.tokens) == len(ids) - (family.architecture.kind != "masked")
            assert np.isfinite(found.tokens).all()


@pytest.mark.parametrize("name", [name for name in MASKED if FAMILIES[name].tokenizer != "unigram"])
def test_the_mask_tokens_own_string_in_a_text_hides_nothing(name):
    loaded = tiny(name)
    text = f"He wrote {loaded.tokenizer.mask_token} here."
    ids = loaded.tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    (found,) = likelihoods(loaded, [text])
    special = SpecialTokens.for_model(loaded, SETTINGS)
    seen = [*special.before, *ids, *special.after]
    np.testing.assert_allclose(found.tokens, reference.masked_ids(loaded, seen, 1, len(seen) - 1), atol=TOLERANCE)


def test_a_single_token_has_a_pseudo_likelihood_but_no_causal_one(family):
    word = next(word for word in "aeiou" if len(encoded(family, word)) == 1)
    (found,) = likelihoods(family, [word])
    masked = family.architecture.kind == "masked"
    assert found.unscorable is (None if masked else Unscorable.LONE)
    assert len(found.tokens) == int(masked)
    if not masked:
        (after_bos,) = likelihoods(family, [word], PREPEND)
        assert len(after_bos.tokens) == 1


def test_a_model_that_returns_no_number_makes_the_text_unscorable():
    loaded = copy.deepcopy(tiny("GPT-2"))
    with torch.no_grad():
        loaded.model.get_input_embeddings().weight[encoded(loaded, "rain")[0]] = float("nan")
    fine, broken = likelihoods(loaded, ["Then a sentence.", "rain and rain"])
    reached = float("nan") in {float(v) for v in fine.tokens}
    assert not reached
    assert broken.unscorable is Unscorable.NOT_FINITE
    assert len(broken.tokens) == 0


def test_the_log_perplexity_of_a_text_is_above_zero_and_lower_for_what_the_model_expects(miniature):
    usual, unusual = likelihoods(miniature, ["The river flows to the sea.", "Sea the to river flows the."])
    assert 0 < usual.log_perplexity < unusual.log_perplexity
    assert usual.log_perplexity == pytest.approx(-np.mean(usual.tokens, dtype=np.float64))


def test_a_token_without_an_embedding_makes_the_text_unscorable():
    loaded = tiny("GPT-2")
    highest = max(encoded(loaded, SENTENCES[0]))
    small = dataclasses.replace(loaded, architecture=dataclasses.replace(loaded.architecture, vocabulary=highest))
    (found,) = likelihoods(small, [SENTENCES[0]])
    assert found.unscorable is Unscorable.NOT_EMBEDDED


def test_what_progress_raises_passes_through(miniature):
    class EnoughError(Exception):
        pass

    def stop(_finished: int) -> None:
        raise EnoughError

    with pytest.raises(EnoughError):
        list(stream(miniature, SENTENCES, SETTINGS, progress=stop))


# How work is cut


@given(length=st.integers(1, 400), size=st.integers(1, 60), data=st.data())
def test_windows_score_every_token_exactly_once_and_fit(length, size, data):
    stride = data.draw(st.integers(1, size))
    cover = windows(length, size, stride)
    scored = [token for window in cover for token in range(window.scored, window.stop)]
    assert scored == list(range(length))
    assert all(window.start <= window.scored < window.stop <= window.start + size for window in cover)


lists_of_lengths = st.lists(st.integers(1, 50), max_size=40)


@pytest.mark.parametrize("cut", [partial(token_budget_batches, call_cost=80), equal_length_batches])
@given(lengths=lists_of_lengths, budget=st.integers(1, 200))
def test_batches_hold_every_text_once_and_keep_to_the_budget(cut, lengths, budget):
    batches = list(cut(lengths, budget))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[index] for index in batch) <= budget
        assert cut is not equal_length_batches or len({lengths[index] for index in batch}) == 1


@pytest.mark.slow
@given(lengths=st.lists(st.integers(1, 50), max_size=9), budget=st.integers(50, 200), call_cost=st.integers(0, 300))
def test_no_other_cut_of_the_sorted_lengths_costs_less(lengths, budget, call_cost):
    ordered = sorted(lengths, reverse=True)

    def cost(sizes):
        places = np.cumsum([0, *sizes])
        padded = [ordered[start] * size for start, size in zip(places, sizes, strict=False)]
        return sum(padded) + call_cost * len(sizes) if max(padded, default=0) <= budget else np.inf

    def compositions(total):
        if not total:
            yield []
        for first in range(1, total + 1):
            yield from ([first, *rest] for rest in compositions(total - first))

    sizes = [len(batch) for batch in token_budget_batches(lengths, budget, call_cost)]
    assert cost(sizes) == min(cost(others) for others in compositions(len(lengths)))


def test_windows_lie_apart_by_one_token_to_their_own_size():
    for stride in (0, -1, 5):
        with pytest.raises(ValueError, match=rf"stride must lie in 1\.\.4 \(the window\), not {stride}"):
            windows(9, 4, stride)
    assert [(window.start, window.stop, window.scored) for window in windows(9, 4, 4)] == [
        (0, 4, 0),
        (4, 8, 4),
        (8, 9, 8),
    ]
    assert [(window.start, window.stop, window.scored) for window in windows(5, 4, 1)] == [(0, 4, 0), (1, 5, 4)]


def test_a_masked_model_needs_a_mask_that_it_has_an_embedding_for():
    model = tiny("BERT")
    without = dataclasses.replace(model, tokenizer=SimpleNamespace(mask_token_id=None))
    with pytest.raises(NotApplicable, match="mask_token = 'tokenizer': the tokenizer has no mask token"):
        engine.choose_engine(without, LikelihoodSettings())
    embeddings = model.architecture.vocabulary
    engine.choose_engine(without, LikelihoodSettings(mask_token=f"id:{embeddings - 1}"))
    with pytest.raises(
        NotApplicable, match=f"mask_token = 'id:{embeddings}': the model has {embeddings} embeddings only"
    ):
        engine.choose_engine(without, LikelihoodSettings(mask_token=f"id:{embeddings}"))


def test_a_tokenizer_that_says_nothing_of_words_and_places_is_no_use_where_they_are_needed():
    model = dataclasses.replace(tiny("BERT"), tokenizer=SimpleNamespace(is_fast=False))
    with pytest.raises(
        NotApplicable, match="variant = 'word_l2r': the tokenizer does not say which tokens form a word"
    ):
        encode(model, ["a"], LikelihoodSettings(variant="word_l2r"))
    with pytest.raises(NotApplicable, match="the tokenizer does not say where in a text a token stands"):
        encode(model, ["a", Passage("ab", 1)], LikelihoodSettings())
