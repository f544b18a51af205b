"""A model that does not fit one device, spread over all of them: GPUs first, the processor's memory last.

accelerate decides which layers go where, and moves the states between them.
"""

import torch
from accelerate import infer_auto_device_map
from accelerate.utils import get_max_memory
from transformers import PreTrainedModel

from scoring.language_models.refusals import ModelRefused

USABLE = 0.9  # of a device's free memory: batches need the rest
GB = 1e9
Device = int | str
DeviceMap = dict[str, Device]


def free_on_devices() -> dict[Device, int]:
    """Bytes that weights may take on each GPU of this worker, by number, and of the processor's memory ("cpu")."""
    memory: dict[Device, int] = {device: int(USABLE * free) for device, free in get_max_memory().items()}
    return memory


def spread(model: PreTrainedModel, dtype: torch.dtype, memory: dict[Device, int], name: str) -> DeviceMap | None:
    """Where each part of a model goes whose weights are still on the meta device; None where one GPU holds all.

    memory: bytes for each device, GPUs before the processor. `name` is what messages call the model. Raises
    ModelRefused where all devices together do not hold it.
    """
    first = next(iter(memory))
    size = sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers())) * dtype.itemsize
    if size <= memory[first]:
        return None
    places: DeviceMap = infer_auto_device_map(
        model,
        max_memory=dict(memory),
        no_split_module_classes=list(model._no_split_modules or ()),
        dtype=dtype,
        offload_buffers=True,
    )
    if "disk" in places.values():
        raise ModelRefused(
            f"{name} takes {size / GB:,.1f} GB in {str(dtype).removeprefix('torch.')}, and the devices of this worker "
            f"hold {sum(memory.values()) / GB:,.1f} GB together: enter it in another precision, or use a larger worker"
        )
    return places


def main_device(places: DeviceMap) -> torch.device:
    """Where texts go in: the device of the first part."""
    first = next(iter(places.values()))
    return torch.device(f"cuda:{first}" if isinstance(first, int) else first)
