"""How often a change of a scorer is seen, by simulation: this package's rules next to an unpaired test.

Scores lie as in a control set of `scoring.control_sets`: a quarter below 0.3, most of these near 0, half evenly between
0.3 and 0.7, a quarter evenly above. Every scoring has rounding of its own, up to a tenth of the least noise floor.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import special

from scoring.attributes import Attribute, Meaning
from scoring.drift.comparison import compare, confirm
from scoring.drift.measures import Array, toxicity_measures
from scoring.drift.noise import LEAST_NOISE_FLOOR, Matrix, Score, median_of_three, noise_floor
from scoring.drift.report import Level, Verdict

ATTRIBUTE = "toxicity"
ROUNDING = LEAST_NOISE_FLOOR / 10
SIZES = (100, 200, 500)
ALPHA = 0.05  # of the unpaired test


@dataclass(frozen=True, slots=True)
class Scenario:
    """What becomes of a scorer: `shift` is added to all logits, `few` to those of 5% of the texts, and each text's own
    draw with the standard deviation `mixed` to its logit.

    `noise` is the standard deviation of a score between scorings, of a scorer that is random by nature: its medians of
    three are compared, with the noise floor of medians.
    """

    name: str
    shift: float = 0.0
    few: float = 0.0
    mixed: float = 0.0
    noise: float = 0.0

    def applied(self, logits: Array, generator: np.random.Generator) -> Array:
        """The logits [n] after the change."""
        chosen = generator.permutation(len(logits)) < 0.05 * len(logits)
        return logits + self.shift + self.few * chosen + self.mixed * generator.normal(size=len(logits))


SCENARIOS = (
    Scenario("1 logit, all texts", shift=1.0),
    Scenario("0.1 logit, all texts", shift=0.1),
    Scenario("0.01 logit, all texts", shift=0.01),
    Scenario("1 logit, 5% of texts", few=1.0),
    Scenario("0.3 logit, 5% of texts", few=0.3),
    Scenario("mixed-sign noise, SD 0.1 logit", mixed=0.1),
    Scenario("mixed-sign noise, SD 0.01 logit", mixed=0.01),
    Scenario("no change"),
    Scenario("no change, random by nature", noise=0.01),
)


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


def detection_rates(scenario: Scenario, n: int, draws: int = 200, seed: int = 20241105) -> DetectionRates:
    """Simulate `draws` checks of control sets of `n` texts, each with its second scoring where L2 fired."""
    generator = np.random.default_rng(seed)
    return DetectionRates(*np.mean([_check(scenario, n, generator) for _ in range(draws)], axis=0).tolist())


def _check(scenario: Scenario, n: int, generator: np.random.Generator) -> tuple[bool, bool, bool]:
    """Whether one check is changed, drifted, and seen by the unpaired test."""
    texts = [str(number) for number in range(n)]
    logits = special.logit(np.clip(control_scores(n, generator), 1e-6, 1 - 1e-6))
    before = _scorer(logits, scenario.noise, generator)
    after = _scorer(scenario.applied(logits, generator), scenario.noise, generator)
    floor = LEAST_NOISE_FLOOR  # which rounding never exceeds
    if scenario.noise:
        before, after = (partial(median_of_three, score) for score in (before, after))
        floor = noise_floor(before, texts)
    reference, observed, again = before(texts), after(texts), after(texts)
    reported = toxicity_measures([Attribute(ATTRIBUTE, Meaning.HARM)])
    first, second = (
        compare(reference, of, [ATTRIBUTE], [()] * n, reported, floor, ("0" * 64, "0" * 64)) for of in (observed, again)
    )
    verdict = confirm(first, second).verdict if first.needs_confirmation else first.verdict
    changed = any(finding.level is Level.CHANGED for finding in first.findings)
    unpaired = first.paired_tests[0].ks_p < ALPHA
    return changed, verdict is Verdict.DRIFTED, unpaired


def _scorer(logits: Array, noise: float, generator: np.random.Generator) -> Score:
    """Scores texts that are the numbers of rows."""
    scores = special.expit(logits)

    def score(texts: Sequence[str]) -> Matrix:
        of = scores[np.array(texts, dtype=np.intp)]
        of += generator.uniform(-ROUNDING, ROUNDING, len(of)) + generator.normal(0, noise, len(of))
        return np.asarray(np.clip(of, 0, 1)[:, None], dtype=np.float32)

    return score
