"""Whether a model fits into the workers."""

import os

from django.conf import settings

GB = 1e9
BYTES_A_PARAMETER = 4  # models are run in float32
HEADROOM = 1.2  # beside the weights: a batch, and what loading needs
LIBRARIES = 1.0 * GB


def memory_needed(parameters: int) -> float:
    """Bytes that a worker needs to run a model of so many parameters."""
    return parameters * BYTES_A_PARAMETER * HEADROOM + LIBRARIES


def memory_of_workers() -> float:
    """Bytes that a worker may use: as the settings say, else all of this machine's."""
    if settings.WORKER_MEMORY_GB:
        return float(settings.WORKER_MEMORY_GB * GB)
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def most_parameters() -> int:
    """Of the largest model that fits."""
    return max(0, int((memory_of_workers() - LIBRARIES) / (BYTES_A_PARAMETER * HEADROOM)))
