"""Whether a model fits into the workers."""

import os

from django.conf import settings

from leaderboard.services.devices import slow_precisions
from scoring.language_models.precision import BYTES_A_NUMBER

GB = 1e9
USUAL = "float32"  # what a model is computed in where nobody says
# As `python -m tests.bench memory` measures; README.md has the table.
HEADROOM = 1.1  # times the weights: what loading needs, and the states of a batch, which grow with the model
WORKING = 0.1 * GB  # logits of a part of the vocabulary, whatever the model
LIBRARIES = 1.0 * GB
# Of likelihoods, on two processor cores: two operations a parameter and token.
OPERATIONS_A_SECOND = {"float32": 7e10, "bfloat16": 1.3e11, "float16": 1.6e10}
TOKENS_A_TEXT = 25


def memory_needed(parameters: int, precision: str = USUAL) -> float:
    """Bytes that a worker needs to run a model of so many parameters; precision: "" is the usual one."""
    return parameters * BYTES_A_NUMBER[precision or USUAL] * HEADROOM + WORKING + LIBRARIES


def seconds_estimated(parameters: int, texts: int, precision: str = USUAL) -> float:
    """Seconds that the likelihoods of so many texts take, before this board has measured anything similar."""
    return 2 * parameters * TOKENS_A_TEXT * texts / OPERATIONS_A_SECOND[precision or USUAL]


def memory_of_workers() -> float:
    """Bytes that a worker may use: as the settings say, else all of this machine's."""
    if settings.WORKER_MEMORY_GB:
        return float(settings.WORKER_MEMORY_GB * GB)
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def most_parameters(precision: str = USUAL) -> int:
    """Of the largest model that fits."""
    return max(0, int((memory_of_workers() - LIBRARIES - WORKING) / (BYTES_A_NUMBER[precision] * HEADROOM)))


def explain_size(parameters: int, precision: str = USUAL) -> str:
    """Why a model of so many parameters does not fit into the workers in this precision, and which would do.

    "" where it fits.
    """
    precision = precision or USUAL
    memory, capacity = memory_needed(parameters, precision), memory_of_workers()
    if memory <= capacity:
        return ""
    slow = slow_precisions()
    precisions = [name for name in BYTES_A_NUMBER if memory_needed(parameters, name) <= capacity and name not in slow]
    remedy = f"Choose {' or '.join(precisions)}, which fits, submit" if precisions else "Submit"
    return (
        f"It has {parameters:,} parameters and needs about {memory / GB:,.1f} GB to run in {precision}; the workers of "
        f"this board have {capacity / GB:,.1f} GB. {remedy} a smaller one, or ask the operators for a larger worker."
    )
