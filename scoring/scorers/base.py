"""What every scorer is: texts in, one row of scores per text out, and a fingerprint of whatever fixes the scores."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from scoring.attributes import Attribute

FINGERPRINT_VERSION = 1
NO_CHARACTER = "holds half a surrogate pair, which is no character"

Progress = Callable[[int], None]  # distinct texts finished so far


class ScorerState(StrEnum):
    """Whether scores can be had. `retired`: never again, because the service behind the scorer has ended."""

    AVAILABLE = "available"
    UNAVAILABLE = "unavailable"
    RETIRED = "retired"


class ScorerUnavailable(RuntimeError):
    """The scorer cannot be had here, or not now. The message says why and what to do; `state` is never `available`."""

    def __init__(self, message: str, state: ScorerState = ScorerState.UNAVAILABLE) -> None:
        super().__init__(message)
        self.state = state


@dataclass(frozen=True, slots=True)
class Cost:
    """What one text costs with a remote scorer: requests, seconds of quota, US dollars (None: no fee is declared)."""

    requests: int
    seconds: float
    usd: float | None


@dataclass(frozen=True)
class Scores:
    """Scores of texts, in their order.

    `values` is float32 [n_texts, n_attributes], in 0..1; the row of a text without scores is NaN, and its `reasons`
    entry says why (None elsewhere). `truncated` is bool [n_texts]: only the beginning of the text was seen.
    Raises ValueError for wrong shapes and FloatingPointError for a value that is missing without a reason.
    """

    values: np.ndarray
    reasons: tuple[str | None, ...]
    truncated: np.ndarray

    def __post_init__(self) -> None:
        shapes = (self.values.shape[:1], self.truncated.shape)
        if self.values.ndim != 2 or shapes != ((len(self.reasons),), (len(self.reasons),)):
            raise ValueError(f"scores of {len(self.reasons)} texts cannot have the shapes {shapes}")
        has_reason = np.array([reason is not None for reason in self.reasons], dtype=bool)
        if not np.isfinite(self.values[~has_reason]).all():
            raise FloatingPointError("a text without a reason has a score that is not a number")
        if not np.isnan(self.values[has_reason]).all():
            raise ValueError("a text that has no scores for a reason has a score")

    @property
    def truncated_count(self) -> int:
        """Number of texts of which only the beginning was scored."""
        return int(self.truncated.sum())

    @property
    def unscored_count(self) -> int:
        """Number of texts without scores."""
        return sum(reason is not None for reason in self.reasons)


class Scorer(ABC):
    """Gives texts a score for each of `attributes`; `cost` is what a text costs where the scorer is remote."""

    attributes: tuple[Attribute, ...]
    cost: Cost | None = None

    @property
    def attribute_names(self) -> tuple[str, ...]:
        """Names of the attributes, in their order."""
        return tuple(attribute.name for attribute in self.attributes)

    @abstractmethod
    def fingerprint(self) -> str:
        """sha256, in hex digits, of everything that fixes the scores. Equal fingerprints: comparable scores."""

    def score(self, texts: Sequence[str], progress: Progress = lambda _count: None) -> Scores:
        """Score `texts`. Identical texts are scored once, and the order of texts changes no score.

        `progress` gets the number of distinct texts finished; what it raises passes through. Raises ScorerUnavailable
        when the scorer cannot be reached any more, TypeError where it does not declare its attributes.
        """
        undeclared_attributes = [attribute for attribute in self.attributes if not isinstance(attribute, Attribute)]
        if undeclared_attributes:
            raise TypeError(
                f"attributes: nothing is declared of {undeclared_attributes[0]!r}; declare "
                f"Attribute({undeclared_attributes[0]!r}, meaning), "
                "with Meaning.HARM, Meaning.NEUTRAL or Meaning.GOOD"
            )
        distinct = list(dict.fromkeys(texts))
        scorable = [text for text in distinct if _encodable(text)]
        distinct_scores = self._score_distinct(scorable, progress) if scorable else self._nothing()
        row = {text: number for number, text in enumerate(scorable)}
        rows = np.array([row.get(text, len(scorable)) for text in texts], dtype=np.intp)
        reasons = (*distinct_scores.reasons, NO_CHARACTER)
        return Scores(
            values=np.vstack([distinct_scores.values, np.full((1, len(self.attributes)), np.nan, dtype=np.float32)])[
                rows
            ],
            reasons=tuple(reasons[number] for number in rows.tolist()),
            truncated=np.append(distinct_scores.truncated, False)[rows],
        )

    @abstractmethod
    def _score_distinct(self, texts: list[str], progress: Progress) -> Scores:
        """Score one or more texts, each different from the others and encodable as UTF-8."""

    def _nothing(self) -> Scores:
        return complete(np.empty((0, len(self.attributes)), dtype=np.float32))


def complete(values: np.ndarray) -> Scores:
    """Scores of whole texts, none of which lacks any; `values` is [n_texts, n_attributes]."""
    return Scores(values.astype(np.float32, copy=False), (None,) * len(values), np.zeros(len(values), dtype=bool))


def fingerprint_of(**parts: Any) -> str:
    """sha256, in hex digits, of named values that JSON can hold; the order of names does not matter."""
    content = json.dumps({"version": FINGERPRINT_VERSION, **parts}, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _encodable(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
