"""Where models compute and in which precision: the one place that reads `--device` and `--precision`."""

import os
from typing import Literal, NamedTuple

import torch

from fewer.compute.bfloat16 import check_bfloat16
from fewer.errors import FewerError

Precision = Literal["auto", "float32", "bfloat16", "float16", "int8"]
PRECISIONS = ("auto", "float32", "bfloat16", "float16", "int8")
KINDS = {"cpu", "cuda", "mps"}
INT8 = ("AVX2", "AVX512")  # instructions with which a CPU is faster in 8 bits than in float32
DEVICES = "auto, cpu, cuda, cuda:1 (the second GPU) or mps"


class Placement(NamedTuple):
    """A device, and the precision of the encoder's products there; everything else is computed in float32."""

    device: torch.device = torch.device("cpu")
    precision: str = "float32"  # or "auto", until a recogniser settles it

    def settled(self, int8: bool = False) -> "Placement":
        """With a precision that is not "auto". int8: 8 bits were measured to make no more errors than float32."""
        if self.precision != "auto":
            return self
        quick = int8 and self.device.type == "cpu" and torch.backends.cpu.get_cpu_capability() in INT8
        return self._replace(precision="int8" if quick else "float32")


CPU = Placement()


def choose_placement(device: str = "auto", precision: str = "auto") -> Placement:
    """Both as users write them; an error says what this machine lacks."""
    chosen = choose_device(device, local_rank())
    if precision not in PRECISIONS:
        raise FewerError(f"precision: {precision!r} is unknown; write one of {', '.join(PRECISIONS)}")
    if precision != "auto" and (reason := _lacks(chosen, precision)) is not None:
        raise FewerError(f"precision: {precision} on the device {chosen}: {reason}")
    return Placement(chosen, precision)


def _lacks(device: torch.device, precision: str) -> str | None:
    """Why a device does not compute in a precision."""
    if precision == "float16" and device.type == "cpu":
        return "CPUs are slower in it than in float32; write bfloat16, int8 or float32"
    if precision == "int8" and device.type != "cpu":
        return "8-bit products are for CPUs; write float16, or bfloat16 if the GPU has it"
    if precision == "bfloat16":
        check_bfloat16(device.type, "choose another --precision")
        if device.type == "cuda" and torch.cuda.get_device_capability(device) < (8, 0):
            return "this GPU has no bfloat16 (those from the Ampere generation on have it); write float16 or float32"
    return None


def local_rank() -> int:
    """Of this process among those that torchrun started on this machine."""
    return int(os.environ.get("LOCAL_RANK", 0))


def choose_device(name: str, local_rank: int = 0) -> torch.device:
    """ "auto" is this process's GPU if there is one, else the CPU; so is "cuda", which must be there."""
    available = torch.cuda.device_count()
    if name == "auto":
        return choose_device("cuda", local_rank) if available else torch.device("cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise FewerError(f"device: {name!r} is not a device; write {DEVICES}") from error
    if device.type == "cuda":
        if not available:
            raise FewerError(f"device: {name} asked for, but torch sees no GPU here; write device: cpu or auto")
        if device.index is not None and int(os.environ.get("LOCAL_WORLD_SIZE", 1)) > 1:
            raise FewerError(
                f"device: all processes of this machine would share {name}; write cuda or auto, which give each its own"
            )
        index = local_rank if device.index is None else device.index
        if index >= available:
            asked = "each process needs a GPU of its own, and " if device.index is None else ""
            raise FewerError(f"device: {asked}there is no GPU {index}: torch sees {available} here, counted from 0")
        return torch.device("cuda", index)
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise FewerError("device: mps asked for, but this is no Mac whose GPU torch can use; write device: cpu or auto")
    if device.type not in KINDS:
        raise FewerError(f"device: {name!r} is not supported; write {DEVICES}")
    return device
