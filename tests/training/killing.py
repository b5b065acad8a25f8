"""Killing training processes at random moments of their work, on fast and on slow machines alike."""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def run_with_kills(start: Callable[[], Any], checkpoints: Path, kills: int, seed: int) -> int:
    """Start a process, kill it a random while after a random number of checkpoints; so often, then let it end.

    Returns how many of the kills came before the end.
    """
    rng, done = random.Random(seed), 0
    for _ in range(kills):
        process = start()
        _wait_for_checkpoints(process, checkpoints, rng.randint(0, 5))
        process.join(rng.uniform(0, 0.1))
        done += process.is_alive()
        process.kill()  # SIGKILL
        process.join()
    process = start()
    process.join()
    assert process.exitcode == 0
    return done


def _wait_for_checkpoints(process: Any, checkpoints: Path, count: int) -> None:
    """Until `count` new ones have appeared; older ones disappear meanwhile."""
    seen = set(_names(checkpoints))
    end = len(seen) + count
    while process.is_alive() and len(seen) < end:
        time.sleep(0.002)
        seen |= set(_names(checkpoints))


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("[0-9]*.safetensors")]
