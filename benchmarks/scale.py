"""Cost per utterance and memory of decoding sets of many sizes, and the speed-up with workers of each engine.

    python benchmarks/scale.py [--sizes 100 1000 10000 100000] [--engines local processes:1 processes:2 ray torchrun]

A recogniser with random weights reads one short noise again and again, from manifest to N-best file, beam 2. Each size
and each engine has a process of its own. CPU-milliseconds are of all processes that belong to it, except Ray's own
daemons; memory is the peak of the first process, and what the peak of the largest worker is. Seconds by the clock say
nothing where others use the same machine, so the speed-up is told by clock and by CPU time. The last line is JSON.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import soundfile
import torch
import yaml
from lhotse import MonoCut, Recording, SupervisionSegment

from fewer.compute.engines import started
from fewer.data.extractor import MfccConfig
from fewer.data.statistics import Statistics
from fewer.data.tokenizers import train_characters
from fewer.decoding.decode import decode
from fewer.decoding.system import load_system
from fewer.models.aed import AED, AedConfig
from fewer.models.decoder import DecoderConfig
from fewer.models.encoder import EncoderConfig
from fewer.search.beam import SearchOptions
from fewer.store.model_folder import CONFIG, STATISTICS, TOKENIZER, save_model

SECONDS = 0.4  # of the noise


def write_model(folder: Path) -> None:
    """A model folder as training leaves it, with random weights."""
    folder.mkdir()
    tokenizer = train_characters(["abcdefghijklmnopqrstuvwxyz "])
    config = AedConfig(
        vocab_size=tokenizer.size,
        encoder=EncoderConfig(filters=2, layers=2, size=16),
        decoder=DecoderConfig(size=16, embedding=8, readout=16),
        energy=16,
    )
    torch.manual_seed(0)
    save_model(folder, AED(config))
    tokenizer.save(folder / TOKENIZER)
    features = MfccConfig()
    values = {"model": config.model_dump(mode="json"), "features": features.model_dump(mode="json")}
    (folder / CONFIG).write_text(yaml.safe_dump(values))
    Statistics.of(torch.randn(1000, 40)).save(folder / STATISTICS, features)


def write_manifest(folder: Path, utterances: int) -> Path:
    """The same noise under many names."""
    audio = folder / "noise.wav"
    if not audio.exists():
        soundfile.write(audio, 0.1 * np.random.default_rng(0).standard_normal(int(16000 * SECONDS)), 16000)
    recording = Recording.from_file(audio)
    spoken = SupervisionSegment("NAME", recording.id, 0.0, SECONDS, text="a b c", speaker="s")
    line = json.dumps(MonoCut("NAME", 0.0, SECONDS, 0, supervisions=[spoken], recording=recording).to_dict())
    path = folder / f"{utterances}.jsonl"
    with open(path, "w", encoding="utf-8") as stream:
        stream.writelines(line.replace("NAME", f"u{number}") + "\n" for number in range(utterances))
    return path


def decode_once(folder: Path, manifest: Path, out: Path, engine: str) -> None:
    """What a process of its own does; the first one prints what it took."""
    torch.set_num_threads(1)
    system, options = load_system(folder / "model"), SearchOptions(beam=2, max_length=8)
    with started(engine) as workers:
        decode(system, folder / "8.jsonl", out.with_suffix(".warm"), {}, options, workers)
        began, cpu = time.perf_counter(), _cpu()
        count = decode(system, manifest, out, {}, options, workers)
        seconds = time.perf_counter() - began
        spent = _cpu() - cpu
        if workers.first:
            peaks = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
            row = {"engine": engine, "utterances": count, "clock_ms": round(1000 * seconds / count, 2)}
            row |= {"cpu_ms": round(1000 * spent / count, 2)}
            row |= {"peak_MB": round(peaks[0] / 1024), "worker_peak_MB": round(peaks[1] / 1024)}
            print("RESULT" + json.dumps(row))


def _cpu() -> float:
    """Seconds of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def run(folder: Path, size: int, engine: str) -> dict[str, object]:
    manifest, out = folder / f"{size}.jsonl", folder / f"{size}-{engine.replace(':', '-')}.out"
    command = [__file__, "--once", str(folder), str(manifest), str(out), engine]
    start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"] if engine == "torchrun" else []
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    told = subprocess.run(
        [sys.executable, *start, *command], check=True, stdout=subprocess.PIPE, text=True, env=environment
    ).stdout
    row: dict[str, object] = json.loads(told.partition("RESULT")[2].splitlines()[0])
    print(row, flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=[100, 1000, 10_000, 100_000])
    parser.add_argument("--engines", nargs="*", default=["local", "processes:1", "processes:2", "ray", "torchrun"])
    parser.add_argument("--size", type=int, default=2000, help="utterances of which engines are compared")
    parser.add_argument("--once", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        folder, manifest, out, engine = options.once
        decode_once(Path(folder), Path(manifest), Path(out), engine)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_model(folder / "model")
        for size in {8, options.size, *options.sizes}:
            write_manifest(folder, size)
        sizes = [run(folder, size, "local") for size in options.sizes]
        engines = [run(folder, options.size, engine) for engine in options.engines]
        outs = {path.read_bytes() for path in folder.glob(f"{options.size}-*.out")}
        same = len(outs) == 1
        print(f"the same file from every engine: {same}")
    print(json.dumps({"sizes": sizes, "engines": engines, "same": same}))


if __name__ == "__main__":
    main()
