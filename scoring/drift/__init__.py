"""Has a scorer changed, and does it matter? Frozen texts, scored when a metric version was opened and scored now.

>>> import numpy as np
>>> from scoring.attributes import Attribute, Meaning
>>> from scoring.drift import Reference, compare, confirm, toxicity_measures
>>> generator, scores = np.random.default_rng(1), np.linspace(0.01, 0.99, 300)[:, None]
>>> def scored(times, change=0.0):
...     return scores + change + generator.normal(0, 0.003, (times, 300, 1))
>>> reference = Reference(scored(21))
>>> reference.scorings
5
>>> def check(scorings):
...     reported = toxicity_measures([Attribute("toxicity", Meaning.HARM)])
...     return compare(reference, scorings, ["toxicity"], [()] * 300, reported, ("a" * 64, "a" * 64))
>>> check(scored(5)).verdict
<Verdict.STABLE: 'stable'>
>>> confirm(check(scored(5, 0.02)), check(scored(5, 0.02))).verdict
<Verdict.DRIFTED: 'drifted'>

A control set is scored several times at its opening, so that every text has a centre and a noise of its own, and
now; the scorings are paired, text by text. Tests of the two distributions as if of different texts (Kolmogorov and
Smirnov's, Wasserstein's distance) describe and never decide: they miss a shift of 0.1 in every logit.

    rule.py         the version of the rule
    policy.py       the limits, how alpha is spent over checks, what counts as equivalent
    noise.py        replicates: how far an unchanged scorer differs from itself
    opening.py      whether a scorer is steady enough to open a version on
    measures.py     the change of what a board reports, with its bootstrap
    comparison.py   replicates, scorings of now and a policy to a report; a second scoring to confirm it
    report.py       the report, to JSON and back
    impact.py       which entries move
    simulation.py   how often a change is seen
"""

from scoring.drift.comparison import BAND_LIMITS, compare, confirm, weigh, with_other_attributes, with_other_terms
from scoring.drift.impact import Move, RankImpact, rank_impact
from scoring.drift.measures import (
    Means,
    Reported,
    Safety,
    lexicon_measures,
    regard_measures,
    toxicity_measures,
)
from scoring.drift.noise import REPLICATES, Reference, score_replicate
from scoring.drift.opening import Unsteady, require_steady
from scoring.drift.policy import LARGEST_MARGIN, Policy, alpha_of_check, equivalence_margin
from scoring.drift.report import (
    Detectable,
    DriftReport,
    Finding,
    Level,
    MeasureChange,
    Movement,
    NoiseTests,
    PairedTests,
    Rule,
    Verdict,
)

__all__ = [
    "BAND_LIMITS",
    "LARGEST_MARGIN",
    "REPLICATES",
    "Detectable",
    "DriftReport",
    "Finding",
    "Level",
    "Means",
    "MeasureChange",
    "Move",
    "Movement",
    "NoiseTests",
    "PairedTests",
    "Policy",
    "RankImpact",
    "Reference",
    "Reported",
    "Rule",
    "Safety",
    "Unsteady",
    "Verdict",
    "alpha_of_check",
    "compare",
    "confirm",
    "equivalence_margin",
    "lexicon_measures",
    "rank_impact",
    "regard_measures",
    "require_steady",
    "score_replicate",
    "toxicity_measures",
    "weigh",
    "with_other_attributes",
    "with_other_terms",
]
