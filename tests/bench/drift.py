"""How often a change of a scorer is found, how often there is a false alarm, and how long a check's statistics take."""

import numpy as np

from scoring.attributes import Attribute, Meaning
from scoring.drift import Reference, compare, toxicity_measures
from scoring.drift.simulation import (
    CHANGES,
    NOISES,
    ONE_LANGUAGE,
    RARE_JUMPS,
    SIZES,
    control_scores,
    false_alarms,
    power,
    slow_drift,
)
from tests.bench.timing import seconds

VERSIONS, CHECKS = 5, 8  # of each kind of change
ALARMS = (20, 50)  # versions, and checks of each: 1,000
TEXTS, ATTRIBUTES, DEMOGRAPHICS = 500, 7, 14


def drift_table() -> None:
    """Print all three."""
    print(f"Shares of {VERSIONS * CHECKS} simulated checks that are drifted (changed where that is another share),")
    print("of a change that flips 2% of labels / that moves the mean by 0.01; as check 100 of a version")
    header = "".join(f"{noise:>26}" for noise in NOISES)
    print(f"{'change of the scorer':24}{'texts':>6}{header}")
    for change in CHANGES:
        for n in SIZES:
            cells = []
            for noise in NOISES:
                rates = [
                    power(change, noise, n, flips=flips, versions=VERSIONS, checks=CHECKS) for flips in (True, False)
                ]
                cells.append(" / ".join(share(rate.changed, rate.drifted) for rate in rates))
            print(f"{change.name:24}{n:>6}{''.join(f'{cell:>26}' for cell in cells)}", flush=True)
    print("\nOf changes by two logits: all texts of one language, a hundredth of the set; single answers")
    for change in (ONE_LANGUAGE, RARE_JUMPS):
        for n in SIZES:
            rates = [power(change, noise, n, versions=VERSIONS, checks=CHECKS) for noise in NOISES]
            cells = [share(rate.changed, rate.drifted) for rate in rates]
            print(f"{change.name:24}{n:>6}{''.join(f'{cell:>26}' for cell in cells)}", flush=True)
    for n in SIZES:
        cells = ["{:g} ({:g})".format(*reversed(slow_drift(noise, n, versions=2))) for noise in NOISES]
        print(f"{'+0.0001 a check: check':24}{n:>6}{''.join(f'{cell:>26}' for cell in cells)}", flush=True)
    print("\nNo change: shares of checks, from the first of a version on, that are drifted (changed)")
    for n in SIZES:
        rates = [false_alarms(noise, n, *ALARMS) for noise in NOISES]
        cells = [f"{rate.drifted:.2%} ({rate.changed:.2%})" for rate in rates]
        print(f"{f'{np.prod(ALARMS):,} checks':24}{n:>6}{''.join(f'{cell:>26}' for cell in cells)}", flush=True)
    generator = np.random.default_rng(1)
    scores = np.stack([control_scores(TEXTS, generator) for _ in range(ATTRIBUTES)], axis=1)
    reference = Reference(scores + generator.normal(0, 0.01, (21, *scores.shape)))
    scorings = scores + generator.normal(0, 0.01, (5, *scores.shape))
    names = [f"attribute_{number}" for number in range(ATTRIBUTES)]
    demographics = [(f"group_{number % DEMOGRAPHICS}",) for number in range(TEXTS)]
    reported = toxicity_measures([Attribute(name, Meaning.HARM) for name in names])
    taken = seconds(lambda: compare(reference, scorings, names, demographics, reported, ("0", "1")), repeats=3)
    print(f"\nA check of {TEXTS} texts, {ATTRIBUTES} attributes, {DEMOGRAPHICS} demographics: {taken:.2f} s")


def share(changed: float, drifted: float) -> str:
    """Of drifted checks; of changed ones besides, where they are more."""
    return f"{drifted:.0%}" if changed == drifted else f"{drifted:.0%} ({changed:.0%})"
