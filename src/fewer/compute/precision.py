"""Encoders in fewer bits than float32."""

from typing import TypeVar

import torch
from torch import Tensor, nn

Module = TypeVar("Module", bound=nn.Module)
FLOATS = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def reduced(module: Module, precision: str) -> Module:
    """The module, changed in place so that it computes in a precision of `Placement`; its input must be of its type."""
    if precision in FLOATS:
        return module.to(FLOATS[precision])
    if precision == "int8":
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, Int8Linear(child))
            else:
                reduced(child, precision)
    return module


class Int8Linear(nn.Module):
    """A linear layer of 8-bit whole numbers: a scale for each output, and one for each row of the input."""

    weight: Tensor  # (in, out) int8
    scale: Tensor  # (out,)

    def __init__(self, linear: nn.Linear):
        super().__init__()
        whole, scale = _whole(linear.weight.detach())
        self.register_buffer("weight", whole.t())
        self.register_buffer("scale", scale.squeeze(1))
        self.bias = linear.bias

    def forward(self, inputs: Tensor) -> Tensor:
        """(…, in) -> (…, out)"""
        whole, scale = _whole(inputs.reshape(-1, inputs.shape[-1]))
        outputs = torch._int_mm(whole, self.weight) * (scale * self.scale)
        outputs = outputs if self.bias is None else outputs + self.bias
        return outputs.view(*inputs.shape[:-1], -1)


def _whole(values: Tensor) -> tuple[Tensor, Tensor]:
    """Each row in steps of a 127th of its largest number, and the step. (n, m) -> (n, m) int8, (n, 1)"""
    step = values.abs().amax(dim=1, keepdim=True).clamp_min(1e-12) / 127
    return (values / step).round().to(torch.int8), step
