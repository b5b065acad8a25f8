"""What `--device` and `--precision` say, and batches that are too large for a GPU."""

from collections.abc import Sequence

import pytest
import torch
from torch import nn

from fewer.compute.device import CPU, Placement, choose_device, choose_placement
from fewer.compute.memory import MOST, Halving, how_many
from fewer.compute.precision import Int8Linear, reduced
from fewer.errors import FewerError


def test_auto_is_the_cpu_in_float32_or_in_8_bits_where_they_are_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    auto = choose_placement()
    assert auto.settled() == choose_placement("cpu", "float32") == CPU
    for instructions, precision in (("AVX2", "int8"), ("AVX512", "int8"), ("DEFAULT", "float32")):
        monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda found=instructions: found)
        assert auto.settled(int8=True) == Placement(CPU.device, precision)
        assert CPU.settled(int8=True) == CPU
        assert Placement(torch.device("cuda"), "auto").settled(int8=True).precision == "float32"


def test_what_the_machine_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FewerError, match="torch sees no GPU here"):
        choose_placement("cuda")
    with pytest.raises(FewerError, match="this is no Mac"):
        choose_placement("mps")
    with pytest.raises(FewerError, match="'xpu' is not supported; write auto, cpu, cuda, cuda:1"):
        choose_placement("xpu")
    with pytest.raises(FewerError, match="float16 on the device cpu: CPUs are slower"):
        choose_placement("cpu", "float16")
    with pytest.raises(FewerError, match="precision: 'float8' is unknown"):
        choose_placement("cpu", "float8")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(FewerError, match="there is no GPU 2: torch sees 2 here, counted from 0"):
        choose_placement("cuda:2")
    with pytest.raises(FewerError, match="int8 on the device cuda:1: 8-bit products are for CPUs"):
        choose_placement("cuda:1", "int8")


def test_every_process_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [choose_device("auto", rank) for rank in (0, 1)] == [torch.device("cuda:0"), torch.device("cuda:1")]
    assert choose_device("cuda:0", 1) == torch.device("cuda:0")
    with pytest.raises(FewerError, match="each process needs a GPU of its own"):
        choose_device("auto", 2)


@pytest.mark.parametrize(("capability", "works"), [((7, 5), False), ((8, 0), True)])
def test_bfloat16_needs_a_gpu_that_has_it(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], works: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    if works:
        assert choose_placement("cuda", "bfloat16") == Placement(torch.device("cuda:0"), "bfloat16")
    else:
        with pytest.raises(FewerError, match="this GPU has no bfloat16"):
            choose_placement("cuda", "bfloat16")


def test_a_batch_is_as_large_as_the_free_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    device = torch.device("cuda:0")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (10_000, 16_000))
    assert how_many(device, 1_000) == 6
    assert how_many(device, 1e9) == 1  # it is tried
    assert how_many(device, 1) == MOST
    assert how_many(torch.device("cpu"), 1_000) is None


def test_out_of_memory_halves_the_batch_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    tried: list[int] = []

    def work(items: Sequence[int]) -> list[int]:
        tried.append(len(items))
        if len(items) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return [10 * item for item in items]

    halving = Halving()
    parts = list(halving(work, range(10)))
    assert [value for part in parts for value in part] == [10 * item for item in range(10)]
    assert tried == [10, 5, 2, 2, 2, 2, 2]
    assert "ran out of memory with 10 utterances at once; going on with 5" in caplog.text
    assert [len(part) for part in halving(work, range(5))] == [2, 2, 1]  # remembered


def test_one_that_has_no_room_is_an_error_that_says_what_to_do() -> None:
    def work(items: Sequence[int]) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(FewerError, match="not enough memory for one window: use a smaller beam"):
        list(Halving("window")(work, range(3)))


@pytest.mark.parametrize(("precision", "error"), [("bfloat16", 0.02), ("int8", 0.03)])
def test_a_reduced_module_says_about_the_same(precision: str, error: float) -> None:
    module = nn.Sequential(nn.Linear(64, 48), nn.GELU(), nn.Sequential(nn.LayerNorm(48), nn.Linear(48, 32, bias=False)))
    inputs = torch.randn(2, 7, 64)
    with torch.inference_mode():
        expected = module(inputs)
        smaller = reduced(module, precision)
        found = smaller(inputs.to(next(smaller.parameters()).dtype)).float()
    difference = (found - expected).norm() / expected.norm()
    assert 0 < difference < error


def test_8_bit_products_of_a_row_do_not_depend_on_the_others() -> None:
    linear = reduced(nn.Sequential(nn.Linear(64, 48)), "int8")
    rows = torch.cat([torch.rand(3, 64), torch.randn(4, 64) * 100])  # those of the first three are positive
    with torch.inference_mode():
        assert torch.equal(linear(rows), torch.cat([linear(row[None]) for row in rows]))


@pytest.mark.filterwarnings("ignore")  # torch says that quantisation's successor is another package
@pytest.mark.parametrize("rows", [3, 1024, 2500])
def test_weights_are_rounded_as_torch_rounds_them(rows: int) -> None:
    linear = nn.Linear(31, rows)
    nn.init.normal_(linear.weight, std=0.3)
    nn.init.zeros_(linear.weight[1])
    step = (linear.weight.detach().abs().amax(dim=1) / 63).clamp_min(1e-12 / 63)
    expected = torch.quantize_per_channel(linear.weight.detach(), step, torch.zeros(rows).long(), 0, torch.qint8)
    packed, _ = torch.ops.quantized.linear_unpack(Int8Linear(linear).packed)
    assert torch.equal(packed.int_repr(), expected.int_repr())
    assert packed.int_repr().abs().amax(dim=1).tolist() == [63, 0, *[63] * (rows - 2)]


@pytest.mark.parametrize("shape", [(1, 7), (5, 384), (41, 100)])
def test_8_bits_are_the_same_with_a_given_scale_and_with_one_that_torch_chooses(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    layer = Int8Linear(nn.Linear(shape[1], 33).requires_grad_(False))
    inputs = torch.randn(shape) * torch.logspace(-3, 3, shape[0])[:, None]
    inputs[-1, ::2] = 0.0
    given = layer(inputs)
    layer.takes_scale = False
    assert torch.equal(layer(inputs), given)


@pytest.mark.parametrize("engine", torch.backends.quantized.supported_engines)
def test_8_bits_are_computed_by_all_that_torch_has_for_it(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    monkeypatch.setattr(torch.backends.quantized, "engine", engine)
    torch.manual_seed(0)
    linear = nn.Linear(64, 48).requires_grad_(False)
    inputs = torch.randn(6, 64)
    assert (Int8Linear(linear)(inputs) - linear(inputs)).abs().max() < 0.03


def test_processes_of_one_machine_do_not_share_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert choose_device("cuda", local_rank=1) == torch.device("cuda", 1)
    with pytest.raises(FewerError, match="all processes of this machine would share cuda:1; write cuda or auto"):
        choose_device("cuda:1")
    with pytest.raises(FewerError, match="each process needs a GPU of its own, and there is no GPU 2"):
        choose_device("auto", local_rank=2)
