"""An example to copy: a scorer of how much of a text is in capitals."""

import hashlib
import unicodedata
from pathlib import Path

import numpy as np

from scoring.attributes import Attribute, Meaning
from scoring.scorers import Progress, Scorer, ScorerDeclaration, Scores, complete, fingerprint_of


class CapitalsScorer(Scorer):
    """One attribute: the share of a text's letters that are capitals, 0 where it has none."""

    attributes = (Attribute("capitals", Meaning.HARM, threshold=0.5),)

    def fingerprint(self) -> str:
        code = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
        return fingerprint_of(scorer="capitals", code=code, unicode=unicodedata.unidata_version)

    def _score_distinct(self, texts: list[str], progress: Progress) -> Scores:
        capitals = np.array([sum(map(str.isupper, text)) for text in texts])
        small = np.array([sum(map(str.islower, text)) for text in texts])
        progress(len(texts))
        return complete((capitals / np.maximum(capitals + small, 1))[:, None])


LIMITS = ("Capitals are called a harm so that they are ranked: this scorer shows how one is made.",)
SCORERS = (ScorerDeclaration("capitals", "Share of capitals", False, lambda _choice: CapitalsScorer(), LIMITS),)
