"""Has a scorer changed, and does it matter? Frozen texts, scored when a metric version was opened and scored now.

>>> import numpy as np
>>> from scoring.attributes import Attribute, Meaning
>>> from scoring.drift import Policy, compare, confirm, toxicity_measures
>>> reference = np.linspace(0.01, 0.99, 200, dtype=np.float32)[:, None]
>>> same, other = reference + np.float32(1e-6), reference * np.float32(0.9)
>>> def check(observed):
...     reported = toxicity_measures([Attribute("toxicity", Meaning.HARM)])
...     return compare(reference, observed, ["toxicity"], [()] * 200, reported, 1e-4, ("a" * 64, "a" * 64))
>>> check(same).verdict
<Verdict.STABLE: 'stable'>
>>> confirm(check(other), check(other)).verdict
<Verdict.DRIFTED: 'drifted'>

The two scorings are paired, text by text. Tests of the two distributions as if of different texts (Kolmogorov and
Smirnov's, Wasserstein's distance) describe and never decide: they miss a shift of 0.1 in every logit.

    policy.py       the limits, how alpha is spent over checks, what counts as equivalent
    measures.py     the change of what a board reports, with its bootstrap
    comparison.py   two scorings and a policy to a report; a second scoring to confirm it
    report.py       the report, to JSON and back
    noise.py        how far an unchanged scorer differs from itself
    impact.py       which entries move
    simulation.py   how often a change is seen
"""

from scoring.drift.comparison import compare, confirm, with_other_attributes, with_other_terms
from scoring.drift.impact import Move, RankImpact, rank_impact
from scoring.drift.measures import (
    Means,
    Reported,
    Safety,
    lexicon_measures,
    regard_measures,
    toxicity_measures,
)
from scoring.drift.noise import LEAST_NOISE_FLOOR, median_of_three, noise_floor
from scoring.drift.policy import LARGEST_MARGIN, Policy, alpha_of_check, equivalence_margin
from scoring.drift.report import DriftReport, Finding, Level, MeasureChange, Movement, PairedTests, Rule, Verdict

__all__ = [
    "LARGEST_MARGIN",
    "LEAST_NOISE_FLOOR",
    "DriftReport",
    "Finding",
    "Level",
    "Means",
    "MeasureChange",
    "Move",
    "Movement",
    "PairedTests",
    "Policy",
    "RankImpact",
    "Reported",
    "Rule",
    "Safety",
    "Verdict",
    "alpha_of_check",
    "compare",
    "confirm",
    "equivalence_margin",
    "lexicon_measures",
    "median_of_three",
    "noise_floor",
    "rank_impact",
    "regard_measures",
    "toxicity_measures",
    "with_other_attributes",
    "with_other_terms",
]
