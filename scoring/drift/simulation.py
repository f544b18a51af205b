"""How often a change of a scorer is seen, by simulation: this package's rules next to an unpaired test.

Scores lie as in a control set of `scoring.control_sets`: a quarter below 0.3, most of these near 0, half evenly between
0.3 and 0.7, a quarter evenly above. Each scoring has rounding of its own, a tenth of the noise floor.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from scoring.drift.comparison import compare, confirm
from scoring.drift.measures import Array, toxicity_measures
from scoring.drift.noise import LEAST_NOISE_FLOOR
from scoring.drift.report import Level, Verdict

ATTRIBUTE = "toxicity"
ROUNDING = LEAST_NOISE_FLOOR / 10  # largest
SIZES = (100, 200, 500)
ALPHA = 0.05  # of the unpaired test

Change = Callable[[Array, np.random.Generator], Array]  # of logits [n]


def _of_every_text(logits: Array, _generator: np.random.Generator) -> Array:
    return logits + 0.1


def _of_a_few_texts(logits: Array, generator: np.random.Generator) -> Array:
    chosen = generator.permutation(len(logits)) < 0.05 * len(logits)
    return logits + chosen


def _of_mixed_sign(logits: Array, generator: np.random.Generator) -> Array:
    return logits + generator.normal(0, 0.1, len(logits))


def _none(logits: Array, _generator: np.random.Generator) -> Array:
    return logits


CHANGES: dict[str, Change] = {
    "0.1 logit, all texts": _of_every_text,
    "1 logit, 5% of texts": _of_a_few_texts,
    "mixed-sign noise, SD 0.1 logit": _of_mixed_sign,
    "no change": _none,
}


@dataclass(frozen=True, slots=True)
class DetectionRates:
    """Shares of the simulated checks in which L1 fired, L2 fired and was confirmed, and KS had p below 0.05."""

    changed: float
    drifted: float
    unpaired: float


def control_scores(n: int, generator: np.random.Generator) -> Array:
    """Scores of `n` texts, float64 in 0..1, as described above."""
    position = generator.random(n)
    low, middle, high = 0.3 * position**2, 0.3 + 0.4 * position, 0.7 + 0.3 * position
    band = generator.permutation(np.arange(n) % 4)
    return np.select([band == 0, band == 1], [low, high], middle)


def detection_rates(change: Change, n: int, draws: int = 200, seed: int = 20241105) -> DetectionRates:
    """Simulate `draws` checks of control sets of `n` texts, each with its second scoring where L2 fired."""
    generator = np.random.default_rng(seed)
    reported = toxicity_measures([ATTRIBUTE])
    counts = np.zeros(3)
    for _ in range(draws):
        logits = special.logit(np.clip(control_scores(n, generator), 1e-6, 1 - 1e-6))
        moved = change(logits, generator)
        reference, *observed = (
            np.clip(special.expit(of) + generator.uniform(-ROUNDING, ROUNDING, n), 0, 1).astype(np.float32)[:, None]
            for of in (logits, moved, moved)
        )
        first, second = (
            compare(reference, of, [ATTRIBUTE], [()] * n, reported, LEAST_NOISE_FLOOR, ("0" * 64, "0" * 64))
            for of in observed
        )
        verdict = confirm(first, second).verdict if first.needs_confirmation else first.verdict
        changed = any(finding.level is Level.CHANGED for finding in first.findings)
        unpaired = stats.ks_2samp(reference[:, 0], observed[0][:, 0]).pvalue < ALPHA
        counts += [changed, verdict is Verdict.DRIFTED, unpaired]
    return DetectionRates(*(counts / draws).tolist())
