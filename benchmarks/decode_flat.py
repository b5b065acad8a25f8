"""Cost per utterance and memory of decoding sets of 10, 100 and 1,000 utterances.

    python benchmarks/decode_flat.py [--sizes 10 100 1000]

A recogniser with random weights reads one noisy recording again and again, from manifest to N-best file, beam 4. The
last line is JSON with CPU-milliseconds per utterance and peak memory (MB) of each size.
"""

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import soundfile
import torch
import yaml
from lhotse import MonoCut, Recording, SupervisionSegment

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


def write_model(folder: Path) -> None:
    """A model folder as training leaves it, with random weights."""
    folder.mkdir()
    tokenizer = train_characters(["abcdefghijklmnopqrstuvwxyz "])
    config = AedConfig(
        vocab_size=tokenizer.size,
        encoder=EncoderConfig(filters=8, layers=3, size=64),
        decoder=DecoderConfig(size=64, embedding=32, readout=64),
        energy=64,
    )
    torch.manual_seed(0)
    save_model(folder, AED(config))
    tokenizer.save(folder / TOKENIZER)
    features = MfccConfig()
    values = {"model": config.model_dump(mode="json"), "features": features.model_dump(mode="json")}
    (folder / CONFIG).write_text(yaml.safe_dump(values))
    Statistics.of(torch.randn(1000, 40)).save(folder / STATISTICS, features)


def write_manifest(folder: Path, utterances: int) -> Path:
    """The same two seconds under many names."""
    audio = folder / "noise.wav"
    if not audio.exists():
        soundfile.write(audio, 0.1 * np.random.default_rng(0).standard_normal(32000), 16000)
    recording = Recording.from_file(audio)
    path = folder / f"{utterances}.jsonl"
    with open(path, "w", encoding="utf-8") as stream:
        for number in range(utterances):
            name = f"u{number}"
            spoken = SupervisionSegment(name, recording.id, 0.0, 2.0, text="a b c", speaker="s")
            cut = MonoCut(name, 0.0, 2.0, 0, supervisions=[spoken], recording=recording)
            print(json.dumps(cut.to_dict()), file=stream)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 100, 1000])
    sizes = parser.parse_args().sizes
    torch.set_num_threads(1)
    result = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_model(folder / "model")
        system = load_system(folder / "model")
        options = SearchOptions(beam=4, max_length=20)
        decode(system, write_manifest(folder, 8), folder / "warm.jsonl", {}, options)
        for size in sizes:
            manifest = write_manifest(folder, size)
            began = time.process_time()
            decode(system, manifest, folder / f"{size}-out.jsonl", {}, options)
            cost = 1000 * (time.process_time() - began) / size
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"{size:5} utterances: {cost:7.1f} CPU-ms each, {memory:7.0f} MB at most so far")
            result[str(size)] = {"cpu_ms": round(cost, 1), "peak_mb": round(memory)}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
