"""All methods by name: a module of `fewer.ilm.methods` for each, and the user's own through the same door.

The user's modules are named in the environment variable FEWER_ESTIMATORS: .py files or importable names, separated by
commas. Each has a record METHOD, as the built-in ones have. Nothing that is merely read, such as an ilm.json or a
recipe, ever makes a module be loaded.
"""

import functools
import hashlib
import importlib
import importlib.util
import os
import pkgutil
import sys
from pathlib import Path
from types import ModuleType

from fewer.errors import FewerError
from fewer.ilm.method import IlmMethod

METHODS = "fewer.ilm.methods"  # whose modules are looked for by name, as the user's are
VARIABLE = "FEWER_ESTIMATORS"


def all_methods() -> dict[str, IlmMethod]:
    """In the order of tables."""
    path = tuple(importlib.import_module(METHODS).__path__)
    built_in, own = _built_in(path), _own(os.environ.get(VARIABLE, ""))
    for name in own:
        if name in built_in:
            raise FewerError(f"{VARIABLE}: '{name}' is built in; give your method another name")
    return built_in | {name: method for name, (method, _) in own.items()}


def check_method(name: str, *others: str) -> None:
    """Complain about a method that is neither built in, nor the user's own, nor one of `others`."""
    known = (*others, *all_methods())
    if name not in known:
        listed = ", ".join(known)
        raise ValueError(f"there is no method {name}: they are {listed}; a module of your own is named in {VARIABLE}")


def source_of(name: str) -> list[str]:
    """What marks the work of the user's method: its module's contents; nothing for the built-in ones."""
    found = _own(os.environ.get(VARIABLE, "")).get(name)
    return [found[1]] if found else []


@functools.cache
def _built_in(path: tuple[str, ...]) -> dict[str, IlmMethod]:
    modules = [importlib.import_module(f"{METHODS}.{found.name}") for found in pkgutil.iter_modules(path)]
    return {method.name: method for method in sorted((module.METHOD for module in modules), key=lambda one: one.order)}


@functools.cache
def _own(names: str) -> dict[str, tuple[IlmMethod, str]]:
    """Every method of the user's with the hash of the file that it comes from."""
    found: dict[str, tuple[IlmMethod, str]] = {}
    for name in filter(None, (part.strip() for part in names.split(","))):
        module = _module(name)
        method = getattr(module, "METHOD", None)
        if not isinstance(method, IlmMethod):
            raise FewerError(f"{VARIABLE}: {name} needs METHOD, a fewer.ilm.method.IlmMethod; see docs/estimator.md")
        if method.name in found:
            raise FewerError(f"{VARIABLE}: {name} has a second method '{method.name}'; give it another name")
        found[method.name] = method, hashlib.sha256(Path(module.__file__ or "").read_bytes()).hexdigest()
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
