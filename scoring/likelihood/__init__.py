"""Token log-likelihoods of texts under a language model. Definitions: causal, and masked (pseudo) after Salazar et al.

from scoring.language_models import load
from scoring.likelihood import LikelihoodSettings, token_log_likelihoods

likelihoods = token_log_likelihoods(load("folder", path, revision), texts, LikelihoodSettings())
"""

from scoring.likelihood.engine import (
    LikelihoodSettings,
    TextLikelihood,
    Unscorable,
    UnsupportedKind,
    token_log_likelihoods,
)

__all__ = ["LikelihoodSettings", "TextLikelihood", "Unscorable", "UnsupportedKind", "token_log_likelihoods"]
