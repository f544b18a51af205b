"""Declared precisions of a classifier: float32, bfloat16, and int8 whose scores do not depend on the batch."""

from enum import StrEnum

import torch
from torch import nn

from scoring.language_models.product_rates import SlowPrecision, require_speed
from scoring.scorers.base import ScorerUnavailable


class Precision(StrEnum):
    """What a model computes in. Each is another scorer, with another fingerprint.

    float32 is exact: other batches change no score by more than 1e-5. bfloat16 rounds every intermediate result, so
    other batches may move a score in its third decimal. int8 rounds weights and inputs of linear layers, the same way
    whatever the batch.
    """

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    INT8 = "int8"


class Int8Linear(nn.Module):
    """A linear layer in whole numbers of 8 bits: weights rounded once for each output, inputs for each token.

    torch's own dynamic quantisation rounds inputs by the largest value of the whole batch, so that a text's scores
    depend on its neighbours; and it is deprecated. Here a row is rounded by its own largest value, and sums of whole
    numbers are exact.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weights, scale = _round(linear.weight.detach())
        self.weights: torch.Tensor
        self.scale: torch.Tensor
        self.bias: torch.Tensor | None
        # Laid out as [inputs, outputs]: with the transposed view the product is eight times slower.
        self.register_buffer("weights", weights.t().contiguous())
        self.register_buffer("scale", scale.squeeze(1))
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach())

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """[..., inputs] float32 to [..., outputs] float32."""
        rows, scale = _round(inputs.reshape(-1, inputs.shape[-1]))
        products = torch._int_mm(rows, self.weights).float().mul_(scale).mul_(self.scale)
        if self.bias is not None:
            products.add_(self.bias)
        return products.reshape(*inputs.shape[:-1], -1)


def require_fast_precision(precision: str) -> None:
    """Raise ScorerUnavailable where this host is slow in `precision`, unless SLOW_PRECISIONS forces it."""
    try:
        require_speed(precision)
    except SlowPrecision as error:
        raise ScorerUnavailable(str(error)) from error


def convert(model: nn.Module, precision: Precision, device: torch.device) -> None:
    """Change `model`, in float32, to `precision` in place. Raises ValueError where the device does not have it."""
    if precision is Precision.BFLOAT16:
        model.to(torch.bfloat16)
    elif precision is Precision.INT8:
        if device.type != "cpu":
            raise ValueError(f"precision = 'int8' runs on the CPU, not on {device.type}: use bfloat16 there")
        _replace_linears(model)


def _replace_linears(module: nn.Module) -> None:
    for name, child in module.named_children():
        if type(child) is nn.Linear:  # what derives from it may read the weights itself
            setattr(module, name, Int8Linear(child))
        else:
            _replace_linears(child)


def _round(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Each row as whole numbers in -127..127, int8, and the float32 [n_rows, 1] to multiply them with."""
    scale = rows.abs().amax(dim=1, keepdim=True).clamp_min_(torch.finfo(torch.float32).tiny).div_(127)
    return (rows / scale).round_().to(torch.int8), scale
