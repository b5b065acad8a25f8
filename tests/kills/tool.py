"""Kills or stops commands at random moments, runs them again, and compares what they leave with an undisturbed run."""

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
STOP_SECONDS = 15.0  # in which a command has stopped after SIGINT or SIGTERM, on a busy machine
ENDS = {signal.SIGINT: (130, -signal.SIGINT), signal.SIGTERM: (143, -signal.SIGTERM)}  # negative: before it had begun
NOTES = ("train.log", "run.json", "seconds.json", "curves.jsonl")  # say when, and how long it took


@dataclass(frozen=True)
class Command:
    """A command that is killed."""

    name: str
    arguments: Callable[[Path, Path], list[object]]  # the world that it reads, the output folder -> its arguments
    slow: bool = False  # takes more than some seconds


@dataclass(frozen=True)
class Outcome:
    """What is different after a kill; nothing should be."""

    command: str
    after: float  # seconds at which it was killed
    problem: str


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int  # as subprocess has it
    said: str  # on standard error
    seconds: float  # from the signal, or from its start


def run(
    command: Command, world: Path, out: Path, after: float | None = None, how: signal.Signals = signal.SIGKILL
) -> Ended:
    """Run it. after: seconds at which it gets the signal, if it lives that long."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it may be ignored, also by the command
    process = subprocess.Popen(
        [*FEWER, *map(str, command.arguments(world, out))],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
        text=True,
    )
    began = time.monotonic()
    try:
        _, said = process.communicate(timeout=after)
    except subprocess.TimeoutExpired:
        began = time.monotonic()
        if how == signal.SIGTERM:
            process.terminate()
        else:
            os.killpg(process.pid, how)  # as a terminal does it
        _, said = process.communicate()
    return Ended(process.returncode, said, time.monotonic() - began)


def kills(
    command: Command, world: Path, folder: Path, times: int, seed: int = 1, how: signal.Signals = signal.SIGKILL
) -> list[Outcome]:
    """Kill or stop a command so many times, each in a new folder of one name; returns what was different."""
    out = folder / "now" / "out"  # records of a run tell where it was
    out.parent.mkdir(parents=True)
    whole = run(command, world, out)
    assert whole.code == 0, f"{command.name} fails without being killed: {whole.said}"
    expected = contents(out.parent)
    shutil.rmtree(out.parent)
    rng, found = random.Random(f"{command.name} {seed}"), []
    for _ in range(times):
        after = rng.uniform(0, whole.seconds)
        out.parent.mkdir()
        stopped = run(command, world, out, after, how)
        problem = None if how == signal.SIGKILL else _not_clean(stopped, how, out.parent)
        if problem is None:
            last = run(command, world, out)
            problem = f"run again, it ends with {last.code}: {last.said[-500:]}" if last.code else None
        problem = problem or difference(expected, contents(out.parent))
        if problem is not None:
            found.append(Outcome(command.name, after, problem))
        shutil.rmtree(out.parent)
    return found


def _not_clean(stopped: Ended, how: signal.Signals, folder: Path) -> str | None:
    """What is wrong about how a command stopped."""
    if stopped.code == 0:  # it was faster
        return None
    if stopped.code not in ENDS[how]:
        return f"it ended with {stopped.code}: {stopped.said[-500:]}"
    if stopped.seconds > STOP_SECONDS:
        return f"it stopped after {stopped.seconds:.1f} s"
    if stopped.code > 0 and "Traceback" in stopped.said:
        return stopped.said[-500:]
    left = [path for path in folder.rglob("*") if is_leftover(path)]
    return f"it left {left[0].relative_to(folder)}" if left else None


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
