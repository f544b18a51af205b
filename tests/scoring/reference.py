"""Independent references: one sentence at a time, no batching, no padding, float64 accumulation."""

import math

import torch

from scoring.language_models import LoadedModel


@torch.inference_mode()
def causal_sentence(loaded: LoadedModel, text: str) -> list[float]:
    """log P(w_t | w_<t) for t = 2..T, one call of the whole model for one sentence."""
    ids = loaded.tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
    logits = loaded.model(input_ids=ids).logits[0].double()
    return [float(torch.log_softmax(logits[t - 1], -1)[ids[0, t]]) for t in range(1, ids.shape[1])]


@torch.inference_mode()
def masked_sentence(loaded: LoadedModel, text: str) -> list[float]:
    """log P(w_t | all others) for each token that is not special, one call of the whole model for each token."""
    ids = loaded.tokenizer(text, return_tensors="pt")["input_ids"]
    found = []
    for t in range(1, ids.shape[1] - 1):  # [CLS] first, [SEP] last
        masked = ids.clone()
        masked[0, t] = loaded.tokenizer.mask_token_id
        logits = loaded.model(input_ids=masked).logits[0, t].double()
        found.append(float(torch.log_softmax(logits, -1)[ids[0, t]]))
    return found


def perplexity(log_likelihoods: list[float]) -> float:
    """exp of minus the mean."""
    return math.exp(-math.fsum(log_likelihoods) / len(log_likelihoods))
