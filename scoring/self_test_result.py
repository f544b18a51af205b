"""What is kept of a self-test: needs none of the libraries that run one."""

from dataclasses import asdict, dataclass
from typing import Any

VERSION = 1  # of this test: models that passed another one are tested again


@dataclass(frozen=True, slots=True)
class SelfTest:
    """A self-test that a model passed.

    tokens: likelihoods that were compared, in `texts` texts, the longest in windows of `window` tokens. difference: the
    largest, in nats a token. continued: tokens that were drawn and looked up; shortfall: the most that one was less
    likely than the likeliest by the plain forward, in nats. limit: the most that either may be.
    """

    version: int
    precision: str
    texts: int
    tokens: int
    window: int
    difference: float
    continued: int
    shortfall: float
    limit: float
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """As a board keeps it."""
        return asdict(self)
