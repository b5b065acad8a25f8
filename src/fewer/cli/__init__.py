"""The commands: a module for each, whose function `command` serves the command line and Python alike."""

import functools
import importlib
import inspect
import os
import types
import typing
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

from fewer.errors import FewerError

COMMANDS: list[str] = [
    "demo",
    "adapt",
    "run",
    "prepare",
    "tokenizer",
    "train",
    "ngram",
    "ilm",
    "decode",
    "tune",
    "transcribe",
    "rescore",
    "score",
    "perplexity",
    "report",
]
RESUMED = ("demo", "adapt", "run", "train", "ilm", "tune")  # stopped, the same command goes on where it was


@functools.cache
def python_command(verb: str) -> Callable[..., Any]:
    """A command to be called from Python: a path may be a string or a Path, and a list of one thing the thing."""
    command = importlib.import_module(f"fewer.cli.{verb}").command
    signature, hints = inspect.signature(command), typing.get_type_hints(command)

    @functools.wraps(command)
    def call(*args: Any, **options: Any) -> Any:
        given = signature.bind(*args, **options)
        given.arguments = {
            name: _fitted(value, hints[name], f"fewer.{verb}: {name}") for name, value in given.arguments.items()
        }
        return command(*given.args, **given.kwargs)

    call.__name__ = call.__qualname__ = verb
    return call


def _fitted(value: Any, hint: Any, name: str) -> Any:
    """The value as the command line would give it; `name` is for complaints."""
    if typing.get_origin(hint) is types.UnionType:
        if value is None:
            return None
        (hint,) = (kind for kind in typing.get_args(hint) if kind is not types.NoneType)
    if typing.get_origin(hint) is list:
        many = [value] if isinstance(value, str | os.PathLike) else value
        return [_fitted(one, typing.get_args(hint)[0], name) for one in many]
    if hint is Path and isinstance(value, str | os.PathLike):
        return Path(value)
    if hint is str and isinstance(value, os.PathLike):
        return os.fspath(value)
    is_enum = inspect.isclass(hint) and issubclass(hint, Enum)
    choices = [one.value for one in hint] if is_enum else typing.get_args(hint)
    if choices and value not in choices:
        raise FewerError(f"{name} is {value!r}; there are {', '.join(map(str, choices))}")
    return hint(value) if is_enum else value


class CommandPackage(types.ModuleType):
    """A package with the name of a command, such as `fewer.ilm`: calling it is calling the command."""

    @property
    def __call__(self) -> Callable[..., Any]:
        return python_command(self.__name__.rpartition(".")[2])
