"""Kills or stops commands at random moments, runs them again, and compares what they leave with an undisturbed run.

Commands are forks of a process that has imported everything, so that the moments are those of their work.
"""

import hashlib
import multiprocessing
import os
import random
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from fewer.files import is_leftover

FEWER = (sys.executable, "-P", "-c", "from fewer.cli import start; start()")
STOP_SECONDS = 15.0  # in which a command has stopped after SIGINT or SIGTERM, on a busy machine
ENDS = {signal.SIGINT: (130, -signal.SIGINT), signal.SIGTERM: (143, -signal.SIGTERM)}  # negative: before it had begun
NOTES = ("train.log", "run.json", "seconds.json")  # say when, and how long it took
TIMES = {  # ends of names -> what these files say of times
    "curves.jsonl": rb'"seconds": [0-9.]+',
    "index": rb'"mtime_ns": \d+',  # of a manifest
    "results.json": rb'"seconds": \{[^}]*\}',
    "report.html": rb".*id=.data.|</script>.*",  # all but its data
}
LOOK = 0.02  # seconds between two looks at a process

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["tests.kills.imported"])


@dataclass(frozen=True)
class Command:
    """A command that is killed."""

    name: str
    arguments: Callable[[Path, Path], list[object]]  # the world that it reads, the output folder -> its arguments
    slow: bool = False  # takes more than some seconds
    prepare: Callable[[], None] | None = None  # called first, in the process of the command
    worker: str | None = None  # not the command is killed but a process below it whose name begins so; it goes on


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
    signalled: bool = False


def run(
    command: Command, world: Path, out: Path, after: float | None = None, how: signal.Signals = signal.SIGKILL
) -> Ended:
    """Run it. after: seconds at which it gets the signal, if it lives that long; those of a worker begin with it."""
    said = out.parent.parent / f"said-{time.monotonic_ns()}"
    arguments = list(map(str, command.arguments(world, out)))
    process: Any = _forks.Process(target=_call, args=(arguments, command.prepare, said))
    process.start()
    if command.worker is not None:
        _worker(process, command.worker)
    began, signalled = time.monotonic(), False
    process.join(after)
    if process.is_alive():
        if command.worker is None:
            _signal(process, how)
            began, signalled = time.monotonic(), True
        elif (worker := _worker(process, command.worker)) is not None:
            os.kill(worker, signal.SIGKILL)
            signalled = True
        process.join()
    seconds, text = time.monotonic() - began, said.read_text(errors="replace") if said.exists() else ""
    said.unlink(missing_ok=True)
    return Ended(process.exitcode, text, seconds, signalled)


def _call(arguments: list[str], prepare: Callable[[], None] | None, said: Path) -> None:
    """The command, in a session of its own as if started from a terminal."""
    multiprocessing.set_start_method(None, force=True)  # as if no fork server had started it
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until it begins
    os.setsid()
    for stream, name in ((1, os.devnull), (2, str(said))):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), stream)
    if prepare is not None:
        prepare()
    sys.argv = ["fewer", *arguments]
    from fewer.cli.main import main

    signal.signal(signal.SIGINT, signal.default_int_handler)
    main()


def _signal(process: Any, how: signal.Signals) -> None:
    try:
        if how == signal.SIGTERM:
            os.kill(process.pid, how)
        else:
            os.killpg(process.pid, how)  # as a terminal does it
    except ProcessLookupError:  # it has no session yet
        os.kill(process.pid, how)


def _worker(process: Any, name: str) -> int | None:
    """The newest process below it that has this name, as soon as there is one; None if it ends before."""
    while process.is_alive():
        if found := [pid for pid, called in _below(process.pid) if called.startswith(name)]:
            return max(found)
        process.join(LOOK)
    return None


def _below(pid: int) -> list[tuple[int, str]]:
    """The processes that a process has started, and those that these have; with their names."""
    parents, names = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            names[int(folder.name)] = (folder / "cmdline").read_text(errors="replace")
        except (OSError, ValueError, IndexError):  # it has just ended
            continue
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return [(child, names.get(child, "")) for child in found - {pid}]


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
    rng, found, killed, longest = random.Random(f"{command.name} {seed}"), [], 0, whole.seconds
    while killed < times:
        after = rng.uniform(0, longest)
        out.parent.mkdir()
        stopped = run(command, world, out, after, how)
        if stopped.signalled:
            killed += 1
            problem = _problem(command, world, out, stopped, how)
        else:  # it was faster than the first time
            longest = min(longest, stopped.seconds)
            problem = f"it ends with {stopped.code}: {stopped.said[-500:]}" if stopped.code else None
        problem = problem or difference(expected, contents(out.parent))
        if problem is not None:
            found.append(Outcome(command.name, after, problem))
        shutil.rmtree(out.parent)
    return found


def _problem(command: Command, world: Path, out: Path, stopped: Ended, how: signal.Signals) -> str | None:
    """Run it again unless it went on by itself; what is wrong about how it ended."""
    if command.worker is not None:
        return f"it ended with {stopped.code}: {stopped.said[-500:]}" if stopped.code else None
    if stopped.code == 0:  # it was done already
        return None
    problem = None if how == signal.SIGKILL else _not_clean(stopped, how, out.parent)
    if problem is None:
        last = run(command, world, out)
        done = "is there already" in last.said  # a bundle, which was complete when the command was killed
        problem = f"run again, it ends with {last.code}: {last.said[-500:]}" if last.code and not done else None
    return problem


def _not_clean(stopped: Ended, how: signal.Signals, folder: Path) -> str | None:
    """What is wrong about how a command stopped."""
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
    content = path.read_bytes()
    for suffix, what in TIMES.items():
        if path.name.endswith(suffix):
            content = re.sub(what, b"", content, flags=re.DOTALL)
    return hashlib.sha256(content).hexdigest()
