"""Transcribes an 8-hour recording with a tiny recogniser: peak memory by the hour, and what a kill in hour 7 loses.

    python -m benchmarks.long_recording

In each 5 minutes, 10 seconds hold tones. The recogniser knows four pitches and was trained for seconds: what it writes
is worth nothing, but windows, journal and memory are those of any other.
"""

import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import soundfile
from tests.kills.commands import make_world
from tests.kills.tool import FEWER

HOURS, RATE = 8, 8000


def write_recording(path: Path, tones: Path) -> None:
    sound, _ = soundfile.read(tones, frames=10 * RATE, dtype="float32")
    with soundfile.SoundFile(path, "w", RATE, 1, "PCM_16") as stream:
        for _ in range(HOURS * 12):
            stream.write(sound)
            stream.write(np.zeros(290 * RATE, np.float32))


def windows(journal: Path) -> list[str]:
    return journal.read_text().splitlines()[1:] if journal.exists() else []


def run(arguments: list[str], journal: Path, until: float | None = None) -> list[int]:
    """Run `fewer transcribe`; MB of memory at each look. until: seconds of the recording at which it is killed."""
    memory, process = [], subprocess.Popen([*FEWER, *arguments], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        time.sleep(0.5)
        status = Path(f"/proc/{process.pid}/status")
        if found := re.search(r"VmRSS:\s+(\d+)", status.read_text()) if status.exists() else None:
            memory.append(int(found[1]) // 1000)
        ends = re.findall(r'"end": ([0-9.]+)', (windows(journal) or [""])[-1])
        if until is not None and ends and float(ends[-1]) > until:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
    return memory


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        world = make_world(folder / "world")
        write_recording(folder / "long.wav", world / "long.wav")
        model = ["--model", str(world / "aed"), "--output", "json", "--out"]
        arguments = ["transcribe", str(folder / "long.wav"), *model]
        memory = run([*arguments, str(folder / "whole")], folder / "whole" / "long.partial.jsonl")
        late = memory[len(memory) // 2 :]
        print(f"{HOURS} hours: peak {max(memory)} MB, in the second half {min(late)} to {max(late)} MB")
        journal = folder / "killed" / "long.partial.jsonl"
        run([*arguments, str(folder / "killed")], journal, until=7 * 3600.0)
        kept = len(windows(journal))
        run([*arguments, str(folder / "killed")], journal)
        same = (folder / "killed" / "long.json").read_bytes() == (folder / "whole" / "long.json").read_bytes()
        result = "the same" if same else "DIFFERENT"
        print(f"killed in hour 7 with {kept} windows done; run again, the transcript is {result}")


if __name__ == "__main__":
    main()
