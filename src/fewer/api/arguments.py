"""What callers may write, as what the library works with."""

import os
from collections.abc import Sequence
from pathlib import Path

from fewer.errors import FewerError


def paths(given: str | Path | Sequence[str | Path] | None) -> list[Path]:
    """One path or several."""
    several = [] if given is None else [given] if isinstance(given, str | os.PathLike) else given
    return [Path(one) for one in several]


def listed(given: str | Sequence[str] | None) -> list[str]:
    """One string or several."""
    return [] if given is None else [given] if isinstance(given, str) else list(given)


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        raise FewerError(f"{name} is {value!r}; it must be one of {', '.join(choices)}")
