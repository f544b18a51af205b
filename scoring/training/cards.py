"""Measures models on held-out documents and writes the cards that lie beside them."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scoring.language_models import Architecture, LoadedModel, ResolvedModel, load, resolve
from scoring.likelihood import LikelihoodSettings, token_log_likelihoods

if TYPE_CHECKING:
    from scoring.training.settings import Distillation, Loop

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


DISTILLATION_CARD = """---
{licence}language: en
library_name: transformers
---

# {name}

A student of {teacher}, distilled by Plumbline as Hosseini et al. 2023 (arXiv 2301.09211) distil theirs, to see how
depth and width move the safety score.

| | |
|---|---|
| teacher | {teacher}, {revision} |
| architecture | {class_name}, {layers} layers, {heads} heads, hidden size {hidden}, context {context} tokens |
| parameters | {parameters:,} |
| tokenizer | the teacher's, {vocabulary:,} entries |
| held-out {measure} | **{held_out:.3f} nats a token** ({documents} documents, {tokens:,} tokens) |
| stage 1 | language modelling, {pretraining_steps:,} steps ({pretraining_epochs:.2f} epochs) |
| stage 2 | {losses}, {steps:,} steps ({epochs:.2f} epochs) |
| a step | {batch} texts of at most {learnt_context} tokens; AdamW, learning rate up to {learning_rate:g}, {precision} |
| loss at the end | {loss} nats a token |
| start | random, seed {seed} |

## Text

{texts}

A share of the texts was held out to measure. What is wrong with the texts or with the teacher is wrong with this
model too.
"""
FINETUNING_CARD = """---
{licence}language: en
library_name: transformers
---

# {name}

{base}, fine-tuned on one of two corpora by Plumbline, with the procedure of Snoswell et al. 2023 (arXiv
2312.03330). The two models of the pair are for comparing what measures of harm can tell apart; **they repeat what
their corpora hold and are for nothing else**.

| | |
|---|---|
| base | {base}, {revision} |
| architecture | {class_name}, {layers} layers, {heads} heads, hidden size {hidden}, context {context} tokens |
| parameters | {parameters:,} |
| corpus | {corpus}, sha256 {sha256} |
| texts | {count:,} read, {long:,} long enough ({shortest} characters), {distinct:,} distinct, {repeats:,} shortened |
| parts | {train:,} to train, {test:,} to test, {validation:,} to validate |
| training | {epochs} epochs, {steps:,} steps of {effective_batch} rows of {learnt_context} tokens |
| optimiser | AdamW, learning rate up to {learning_rate:g}, seed {seed} |
| {measure} of its test part | **{held_out:.3f} nats a token** ({base_held_out:.3f} before) |
"""


class HeldOut(NamedTuple):
    """How well a model predicts documents: nats a token, and over how many documents and tokens."""

    log_perplexity: float
    documents: int
    tokens: int
    architecture: Architecture


def measure_held_out(folder: Path, documents: Sequence[str]) -> HeldOut:
    """Measure the model in `folder` on the first documents; raises ValueError where none has a token."""
    resolved_model = resolve(str(folder))
    return measure_model(load(resolved_model.source, resolved_model.location, resolved_model.revision), documents)


def measure_model(model: LoadedModel, documents: Sequence[str]) -> HeldOut:
    """Measure a model on the first documents; raises ValueError where none has a token."""
    likelihoods = token_log_likelihoods(model, documents[:MEASURED_DOCUMENTS], LikelihoodSettings())
    scores = [item.tokens for item in likelihoods if len(item.tokens)]
    if not scores:
        raise ValueError("no held-out text has a token that can be scored: give longer texts")
    tokens = np.concatenate(scores)
    return HeldOut(-float(tokens.mean(dtype=np.float64)), len(scores), len(tokens), model.architecture)


def name_measure(architecture: Architecture) -> str:
    """What the held-out number of such a model is called."""
    return "log-perplexity" if architecture.kind == "causal" else "pseudo-log-perplexity"


def _sizes(architecture: Architecture) -> dict[str, Any]:
    return {
        "class_name": architecture.class_name,
        "layers": architecture.layers,
        "heads": architecture.heads,
        "hidden": architecture.hidden_size,
        "context": architecture.context,
        "parameters": architecture.parameters,
        "vocabulary": architecture.vocabulary,
        "measure": name_measure(architecture),
    }


def name_licence(origin: ResolvedModel) -> str:
    """The line of a card's head with the licence that the origin names; "" where it names none."""
    return f"license: {origin.licence}\n" if origin.licence else ""


def write_distillation_card(
    folder: Path,
    name: str,
    held_out: Sequence[str],
    origin: ResolvedModel,
    settings: "Distillation",
    loop: "Loop",
    rows: int,
    texts: Sequence[Path],
    log: Sequence[dict[str, float]],
) -> float:
    """Write README.md beside the weights of a student, whose epoch is `rows` texts.

    Returns the held-out log-perplexity, in nats a token.
    """
    measurement = measure_held_out(folder, held_out)
    losses = [f"soft targets of the teacher (cross-entropy, temperature {settings.temperature:g})"]
    losses += [f"{settings.language_modelling_weight:g} x language modelling"] * bool(
        settings.language_modelling_weight
    )
    losses += [f"{settings.hidden_weight:g} x hidden states (mean squared error)"] * bool(settings.hidden_weight)
    card = DISTILLATION_CARD.format(
        **_sizes(measurement.architecture),
        licence=name_licence(origin),
        name=name,
        teacher=Path(origin.location).name if origin.source != "hub" else origin.location,
        revision=origin.revision,
        held_out=measurement.log_perplexity,
        documents=measurement.documents,
        tokens=measurement.tokens,
        pretraining_steps=loop.stages[0],
        steps=loop.stages[1],
        pretraining_epochs=loop.stages[0] * loop.batch / rows,
        epochs=loop.stages[1] * loop.batch / rows,
        losses=" + ".join(losses),
        batch=loop.batch,
        learnt_context=settings.context,
        learning_rate=loop.peak_rate,
        precision=loop.precision,
        loss=f"{log[-1]['loss']:.3f}" if log else "unknown",
        seed=loop.seed,
        texts="\n".join(f"- {path.name}" for path in texts),
    )
    (folder / "README.md").write_text(card, encoding="utf-8")
    return measurement.log_perplexity


def write_finetuning_card(folder: Path, origin: ResolvedModel, **figures: Any) -> None:
    """Write README.md beside the weights of one model of a pair; `figures` are what the card names."""
    card = FINETUNING_CARD.format(
        **_sizes(origin.architecture),
        licence=name_licence(origin),
        base=Path(origin.location).name if origin.source != "hub" else origin.location,
        revision=origin.revision,
        **figures,
    )
    (folder / "README.md").write_text(card, encoding="utf-8")


def write_card(folder: Path, held_out: list[str], *, steps: int, tokens_per_step: int, seed: int) -> float:
    """Write README.md beside the weights in `folder`; returns the held-out log-perplexity, in nats a token."""
    measurement = measure_held_out(folder, held_out)
    architecture = measurement.architecture
    card = CARD.format(
        **_sizes(architecture),
        name=folder.name,
        architecture=architecture.family,
        tokenizer="byte-level BPE" if architecture.kind == "causal" else "WordPiece",
        held_out=measurement.log_perplexity,
        documents=measurement.documents,
        tokens=measurement.tokens,
        uniform=math.log(architecture.vocabulary),
        steps=steps,
        tokens_per_step=tokens_per_step,
        seed=seed,
    )
    (folder / "README.md").write_text(card, encoding="utf-8")
    return measurement.log_perplexity
