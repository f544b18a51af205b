"""Likelihoods, continuations and a classifier on a GPU, against the usual ways on the same GPU in the same run.

Models have random weights, as speed knows no difference. Where there is no GPU the table says so.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from scoring.language_models import BUNDLED, LoadedModel
from tests.bench.generation import BATCHES, SETTINGS, bench_prompts, generate_ours, generate_usually, measure_rate
from tests.bench.generation import operations as decoding_operations
from tests.bench.likelihood import (
    CPU,
    bert,
    loaded,
    minicons,
    operations,
    ours,
    published_causal,
    published_masked,
    sentences,
    untrained,
)
from tests.bench.scorers import classifier_table
from tests.bench.timing import product_rate, seconds

GPU = torch.device("cuda")
PRECISIONS = ("float32", "bfloat16", "float16")
CAUSAL_SIZES = (("124M", 12, 768), ("355M", 24, 1024), ("774M", 36, 1280), ("1.6B", 48, 1600), ("6.7B", 32, 4096))
MASKED_SIZES = (("BERT-base", 12, 768), ("BERT-large", 24, 1024))
CAUSAL_TEXTS, MASKED_TEXTS = 4096, 1024
REFERENCE_TEXTS = 128  # of the ways that take one text a call
COMPARED_TEXTS = 256
PRODUCT_SIZE = 8192
GENERATED_SIZES = CAUSAL_SIZES[0], CAUSAL_SIZES[3]


def gpu_table() -> None:
    """Print the tables, or that there is no GPU."""
    if not torch.cuda.is_available():
        print("no GPU here: nothing measured")
        return
    rates = {name: product_rate(getattr(torch, name), PRODUCT_SIZE, "cuda") for name in PRECISIONS}
    speeds = ", ".join(f"{name} {rate / 1e12:.1f} TFLOP/s" for name, rate in rates.items())
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; matrix product of {PRODUCT_SIZE}: {speeds}")
    deviation_rows()
    print(
        f"{'likelihoods':30}{'texts/s':>10}{'rate':>7}{'one text a call':>17}{'batches of 32':>15}"
        f"{'weights':>11}{'peak':>9}"
    )
    for title, layers, hidden in CAUSAL_SIZES:
        for precision in PRECISIONS:
            likelihood_row(f"causal, {title}", gpt2(layers, hidden, precision), CAUSAL_TEXTS, rates[precision])
    for title, layers, hidden in MASKED_SIZES:
        for precision in PRECISIONS:
            likelihood_row(title, bert(layers, hidden, precision, GPU), MASKED_TEXTS, rates[precision])
    print(f"{'continuations, k = 25':30}{'tokens/s':>10}{'rate':>7}{'8 prompts a call':>16}{'32 a call':>16}")
    for title, layers, hidden in GENERATED_SIZES:
        for precision in PRECISIONS:
            generation_row(f"causal, {title}", gpt2(layers, hidden, precision), rates[precision])
    with TemporaryDirectory() as folder:
        classifier_table(Path(folder), GPU, CAUSAL_TEXTS)


def gpt2(layers: int, hidden: int, precision: str) -> LoadedModel:
    """A model of GPT-2's layout and vocabulary on the GPU."""
    config = GPT2Config(n_layer=layers, n_embd=hidden, n_head=hidden // 64)
    return untrained(GPT2LMHeadModel, config, "plumb-gpt2-l4-h256", precision, GPU)


def deviation_rows() -> None:
    """Print how far a text's mean log-likelihood on the GPU lies from that on the CPU in float32."""
    texts = sentences(COMPARED_TEXTS)
    for name in ("plumb-gpt2-l4-h256", "plumb-bert-l2-h256"):
        exact = ours(loaded(BUNDLED / name, device=CPU), texts)
        for precision in PRECISIONS:
            values = ours(loaded(BUNDLED / name, precision, GPU), texts)
            means = [abs(a.mean() - b.mean()) for a, b in zip(exact, values, strict=True) if len(a)]
            print(
                f"{name}, {precision}: mean log-likelihoods of {len(means)} texts differ from the CPU's by up to "
                f"{max(means):.1e} nats, on average by {np.mean(means):.1e}"
            )


def likelihood_row(title: str, model: LoadedModel, count: int, rate: float) -> None:
    """Print the speed of one model, in texts, as a share of `rate` and against the ways in use; and its memory."""
    texts = sentences(count)
    is_causal = model.architecture.kind == "causal"
    usual = published_causal if is_causal else published_masked
    few = texts[:REFERENCE_TEXTS]
    ours(model, texts[:64])
    usual(model, few[:4])
    torch.cuda.reset_peak_memory_stats()
    taken = seconds(partial(ours, model, texts))
    peak = torch.cuda.max_memory_allocated()
    alone = seconds(partial(usual, model, few), 1) * len(texts) / len(few)
    batched = f"{seconds(partial(minicons, model, texts), 1) / taken:.1f}x" if is_causal else "-"
    weights = sum(part.numel() * part.element_size() for part in model.model.parameters())
    share = operations(model, texts) / taken / rate
    print(
        f"{f'{title}, {model.precision}':30}{len(texts) / taken:>10,.0f}{share:>7.2f}{alone / taken:>16.1f}x"
        f"{batched:>15}{weights / 1e9:>8.2f} GB{peak / 1e9:>6.2f} GB"
    )


def generation_row(title: str, model: LoadedModel, rate: float) -> None:
    """Print new tokens a second, as a share of `rate` and against `generate` with padded batches of prompts."""
    prompts = bench_prompts()
    settings = replace(SETTINGS, precision=model.precision)
    usual = []
    for batch in BATCHES:
        generate_usually(model, prompts[:batch], batch)
        usual.append(measure_rate(partial(generate_usually, model, prompts, batch))[0])
    generate_ours(model, prompts, settings)
    speed, new = measure_rate(partial(generate_ours, model, prompts, settings))
    share = decoding_operations(model, prompts, new) * speed / new / rate
    ratios = "".join(f"{speed / other:>15.1f}x" for other in usual)
    print(f"{f'{title}, {model.precision}':30}{speed:>10,.0f}{share:>7.3f}{ratios}")
