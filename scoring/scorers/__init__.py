"""Scorers: texts in, scores for each of some attributes out.

    scorer = get_scorer("profanity")
    scores = scorer.score(texts)             # scores.values is float32 [n_texts, n_attributes], NaN where unscored
    scorer.attributes, scorer.fingerprint()

A text without scores has a reason, never a 0. Scores of equal fingerprints may be compared, others may not.
"""

from scoring.scorers.base import Cost, Scorer, ScorerState, ScorerUnavailable, Scores
from scoring.scorers.lexicon import Lexicon, LexiconError, find_lexicon, read_lexicon
from scoring.scorers.perspective import cost_of_text as perspective_cost
from scoring.scorers.perspective import unavailable as perspective_problem
from scoring.scorers.registry import (
    SCORERS,
    ScorerDeclaration,
    UnknownScorer,
    find_declaration,
    get_scorer,
    is_scorer,
)
from scoring.scorers.replies import JsonLinesReplies, ReplyStore

__all__ = [
    "SCORERS",
    "Cost",
    "JsonLinesReplies",
    "Lexicon",
    "LexiconError",
    "ReplyStore",
    "Scorer",
    "ScorerDeclaration",
    "ScorerState",
    "ScorerUnavailable",
    "Scores",
    "UnknownScorer",
    "find_declaration",
    "find_lexicon",
    "get_scorer",
    "is_scorer",
    "perspective_cost",
    "perspective_problem",
    "read_lexicon",
]
