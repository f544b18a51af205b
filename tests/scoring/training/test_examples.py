"""Examples: a pure function of the position."""

import numpy as np
import pytest

from scoring.refusals import Refused
from scoring.training.examples import Examples, collate, cut_documents, pack_documents
from scoring.training.pretraining import IGNORED
from tests.scoring.families import tiny
from tests.scoring.training.conftest import sentences

ROWS = [np.arange(start, start + 6) for start in range(0, 70, 10)]
MASKS = {"mask_id": 99, "special_ids": [0, 5, 99], "masked_share": 0.3}


def test_each_epoch_has_every_row_once_in_an_order_of_its_own():
    examples = Examples(ROWS, 21, seed=3)
    firsts = [int(examples[position]["input_ids"][0]) for position in range(len(examples))]
    epochs = [firsts[start : start + 7] for start in (0, 7, 14)]
    assert all(sorted(epoch) == [0, 10, 20, 30, 40, 50, 60] for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert firsts != [int(Examples(ROWS, 21, seed=4)[position]["input_ids"][0]) for position in range(21)]


@pytest.mark.parametrize("options", [{}, MASKS])
def test_what_stands_at_a_position_does_not_depend_on_what_was_read_before(options):
    whole, late = Examples(ROWS, 21, 3, **options), Examples(ROWS, 21, 3, **options)
    expected = [whole[position] for position in range(21)][15]
    for name, tensor in late[15].items():
        assert tensor.equal(expected[name])


def test_a_causal_example_predicts_the_next_token():
    example = Examples([np.array([7, 8, 9])], 1, 0)[0]
    assert example["labels"].tolist() == [8, 9, IGNORED]


def test_masks_hide_ordinary_tokens_that_are_to_be_predicted_and_no_others():
    rows = [np.array([0, 11, 12, 13, 14, 5]), np.array([0, 21, 5])]
    examples = Examples(rows, 200, 1, **MASKS)
    counts = set()
    for position in range(200):
        example = examples[position]
        ids, labels = example["input_ids"], example["labels"]
        hidden = ids == 99
        assert ((labels != IGNORED) == hidden).all()
        assert ids[0] == 0
        assert ids[-1] == 5
        original = np.where(hidden, labels, ids).tolist()
        assert original in [row.tolist() for row in rows]
        counts.add((len(ids), int(hidden.sum())))
    assert counts == {(6, 1), (3, 1)}  # 0.3 x 4 rounds to 1; at least 1
    assert len({tuple(examples[position]["labels"].tolist()) for position in range(200)}) == 5


def test_order_and_masks_are_of_streams_that_released_weights_were_made_with():
    order = np.random.default_rng([3, 0, 1]).permutation(len(ROWS))
    firsts = [int(Examples(ROWS, 21, seed=3)[position]["input_ids"][0]) for position in range(7, 14)]
    assert firsts == [10 * place for place in order]
    (row,) = rows = [np.arange(11, 31)]
    places = np.random.default_rng([3, 1, 4]).choice(20, 6, replace=False)
    assert (Examples(rows, 21, seed=3, **MASKS)[4]["labels"].numpy() != IGNORED).tolist() == [
        place in places for place in range(len(row))
    ]


def test_rows_without_an_ordinary_token_are_left_out():
    with pytest.raises(Refused, match="no text has a token to learn from"):
        Examples([np.array([0, 5])], 1, 0, **MASKS)


def test_a_batch_is_filled_up_with_what_is_neither_seen_nor_predicted():
    rows = [np.array([1, 2, 3]), np.array([4, 5])]
    examples = Examples(rows, 2, 0)
    batch = collate(sorted((examples[0], examples[1]), key=lambda example: int(example["input_ids"][0])), padding=50)
    assert batch["input_ids"].tolist() == [[1, 2, 3], [4, 5, 50]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]
    assert batch["labels"].tolist() == [[2, 3, IGNORED], [5, IGNORED, IGNORED]]


def test_causal_rows_are_whole_and_hold_the_documents_end_to_end():
    tokenizer = tiny("GPT-2").tokenizer
    documents = sentences(9, seed=4)
    rows = pack_documents(documents, tokenizer, 32)
    assert {len(row) for row in rows} == {32}
    stream = [
        token
        for document in documents
        for token in [tokenizer.eos_token_id, *tokenizer(document, add_special_tokens=False)["input_ids"]]
    ]
    assert np.concatenate(rows).tolist() == stream[: len(rows) * 32]
    assert len(stream) - len(rows) * 32 < 32


def test_too_little_text_for_a_row_is_refused():
    with pytest.raises(Refused, match="fewer than the 500 of a row; give more, or less context"):
        pack_documents(["The river."], tiny("GPT-2").tokenizer, 500)


def test_masked_rows_have_special_tokens_and_no_part_of_a_document_is_lost():
    tokenizer = tiny("BERT").tokenizer
    documents = sentences(5, seed=5)
    rows = cut_documents(documents, tokenizer, 16)
    assert max(map(len, rows)) == 16
    assert all(row[0] == tokenizer.cls_token_id and row[-1] == tokenizer.sep_token_id for row in rows)
    tokens = [token for row in rows for token in row[1:-1].tolist()]
    assert tokens == [token for text in documents for token in tokenizer(text, add_special_tokens=False)["input_ids"]]
