"""A device that does not exist, for tests of what a GPU would do with the code.

Its tensors say that they live on `fake:0` and compute on the CPU. As a GPU's, they refuse tensors of another device.
Inside `Counting` it is counted what would make the processor wait for a GPU (`waits`), what is sent to it (`uploads`),
and what it would be told to do (`kernels`).
"""

import copy
import functools
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "fake"
_module = SimpleNamespace(
    device_count=lambda: 1,
    current_device=lambda: 0,
    is_available=lambda: True,
    _is_in_bad_fork=lambda: False,
    manual_seed_all=lambda seed: None,
    get_amp_supported_dtype=lambda: [torch.bfloat16, torch.float16],
)
_setup_privateuseone_for_python_backend(NAME, backend_module=_module)

aten = torch.ops.aten
# Their results have a size, or are a number, that only the device knows.
WAITS = {
    aten._local_scalar_dense,
    aten.nonzero,
    aten.masked_select,
    aten.unique_consecutive,
    aten._unique2,
    aten.unique_dim,
    aten.equal,
    aten.bincount,
}
INDEXING = {aten.index, aten.index_put_, aten.index_put, aten._index_put_impl_}
COPIES = {aten._to_copy, aten.copy_}
WHOLE = {aten.lstm_cell, aten.lstm, aten.scaled_dot_product_attention}  # one kernel; on the CPU made of others


class MixedDevices(AssertionError):
    """A GPU would refuse."""


class Fake(torch.Tensor):
    """A tensor of the fake device."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> "Fake":
        return torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined,no-any-return]
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=torch.device(NAME, 0),
            requires_grad=inner.requires_grad,
        )

    def __init__(self, inner: Tensor):
        self.inner = inner

    def __repr__(self, **_: Any) -> str:
        return f"Fake({self.inner!r})"

    def tolist(self) -> Any:
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return dispatch(func, args, kwargs or {})


class Counting:
    """Counts what happens inside of it."""

    active: ClassVar["Counting | None"] = None

    def __init__(self) -> None:
        self.kernels, self.waits, self.uploads = Counter[str](), Counter[str](), Counter[str]()

    def __enter__(self) -> "Counting":
        Counting.active = self
        return self

    def __exit__(self, *_: object) -> None:
        Counting.active = None


def dispatch(func: Any, args: Any, kwargs: Any) -> Any:
    packet, flat = func.overloadpacket, list(_leaves((*args, *kwargs.values())))
    wanted = next((value for value in flat if isinstance(value, torch.device)), None)
    to_fake = wanted is not None and wanted.type == NAME
    fakes = [value for value in flat if isinstance(value, Fake)]
    if not fakes and not to_fake:
        return func(*args, **kwargs)
    if _is_composite(func):
        return func.decompose(*args, **kwargs)
    others = [value for value in flat if isinstance(value, Tensor) and not isinstance(value, Fake)]
    if packet not in COPIES and fakes and others:
        shapes = [tuple(value.shape) for value in others]
        raise MixedDevices(f"{func} of tensors on {NAME} and, of shapes {shapes}, on the CPU")
    _count(func, packet, flat, fakes, others, wanted, to_fake)
    if to_fake:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    computed = GPU_ONLY.get(packet, func)
    result = computed(*map(_inner, args), **{name: _inner(value) for name, value in kwargs.items()})
    if packet is aten.copy_ or (func._schema.name.endswith("_") and fakes and args and isinstance(args[0], Fake)):
        return args[0]  # in place
    if not (to_fake or (fakes and wanted is None)):
        return result
    if func.is_view and not fakes[0].is_inference():  # a view of what was made outside of inference mode is as that is
        with torch.inference_mode(False):
            return _wrapped(result)
    return _wrapped(result)


def _lstm_cell(
    inputs: Tensor, hidden: Tensor, c: Tensor, input_bias: Tensor | None = None, hidden_bias: Tensor | None = None
) -> tuple[Tensor, ...]:
    """h, c, and the gates for the backward pass."""
    gates = inputs + hidden
    for bias in (input_bias, hidden_bias):
        gates = gates if bias is None else gates + bias
    i, f, g, o = gates.chunk(4, dim=1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    c = f * c + i * g
    return o * c.tanh(), c, torch.cat([i, f, g, o], dim=1)


def _lstm_cell_backward(
    d_h: Tensor | None, d_c: Tensor | None, old_c: Tensor, c: Tensor, gates: Tensor, has_bias: bool
) -> tuple[Tensor, ...]:
    i, f, g, o = gates.chunk(4, dim=1)
    d_h = torch.zeros_like(c) if d_h is None else d_h
    d_inner = d_h * o * (1 - c.tanh() ** 2) + (0 if d_c is None else d_c)
    parts = [d_inner * g * i * (1 - i), d_inner * old_c * f * (1 - f), d_inner * i * (1 - g**2)]
    d_gates = torch.cat([*parts, d_h * c.tanh() * o * (1 - o)], dim=1)
    return d_gates, d_inner * f, d_gates.sum(0)


GPU_ONLY = {  # kernels that the CPU lacks
    aten._thnn_fused_lstm_cell: _lstm_cell,
    aten._thnn_fused_lstm_cell_backward_impl: _lstm_cell_backward,
}


@functools.cache
def _is_composite(func: Any) -> bool:
    """Whether it is made of others, which tell more."""
    composite = func.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)
    return bool(composite) and func.overloadpacket not in COPIES | WHOLE


def _leaves(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from value
        else:
            yield value


def _inner(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_inner(one) for one in value]
    return value.inner if isinstance(value, Fake) else value


def _wrapped(result: Any) -> Any:
    if isinstance(result, list | tuple):
        return type(result)(_wrapped(one) for one in result)
    return Fake(result) if isinstance(result, Tensor) else result


def _count(func: Any, packet: Any, flat: Any, fakes: Any, others: Any, wanted: Any, to_fake: bool) -> None:
    if (count := Counting.active) is None:
        return
    if packet is aten.copy_:
        kind = count.waits if not isinstance(flat[0], Fake) else count.uploads if others else count.kernels
    elif packet is aten._to_copy and not to_fake and wanted is not None:
        kind = count.waits
    elif packet is aten._to_copy and not fakes:
        kind = count.uploads
    elif packet in WAITS or _finds_its_size(packet, flat, fakes):
        kind = count.waits
    elif func.is_view:
        return
    else:
        kind = count.kernels
    kind[str(func)] += 1


def _finds_its_size(packet: Any, flat: Any, fakes: Any) -> bool:
    """Masks as indices; repeating without saying how much that will be."""
    if packet is aten.repeat_interleave:
        return not any(isinstance(value, int) for value in flat)
    return packet in INDEXING and any(value.dtype in (torch.bool, torch.uint8) for value in fakes[1:])


def _from_nothing(func: Any, *args: Any, **kwargs: Any) -> Any:
    """What no tensor of the device takes part in, such as torch.zeros(…, device="fake")."""
    return dispatch(func, args, kwargs)


torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(…, device="fake") copies from the CPU, as to any device
_library = torch.library.Library("_", "IMPL")
_library.fallback(_from_nothing, "PrivateUse1")


def on_fake(module: Any) -> Any:
    """A copy of a module on the device."""
    return copy.deepcopy(module).to(NAME)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> str:
    """The device's name, which `--device` takes as any other."""
    monkeypatch.setattr("fewer.compute.device.KINDS", {"cpu", NAME})
    return NAME
