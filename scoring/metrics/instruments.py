"""Instruments score control sets: the scorer that judges texts, or bundled models whose likelihoods are watched."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring import language_models, likelihood
from scoring.attributes import Attribute
from scoring.fingerprints import fingerprint
from scoring.language_models import BUNDLED
from scoring.likelihood import LikelihoodSettings
from scoring.metrics.lexicon_frequency import ANY
from scoring.scorers import Scorer

Matrix = NDArray[np.float32]

# A causal and a masked model that come with Plumbline watch over likelihoods, so that a change of the libraries or of
# the device shows in either way of computing them.
WATCHED_MODELS = ("plumb-gpt2-l2-h128", "plumb-bert-l2-h128")
REMOTE_REPLICATES = 9  # at an opening, of a scorer that costs quota
LIKELIHOOD_REPLICATES = 5
LIKELIHOOD_ROUNDING = 1e-4  # of log-perplexities: the possible effect of threads and batch sizes


@dataclass(frozen=True)
class Instrument:
    """The present instrument that scores a version's control sets; `fingerprint` covers all its parts.

    most_replicates: the limit at an opening, where more would cost too much. rounding: differences up to this size
    count as none. remote: whether to spread replicates over time. declared: the scorer's declarations of its
    attributes. binding: whether the instrument is the scorer itself, so that its fingerprint binds a version.
    """

    attributes: list[str]
    fingerprint: str
    score: Callable[[Sequence[str]], Matrix]  # texts to [n, attributes], NaN where a text has no score
    most_replicates: int | None = None
    rounding: float = 0.0
    remote: bool = False
    declared: tuple[Attribute, ...] = ()
    binding: bool = False


def scorer_instrument(scorer: Scorer) -> Instrument:
    """The scorer itself."""
    # "any" of a lexicon is the largest of the others.
    columns = [number for number, name in enumerate(scorer.attribute_names) if name != ANY]

    def score(texts: Sequence[str]) -> Matrix:
        return scorer.score(list(texts)).values[:, columns]

    return Instrument(
        attributes=[scorer.attribute_names[number] for number in columns],
        fingerprint=scorer.fingerprint(),
        score=score,
        most_replicates=REMOTE_REPLICATES if scorer.cost else None,
        remote=bool(scorer.cost),
        declared=scorer.attributes,
        binding=True,
    )


def likelihood_instrument(parameters: Mapping[str, Any], environment: Mapping[str, str]) -> Instrument:
    """The watched models under a protocol of likelihoods, in the environment that computes them."""
    settings = LikelihoodSettings(**parameters)
    sources = [language_models.resolve(str(BUNDLED / name)) for name in WATCHED_MODELS]
    watched_models = [
        language_models.load(source.source, source.location, source.revision, precision=settings.precision)
        for source in sources
    ]

    def score(texts: Sequence[str]) -> Matrix:
        columns = []
        for model in watched_models:
            likelihoods = likelihood.token_log_likelihoods(model, texts, settings)
            columns.append([np.nan if (value := item.log_perplexity) is None else value for item in likelihoods])
        return np.array(columns, dtype=np.float32).T

    return Instrument(
        attributes=list(WATCHED_MODELS),
        fingerprint=fingerprint({"models": [source.revision for source in sources], "environment": dict(environment)}),
        score=score,
        most_replicates=LIKELIHOOD_REPLICATES,
        rounding=LIKELIHOOD_ROUNDING,
    )
