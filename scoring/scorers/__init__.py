"""Scorers: texts in, scores for each of some attributes out.

    scorer = get_scorer("profanity")
    scores = scorer.score(texts)             # scores.values is float32 [n_texts, n_attributes], NaN where unscored
    scorer.attributes, scorer.fingerprint()  # each with what a high score means, and its threshold

A text without scores has a reason, never a 0. Scores of equal fingerprints may be compared, others may not. A scorer of
your own: `example.py` is one to copy, and `load_scorers` takes it in.

Scorers that need torch are imported when one of them is built.
"""

from typing import TYPE_CHECKING

from scoring.attributes import Attribute, Meaning
from scoring.lazy import import_lazily
from scoring.scorers.base import (
    Cost,
    Progress,
    Scorer,
    ScorerState,
    ScorerUnavailable,
    Scores,
    complete,
    fingerprint_of,
)
from scoring.scorers.declarations import Caveat, ScorerDeclaration, Surroundings
from scoring.scorers.labels import UndeclaredLabel
from scoring.scorers.lexicon import Lexicon, LexiconError, LexiconScorer, find_lexicon, read_lexicon
from scoring.scorers.registry import (
    LEXICON,
    SCORERS,
    UnknownScorer,
    declaration_of,
    find_declaration,
    get_scorer,
    is_scorer,
    load_scorers,
)
from scoring.scorers.replies import JsonLinesReplies, ReplyStore
from scoring.scorers.service import ServiceAccess
from scoring.scorers.services import read_access

if TYPE_CHECKING:
    from scoring.scorers.classifier import read_attributes

__getattr__ = import_lazily(__name__, {"classifier": ("read_attributes",)})

__all__ = [
    "LEXICON",
    "SCORERS",
    "Attribute",
    "Caveat",
    "Cost",
    "JsonLinesReplies",
    "Lexicon",
    "LexiconError",
    "LexiconScorer",
    "Meaning",
    "Progress",
    "ReplyStore",
    "Scorer",
    "ScorerDeclaration",
    "ScorerState",
    "ScorerUnavailable",
    "Scores",
    "ServiceAccess",
    "Surroundings",
    "UndeclaredLabel",
    "UnknownScorer",
    "complete",
    "declaration_of",
    "find_declaration",
    "find_lexicon",
    "fingerprint_of",
    "get_scorer",
    "is_scorer",
    "load_scorers",
    "read_access",
    "read_attributes",
    "read_lexicon",
]
