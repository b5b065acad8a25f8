"""Networks in fewer bits than float32."""

import warnings
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

Module = TypeVar("Module", bound=nn.Module)
WEIGHTS = 63  # steps from zero to the largest weight of an output
ROWS = 1024  # of a weight that are rounded at once
INPUTS, ZERO = 2 / 255, 128  # of inputs from -1 to 1 as 8 bits without sign: the step, and what stands for 0
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
        self.ends = torch.ones(1, linear.in_features)  # a row from -1 to 1
        self.ends[0, 0] = -1.0
        self.takes_scale = self._takes_scale()

    def forward(self, inputs: Tensor) -> Tensor:
        """(…, in) -> (…, out)"""
        rows = inputs.reshape(-1, inputs.shape[-1])
        largest = rows.abs().amax(dim=1, keepdim=True).clamp_min_(LEAST)  # (n, 1)
        outputs = self._product(rows / largest).mul_(largest)
        outputs = outputs if self.bias is None else outputs.add_(self.bias)
        return outputs.view(*inputs.shape[:-1], -1)

    def _product(self, rows: Tensor) -> Tensor:
        """Of numbers from -1 to 1, without the bias. (n, in) -> (n, out)"""
        if self.takes_scale:
            return _with_scale(rows, self.packed)
        outputs: Tensor = torch.ops.quantized.linear_dynamic(torch.cat([rows, self.ends]), self.packed, False)
        return outputs[:-1]  # the row of ends makes torch choose the same scale

    def _takes_scale(self) -> bool:
        """Whether torch takes the scale of the inputs, which is faster. oneDNN, used on CPUs with VNNI, does not, nor
        do older versions of torch."""
        try:
            _with_scale(self.ends, self.packed)
        except (RuntimeError, AttributeError):
            return False
        return True


def _with_scale(rows: Tensor, packed: Any) -> Tensor:
    """The product of numbers from -1 to 1 with packed weights. (n, in) -> (n, out)"""
    outputs: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(rows, INPUTS, ZERO, packed)
    return outputs
