"""A batch computed in parts that fit into memory, without another result.

What a model gives for a row depends on the shape of what it computes at once: on the width that rows are padded to, and
on processors, as measured, on whether a matrix product has LEAST rows or fewer, which another routine computes. So the
plan of batches, which fixes the widths, never depends on memory: only how many rows of a batch go through the model at
once does, and no product of a part has fewer than LEAST rows where that of the whole batch has as many. Likelihoods in
parts are thus the same to the byte. Continuations are drawn from logits that agree to rounding: attention without any
padding is computed by another routine. A GPU's libraries choose their routines by the number of rows at will: there,
parts may change the last bits of likelihoods as well.
"""

import resource
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import torch

from scoring.language_models import LoadedModel

Row = TypeVar("Row")
Answer = TypeVar("Answer")

LEAST = 4
USABLE = 0.8  # of the free memory
# Of each token at once in a layer, in hidden sizes: residual, norm, queries, keys, values, and the two inner products.
STATES_A_TOKEN = 20
BYTES_OF_STATE = 4


class Parts:
    """How many tokens go through a model at once: what free memory has room for, half of it when that runs out."""

    def __init__(self, device: torch.device, most: int | None = None) -> None:
        """most: tokens that surely fit; None where nothing is known."""
        self.device, self.most = device, most

    def compute(
        self, rows: Sequence[Row], width: int, work: Callable[[Sequence[Row]], Answer]
    ) -> Iterator[tuple[Sequence[Row], Answer]]:
        """Yield consecutive parts of `rows`, of `width` tokens each, and what `work` gives for them.

        Where memory runs out, the part is halved, and so are all later ones of its size; what was computed before
        stays. Raises what torch raises where memory does not suffice for LEAST tokens, and what `work` raises.
        """
        queue = [rows]
        while queue:
            part = queue.pop()
            is_smallest = len(part) // 2 * width < LEAST
            if self.most is None or len(part) * width <= self.most or is_smallest:
                try:
                    answer = work(part)
                except (RuntimeError, MemoryError) as error:
                    if is_smallest or not is_out_of_memory(error):
                        raise
                else:
                    yield part, answer
                    continue
                # Outside the block above the error is released, and with it the tensors that its traceback held.
                if self.device.type == "cuda":
                    torch.cuda.empty_cache()
                self.most = (len(part) + 1) // 2 * width
            half = (len(part) + 1) // 2
            queue += [part[half:], part[:half]]


def parts_for(model: LoadedModel) -> Parts:
    """Parts that the memory which is free now has room for."""
    free = free_memory(model.device)
    if free is None:
        return Parts(model.device)
    token_bytes = model.architecture.hidden_size * STATES_A_TOKEN * BYTES_OF_STATE
    return Parts(model.device, max(1, int(USABLE * free / token_bytes)))


def free_memory(device: torch.device) -> int | None:
    """Bytes that are free on a device, or may be taken of the processor's by this process; None where nobody says."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if device.type != "cpu":
        return None
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        used_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        free = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return free if limit == resource.RLIM_INFINITY else max(0, min(free, limit - used_bytes))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: CUDA has an exception for it, other devices only a message."""
    message = str(error).casefold()
    has_own_type = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return has_own_type or "out of memory" in message or "can't allocate memory" in message
