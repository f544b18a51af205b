"""The tokenizers of the miniatures: small letters, every byte or the unknown token, special tokens in their places."""

import pytest

from scoring.training.tokenizers import END_OF_TEXT, train_bpe, train_wordpiece
from tests.scoring.training.conftest import sentences

TEXTS = sentences(60, seed=1)


@pytest.mark.parametrize("train", [train_bpe, train_wordpiece])
def test_large_letters_are_small_ones_and_a_text_comes_back(train):
    tokenizer = train(TEXTS, 600, 64)
    text = "The River flows past two VILLAGES"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert ids == tokenizer(text.lower(), add_special_tokens=False)["input_ids"]
    assert tokenizer.unk_token_id not in ids
    assert tokenizer.decode(ids).strip() == text.lower()
    assert tokenizer.model_max_length == 64


def test_a_word_is_the_same_tokens_wherever_it_stands_and_no_byte_is_unknown():
    tokenizer = train_bpe(TEXTS, 600, 64)
    first, second = (tokenizer(text)["input_ids"] for text in ("river", "the river"))
    assert second[-len(first) :] == first
    assert tokenizer.decode(tokenizer("naïve 🙂")["input_ids"]).strip() == "naïve 🙂"
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.unk_token) == (END_OF_TEXT,) * 3
    assert len(tokenizer.all_special_ids) == 1


def test_a_text_of_a_masked_model_stands_between_two_special_tokens():
    tokenizer = train_wordpiece(TEXTS, 600, 64)
    tokens = tokenizer.convert_ids_to_tokens(tokenizer("the river", "a mill")["input_ids"])
    assert [token for token in tokens if token.startswith("[")] == ["[CLS]", "[SEP]", "[SEP]"]
    assert (tokens[0], tokens[-1]) == ("[CLS]", "[SEP]")
    assert tokenizer("🙂", add_special_tokens=False)["input_ids"] == [tokenizer.unk_token_id]
