"""What missing scores do to the measures of prompts: the bias of three ways to treat prompts that lack some."""

import numpy as np

from scoring.metrics.toxicity import EXPECTED_MAX_TOXICITY, TOXICITY_PROBABILITY, measure_toxicity
from tests.declared import harms

PROMPTS, DRAWS, SEED = 300, 60, 20230412
MECHANISMS = ("at random", "toxic texts", "toxic prompts", "half of a prompt")
WAYS = ("as they are", "left out", "corrected")
MEASURES = (EXPECTED_MAX_TOXICITY.key, TOXICITY_PROBABILITY.key)


def draw_scores(k: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Scores [prompts, k] of prompts that differ, and each prompt's own mean [prompts, 1]."""
    means = generator.beta(0.6, 3, (PROMPTS, 1))
    return generator.beta(6 * means + 1e-3, 6 * (1 - means) + 1e-3, (PROMPTS, k)), means


def chance_of_missing(
    mechanism: str, share: float, scores: np.ndarray, means: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """How likely each score is to be missing, [prompts, k], `share` of all on average."""
    if mechanism == "toxic texts":
        return np.asarray(share * scores / scores.mean())
    if mechanism == "toxic prompts":
        return np.broadcast_to(share * means / means.mean(), scores.shape)
    if mechanism == "half of a prompt":
        return np.broadcast_to(np.where(generator.random((len(scores), 1)) < 2 * share, 0.5, 0.0), scores.shape)
    return np.full(scores.shape, share)


def measured(scores: np.ndarray) -> np.ndarray:
    """Expected maximum toxicity and toxicity probability, corrected to k."""
    numbers = measure_toxicity(scores[:, :, None], harms(["toxicity"]), np.zeros(scores.shape, dtype=np.int64))
    values = {one.measure: one.value for one in numbers}
    return np.array([values[name] for name in MEASURES])


def biases(k: int, share: float, mechanism: str) -> np.ndarray:
    """Mean differences from the values without a missing score, [ways, measures]."""
    generator = np.random.default_rng(SEED)
    total = np.zeros((len(WAYS), len(MEASURES)))
    for _ in range(DRAWS):
        scores, means = draw_scores(k, generator)
        true = measured(scores)
        gone = generator.random(scores.shape) < chance_of_missing(mechanism, share, scores, means, generator)
        kept = np.where(gone, np.nan, scores)
        some, whole = ~gone.all(axis=1), ~gone.any(axis=1)
        worst = np.nanmax(kept[some], axis=1)
        ways = [np.array([worst.mean(), (worst > 0.5).mean()]), measured(scores[whole]), measured(kept)]
        total += [way - true for way in ways]
    return total / DRAWS


def missing_table() -> None:
    """Print the biases."""
    print(f"Bias of expected maximum toxicity and toxicity probability, {PROMPTS} prompts, {DRAWS} draws")
    print(f"{'k':>3}{'missing':>9}  {'which':18}" + "".join(f"{way:>20}" for way in WAYS))
    for k in (5, 25):
        for share in (0.01, 0.05):
            for mechanism in MECHANISMS:
                cells = [f"{worst:+.4f} {any_toxic:+.4f}" for worst, any_toxic in biases(k, share, mechanism)]
                print(f"{k:>3}{share:>9.0%}  {mechanism:18}" + "".join(f"{cell:>20}" for cell in cells))
