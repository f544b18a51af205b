"""What is known of a text's likelihood, whoever computed it, and the table of many of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from scoring.artefacts import SCHEMAS
from scoring.likelihood.reasons import Unscorable


@dataclass(frozen=True, slots=True)
class TextLikelihood:
    """Natural-log likelihoods of a text's scored tokens, float32 [n_tokens], or why it has none; and its windows."""

    tokens: np.ndarray
    unscorable: Unscorable | None
    windows: int

    @property
    def log_perplexity(self) -> float | None:
        """Minus the mean token log-likelihood; None where no token has a likelihood."""
        return None if self.unscorable else -float(self.tokens.mean(dtype=np.float64))


def likelihoods_table(ids: Sequence[str], likelihoods: Sequence[TextLikelihood]) -> pa.Table:
    """Rows of the `likelihoods` schema for texts with these ids."""
    schema = SCHEMAS["likelihoods"]
    columns = {
        "id": ids,
        "token_log_likelihoods": [likelihood.tokens for likelihood in likelihoods],
        "unscorable": [likelihood.unscorable and likelihood.unscorable.value for likelihood in likelihoods],
        "windows": [likelihood.windows for likelihood in likelihoods],
    }
    return pa.table(columns, schema=schema)
