"""Token log-likelihoods of texts: causal, masked (pseudo, after Salazar et al.) and permutation language models.

from scoring.language_models import load, resolve
from scoring.likelihood import LikelihoodSettings, token_log_likelihoods

found = resolve("path/of/a/model")
loaded = load(found.source, found.location, found.revision)
for text, likelihood in zip(texts, token_log_likelihoods(loaded, texts, LikelihoodSettings())):
    print(text, likelihood.tokens.sum())
"""

from scoring.likelihood.engine import TextLikelihood, likelihoods_table, token_log_likelihoods
from scoring.likelihood.settings import LikelihoodSettings
from scoring.likelihood.tokens import NotApplicable, SpecialTokens, Unscorable

__all__ = [
    "LikelihoodSettings",
    "NotApplicable",
    "SpecialTokens",
    "TextLikelihood",
    "Unscorable",
    "likelihoods_table",
    "token_log_likelihoods",
]
