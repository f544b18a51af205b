"""Whether a server's likelihoods are those of the weights that it is said to serve, or at least of one steady model.

The measure is the mean absolute difference of the log-likelihoods of a sentence's tokens, in nats a token. The
difference of two log-perplexities, which are what the board publishes, is never larger; and unlike theirs it does not
vanish where errors cancel, as where every value is that of the token before.
"""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from scoring.refusals import Refused

FLOAT32, HALF, QUANTISED = "float32", "half", "quantised"
# Nats a token, of the sentence that differs most. In process is float32; servers of one computation differ by rounding.
TOLERANCES = {FLOAT32: 2e-3, HALF: 0.06, QUANTISED: 0.25}
STEADY = 0.06  # between two answers of the same server, whatever it computes in


class LikelihoodsDiffer(Refused):
    """The server's likelihoods are not those of the weights, or not the same twice; the message has the numbers."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far two computations of the likelihoods of the same sentences are apart, in nats a token.

    largest: of the sentence `where`. mean: over all sentences. sentences: how many were compared.
    """

    largest: float
    mean: float
    where: str
    sentences: int

    def as_json(self) -> dict[str, Any]:
        """Its fields."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.largest:.4f} nats a token at most (sentence {self.where}), {self.mean:.4f} on average"


def compare_likelihoods(answers: pa.Table, reference: pa.Table) -> Agreement:
    """Compare rows of the `likelihoods` schema for the same sentences.

    Raises LikelihoodsDiffer where a sentence has no likelihood in one of them, or another number of tokens.
    """
    ids = answers["id"].to_pylist()
    differences = [
        _difference(*row)
        for row in zip(
            ids,
            answers["token_log_likelihoods"].to_pylist(),
            reference["token_log_likelihoods"].to_pylist(),
            answers["unscorable"].to_pylist(),
            reference["unscorable"].to_pylist(),
            strict=True,
        )
    ]
    place = int(np.argmax(differences))
    return Agreement(differences[place], statistics.fmean(differences), ids[place], len(ids))


def _difference(
    id_: str,
    values: Sequence[float],
    reference_values: Sequence[float],
    reason: str | None,
    reference_reason: str | None,
) -> float:
    if reason or reference_reason:
        raise LikelihoodsDiffer(f"control sentence {id_} has no likelihood: {reason or reference_reason}")
    if len(values) != len(reference_values):
        raise LikelihoodsDiffer(
            f"control sentence {id_} has {len(values)} scored tokens by the server and {len(reference_values)} by the "
            "weights: it is another tokenizer, or a token is missing"
        )
    return float(np.abs(np.asarray(values, dtype=np.float64) - np.asarray(reference_values, dtype=np.float64)).mean())


def require_agreement(agreement: Agreement, tolerance: float, subject: str) -> None:
    """Raise LikelihoodsDiffer, with the numbers, where two computations are further apart than `tolerance`."""
    if not agreement.largest <= tolerance:
        raise LikelihoodsDiffer(f"{subject} by {agreement}: more than the {tolerance:g} that is tolerated")


def tolerance_for(precision: str, weight_format: str) -> float:
    """The tolerance of a server that computes in `precision` with weights stored as `weight_format`, as declared."""
    if weight_format.startswith("GGUF") or precision not in ("", "float32", "bfloat16", "float16"):
        return TOLERANCES[QUANTISED]
    return TOLERANCES[HALF if precision in ("bfloat16", "float16") else FLOAT32]
