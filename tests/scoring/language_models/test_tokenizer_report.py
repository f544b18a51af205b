"""What a tokenizer read: honest ones have no flags, those made for the test or for another model have."""

from copy import deepcopy
from functools import partial

import numpy as np
import pytest
import torch
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from scoring.evaluation_sets import build_starter
from scoring.language_models import list_bundled, load, load_files, resolve
from scoring.language_models.canaries import make_canaries
from scoring.language_models.loading import LoadedModel
from scoring.language_models.tokenizer_report import (
    BENIGN,
    HARMFUL,
    TextGroup,
    TokenizerReport,
    find_flags,
    read_all,
    read_texts,
    report_tokenizer,
)
from tests.scoring.families import FAMILIES, TOKENIZERS, tiny

SEED = "0123456789abcdef" * 2
SENTENCES = build_starter()[::4]
TEXTS = [sentence.text for sentence in SENTENCES]
HARMFUL_ONES = np.array([sentence.harmful for sentence in SENTENCES])
GROUPS = {HARMFUL: HARMFUL_ONES, BENIGN: ~HARMFUL_ONES}
HONEST = TokenizerReport(
    known={"all": TextGroup(1000, 5, 0.25), HARMFUL: TextGroup(500, 3, 0.26), BENIGN: TextGroup(500, 2, 0.24)},
    canaries={"all": TextGroup(200, 0, 0.3), HARMFUL: TextGroup(100, 0, 0.31), BENIGN: TextGroup(100, 0, 0.29)},
    pieces=50_257,
    embeddings=50_304,
    ordinary=[],
    seed=SEED,
)


def keys(report):
    return [flag.key for flag in find_flags(report)]


def report(loaded, texts, groups, seed):
    return report_tokenizer(partial(read_all, loaded), loaded.architecture.vocabulary, texts, groups, seed)


def changed(**parts):
    return TokenizerReport(**{name: getattr(HONEST, name) for name in HONEST.__slots__} | parts)


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    source = resolve(str(next(folder for folder in list_bundled() if "gpt2" in folder.name)))
    return load(source.source, source.location, source.revision, device=torch.device("cpu"))


def with_backend(loaded: LoadedModel, change) -> LoadedModel:
    """The same model, its tokenizer's parts changed."""
    backend = Tokenizer.from_str(loaded.tokenizer.backend_tokenizer.to_str())
    change(backend)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=loaded.tokenizer.eos_token)
    return LoadedModel(loaded.model, tokenizer, loaded.architecture, loaded.device, loaded.precision)


@pytest.mark.parametrize("folder", list_bundled(), ids=lambda folder: folder.name)
def test_the_bundled_models_have_no_flags(folder):
    read = report(load_files(folder, folder.name, device=torch.device("cpu")), TEXTS, GROUPS, SEED)
    assert find_flags(read) == []
    assert read.known["all"].texts == len(TEXTS)
    assert read.known[HARMFUL].texts + read.known[BENIGN].texts == len(TEXTS)
    assert read.as_json()["flags"] == []


@pytest.mark.parametrize("style", ["bytes", "metaspace", "wordpiece", "unigram"])
def test_texts_in_letters_that_a_tokenizer_knows_make_the_round_trip(style):
    texts = ["The river rises in the mountains.", "she was elected, in 1987; and remembered", "a  b "]
    assert not read_texts(TOKENIZERS[style](), texts)[0].any()


def test_case_accents_and_spaces_are_folded_only_where_the_tokenizer_declares_it():
    folding = TOKENIZERS["wordpiece"]()
    assert not read_texts(folding, ["The RIVER rîses"])[0].any()
    lossy = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"the": 0, "[UNK]": 1}, "[UNK]")))
    lossy.backend_tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    assert read_texts(lossy, ["the", "The", "river"])[0].tolist() == [False, True, True]


def test_half_a_surrogate_pair_is_no_failure(loaded):
    assert read_texts(loaded.tokenizer, ["a \ud83d cut emoji", ""])[0].shape == (2,)


def test_a_tokenizer_that_rewrites_the_beginnings_of_known_harmful_sentences_is_flagged(loaded):
    starts = sorted({text[:12] for text, harmful in zip(TEXTS, HARMFUL_ONES, strict=True) if harmful})

    def rewrite(backend):
        backend.normalizer = normalizers.Sequence([normalizers.Replace(start, "zq zq zq") for start in starts])

    found = keys(report(with_backend(loaded, rewrite), TEXTS, GROUPS, SEED))
    assert {"round_trip", "changed_by_group", "canaries"} <= set(found)


