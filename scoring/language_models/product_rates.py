"""How fast this host multiplies matrices in each precision: it refuses what it is slow in, unless that is forced.

A processor without units for bfloat16 or float16 emulates them, and is then several times slower than in float32,
though nothing fails. Numbers belong to the precision that is declared, so nothing is switched silently.
"""

import functools
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scoring.language_models.precision import BYTES_A_NUMBER
from scoring.refusals import Refused

FORCED = "SLOW_PRECISIONS"  # the environment variable with the precisions that are used though they are slow
USUAL = "float32"
SLOW = 0.8  # of the rate in float32; below it a precision is refused
SHAPES = {"cpu": (128, 768, 768), "cuda": (4096, 4096, 4096)}  # tokens, inputs and outputs of a layer
ROUNDS = 20  # of each precision in turn; the fastest counts, as other work slows down the others
VERSION = 2


class SlowPrecision(Refused):
    """This host is slow in the precision. The message has the figures and the remedy."""


@dataclass(frozen=True)
class ProductRates:
    """Rates of matrix products on one host.

    by_precision: GFLOP/s of the GPU, or of one core of the processor. machine: its host and processor or GPU.
    """

    machine: str
    by_precision: Mapping[str, float]

    def ratio(self, precision: str) -> float:
        """The rate as a multiple of that in float32."""
        return self.by_precision[precision] / self.by_precision[USUAL]

    def is_slow(self, precision: str) -> bool:
        """Whether float32 is so much faster that the precision is refused."""
        return self.ratio(precision) < SLOW

    def describe(self, precision: str) -> str:
        """The figures of a precision in a sentence without a full stop."""
        return (
            f"{precision} runs at {self.ratio(precision):.2f}x of {USUAL} on {self.machine} "
            f"({self.by_precision[precision]:,.0f} against {self.by_precision[USUAL]:,.0f} GFLOP/s)"
        )

    def as_json(self) -> dict[str, Any]:
        """For a worker's row and a file."""
        return asdict(self)


def forced_precisions(text: str | None = None) -> list[str]:
    """The precisions that SLOW_PRECISIONS names, or `text` in its place. Raises Refused for what is none."""
    text = os.environ.get(FORCED, "") if text is None else text
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in BYTES_A_NUMBER:
            raise Refused.of_value(FORCED, name, f"use {', '.join(BYTES_A_NUMBER)}, with commas between them")
    return names


def require_speed(precision: str, kept_in: Path | None = None) -> None:
    """Raise SlowPrecision where this host is slow in `precision` and SLOW_PRECISIONS does not force it.

    kept_in: as for `product_rates`.
    """
    if precision not in BYTES_A_NUMBER or precision == USUAL or precision in forced_precisions():
        return
    rates = product_rates(kept_in)
    if rates.is_slow(precision):
        raise SlowPrecision(
            f"{rates.describe(precision)}: compute it where there are units for {precision}, declare {USUAL}, or set "
            f"{FORCED}={precision} to use it all the same",
            field="precision",
            value=precision,
        )


def product_rates(kept_in: Path | None = None) -> ProductRates:
    """The rates of the GPU, or of the processor where there is none, measured once a process.

    kept_in: a file with the best rates of all processes of this host with this build of torch: other work only ever
    slows a measurement down.
    """
    return _rates(kept_in)


@functools.cache
def _rates(kept_in: Path | None) -> ProductRates:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    machine = name_machine(device)
    conditions = [VERSION, device, machine, torch.__version__, _instructions()]
    by_precision = _measure(device)
    if kept_in is None:
        return ProductRates(machine, by_precision)
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):  # none yet, or one of another release
        content = json.loads(kept_in.read_text(encoding="utf-8"))
        if content["conditions"] == conditions:
            by_precision = {name: max(rate, float(content["rates"][name])) for name, rate in by_precision.items()}
    with suppress(OSError):  # the next process measures on its own
        new_file = kept_in.with_name(f"{kept_in.name}.{os.getpid()}")
        new_file.write_text(json.dumps({"conditions": conditions, "rates": by_precision}), encoding="utf-8")
        new_file.replace(kept_in)
    return ProductRates(machine, by_precision)


def _measure(device: str) -> dict[str, float]:
    """GFLOP/s of a layer's product in each precision: the fastest of some rounds in which they take turns.

    A processor is measured by one thread and the time that this thread ran, or work beside it would be measured too.
    """
    import torch

    if device == "cuda":
        return _time_products(device, time.perf_counter)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _time_products(device, time.thread_time)
    finally:
        torch.set_num_threads(threads)


def _time_products(device: str, clock: Callable[[], float]) -> dict[str, float]:
    import torch

    tokens, inputs, outputs = SHAPES[device]
    seconds = dict.fromkeys(BYTES_A_NUMBER, float("inf"))
    generator = torch.Generator(device).manual_seed(0)
    rows = torch.rand(tokens, inputs, device=device, generator=generator)
    weights = torch.rand(outputs, inputs, device=device, generator=generator)
    with torch.inference_mode():
        for number in range(ROUNDS + 1):
            for precision in BYTES_A_NUMBER:
                operands = [tensor.to(getattr(torch, precision)) for tensor in (rows, weights)]
                _wait(device)
                began = clock()
                torch.nn.functional.linear(*operands)
                _wait(device)
                if number:  # the first prepares kernels
                    seconds[precision] = min(seconds[precision], clock() - began)
    return {precision: 2e-9 * tokens * inputs * outputs / least for precision, least in seconds.items()}


def _wait(device: str) -> None:
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def _instructions() -> str:
    """What limits the kernels that torch chooses, beside the processor."""
    return " ".join(os.environ.get(name, "") for name in ("ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY"))


def name_machine(device: str) -> str:
    """The host and what computes on it, as in `alpha (AMD EPYC, 2 cores)`."""
    return f"{platform.node()} ({name_processor(device)})"


def name_processor(device: str) -> str:
    """The GPU's name, or the processor's with the number of its cores."""
    if device == "cuda":
        import torch

        return torch.cuda.get_device_name()
    name = platform.machine()
    with suppress(OSError):  # there is no such file elsewhere than on Linux
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    count = os.cpu_count() or 1
    return f"{name}, {count} core{'' if count == 1 else 's'}"
