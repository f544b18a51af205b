"""What computes on this host. torch is imported when it is first asked for: pages are served without it."""

import platform
from importlib.util import find_spec

from scoring.refusals import Refused


def has_gpu() -> bool:
    """Whether torch finds a GPU."""
    import torch

    return torch.cuda.is_available()


def device_name() -> str:
    """The GPU's name, or the kind of processor."""
    import torch

    return torch.cuda.get_device_name() if has_gpu() else f"cpu ({platform.machine()})"


def has_engine() -> bool:
    """Whether this host has what loads models: a web server may be installed without."""
    return find_spec("torch") is not None


def require_engine() -> None:
    """Raise Refused where this host cannot load models."""
    if not has_engine():
        raise Refused("This host has no engine: do it where requirements.lock is installed, as on a worker's host.")
