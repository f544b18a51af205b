"""What computes on this host. torch is imported when it is first asked for: pages are served without it."""

import platform
from importlib.util import find_spec

from django.conf import settings

from leaderboard.models import Worker
from scoring.language_models.precision import BYTES_A_NUMBER
from scoring.language_models.product_rates import ProductRates, name_processor, product_rates, require_speed
from scoring.refusals import Refused

PRECISION = "precision"  # the sort of ability, as in `precision bfloat16`
RATES = "product-rates.json"  # in PLUMBLINE_VAR


def has_gpu() -> bool:
    """Whether torch finds a GPU."""
    import torch

    return torch.cuda.is_available()


def device_name() -> str:
    """The GPU's name, or the kind of processor."""
    import torch

    return torch.cuda.get_device_name() if has_gpu() else f"cpu ({platform.machine()})"


def describe_machine() -> str:
    """What a speed is measured on: the GPU's name, or the processor's with the number of its cores."""
    return name_processor("cuda" if has_engine() and has_gpu() else "cpu")


def measured_rates() -> ProductRates:
    """How fast this host computes in each precision, measured once for this build of torch."""
    return product_rates(settings.VAR / RATES)


def require_fast_precision(precision: str) -> None:
    """Raise SlowPrecision where this host is slow in `precision` and nobody forces it."""
    require_speed(precision, settings.VAR / RATES)


def name_of_precision(precision: str) -> str:
    """The ability of a worker to compute in a precision."""
    return f"{PRECISION} {precision}"


def slow_precisions() -> dict[str, str]:
    """What no worker that runs models would compute in, each with the reason of the fastest of them.

    A worker that has not reported its rates may be able to.
    """
    rows = [row for row in Worker.objects.alive().filter(refusal="") if "gpu" in row.queues]
    if not rows or any(row.rates is None for row in rows):
        return {}
    problems: dict[str, str] = {}
    for precision in BYTES_A_NUMBER:
        ability = name_of_precision(precision)
        if all(row.problem_with(ability) for row in rows):
            fastest = max(rows, key=lambda row: ProductRates(**(row.rates or {})).by_precision[precision])
            problems[precision] = fastest.problem_with(ability)
    return problems


def has_engine() -> bool:
    """Whether this host has what loads models: a web server may be installed without."""
    return find_spec("torch") is not None


def require_engine() -> None:
    """Raise Refused where this host cannot load models."""
    if not has_engine():
        raise Refused("This host has no engine: do it where requirements.lock is installed, as on a worker's host.")
