"""YAML files of trainings and experiments: files of the user, or recipes by name.

A file may build on another one (`base: NAME`, a file beside it or a recipe): its own keys are then laid over that.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fewer.config import override_value, parse_config, read_yaml
from fewer.errors import FewerError
from fewer.experiments.config import ExperimentConfig
from fewer.training.configs import TrainConfig, parse_train_config

RECIPES = Path(__file__).parent / "recipes"  # of `fewer train`
TABLES = RECIPES / "tables"  # of `fewer run`


def load_train_config(source: str | Path, overrides: Sequence[str] = ()) -> TrainConfig:
    """Read a YAML file or a recipe; `overrides` are `a.b=value`. A missing vocab_size is the tokenizer's."""
    return parse_train_config(_overridden(read_layers(source), overrides), source)


def load_experiment(source: str | Path, overrides: Sequence[str] = ()) -> ExperimentConfig:
    """Read a YAML file, or a recipe by name; `overrides` are `a.b=value`."""
    return parse_config(ExperimentConfig, _overridden(read_layers(find(source, TABLES)), overrides), source)


def names(folder: Path) -> list[str]:
    """The recipes of a folder."""
    return sorted(path.stem for path in folder.glob("*.yaml"))


def find(source: str | Path, folder: Path = RECIPES) -> Path:
    """A file, or a recipe by name."""
    if Path(source).is_file():
        return Path(source)
    if (name := str(source).removesuffix(".yaml")) in names(folder):
        return folder / f"{name}.yaml"
    kind = "an experiment" if folder == TABLES else "a recipe"
    raise FewerError(f"{source} is neither a file nor {kind}; there are: {', '.join(names(folder))}")


def read_layers(source: str | Path, above: tuple[Path, ...] = ()) -> Any:
    """The values of a file, laid over those of its `base`. `above`: the files that build on it."""
    path = find(source)
    if path in above:
        raise FewerError(f"{path}: base: these files build on each other in a circle: {', '.join(map(str, above))}")
    values = read_yaml(path)
    if not isinstance(values, dict) or "base" not in values:
        return values
    beside = path.parent / str(values["base"])
    try:
        base = read_layers(beside if beside.is_file() else find(str(values["base"])), (*above, path))
    except FewerError as error:
        raise FewerError(f"{path}: base: {error}") from error
    return laid_over(base, {key: value for key, value in values.items() if key != "base"})


def train_values(values: dict[str, Any]) -> dict[str, Any]:
    """The values of a training inside an experiment, laid over its `base`."""
    above = {key: value for key, value in values.items() if key != "base"}
    laid: dict[str, Any] = laid_over(read_layers(values["base"]), above) if "base" in values else above
    return laid


def laid_over(below: Any, above: Any) -> Any:
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return below | {key: laid_over(below.get(key), value) for key, value in above.items()}


def _overridden(values: Any, overrides: Sequence[str]) -> Any:
    for override in overrides:
        values = override_value(values, override)
    return values
