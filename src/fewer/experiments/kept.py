"""What an earlier run left, and whether it is what this one would make."""

from pathlib import Path

from fewer.config import first_of, read_yaml
from fewer.errors import FewerError
from fewer.files import read_json
from fewer.ilm.folder import FACTS
from fewer.store.model_folder import CONFIG
from fewer.training.configs import TrainConfig, changed_keys, effective, parse_train_config


def is_measured(ilm: Path) -> bool:
    """Whether a folder holds an internal LM and its perplexity, which comes last."""
    return (ilm / FACTS).exists() and "perplexity" in read_json(ilm / FACTS)


def check_same(config: TrainConfig, folder: Path) -> None:
    """A model that was trained elsewhere must be the one that is meant."""
    there = parse_train_config(read_yaml(folder / CONFIG), folder / CONFIG)
    if changes := changed_keys(effective(there, ending=True), effective(config, ending=True)):
        raise another(folder, "trained", changes)


def another(path: Path, made: str, changes: list[str]) -> FewerError:
    return FewerError(
        f"{path} was {made} with another configuration; name another folder by `models`, or delete it:\n"
        + first_of([f"  {change}" for change in changes])
    )
