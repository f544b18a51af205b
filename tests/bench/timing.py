"""What every table measures with."""

import time
from collections.abc import Callable
from statistics import median

import torch


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
    """Floating-point operations a second of a large matrix product: the physical limit of a language model."""
    left, right = (torch.rand(size, size, device=device).to(dtype) for _ in range(2))
    left @ right

    def product() -> None:
        left @ right
        if device == "cuda":
            torch.cuda.synchronize()

    return 2 * size**3 / seconds(product, 8)
