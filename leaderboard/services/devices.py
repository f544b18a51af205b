"""What computes on this host. torch is imported when it is first asked for: pages are served without it."""

import platform


def has_gpu() -> bool:
    """Whether torch finds a GPU."""
    import torch

    return torch.cuda.is_available()


def device_name() -> str:
    """The GPU's name, or the kind of processor."""
    import torch

    return torch.cuda.get_device_name() if has_gpu() else f"cpu ({platform.machine()})"
