"""Checkpoints: one safetensors file each, tensors and facts together, written whole or not at all."""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic_core import from_json
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from fewer.errors import FewerError
from fewer.files import atomic_write

MODEL, OPTIMIZER = "model.", "optimizer."
NAME = re.compile(r"(\d{5})-(\d{7})\.safetensors")


@dataclass(frozen=True)
class Checkpoint:
    """Everything needed to go on."""

    tensors: dict[str, Tensor]  # trained weights and optimiser moments
    facts: dict[str, Any]  # where training stands, what is behind it; JSON
    path: Path | None = None  # where it was read


def save_tensors(path: str | Path, tensors: dict[str, Tensor], facts: dict[str, Any] | None = None) -> None:
    """Write a safetensors file, complete or not at all, with `facts` as JSON in its header."""
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with atomic_write(path, "wb") as stream:
        try:
            save_file(contiguous, stream.name, {"fewer": json.dumps(facts or {})})
        except SafetensorError as error:
            raise FewerError(f"cannot write {path}: {error}; is the disk full or read-only?") from error
        with open(stream.name, "rb") as written:  # the library puts a new file under the name
            os.fsync(written.fileno())


def load_tensors(path: str | Path, advice: str = "is this the right file?") -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a safetensors file and its facts; a damaged one is an error that names it and gives `advice`."""
    try:
        with safe_open(path, framework="pt") as stream:
            facts = from_json((stream.metadata() or {}).get("fewer", "{}"))
            if not isinstance(facts, dict):
                raise ValueError("its facts are not a JSON object")
            return {name: stream.get_tensor(name) for name in stream.keys()}, facts  # noqa: SIM118
    except FileNotFoundError as error:
        raise FewerError(f"cannot read {path}: no such file; {advice}") from error
    except (SafetensorError, OSError, ValueError) as error:
        raise FewerError(f"{path} is damaged or cut short ({error}); {advice}") from error


class CheckpointFolder:
    """The checkpoints of a run, named by the sub-epoch and the step in it at which training goes on."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)

    def path(self, sub_epoch: int, step: int = 0) -> Path:
        return self.folder / f"{sub_epoch:05d}-{step:07d}.safetensors"

    def files(self) -> list[Path]:
        """Oldest first."""
        if not self.folder.is_dir():
            return []
        return sorted(path for path in self.folder.iterdir() if NAME.fullmatch(path.name))

    def write(self, sub_epoch: int, step: int, checkpoint: Checkpoint) -> None:
        save_tensors(self.path(sub_epoch, step), checkpoint.tensors, checkpoint.facts)

    def newest(self, fall_back: bool = False) -> Checkpoint | None:
        """The last checkpoint; if it is damaged, an error, or the newest readable one when told to `fall_back`."""
        for path in reversed(self.files()):
            try:
                return self.read(path)
            except FewerError:
                if not fall_back:
                    raise
        return None

    def read(self, path: Path) -> Checkpoint:
        return Checkpoint(*load_tensors(path, "delete it, or go on from the one before it with --fall-back"), path)

    def prune(self, best: Path | None) -> None:
        """Keep the last two and the best; drop the others and what a killed process left half-written."""
        keep = {*self.files()[-2:], best}
        for path in self.folder.iterdir():
            if path not in keep and (NAME.fullmatch(path.name) or path.name.startswith(".")):
                path.unlink(missing_ok=True)


def training_tensors(module: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """Weights that are trained, buffers, and the optimiser's moments, by name. Frozen weights are the task's."""
    tensors = {MODEL + name: tensor for name, tensor in module.state_dict().items() if name not in frozen(module)}
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    for parameter, moments in optimizer.state.items():
        for key, value in moments.items():
            tensors[f"{OPTIMIZER}{names[id(parameter)]}:{key}"] = value
    return tensors


def load_weights(module: nn.Module, tensors: dict[str, Tensor], source: str | Path) -> None:
    """Put the weights of a checkpoint into `module`; frozen ones stay as they are."""
    weights = {name.removeprefix(MODEL): tensor for name, tensor in tensors.items() if name.startswith(MODEL)}
    expected = {name: tensor for name, tensor in module.state_dict().items() if name not in frozen(module)}
    load_matching(module, weights, expected, source)


def load_matching(
    module: nn.Module, weights: dict[str, Tensor], expected: dict[str, Tensor], source: str | Path
) -> None:
    """Load `weights` if they are exactly the `expected` ones by name and shape; else say which are not."""
    if missing := sorted(expected.keys() - weights.keys()):
        raise FewerError(f"{source} has no weights '{missing[0]}' ({len(missing)} missing): another model's file?")
    if surplus := sorted(weights.keys() - expected.keys()):
        raise FewerError(f"{source} has weights '{surplus[0]}' that the model does not: another model's file?")
    for name, tensor in expected.items():
        if weights[name].is_floating_point() != tensor.is_floating_point():
            raise FewerError(f"{source}: '{name}' holds {weights[name].dtype}, but the model's {tensor.dtype}")
        if not bool(weights[name].isfinite().all()):
            raise FewerError(f"{source}: '{name}' holds numbers that are not finite; the file is damaged")
        if weights[name].shape != tensor.shape:
            found, wanted = list(weights[name].shape), list(tensor.shape)
            raise FewerError(f"{source}: '{name}' is {found}, but the model's is {wanted}: another model's file?")
    module.load_state_dict(weights, strict=False)


def load_moments(optimizer: Optimizer, module: nn.Module, tensors: dict[str, Tensor], source: str | Path) -> None:
    """Give the optimiser its moments back, in memory as their weights are: a fused optimiser takes them to be."""
    weights = {name: weight for name, weight in module.named_parameters() if weight.requires_grad}
    moments: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith(OPTIMIZER):
            weight, _, key = name.removeprefix(OPTIMIZER).rpartition(":")
            fits = weight in weights and tensor.shape in (weights[weight].shape, ())
            if not fits or not tensor.is_floating_point() or not bool(tensor.isfinite().all()):
                raise FewerError(f"{source}: '{name}' is not a moment of the model's weights; the file is damaged")
            like = weights[weight].detach() if tensor.shape == weights[weight].shape else tensor  # else a step count
            moments.setdefault(weight, {})[key] = torch.empty_like(like, device=tensor.device).copy_(tensor)
    if len({frozenset(kept) for kept in moments.values()}) > 1:
        raise FewerError(f"{source}: some of the optimiser's moments are missing; the file is damaged")
    state = {index: moments[name] for index, name in enumerate(weights) if name in moments}
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def frozen(module: nn.Module) -> set[str]:
    """Names of weights that are not trained; a weight may have several."""
    weights = module.named_parameters(remove_duplicate=False)
    return {name for name, parameter in weights if not parameter.requires_grad}
