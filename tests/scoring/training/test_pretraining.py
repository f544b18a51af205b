"""What the bundled models learn from: every text of an epoch, in batches of a size, with tokens to predict."""

import copy
import re
from itertools import islice

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import AutoTokenizer

from scoring.training.pretraining import (
    IGNORED,
    MASKED_SHARE,
    causal_batches,
    learning_rate,
    masked_batches,
    prediction_loss,
    pretrain,
)
from tests.scoring.families import tiny
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


def test_causal_batches_hold_the_texts_of_an_epoch_end_to_end_each_after_an_end_of_text(causal_teacher):
    tokenizer = AutoTokenizer.from_pretrained(causal_teacher)
    documents = sentences(20, seed=1)
    rows = [[tokenizer.eos_token_id, *ids] for ids in tokenizer(documents, add_special_tokens=False)["input_ids"]]
    whole = sum(map(len, rows)) // (4 * 32)  # batches that an epoch fills
    epochs = list(islice(causal_batches(documents, tokenizer, 32, 4 * 32 + 5, seed=3), 2 * whole))
    assert {tuple(ids.shape) for ids, _ in epochs} == {(4, 32)}
    for ids, labels in epochs:
        assert torch.equal(labels[:, :-1], ids[:, 1:])
        assert (labels[:, -1] == IGNORED).all()
    generator = np.random.default_rng(3)
    for epoch in (epochs[:whole], epochs[whole:]):
        order = generator.permutation(20)
        stream = [token for place in order for token in rows[place]]
        assert torch.cat([ids.flatten() for ids, _ in epoch]).tolist() == stream[: whole * 4 * 32]


def test_the_first_ordinary_token_of_a_vocabulary_is_hidden_too(masked_teacher):
    tokenizer = AutoTokenizer.from_pretrained(masked_teacher)
    first = len(tokenizer.all_special_ids)
    text = " ".join([tokenizer.convert_ids_to_tokens(first)] * 8)
    ids, labels = next(masked_batches([text] * 20, tokenizer, CONTEXT, 40, seed=3))
    assert set(labels.unique().tolist()) == {IGNORED, first}
    assert set(ids.unique().tolist()) == {
        *tokenizer("", add_special_tokens=True)["input_ids"],
        first,
        tokenizer.mask_token_id,
    }


def test_a_text_longer_than_the_context_is_cut_there(masked_teacher):
    tokenizer = AutoTokenizer.from_pretrained(masked_teacher)
    ids, _ = next(masked_batches(sentences(40, seed=1), tokenizer, 16, 64, seed=3))
    assert tuple(ids.shape) == (4, 16)


@pytest.mark.parametrize("name", ["GPT-2", "BERT"])
@torch.no_grad()
def test_the_loss_is_the_cross_entropy_of_the_tokens_that_are_to_be_predicted(name):
    loaded = tiny(name)
    padding = loaded.tokenizer.pad_token_id if name == "BERT" else None
    texts = loaded.tokenizer(sentences(2, seed=1), padding=True, return_tensors="pt")
    ids = texts["input_ids"]
    labels = torch.where(torch.arange(ids.shape[1]) % 3 == 1, ids.roll(-1, 1), IGNORED)
    mask = texts["attention_mask"] if name == "BERT" else torch.ones_like(ids)
    logits = loaded.model(input_ids=ids, attention_mask=mask).logits
    expected = cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
    assert prediction_loss(loaded.model, ids, labels, padding).item() == pytest.approx(expected.item(), rel=1e-5)


def test_the_rate_rises_over_six_hundredths_of_the_steps_and_falls_by_a_cosine_to_a_twentieth():
    factors = [learning_rate(step, 100) for step in range(101)]
    assert factors[:7] == pytest.approx([1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6, 1, 1])
    assert factors[53] == pytest.approx(0.525)  # halfway
    assert factors[29] == pytest.approx(0.05 + 0.95 * (1 + np.cos(np.pi * 23 / 94)) / 2)
    assert factors[100] == pytest.approx(0.05)
    assert [learning_rate(step, 4) for step in range(4)] == pytest.approx([1, 1, 0.7625, 0.2875])
    assert [learning_rate(step, 1) for step in range(2)] == [1, 1]


def learn(model, rate: float) -> list[str]:
    """What a training of 20 steps on one batch reports."""
    ids = torch.arange(5, 37)[None]
    lines: list[str] = []
    pretrain(
        model, iter([(ids, ids.roll(-1, 1))] * 20), steps=20, peak_rate=rate, padding=None,
        device=torch.device("cpu"), title="tiny", report=lines.append,
    )  # fmt: skip
    return lines


def test_training_reports_ten_times_a_loss_that_falls_and_leaves_a_model_that_answers():
    model = copy.deepcopy(tiny("GPT-2").model)
    lines = learn(model, 1e-3)
    assert [line.partition(", ")[0] for line in lines] == [f"tiny: step {step}/20" for step in range(2, 21, 2)]
    losses = [float(re.fullmatch(r".*, loss (\d+\.\d{3}) nats a token", line).group(1)) for line in lines]
    assert losses == sorted(losses, reverse=True)
    assert 0 < losses[-1] < losses[0] < 12
    assert not model.training


def test_the_reported_loss_follows_the_last_ones_slowly():
    model = copy.deepcopy(tiny("GPT-2").model).eval()
    ids = torch.arange(5, 37)[None]
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        first = prediction_loss(model, ids, ids.roll(-1, 1), None).item()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    lines = learn(model, 1e-12)  # too slow to learn anything: every loss is the first one
    assert [float(line.split()[-4]) for line in lines] == pytest.approx([first] * 10, abs=2e-3)


def test_weights_decay_at_the_rate_of_each_step():
    model = copy.deepcopy(tiny("GPT-2").model)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    labels = torch.full((1, 8), IGNORED)
    labels[0, 0] = 1
    pretrain(
        model, iter([(torch.full((1, 8), 7), labels)] * 4), steps=4, peak_rate=1e-2, padding=None,
        device=torch.device("cpu"), title="tiny", report=lambda _line: None,
    )  # fmt: skip
    unused = "transformer.wpe.weight"  # rows of positions that no text reaches: they have no gradient
    rates = 1e-2 * np.array([learning_rate(step, 4) for step in range(4)])
    after = dict(model.named_parameters())
    expected = before[unused][50] * float(np.prod(1 - 0.05 * rates))
    torch.testing.assert_close(after[unused][50].detach(), expected, rtol=1e-5, atol=1e-7)


def test_a_loss_that_is_no_number_ends_the_training():
    model = copy.deepcopy(tiny("GPT-2").model)
    with torch.no_grad():
        model.transformer.ln_f.weight.fill_(torch.nan)
    with pytest.raises(FloatingPointError, match="tiny: the loss is nan at step 0: lower the learning rate"):
        learn(model, 1e-3)
