"""What README's block about adapting needs, made in the current folder: a tiny Whisper, a dev set and a call.

Runs in an environment with nothing but fewer[hf]: python -m tests.install.world
"""

import shutil
from pathlib import Path

from lhotse import CutSet

from tests.recognisers.tiny import make_whisper, write_manifest

make_whisper(Path("openai/whisper-tiny.en"))
write_manifest(Path("dev.jsonl"), ["the cat", "a cat in a hat"])
shutil.copyfile("dev-0.wav", "call.wav")
CutSet.from_file("dev.jsonl").to_eager().resample(8000).to_file("dev.jsonl")  # lhotse needs scipy for it
