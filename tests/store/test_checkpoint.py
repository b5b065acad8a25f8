"""Checkpoint files: complete, readable without pickle, and clear when they are not what is wanted."""

from pathlib import Path

import pytest
import torch
from torch import nn

from fewer.errors import FewerError
from fewer.store.checkpoint import (
    Checkpoint,
    CheckpointFolder,
    load_matching,
    load_moments,
    load_tensors,
    save_tensors,
    training_tensors,
)


def test_tensors_and_facts_come_back_as_they_were(tmp_path: Path) -> None:
    tensors = {"a": torch.randn(3, 4).t(), "b": torch.tensor(3), "c": torch.zeros(0, 2)}
    facts = {"history": [0.1, 1e-300], "text": "µ"}
    save_tensors(tmp_path / "x.safetensors", tensors, facts)
    back, found = load_tensors(tmp_path / "x.safetensors")
    assert found == facts
    assert all(torch.equal(back[name], tensor) for name, tensor in tensors.items())
    assert [path.name for path in tmp_path.iterdir()] == ["x.safetensors"]


@pytest.mark.parametrize("bytes_left", [0, 5, 100, -1])
def test_a_file_cut_short_anywhere_is_an_error_that_names_it(tmp_path: Path, bytes_left: int) -> None:
    path = tmp_path / "x.safetensors"
    save_tensors(path, {"a": torch.randn(100)}, {"sub_epoch": 3})
    path.write_bytes(path.read_bytes()[:bytes_left])
    with pytest.raises(FewerError, match=r"x\.safetensors is damaged or cut short"):
        load_tensors(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FewerError, match=r"cannot read .*nothing\.safetensors"):
        load_tensors(tmp_path / "nothing.safetensors")


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FewerError, match="cannot write"):
        save_tensors(tmp_path / "file" / "x.safetensors", {"a": torch.ones(1)})


def test_the_last_two_and_the_best_are_kept(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path / "checkpoints")
    assert folder.newest() is None
    for sub_epoch, step in [(1, 5), (2, 0), (2, 7), (3, 0), (10, 0)]:
        folder.write(sub_epoch, step, Checkpoint({"a": torch.tensor(sub_epoch)}, {"sub_epoch": sub_epoch}))
        (folder.folder / ".00001-0000009.safetensors.tmp77").write_bytes(b"left by a killed process")
        folder.prune(best=folder.path(2))
    assert folder.files() == [folder.path(2), folder.path(3), folder.path(10)]
    assert len(list(folder.folder.iterdir())) == 3
    newest = folder.newest()
    assert newest is not None
    assert newest.facts == {"sub_epoch": 10}


def test_weights_of_another_model_are_refused_by_name_and_shape() -> None:
    model = nn.Linear(2, 3)
    good = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for weights, complaint in [
        ({"weight": good["weight"]}, "no weights 'bias'"),
        (good | {"more": torch.ones(1)}, "weights 'more' that the model does not"),
        (good | {"weight": torch.ones(3, 3)}, r"'weight' is \[3, 3\], but the model's is \[3, 2\]"),
    ]:
        with pytest.raises(FewerError, match=f"old.safetensors.*{complaint}"):
            load_matching(model, weights, model.state_dict(), "old.safetensors")


def test_moments_go_back_to_the_weights_they_belong_to() -> None:
    def trained_twice(resume: bool) -> torch.Tensor:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2), nn.Linear(2, 1))
        net[1].requires_grad_(False)
        optimizer = make(net)
        for step in range(4):
            if step == 2 and resume:
                tensors = {name: tensor.clone() for name, tensor in training_tensors(net, optimizer).items()}
                optimizer = make(net)
                load_moments(optimizer, net, tensors, "x")
            optimizer.zero_grad()
            net(torch.ones(5, 2)).square().sum().backward()
            optimizer.step()
        return torch.cat([parameter.detach().flatten() for parameter in net.parameters()])

    def make(net: nn.Module) -> torch.optim.Adam:
        return torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=0.1)

    assert torch.equal(trained_twice(False), trained_twice(True))


def test_moments_of_a_weight_lie_in_memory_as_it_does(tmp_path: Path) -> None:
    """A fused optimiser goes through both in the order of memory."""

    def trained_twice(resume: bool) -> torch.Tensor:
        torch.manual_seed(0)
        net = nn.Conv2d(2, 3, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1, fused=True)
        for step in range(4):
            if step == 2 and resume:
                save_tensors(tmp_path / "x.safetensors", training_tensors(net, optimizer))
                optimizer = torch.optim.Adam(net.parameters(), lr=0.1, fused=True)
                load_moments(optimizer, net, load_tensors(tmp_path / "x.safetensors")[0], "x")
            optimizer.zero_grad()
            net(torch.arange(50.0).view(1, 2, 5, 5) / 50).square().sum().backward()
            optimizer.step()
        return net.weight.detach()

    assert torch.equal(trained_twice(False), trained_twice(True))


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("optimizer.weight:step", None),
        ("optimizer.weight:exp_avg", torch.zeros(7)),
        ("optimizer.weight:exp_avg", torch.full((2, 3), torch.nan)),
        ("optimizer.nothing:exp_avg", torch.zeros(2, 3)),
    ],
)
def test_damaged_moments_are_told_by_the_files_name(name: str, tensor: torch.Tensor | None) -> None:
    net = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    tensors = training_tensors(net, optimizer)
    if tensor is None:
        del tensors[name]
    else:
        tensors[name] = tensor
    with pytest.raises(FewerError, match=r"c\.safetensors: .*the file is damaged"):
        load_moments(torch.optim.Adam(net.parameters()), net, tensors, "c.safetensors")
