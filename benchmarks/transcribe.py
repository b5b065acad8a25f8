"""What a long recording costs: utterances of a set one after the other, transcribed by `fewer transcribe`.

    python benchmarks/transcribe.py MODEL MANIFEST [--hours 2]

MODEL is a Whisper or a bundle of `fewer adapt`. Half a second of faint noise stands between two utterances. Prints
CPU-seconds, the largest memory and the WER, by Whisper's normaliser; the last line is JSON.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import soundfile

from fewer.data.manifest import Manifest
from fewer.evaluation.normalise import load_normaliser
from fewer.evaluation.wer import word_errors

RATE, PAUSE, NOISE = 16_000, 0.5, 1e-3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("manifest")
    parser.add_argument("--hours", type=float, default=2.0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seconds, texts = record(Manifest(args.manifest), folder / "long.flac", 3600 * args.hours)
        command = [sys.executable, "-m", "fewer", "transcribe", str(folder / "long.flac"), "--model", args.model]
        subprocess.run([*command, "--output", "json", "--out", str(folder)], check=True)
        heard = json.loads((folder / "long.json").read_text())["text"]
    used, normaliser = resource.getrusage(resource.RUSAGE_CHILDREN), load_normaliser("english")
    errors = word_errors(normaliser.ref(" ".join(texts)), normaliser.hyp(heard))
    found = {"seconds": round(seconds), "utterances": len(texts), "cpu_seconds": round(used.ru_utime + used.ru_stime)}
    found |= {"megabytes": used.ru_maxrss // 1024, "wer": round(errors.wer, 2)}
    print(
        f"{found['seconds']} s of audio: {found['cpu_seconds']} CPU-seconds, {found['megabytes']} MB, "
        f"WER {found['wer']:.2f} %"
    )
    print(json.dumps(found))


def record(manifest: Manifest, path: Path, seconds: float) -> tuple[float, list[str]]:
    """Write a recording of at least so many seconds, if the set has them; its length, and what is said in it."""
    rng, length, texts = np.random.default_rng(0), 0, list[str]()
    with soundfile.SoundFile(path, "w", RATE, 1) as stream:
        for cut in manifest:
            noise = NOISE * rng.standard_normal(int(PAUSE * RATE))
            samples = np.concatenate([cut.resample(RATE).load_audio()[0], noise])
            stream.write(samples)
            length += len(samples)
            texts.append(cut.supervisions[0].text)
            if length >= seconds * RATE:
                break
    return length / RATE, texts


if __name__ == "__main__":
    main()
