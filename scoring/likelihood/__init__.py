"""Token log-likelihoods of texts: causal, masked (pseudo, after Salazar et al.) and permutation language models.

from scoring.language_models import load, resolve
from scoring.likelihood import LikelihoodSettings, token_log_likelihoods

reference = resolve("path/of/a/model")
model = load(reference.source, reference.location, reference.revision)
for text, likelihood in zip(texts, token_log_likelihoods(model, texts, LikelihoodSettings())):
    print(text, likelihood.tokens.sum())

The engine, and torch with it, is imported at its first use.
"""

from typing import TYPE_CHECKING

from scoring.lazy import import_lazily
from scoring.likelihood.passages import Passage
from scoring.likelihood.reasons import NotApplicable, Unscorable
from scoring.likelihood.settings import LikelihoodSettings
from scoring.likelihood.text_likelihood import TextLikelihood, likelihoods_table

if TYPE_CHECKING:
    from scoring.likelihood.engine import token_log_likelihoods
    from scoring.likelihood.tokens import SpecialTokens

__getattr__ = import_lazily(
    __name__,
    {"engine": ("token_log_likelihoods",), "tokens": ("SpecialTokens",)},
)

__all__ = [
    "LikelihoodSettings",
    "NotApplicable",
    "Passage",
    "SpecialTokens",
    "TextLikelihood",
    "Unscorable",
    "likelihoods_table",
    "token_log_likelihoods",
]
