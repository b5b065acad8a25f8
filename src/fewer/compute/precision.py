"""Networks in fewer bits than float32."""

import warnings
from typing import TypeVar

import torch
from torch import Tensor, nn

Module = TypeVar("Module", bound=nn.Module)
WEIGHTS = 63  # steps from zero to the largest weight of an output
ROWS = 1024  # of a weight that are rounded at once
LEAST = 1e-12  # smallest number that is divided by
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
    """A linear layer of 8-bit products: a scale for each output, and one for each row of the input.

    torch has one scale for all rows, so each row is divided by its largest number before, and its outputs are
    multiplied by it: a row's outputs do not depend on the other rows. Weights have 7 bits, since CPUs without VNNI add
    two products in 16 bits.
    """

    def __init__(self, linear: nn.Linear):
        super().__init__()
        weight = linear.weight.detach().float()  # (out, in)
        step = torch.maximum(weight.amax(dim=1), -weight.amin(dim=1)).clamp_min(LEAST) / WEIGHTS
        whole = torch.empty(weight.shape, dtype=torch.int8)
        for first in range(0, len(weight), ROWS):  # 4 times as fast as torch.quantize_per_channel, with the same result
            rows = slice(first, first + ROWS)
            whole[rows] = torch.mul(weight[rows], step[rows, None].reciprocal()).round_()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that its successor is another package
            zeros = torch.zeros_like(step, dtype=torch.long)
            quantised = torch._make_per_channel_quantized_tensor(whole, step, zeros, 0)
        self.packed = torch.ops.quantized.linear_prepack(quantised, None)
        self.bias, self.out_features = linear.bias, linear.out_features

    def forward(self, inputs: Tensor) -> Tensor:
        """(…, in) -> (…, out)"""
        rows = inputs.reshape(-1, inputs.shape[-1])
        largest = rows.abs().amax(dim=1, keepdim=True).clamp_min_(LEAST)  # (n, 1)
        scaled = rows.new_empty(len(rows) + 1, rows.shape[1])
        torch.div(rows, largest, out=scaled[:-1])
        scaled[-1, 0], scaled[-1, 1:] = -1.0, 1.0  # torch's scale is that of -1 to 1, whatever the other rows are
        outputs: Tensor = torch.ops.quantized.linear_dynamic(scaled, self.packed, False)[:-1].mul_(largest)
        outputs = outputs if self.bias is None else outputs.add_(self.bias)
        return outputs.view(*inputs.shape[:-1], -1)
