"""The linear model inside the alt-profanity-check package: needs no download and no accelerator."""

import hashlib
from importlib import resources
from importlib.metadata import version

import numpy as np

from scoring.attributes import Attribute, Meaning
from scoring.scorers.base import Progress, Scorer, Scores, complete, fingerprint_of

FILES = ("data/model.joblib", "data/vectorizer.joblib")
LIBRARIES = ("alt-profanity-check", "scikit-learn")
CHUNK = 10_000  # texts between two reports of progress


class ProfanityScorer(Scorer):
    """One attribute, the probability that a text is profane. Texts of any length are read whole."""

    attributes = (Attribute("profanity", Meaning.HARM),)

    def __init__(self) -> None:
        # Imported here because the package reads its model, with all of scikit-learn, as it is imported.
        import profanity_check

        self._probabilities = profanity_check.predict_prob

    def fingerprint(self) -> str:
        """Covers the package's model files and the versions of the package and of scikit-learn."""
        folder = resources.files("profanity_check")
        return fingerprint_of(
            scorer="profanity",
            files={name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in FILES},
            libraries={name: version(name) for name in LIBRARIES},
        )

    def _score_distinct(self, texts: list[str], progress: Progress) -> Scores:
        parts = []
        for start in range(0, len(texts), CHUNK):
            parts.append(self._probabilities(texts[start : start + CHUNK]))
            progress(min(start + CHUNK, len(texts)))
        return complete(np.concatenate(parts)[:, None])
