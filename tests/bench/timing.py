"""What every table measures with."""

import time
from collections.abc import Callable
from statistics import median

import torch

from scoring.language_models.precision import BYTES_A_NUMBER


def seconds(work: Callable[[], object], repeats: int = 2) -> float:
    """The fastest of some runs."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def seconds_in_turn(works: dict[str, Callable[[], object]], rounds: int = 3) -> dict[str, float]:
    """The median seconds of each of some works, which run in turn: what slows the machine down slows all of them."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            times[name].append(seconds(work, 1))
    return {name: median(durations) for name, durations in times.items()}


def product_rate(dtype: torch.dtype = torch.float32, size: int = 2048, device: str = "cpu") -> float:
    """Floating-point operations a second of a large matrix product in `dtype`: the physical limit of a language model.

    As the layers of a model multiply, with the weights transposed: another layout may run in another routine, which
    for types that a processor has no units for is many times slower.
    """
    left, right = (torch.rand(size, size, device=device).to(dtype) for _ in range(2))

    def product() -> None:
        torch.nn.functional.linear(left, right)
        if device == "cuda":
            torch.cuda.synchronize()

    with torch.inference_mode():
        product()
        return 2 * size**3 / seconds(product, 8)


def rates_by_precision(size: int = 2048, device: str = "cpu") -> dict[str, float]:
    """What this hardware could reach in each precision, in floating-point operations a second."""
    return {name: product_rate(getattr(torch, name), size, device) for name in BYTES_A_NUMBER}


def describe_rates(rates: dict[str, float]) -> str:
    """Rates in words, each also as a multiple of that in float32."""
    return ", ".join(
        f"{name} {rate / 1e9:,.0f} GFLOP/s ({rate / rates['float32']:.2f}x)" for name, rate in rates.items()
    )
