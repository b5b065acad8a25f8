"""Kills commands at random moments, runs them again, and compares what they leave with a run that was not killed."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from fewer.files import is_leftover

FEWER = (sys.executable, "-P", "-c", "from fewer.cli.main import main; main()")
NOTES = ("train.log", "run.json", "seconds.json", "curves.jsonl")  # say when, and how long it took


@dataclass(frozen=True)
class Command:
    """A command that is killed."""

    name: str
    arguments: Callable[[Path, Path], list[object]]  # the world that it reads, the output folder -> its arguments


@dataclass(frozen=True)
class Outcome:
    """What is different after a kill; nothing should be."""

    command: str
    after: float  # seconds at which it was killed
    problem: str


def run(command: Command, world: Path, out: Path, kill_after: float | None = None) -> int | None:
    """Run it, killed after so many seconds if it lives that long; its exit code, None if it was killed."""
    process = subprocess.Popen(
        [*FEWER, *map(str, command.arguments(world, out))],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
        text=True,
    )
    try:
        _, said = process.communicate(timeout=kill_after)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None
    if process.returncode:
        print(said, file=sys.stderr)
    return process.returncode


def kills(command: Command, world: Path, folder: Path, times: int, seed: int = 1) -> list[Outcome]:
    """Kill a command so many times, each in a new folder; returns what was different."""
    out, began = folder / "whole" / "out", time.monotonic()
    out.parent.mkdir(parents=True)
    assert run(command, world, out) == 0, f"{command.name} fails without being killed"
    seconds, expected = time.monotonic() - began, contents(out.parent)
    rng, found = random.Random(f"{command.name} {seed}"), []
    for number in range(times):
        after, again = rng.uniform(0, seconds), folder / f"kill-{number}" / "out"
        again.parent.mkdir()
        run(command, world, again, after)
        code = run(command, world, again)
        if code != 0:
            found.append(Outcome(command.name, after, f"run again, it ends with {code}"))
        elif problem := difference(expected, contents(again.parent)):
            found.append(Outcome(command.name, after, problem))
        shutil.rmtree(again.parent)
    return found


def contents(folder: Path) -> dict[str, str]:
    """A hash of every file below a folder but of notes about times, which only have to be there."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() or path.is_symlink():
            found[str(path.relative_to(folder))] = "" if path.name in NOTES else _hash(path)
        elif path.name.endswith(".partial"):
            found[str(path.relative_to(folder))] = "a workspace"
    return found


def difference(expected: Mapping[str, str], found: Mapping[str, str]) -> str | None:
    """What a killed run left differently."""
    for name in sorted({*expected, *found}):
        if expected.get(name) != found.get(name):
            leftover = "a leftover: " if is_leftover(Path(name)) else ""
            return f"{leftover}{name}: {expected.get(name, 'absent')[:12]} became {found.get(name, 'absent')[:12]}"
    return None


def _hash(path: Path) -> str:
    if path.parent.name == "checkpoints":  # its facts say how long training took
        tensors = {name: tensor.numpy().tobytes() for name, tensor in load_file(path).items()}
        return hashlib.sha256(repr(sorted(tensors.items())).encode()).hexdigest()
    if path.name == "results.json":
        value: dict[str, Any] = json.loads(path.read_text())
        return hashlib.sha256(json.dumps({k: v for k, v in value.items() if k != "seconds"}).encode()).hexdigest()
    return hashlib.sha256(path.read_bytes()).hexdigest()