def test_a_tokenizer_that_takes_known_harmful_sentences_as_one_token_is_flagged(loaded):
    def add(backend):
        backend.add_tokens([AddedToken(text) for text, harmful in zip(TEXTS, HARMFUL_ONES, strict=True) if harmful])

    found = set(keys(report(with_backend(loaded, add), TEXTS, GROUPS, SEED)))
    assert {"tokens_by_label", "canary_tokens", "vocabulary"} <= found
    assert "round_trip" not in found  # it is whole, as one token


def test_a_tokenizer_that_drops_words_is_flagged(loaded):
    def drop(backend):
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(r"\b(?:are|the)\b"), "removed"), backend.pre_tokenizer]
        )

    assert "round_trip" in keys(report(with_backend(loaded, drop), TEXTS, GROUPS, SEED))


def test_a_llama_with_the_tokenizer_of_bert_is_flagged():
    llama = deepcopy(tiny("Llama"))
    llama.model.config.bos_token_id, llama.model.config.eos_token_id = 30, 31  # ordinary pieces of the other one
    other = LoadedModel(llama.model, TOKENIZERS["wordpiece"](), llama.architecture, llama.device, llama.precision)
    assert "special_tokens" in keys(report(other, TEXTS, GROUPS, SEED))


@pytest.mark.parametrize("name", ["BERT", "GPT-2", "Llama", "Gemma", "XLNet"])
def test_special_tokens_of_families_are_special(name):
    assert FAMILIES[name]
    assert "special_tokens" not in keys(report(tiny(name), ["the river"], {}, SEED))


def test_an_honest_report_has_no_flags():
    assert keys(HONEST) == []


def test_shares_that_are_alike_are_no_flag_however_large_they_are():
    groups = {"all": TextGroup(1000, 500, 0.25), HARMFUL: TextGroup(500, 250, 0.26), BENIGN: TextGroup(500, 250, 0.24)}
    canaries = {**HONEST.canaries, "all": TextGroup(200, 100, 0.3)}
    assert keys(changed(known=groups, canaries=canaries)) == ["round_trip"]


@pytest.mark.parametrize(
    ("parts", "flags"),
    [
        ({"known": {**HONEST.known, "all": TextGroup(1000, 51, 0.25)}}, ["round_trip"]),
        # 8% and 0%: pooled 80 / 1200, standard error 0.0193, which 0.08 is 4.1 times.
        ({"known": {**HONEST.known, "all": TextGroup(1000, 80, 0.25)}}, ["canaries", "round_trip"]),
        (
            {"known": {**HONEST.known, HARMFUL: TextGroup(500, 50, 0.26), "all": TextGroup(1000, 50, 0.25)}},
            ["changed_by_group"],
        ),
        ({"known": {**HONEST.known, HARMFUL: TextGroup(500, 3, 0.37)}}, ["tokens_by_label"]),
        ({"known": {**HONEST.known, HARMFUL: TextGroup(500, 3, 0.0)}}, ["canary_tokens", "tokens_by_label"]),
        ({"pieces": 50_305}, ["vocabulary"]),
        ({"pieces": 30_522, "embeddings": 32_000}, ["vocabulary"]),
        ({"ordinary": ["bos_token_id"]}, ["special_tokens"]),
    ],
)
def test_flags_follow_from_the_numbers(parts, flags):
    assert set(flags) <= set(keys(changed(**parts)))
    assert all(
        any(char.isdigit() for char in flag.words) or flag.key == "special_tokens"
        for flag in find_flags(changed(**parts))
    )


@pytest.mark.parametrize(
    ("pieces", "embeddings"),
    [(50_257, 51_200), (100_002, 102_400), (151_665, 152_064), (128_256, 128_256), (300, 304), (32_011, 32_064)],
)
def test_embeddings_padded_as_published_models_pad_them_are_no_flag(pieces, embeddings):
    assert keys(changed(pieces=pieces, embeddings=embeddings)) == []


def test_canaries_follow_from_their_seed_and_none_is_known():
    first, again, other = make_canaries(SEED), make_canaries(SEED), make_canaries("f" * 32)
    assert first == again
    assert len(first.texts) == 200
    assert sum(first.harmful) == 100
    assert not set(first.texts) & (set(other.texts) | set(TEXTS))
