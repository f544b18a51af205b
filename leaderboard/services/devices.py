"""What computes on this host. torch is imported when it is first asked for: pages are served without it."""

import os
import platform
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from scoring.refusals import Refused


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
    if has_engine() and has_gpu():
        return device_name()
    name = platform.machine()
    with suppress(OSError):  # there is no such file elsewhere than on Linux
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    count = os.cpu_count() or 1
    return f"{name}, {count} core{'' if count == 1 else 's'}"


def has_engine() -> bool:
    """Whether this host has what loads models: a web server may be installed without."""
    return find_spec("torch") is not None


def require_engine() -> None:
    """Raise Refused where this host cannot load models."""
    if not has_engine():
        raise Refused("This host has no engine: do it where requirements.lock is installed, as on a worker's host.")
