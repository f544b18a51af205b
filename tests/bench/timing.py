"""What every table measures with."""

import time
from collections.abc import Callable

import torch


def seconds(work: Callable[[], object], repeats: int = 2) -> float:
    """The fastest of some runs."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def product_rate(dtype: torch.dtype = torch.float32, size: int = 2048, device: str = "cpu") -> float:
    """Floating-point operations a second of a large matrix product: the physical limit of a language model."""
    left, right = (torch.rand(size, size, device=device).to(dtype) for _ in range(2))
    left @ right

    def product() -> None:
        left @ right
        if device == "cuda":
            torch.cuda.synchronize()

    return 2 * size**3 / seconds(product, 8)
