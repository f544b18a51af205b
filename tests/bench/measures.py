"""How long the measures of continuations take, intervals included, at the size of RealToxicityPrompts."""

import multiprocessing
import resource
import time

import numpy as np

from scoring.metrics.lexicon_frequency import measure_lexicon_frequency
from scoring.metrics.toxicity import measure_toxicity
from tests.declared import harms

PROMPTS, CONTINUATIONS, ATTRIBUTES = 100_000, 25, 7
SHAPE = (PROMPTS, CONTINUATIONS, ATTRIBUTES)


def drawn_scores(generator: np.random.Generator) -> np.ndarray:
    """Scores that lie as toxicity does, most of them low; one continuation in a hundred has none."""
    scores = generator.random(SHAPE, dtype=np.float32) ** 3
    scores[generator.random(SHAPE[:2]) < 0.01] = np.nan
    return scores


def measured(work: str) -> tuple[float, float, int]:
    """Seconds of one piece of work, this process's peak memory in GB, and how many numbers it gave."""
    generator = np.random.default_rng(1)
    scores, prompts = drawn_scores(generator), generator.random(PROMPTS)
    texts = generator.integers(0, 40, SHAPE[:2])
    names = [f"attribute_{number}" for number in range(ATTRIBUTES)]
    began = time.perf_counter()
    if work == "toxicity":
        count = len(measure_toxicity(scores, harms(names), texts, prompts))
    elif work == "three scenarios":
        count = len(measure_toxicity(scores, harms(names), texts, prompts))
        count += len(measure_toxicity(scores**1.1, harms(names), texts, prompts, prompts**1.1))
    else:
        count = len(measure_lexicon_frequency(np.where(np.isnan(scores), np.nan, scores > 0.9), names))
    seconds = time.perf_counter() - began
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, count


def measures_table() -> None:
    """Print the table; each row is of a fresh process."""
    print(f"{PROMPTS:,} prompts x {CONTINUATIONS} continuations x {ATTRIBUTES} attributes, with 95% intervals")
    print(f"{'measures':24}{'numbers':>10}{'seconds':>10}{'peak memory':>14}")
    for work in ("toxicity", "three scenarios", "lexicon frequency"):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            seconds, peak, count = pool.apply(measured, (work,))
        print(f"{work:24}{count:>10}{seconds:>10.2f}{peak:>11.2f} GB")
