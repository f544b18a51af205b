"""`make bench`: how fast likelihoods are, as ratios against named references measured in the same run.

The physical limit is the machine's float32 matrix-product rate; each row says what fraction of it the model's own
products reach. Texts are the starter set, so the bench needs no download.
"""

import time
from collections.abc import Callable

import torch

from scoring.evaluation_sets import build_starter
from scoring.language_models import BUNDLED, LoadedModel, load, resolve
from scoring.likelihood import LikelihoodSettings, token_log_likelihoods
from tests.scoring.reference import causal_sentence, masked_sentence

TEXTS = 96
REPEATS = 3


def seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """The fastest of some runs, after one that does not count."""
    work()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def product_rate(size: int = 1536) -> float:
    """Floating-point operations a second of a large float32 matrix product."""
    left, right = torch.rand(size, size), torch.rand(size, size)
    return 2 * size**3 / seconds(lambda: left @ right, 5)


def operations(loaded: LoadedModel, texts: list[str]) -> float:
    """Operations of the products with the model's weights: two a weight and token; the head where a token is scored."""
    lengths = [len(ids) for ids in loaded.tokenizer(texts)["input_ids"]]
    masked = loaded.architecture.kind == "masked"
    head = loaded.architecture.vocabulary * loaded.architecture.hidden_size
    inner = sum(p.numel() for n, p in loaded.model.named_parameters() if p.dim() > 1) - head
    scored = sum(length - 2 if masked else length - 1 for length in lengths)
    seen = sum((length - 2) * length if masked else length for length in lengths)
    return 2.0 * (inner * seen + head * scored)


def main() -> None:
    """Print the table."""
    rate = product_rate()
    texts = [sentence.text for sentence in build_starter()[:: 624 // TEXTS]][:TEXTS]
    print(f"matrix product, float32: {rate / 1e9:.0f} GFLOP/s on {torch.get_num_threads()} threads; {len(texts)} texts")
    print(f"{'model':24}{'one sentence a call':>22}{'Plumbline':>12}{'ratio':>8}{'of the product rate':>22}")
    for folder in sorted(BUNDLED.glob("*/")):
        found = resolve(str(folder))
        loaded = load(found.source, found.location, found.revision)
        reference = causal_sentence if found.architecture.kind == "causal" else masked_sentence
        usual = seconds(lambda r=reference, m=loaded: [r(m, text) for text in texts], 1)
        ours = seconds(lambda m=loaded: token_log_likelihoods(m, texts, LikelihoodSettings()))
        share = operations(loaded, texts) / ours / rate
        print(f"{folder.name:24}{usual:>20.2f} s{ours:>10.2f} s{usual / ours:>7.1f}x{share:>21.0%}")


if __name__ == "__main__":
    main()
