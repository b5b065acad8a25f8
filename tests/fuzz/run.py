"""Runs mutated inputs and counts how they end: read, refused with an error that names the file, a traceback, a hang.

Inputs run in forked processes with limits on time and memory, so that a crash or a hang is one input's alone.
"""

import contextlib
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fewer.errors import FewerError
from tests.fuzz.kind import Kind
from tests.fuzz.mutate import mutated

LIMIT = 20  # CPU-seconds after which an input counts as a hang, …
PATIENCE = 15  # … or this many times as long by the clock: the machine may be busy
MEMORY = 6 << 30  # bytes of address space beyond what the process has
LINES = 3  # of an error's message
CHARS = 2500


@dataclass
class Tally:
    """How the inputs of one kind ended."""

    inputs: int = 0
    read: int = 0
    errors: int = 0
    bad: Counter[str] = field(default_factory=Counter)  # traceback, hang, crash or bad message -> how often
    examples: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def hangs(self) -> int:
        return sum(count for name, count in self.bad.items() if name.startswith("hang"))

    @property
    def tracebacks(self) -> int:
        return sum(self.bad.values()) - self.hangs


class _Hang(BaseException):
    pass


def run_kind(kind: Kind, inputs: int, seed: int, keep: Path | None = None) -> Tally:
    """Run so many inputs of a kind. keep: folder for inputs that end badly."""
    tally, began, first = Tally(), time.monotonic(), 0
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        kind.prepare(Path(folder) / "right")
        while first < inputs:
            end, far_end = context.Pipe(duplex=False)
            process = context.Process(
                target=_work, args=(kind, range(first, inputs), seed, Path(folder), far_end, keep)
            )
            process.start()
            far_end.close()
            first = _listen(process, end, tally, first)
    tally.seconds = time.monotonic() - began
    return tally


def _listen(process: Any, end: Connection, tally: Tally, first: int) -> int:
    """Count what a process tells; returns the number of the input that comes next."""
    while True:
        try:
            if not end.poll(2 * PATIENCE * LIMIT):  # not even an alarm could stop it
                process.kill()
                process.join()
                return _count(tally, first, "hang in native code", "")
            outcome, about = end.recv()
        except EOFError:
            process.join()
            if process.exitcode == 0:
                return first
            return _count(tally, first, f"crash with exit code {process.exitcode}", "")
        first = _count(tally, first, outcome, about)


def _count(tally: Tally, number: int, outcome: str, about: str) -> int:
    tally.inputs += 1
    if outcome == "read":
        tally.read += 1
    elif outcome == "error":
        tally.errors += 1
    else:
        tally.bad[outcome] += 1
        tally.examples.setdefault(outcome, f"input {number}: {about}")
    return number + 1


def _work(kind: Kind, numbers: range, seed: int, folder: Path, end: Connection, keep: Path | None) -> None:
    for alarm in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(alarm, _alarm)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    for number in numbers:
        rng = random.Random(f"{kind.name} {seed} {number}")
        place = folder / f"{number}"
        with contextlib.suppress(FileNotFoundError):
            path = kind.copy(place, rng)
            content = mutated(path, rng)
            path.write_bytes(content)
        outcome, about = _outcome(kind, place, path)
        if keep is not None and outcome not in ("read", "error"):
            keep.mkdir(parents=True, exist_ok=True)
            (keep / f"{kind.name}-{number}-{path.name}").write_bytes(content)
        kind.clear(place)
        end.send((outcome, about))
    end.close()
    os._exit(0)


def _alarm(*_: object) -> None:
    raise _Hang


def _outcome(kind: Kind, place: Path, path: Path) -> tuple[str, str]:
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    signal.alarm(PATIENCE * LIMIT)
    try:
        kind.use(place)
    except FewerError as error:
        return _judged(str(error), place, path)
    except SystemExit as ended:
        return ("read", "") if ended.code in (None, 0) else ("error", "") if ended.code == 1 else ("exit", str(ended))
    except _Hang:
        return f"hang: {_where(sys.exc_info()[2])}", path.name
    except BaseException as error:
        return f"{type(error).__name__}: {_where(error.__traceback__)}", f"{path.name}: {error!s:.200}"
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
    return "read", ""


def _judged(message: str, place: Path, path: Path) -> tuple[str, str]:
    """An error's message is short and says which file it is about. path: the one that is wrong."""
    if len(message.splitlines()) > LINES or len(message) > CHARS:
        return "message too long", message[:300]
    if any(name in message for name in ("--set", "utterance ")):  # from the command line; what a manifest names
        return "error", ""
    names = {file.name for file in place.rglob("*")}  # of the wrong one, or of one that it should fit
    if str(place) not in message or not any(name in message for name in names):
        return f"no name of a file in the message about {path.name}", message[:300]
    return "error", ""


def _where(trace: Any) -> str:
    frames = [frame for frame in traceback.extract_tb(trace) if "/fewer/" in frame.filename]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno} {frames[-1].name}" if frames else "?"
