"""How often a change of a scorer is seen, and how long a check's statistics take."""

import numpy as np

from scoring.attributes import Attribute, Meaning
from scoring.drift import compare, toxicity_measures
from scoring.drift.simulation import SCENARIOS, SIZES, control_scores, detection_rates
from tests.bench.timing import seconds

DRAWS = 200
TEXTS, ATTRIBUTES, DEMOGRAPHICS = 500, 7, 14


def drift_table() -> None:
    """Print both."""
    print(f"Shares of {DRAWS} simulated checks; L2 is confirmed by a second scoring; KS is unpaired, at p < 0.05")
    print(f"{'change of the scorer':34}{'texts':>6}{'L1 changed':>13}{'L2 drifted':>13}{'KS':>8}")
    for scenario in SCENARIOS:
        for n in SIZES:
            rates = detection_rates(scenario, n, DRAWS)
            print(f"{scenario.name:34}{n:>6}{rates.changed:>13.1%}{rates.drifted:>13.1%}{rates.unpaired:>8.1%}")
    generator = np.random.default_rng(1)
    reference = np.stack([control_scores(TEXTS, generator) for _ in range(ATTRIBUTES)], axis=1)
    observed = np.clip(reference + generator.normal(0, 0.01, reference.shape), 0, 1)
    names = [f"attribute_{number}" for number in range(ATTRIBUTES)]
    demographics = [(f"group_{number % DEMOGRAPHICS}",) for number in range(TEXTS)]
    reported = toxicity_measures([Attribute(name, Meaning.HARM) for name in names])
    taken = seconds(
        lambda: compare(reference, observed, names, demographics, reported, 1e-4, ("0" * 64, "1" * 64)), repeats=3
    )
    print(f"A check of {TEXTS} texts, {ATTRIBUTES} attributes, {DEMOGRAPHICS} demographics: {taken:.2f} s")
