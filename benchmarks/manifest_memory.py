"""Resident memory while batches of a manifest are planned and read: it must not grow with the corpus.

    python benchmarks/manifest_memory.py [--sizes 1000 300000] [--steps 40]

Each size has a process of its own, with a manifest that repeats a few files of noise. "own" is memory that belongs to
the process alone (RssAnon), "mapped" is what of files is mapped into it (RssFile): the libraries and the index, which
the system takes back when it needs to; "peak" is the most of both so far. The last line is JSON.
"""

import argparse
import json
import multiprocessing
import tempfile
import time
from itertools import chain, count, islice
from pathlib import Path

import numpy as np
import soundfile
import torch
from lhotse import MonoCut, Recording, SupervisionSegment

from fewer.data.augment import SpecAugment, SpecAugmentConfig
from fewer.data.batches import UtteranceBatches, UtteranceConfig
from fewer.data.extractor import LogMelConfig
from fewer.data.manifest import Manifest
from fewer.data.reader import FeatureReader
from fewer.data.tokenizers import train_characters

SECONDS = (2.0, 5.0, 8.0, 12.0, 15.0)  # of the files that the manifests repeat
TEXT = "THE QUICK BROWN FOX JUMPS OVER THE LAZY DOG AND RUNS AWAY"
SUB_EPOCHS = 20


def write_manifest(folder: Path, size: int) -> Path:
    """A manifest of `size` utterances, each with an id, a speaker and a subset of its own."""
    cuts = []
    for seconds in SECONDS:
        path = folder / f"{seconds:g}.wav"
        soundfile.write(path, np.random.default_rng(0).normal(0, 0.1, int(16000 * seconds)), 16000)
        recording = Recording.from_file(path)
        text = TEXT[: int(4 * seconds)].strip()
        words = SupervisionSegment("ID", recording.id, 0, seconds, text=text, speaker="SPEAKER")
        cuts.append(MonoCut("ID", 0, seconds, 0, [words], recording=recording, custom={"subset": "train-clean-100"}))
    lines = [json.dumps(cut.to_dict()) for cut in cuts]
    path = folder / f"{size}.jsonl"
    with open(path, "w", encoding="utf-8") as stream:
        for number in range(size):
            line = lines[number % len(lines)].replace("ID", f"{number // 30:05}-{number:07}")
            stream.write(line.replace("SPEAKER", f"{number // 30:05}") + "\n")
    return path


def memory() -> dict[str, float]:
    """Megabytes resident in this process, now and at most so far."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    fields = {"own": "RssAnon", "mapped": "RssFile", "peak": "VmHWM"}
    return {name: int(status[field].split()[0]) / 1024 for name, field in fields.items()}


def measure(path: Path, steps: int) -> dict[str, dict[str, float]]:
    """Memory and CPU-seconds after each stage of a training run's data side."""
    torch.set_num_threads(1)
    reader = FeatureReader(LogMelConfig(normalise="none"))
    tokenizer, augment = train_characters([TEXT]), SpecAugment(SpecAugmentConfig())
    config = UtteranceConfig(sub_epochs=SUB_EPOCHS, speeds=(0.9, 1.0, 1.1), speed_mode="random")
    stages: dict[str, dict[str, float]] = {}
    began = time.process_time()

    def stage(name: str) -> None:
        nonlocal began
        stages[name] = {**memory(), "cpu_seconds": time.process_time() - began}
        began = time.process_time()

    batches = UtteranceBatches(Manifest(WARM_UP), reader, tokenizer, UtteranceConfig(), augment=augment)
    next(batches.steps(1))
    stage("libraries, one batch read")
    manifest = Manifest(path)
    stage("manifest indexed")
    for index in np.random.default_rng(0).integers(0, len(manifest), 1000):
        manifest[int(index)]
    stage("1000 random cuts")
    batches = UtteranceBatches(manifest, reader, tokenizer, config, augment=augment)
    for sub_epoch in range(1, SUB_EPOCHS + 1):
        batches.plan(sub_epoch)
    stage(f"{SUB_EPOCHS} sub-epochs planned")
    for _ in islice(chain.from_iterable(map(batches.steps, count(1))), steps):
        pass
    stage(f"{steps} steps read")
    return stages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 300_000])
    parser.add_argument("--steps", type=int, default=40)
    arguments = parser.parse_args()
    results: dict[int, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        global WARM_UP
        WARM_UP = write_manifest(Path(folder), len(SECONDS))
        Manifest(WARM_UP)
        for size in arguments.sizes:
            path = write_manifest(Path(folder), size)
            with multiprocessing.get_context("spawn").Pool(1, _warm_up, (WARM_UP,)) as pool:
                results[size] = pool.apply(measure, (path, arguments.steps))
            path.unlink()
    print(f"{'utterances':>10}  {'after':28}{'own MB':>8}{'mapped MB':>11}{'peak MB':>9}{'CPU s':>7}")
    for size, stages in results.items():
        for name, values in stages.items():
            numbers = f"{values['own']:8.1f}{values['mapped']:11.1f}{values['peak']:9.1f}{values['cpu_seconds']:7.2f}"
            print(f"{size:10,}  {name:28}{numbers}")
    last = [list(stages.values())[-1] for stages in results.values()]
    print(
        json.dumps(
            {
                "utterances": arguments.sizes,
                "own_mb": [round(values["own"], 1) for values in last],
                "resident_mb": [round(values["own"] + values["mapped"], 1) for values in last],
                "peak_mb": [round(values["peak"], 1) for values in last],
            }
        )
    )


def _warm_up(path: Path) -> None:
    global WARM_UP
    WARM_UP = path


if __name__ == "__main__":
    main()
