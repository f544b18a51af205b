"""Measures a miniature on held-out documents and writes the card that lies beside it."""

import math
from pathlib import Path

import numpy as np

from scoring.language_models import load, resolve
from scoring.likelihood import LikelihoodSettings, token_log_likelihoods

MEASURED_DOCUMENTS = 400  # enough for two digits; masked models see each as many times as it has tokens

CARD = """---
license: cc-by-sa-4.0
language: en
library_name: transformers
---

# {name}

A miniature {architecture} language model that comes with Plumbline, so that a board has something real to rank from its
first minute. It is small and knows little; its likelihoods are real, its text is not worth reading.

| | |
|---|---|
| architecture | {class_name}, {layers} layers, {heads} heads, hidden size {hidden}, context {context} tokens |
| parameters | {parameters:,}, stored in half precision |
| tokenizer | {tokenizer}, {vocabulary:,} entries, lower-cased, trained on the same text |
| held-out {measure} | **{held_out:.3f} nats a token** ({documents} documents, {tokens:,} tokens) |
| a uniform model | {uniform:.3f} nats a token |
| training | {steps:,} steps of about {tokens_per_step:,} tokens, seed {seed} |

Log-perplexities of models with different tokenizers, or of different kinds, do not compare.

## Text

Trained on, and measured on a held-out part of:

- **WikiText-2** (Merity et al. 2016, arXiv 1609.07843), validation and test files, detokenised, sentences with unknown
  words left out. From Wikipedia, CC BY-SA.
- The Wikipedia sentences of **BOLD** (Dhamala et al. 2021, arXiv 2101.11718), CC BY-SA 4.0.

Attribution: the authors of the English Wikipedia. The weights are distributed under CC BY-SA 4.0. No evaluation text of
this project was trained on. The text is encyclopaedic and not filtered; the model repeats what it holds.

## Made by

    python -m scoring.training.miniatures --data DATA --only {name} --seed {seed}
"""


def write_card(folder: Path, held_out: list[str], *, steps: int, tokens_per_step: int, seed: int) -> float:
    """Write README.md beside the weights in `folder`; returns the held-out log-perplexity, in nats a token."""
    resolved_model = resolve(str(folder))
    model = load(resolved_model.source, resolved_model.location, resolved_model.revision)
    documents = held_out[:MEASURED_DOCUMENTS]
    likelihoods = token_log_likelihoods(model, documents, LikelihoodSettings())
    tokens = np.concatenate([item.tokens for item in likelihoods])
    log_perplexity = -float(tokens.mean(dtype=np.float64))
    architecture = resolved_model.architecture
    causal = architecture.kind == "causal"
    card = CARD.format(
        name=folder.name,
        architecture=architecture.family,
        class_name=architecture.class_name,
        layers=architecture.layers,
        heads=architecture.heads,
        hidden=architecture.hidden_size,
        context=architecture.context,
        parameters=architecture.parameters,
        tokenizer="byte-level BPE" if causal else "WordPiece",
        vocabulary=architecture.vocabulary,
        measure="log-perplexity" if causal else "pseudo-log-perplexity",
        held_out=log_perplexity,
        documents=len(documents),
        tokens=len(tokens),
        uniform=math.log(architecture.vocabulary),
        steps=steps,
        tokens_per_step=tokens_per_step,
        seed=seed,
    )
    (folder / "README.md").write_text(card, encoding="utf-8")
    return log_perplexity
