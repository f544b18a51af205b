"""What the bundled models learn from: every text of an epoch, in batches of a size, with tokens to predict."""

from itertools import islice

import numpy as np
import torch
from transformers import AutoTokenizer

from scoring.training.pretraining import IGNORED, MASKED_SHARE, masked_batches
from tests.scoring.training.conftest import sentences

TOKENS, CONTEXT = 256, 48


def test_masked_batches_are_of_a_size_and_hide_a_share_of_the_ordinary_tokens(masked_teacher):
    tokenizer = AutoTokenizer.from_pretrained(masked_teacher)
    documents = sentences(400, seed=1)
    batches = list(islice(masked_batches(documents, tokenizer, CONTEXT, TOKENS, seed=3), 60))
    assert all(len(ids) > 1 and TOKENS / 2 < ids.numel() <= TOKENS for ids, _ in batches)
    hidden = torch.cat([(labels != IGNORED).flatten() for _, labels in batches])
    ids, labels = (torch.cat([batch[place].flatten() for batch in batches]) for place in (0, 1))
    assert set(ids[hidden].tolist()) == {tokenizer.mask_token_id}
    original = torch.where(hidden, labels, ids)
    ordinary = original >= len(tokenizer.all_special_ids)
    assert not (hidden & ~ordinary).any()
    share = hidden.sum().item() / ordinary.sum().item()
    assert abs(share - MASKED_SHARE) < 5 * np.sqrt(MASKED_SHARE / ordinary.sum().item())


def test_a_text_comes_again_when_nearly_all_have_come_and_then_beside_others(masked_teacher):
    tokenizer = AutoTokenizer.from_pretrained(masked_teacher)
    documents = sentences(100, seed=2)
    epochs: list[list[set[str]]] = [[]]
    for ids, labels in islice(masked_batches(documents, tokenizer, CONTEXT, TOKENS, seed=3), 60):
        texts = set(tokenizer.batch_decode(torch.where(labels == IGNORED, ids, labels), skip_special_tokens=True))
        assert len(texts) == len(ids)
        if any(texts & batch for batch in epochs[-1]):
            epochs.append([])
        epochs[-1].append(texts)
    whole = epochs[:-1]
    assert len(whole) > 1
    assert all(sum(map(len, epoch)) > 0.9 * len(documents) for epoch in whole)  # what fills no batch is left out
    assert not [batch for batch in whole[0] if batch in whole[1]]
