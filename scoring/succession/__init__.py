"""Succession: what is left of the numbers of one scorer when another one takes over.

texts = preserve_attribute(ScoredTexts("toxicity", "toxicity", old, new, groups))  # correlation, flips, mapping, error
orders = compare_orders(names, old_values, new_values, mapped_values, "lower")  # ranks, tau, pairs out of order
"""

from scoring.succession.mapping import MappingError, ScoreMapping, fit_mapping, judge_mapping, split_groups
from scoring.succession.orders import (
    EntryValues,
    OrderComparison,
    ReversedPair,
    ScorerValue,
    compare_orders,
    dominated_pairs,
    exceedance,
    find_reversals,
)
from scoring.succession.texts import AttributePreservation, ScoredTexts, preserve_attribute
from scoring.succession.verdicts import Preservation, judge_labels, judge_ranks

__all__ = [
    "AttributePreservation",
    "EntryValues",
    "MappingError",
    "OrderComparison",
    "Preservation",
    "ReversedPair",
    "ScoreMapping",
    "ScoredTexts",
    "ScorerValue",
    "compare_orders",
    "dominated_pairs",
    "exceedance",
    "find_reversals",
    "fit_mapping",
    "judge_labels",
    "judge_mapping",
    "judge_ranks",
    "preserve_attribute",
    "split_groups",
]
