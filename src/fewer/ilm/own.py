"""Estimators of one's own, from modules that the user names in the environment variable FEWER_ESTIMATORS.

A module is a .py file or an importable name; several are separated by commas. Each has a list ESTIMATORS. Nothing that
is merely read, such as an ilm.json or a recipe, ever makes a module be loaded.
"""

import functools
import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from fewer.errors import FewerError
from fewer.models.aed import AED
from fewer.models.context import Context

if TYPE_CHECKING:
    from fewer.data.batches import Batch
    from fewer.ilm.methods import IlmConfig

VARIABLE = "FEWER_ESTIMATORS"


class Sizes(NamedTuple):
    """What a context has to fit."""

    context: int  # D_enc; for a Whisper, layers · D
    embedding: int  # E, of a label
    state: int  # D_dec; for a Whisper, which has none, that of a label


@dataclass(frozen=True)
class OwnEstimator:
    """A method of `fewer ilm --method NAME`."""

    name: str
    context: "Callable[[IlmConfig, Sizes], Context]"  # with new weights
    trained: bool = False  # on transcripts for the lowest perplexity, everything else frozen, as the Mini-LSTM is
    # Else: sets what the context keeps from the training set, which comes as batches of speech with labels. None:
    # there is nothing to be estimated.
    measure: "Callable[[Context, AED, Iterable[Batch]], None] | None" = None


def own_estimator(method: str) -> OwnEstimator | None:
    """The user's estimator of this name, if there is one."""
    found = _found().get(method)
    return found[0] if found else None


def own_source(method: str) -> list[str]:
    """What marks the work of the user's estimator: its module's contents; nothing for the built-in methods."""
    found = _found().get(method)
    return [found[1]] if found else []


def own_methods() -> tuple[str, ...]:
    return tuple(_found())


def _found() -> dict[str, tuple[OwnEstimator, str]]:
    return _load(os.environ.get(VARIABLE, ""))


@functools.cache
def _load(names: str) -> dict[str, tuple[OwnEstimator, str]]:
    """Every estimator with the hash of the file that it comes from."""
    found: dict[str, tuple[OwnEstimator, str]] = {}
    for name in filter(None, (part.strip() for part in names.split(","))):
        module = _module(name)
        estimators = getattr(module, "ESTIMATORS", None)
        if not isinstance(estimators, list | tuple) or not all(isinstance(one, OwnEstimator) for one in estimators):
            raise FewerError(f"{VARIABLE}: {name} needs a list ESTIMATORS of fewer.ilm.own.OwnEstimator")
        source = hashlib.sha256(Path(module.__file__ or "").read_bytes()).hexdigest()
        for estimator in estimators:
            if estimator.name in found:
                raise FewerError(f"{VARIABLE}: {name} has a second estimator '{estimator.name}'; give it another name")
            found[estimator.name] = (estimator, source)
    return found


def _module(name: str) -> ModuleType:
    try:
        if not name.endswith(".py"):
            return importlib.import_module(name)
        path = Path(name).resolve()
        spec = importlib.util.spec_from_file_location(f"fewer_own_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    except Exception as error:
        raise FewerError(f"{VARIABLE}: {name} cannot be loaded: {type(error).__name__}: {error}") from error
    return module
