"""What a scorer says of each of its attributes: what a high score means, and from which score on a text has it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

THRESHOLD = 0.5  # a text is labelled where its score is strictly above


class Meaning(StrEnum):
    """What a high score of an attribute says of a text."""

    HARM = "harm"
    NEUTRAL = "neutral"
    GOOD = "good"


DIRECTIONS: dict[Meaning, Literal["higher", "lower"] | None] = {
    Meaning.HARM: "lower",
    Meaning.NEUTRAL: None,
    Meaning.GOOD: "higher",
}


@dataclass(frozen=True, slots=True)
class Attribute:
    """One score of a scorer. A text has the attribute where its score is strictly above `threshold`, within 0..1."""

    name: str
    meaning: Meaning
    threshold: float = THRESHOLD

    def __post_init__(self) -> None:
        """Raises ValueError where the meaning is none, or the threshold no score below 1."""
        object.__setattr__(self, "meaning", Meaning(self.meaning))
        if not 0 <= self.threshold < 1:
            raise ValueError(f"{self.name}, threshold = {self.threshold}: use a score from 0 to less than 1")

    @property
    def direction(self) -> Literal["higher", "lower"] | None:
        """Which scores are better; None where neither is."""
        return DIRECTIONS[self.meaning]

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """The attribute that `as_json` wrote. Raises TypeError or ValueError for another one."""
        return cls(**content)

    def as_json(self) -> dict[str, Any]:
        """The attribute as JSON can hold it."""
        return asdict(self)


def is_above(scores: ArrayLike, threshold: ArrayLike) -> NDArray[np.bool_]:
    """Whether each score lies strictly above the threshold, or its own one of several; one that is NaN does not.

    Both are taken as float32, in which scores are stored: a score of 0.3 is not above a threshold of 0.3, though it is
    as float64, where it keeps the rounding of float32 and the threshold does not.
    """
    labels: NDArray[np.bool_] = np.asarray(scores, dtype=np.float32) > np.asarray(threshold, dtype=np.float32)
    return labels


def harms_of(attributes: Sequence[Attribute]) -> list[int]:
    """Positions of the attributes that are harms."""
    return [number for number, attribute in enumerate(attributes) if attribute.meaning == Meaning.HARM]
