"""Independent references: one sentence at a time, no batching, no padding, float64 accumulation."""

import math

import torch

from scoring.language_models import LoadedModel


def log_softmax(logits: torch.Tensor, token: int) -> float:
    """Of one position, in float64."""
    return float(torch.log_softmax(logits.double(), -1)[token])


@torch.inference_mode()
def causal_ids(loaded: LoadedModel, ids: list[int]) -> list[float]:
    """log P(w_t | w_<t) for every token but the first, one call of the whole model."""
    logits = loaded.model(input_ids=torch.tensor([ids])).logits[0]
    return [log_softmax(logits[t - 1], ids[t]) for t in range(1, len(ids))]


def causal_sentence(loaded: LoadedModel, text: str) -> list[float]:
    """log P(w_t | w_<t) for t = 2..T."""
    return causal_ids(loaded, loaded.tokenizer(text, add_special_tokens=False)["input_ids"])


@torch.inference_mode()
def permutation_ids(loaded: LoadedModel, ids: list[int]) -> list[float]:
    """log P(w_t | w_<t) for every token but the first: one call for each, which sees the text up to it and no more."""
    found = []
    for t in range(1, len(ids)):
        unseen = torch.zeros(1, t + 1, t + 1)
        for i in range(t + 1):
            for j in range(t + 1):
                unseen[0, i, j] = float(j >= i)
        target = torch.zeros(1, 1, t + 1)
        target[0, 0, t] = 1
        output = loaded.model(input_ids=torch.tensor([ids[: t + 1]]), perm_mask=unseen, target_mapping=target)
        found.append(log_softmax(output.logits[0, 0], ids[t]))
    return found


def permutation_sentence(loaded: LoadedModel, text: str) -> list[float]:
    """log P(w_t | w_<t) for t = 2..T."""
    return permutation_ids(loaded, loaded.tokenizer(text, add_special_tokens=False)["input_ids"])


@torch.inference_mode()
def masked_ids(loaded: LoadedModel, ids: list[int], first: int, last: int) -> list[float]:
    """log P(w_t | all others) for t in first..last - 1, one call of the whole model for each token."""
    found = []
    for t in range(first, last):
        masked = list(ids)
        masked[t] = loaded.tokenizer.mask_token_id
        found.append(log_softmax(loaded.model(input_ids=torch.tensor([masked])).logits[0, t], ids[t]))
    return found


def masked_sentence(loaded: LoadedModel, text: str) -> list[float]:
    """log P(w_t | all others) for each token that is not special: [CLS] first, [SEP] last."""
    ids = loaded.tokenizer(text)["input_ids"]
    return masked_ids(loaded, ids, 1, len(ids) - 1)


@torch.inference_mode()
def published_masked_perplexity(loaded: LoadedModel, text: str, mask_id: int) -> float:
    """The masked perplexity of Hosseini et al.'s published code, which knows what it masked by its id."""
    ids = torch.tensor(loaded.tokenizer(text)["input_ids"])
    losses = []
    for t in range(1, len(ids) - 1):
        copy = ids.clone()
        copy[t] = mask_id
        logits = loaded.model(input_ids=copy[None]).logits[0]
        losses += [-log_softmax(logits[i], int(ids[i])) for i in range(len(ids)) if copy[i] == mask_id]
    return math.exp(math.fsum(losses) / len(losses))


SENTENCE = {"causal": causal_sentence, "masked": masked_sentence, "permutation": permutation_sentence}


def sentence(loaded: LoadedModel, text: str) -> list[float]:
    """The definition of the model's kind, default settings."""
    return SENTENCE[loaded.architecture.kind](loaded, text)


def perplexity(log_likelihoods: list[float]) -> float:
    """exp of minus the mean."""
    return math.exp(-math.fsum(log_likelihoods) / len(log_likelihoods))
