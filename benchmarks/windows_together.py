"""What searching windows together gains, and so what a crash may lose: CPU-seconds of `fewer transcribe` with batches
of 1 to 8 windows.

    python -m benchmarks.windows_together MODEL MANIFEST [--minutes 10]

A crash loses the batch that is being searched: its windows, and the seconds that are printed for a batch.
"""

import argparse
import tempfile
import time
from pathlib import Path

from benchmarks.transcribe import record

import fewer
from fewer.data.manifest import Manifest
from fewer.transcription import transcribe


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("manifest")
    parser.add_argument("--minutes", type=float, default=10.0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "long.flac"
        seconds, _ = record(Manifest(args.manifest), path, 60 * args.minutes)
        loaded = fewer.load(args.model, device="cpu")
        for together in (1, 2, 4, 8):
            transcribe.BATCH = together
            began = time.process_time()
            windows = len(list(loaded.transcribe(path)))
            spent = time.process_time() - began
            print(
                f"{together} windows: {spent:.1f} CPU-s for {seconds:.0f} s, {together * spent / windows:.1f} a batch"
            )


if __name__ == "__main__":
    main()
