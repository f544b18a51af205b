"""Likelihoods, continuations and a classifier on a GPU, against the usual ways on the same GPU in the same run.

    python -m tests.bench gpu

It runs as it is where a GPU is: models have random weights, as speed knows no difference, and texts are ToxiGen's where
they are at hand, else those that come with Plumbline. minicons is a reference where it is installed. Where there is no
GPU the table says so.
"""

import shutil
import subprocess
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from scoring.language_models import BUNDLED, LoadedModel
from scoring.language_models.product_rates import name_processor
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
from tests.bench.timing import describe_rates, rates_by_precision, seconds

PRECISIONS = ("float32", "bfloat16", "float16")
Size = tuple[str, int, int]  # title, layers, hidden size


@dataclass(frozen=True)
class Workload:
    """What is measured. causal_texts, masked_texts, reference_texts: how many; the last of ways of one text a call."""

    causal: tuple[Size, ...] = (
        ("124M", 12, 768),
        ("355M", 24, 1024),
        ("774M", 36, 1280),
        ("1.6B", 48, 1600),
        ("6.7B", 32, 4096),
    )
    masked: tuple[Size, ...] = (("BERT-base", 12, 768), ("BERT-large", 24, 1024))
    generated: tuple[Size, ...] = (("124M", 12, 768), ("1.6B", 48, 1600))
    causal_texts: int = 4096
    masked_texts: int = 1024
    reference_texts: int = 128
    compared_texts: int = 256
    prompts: int = 40
    precisions: tuple[str, ...] = PRECISIONS
    product_size: int = 8192


def gpu_table() -> None:
    """Print the tables, or that there is no GPU."""
    if not torch.cuda.is_available():
        print(
            f"no GPU here (torch {torch.__version__} finds none beside {name_processor('cpu')}): nothing measured. Run "
            "`python -m tests.bench gpu` on a host with one, and a build of torch for it"
        )
        return
    print_tables(torch.device("cuda"), Workload())


def print_tables(device: torch.device, workload: Workload) -> None:
    """Print all tables of a device."""
    rates = rates_by_precision(workload.product_size, device.type)
    print(describe_device(device))
    print(f"matrix product of {workload.product_size}: {describe_rates(rates)}")
    deviation_rows(device, workload.compared_texts, workload.precisions)
    print(
        f"{'likelihoods':30}{'texts/s':>10}{'rate':>7}{'one text a call':>17}{'batches of 32':>15}"
        f"{'weights':>11}{'peak':>9}"
    )
    for title, layers, hidden in workload.causal:
        for precision in workload.precisions:
            model = gpt2(layers, hidden, precision, device)
            likelihood_row(f"causal, {title}", model, workload.causal_texts, workload, rates[precision])
    for title, layers, hidden in workload.masked:
        for precision in workload.precisions:
            model = bert(layers, hidden, precision, device)
            likelihood_row(title, model, workload.masked_texts, workload, rates[precision])
    print(f"{'continuations, k = 25':30}{'tokens/s':>10}{'rate':>7}{'8 prompts a call':>16}{'32 a call':>16}")
    for title, layers, hidden in workload.generated:
        for precision in workload.precisions:
            model = gpt2(layers, hidden, precision, device)
            generation_row(f"causal, {title}", model, workload.prompts, rates[precision])
    with TemporaryDirectory() as folder:
        classifier_table(Path(folder), device, workload.causal_texts)


def describe_device(device: torch.device) -> str:
    """What the figures are of: device, memory, driver and builds."""
    name = name_processor(device.type)
    if device.type != "cuda":
        return f"{name}, torch {torch.__version__}"
    properties = torch.cuda.get_device_properties(device)
    return (
        f"{name}, {properties.total_memory / 1e9:.0f} GB, compute capability {properties.major}.{properties.minor}, "
        f"driver {find_driver()}, torch {torch.__version__} with CUDA {torch.version.cuda or torch.version.hip}"
    )


def find_driver() -> str:
    """The version of the GPU's driver, as its own tool says; "unknown" without that tool."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return "unknown"
    words = [tool, "--query-gpu=driver_version", "--format=csv,noheader"]
    answer = subprocess.run(words, capture_output=True, text=True)
    return next(iter(answer.stdout.split()), "unknown")


def gpt2(layers: int, hidden: int, precision: str, device: torch.device) -> LoadedModel:
    """A model of GPT-2's layout and vocabulary."""
    config = GPT2Config(n_layer=layers, n_embd=hidden, n_head=hidden // 64)
    return untrained(GPT2LMHeadModel, config, "plumb-gpt2-l4-h256", precision, device)


def deviation_rows(device: torch.device, count: int, precisions: tuple[str, ...]) -> None:
    """Print how far a text's mean log-likelihood on the device lies from that on the CPU in float32."""
    texts = sentences(count)
    for name in ("plumb-gpt2-l4-h256", "plumb-bert-l2-h256"):
        exact = ours(loaded(BUNDLED / name, device=CPU), texts)
        for precision in precisions:
            values = ours(loaded(BUNDLED / name, precision, device), texts)
            means = [abs(a.mean() - b.mean()) for a, b in zip(exact, values, strict=True) if len(a)]
            print(
                f"{name}, {precision}: mean log-likelihoods of {len(means)} texts differ from the CPU's by up to "
                f"{max(means):.1e} nats, on average by {np.mean(means):.1e}"
            )


def likelihood_row(title: str, model: LoadedModel, count: int, workload: Workload, rate: float) -> None:
    """Print the speed of one model, in texts, as a share of `rate` and against the ways in use; and its memory."""
    on_gpu = model.device.type == "cuda"
    texts = sentences(count)
    is_causal = model.architecture.kind == "causal"
    usual = published_causal if is_causal else published_masked
    few = texts[: workload.reference_texts]
    ours(model, texts[:64])
    usual(model, few[:4])
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    taken = seconds(partial(ours, model, texts))
    peak = f"{torch.cuda.max_memory_allocated() / 1e9:.2f} GB" if on_gpu else "-"
    alone = seconds(partial(usual, model, few), 1) * len(texts) / len(few)
    has_reference = is_causal and find_spec("minicons") is not None
    batched = f"{seconds(partial(minicons, model, texts), 1) / taken:.1f}x" if has_reference else "-"
    weights = sum(part.numel() * part.element_size() for part in model.model.parameters())
    share = operations(model, texts) / taken / rate
    print(
        f"{f'{title}, {model.precision}':30}{len(texts) / taken:>10,.0f}{share:>7.2f}{alone / taken:>16.1f}x"
        f"{batched:>15}{weights / 1e9:>8.2f} GB{peak:>9}"
    )


def generation_row(title: str, model: LoadedModel, count: int, rate: float) -> None:
    """Print new tokens a second, as a share of `rate` and against `generate` with padded batches of prompts."""
    prompts = bench_prompts()[:count]
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
