"""CPU-seconds of Whisper decoding: fewer's search, alone and fused, against transformers' `generate`.

    python benchmarks/whisper.py WHISPER_FOLDER MANIFEST [--utterances 16] [--text books.txt] [--against PYTHON]

Beam 5, float32, one thread, the same utterances and mel features for all; encoder and decoder are counted. `generate`
runs with one utterance at a time and in batches of 8; the faster is what the others are compared with. fewer runs in
batches of 8. The n-gram LM (4-gram) and the bigram of LODR are made of the text, or of the manifest's transcripts.
The neural ILM is a Mini-LSTM. The encoder, which is the same network for all, is timed alone as well: what it takes is
the least that any of them could take. The last line is JSON with each system's time relative to `generate`.

--against: an interpreter with whisper-lm-transformers 0.2.0, transformers 4.50.3, torch and kenlm. It decodes the same
utterances with the same beam and a word 4-gram of the same text, which fewer reads as well (`word_ngram`). The largest
factor that any search could reach (`at_most`) is their time over that of the encoder.
"""

import argparse
import contextlib
import io
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import WhisperFeatureExtractor, WhisperForConditionalGeneration

from fewer.data.audio import load_audio
from fewer.data.batches import Batch
from fewer.data.manifest import Manifest
from fewer.data.token_store import read_text, store_tokens
from fewer.decoding.system import load_system
from fewer.ilm.config import IlmConfig
from fewer.models.encoded import Encoded
from fewer.models.lm import LmScorer
from fewer.models.ngram import NGram
from fewer.recognisers.whisper.recogniser import WhisperRecogniser, load_whisper
from fewer.search.beam import SearchOptions, beam_search
from fewer.search.fusion import Fusion
from fewer.search.rules import EndScoredBy, Suppression
from fewer.store.ngram_files import save_ngram
from fewer.training.ngram import estimate

BEAM, BATCH = 5, 8
ENCODER = "encoder alone"
SCALES = {"aed": 1.0, "lm": 0.1, "ilm": -0.05}


def ngram(whisper: WhisperRecogniser, source: Path, order: int) -> NGram:
    tokenizer = whisper.tokenizer
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        labels = store_tokens([source], tokenizer, folder).labels
        return estimate(labels, order, tokenizer.size, tokenizer.end, prune=(0, 0, 1))


def word_ngram(source: Path, order: int, arpa: Path) -> None:
    """An ARPA file over the words of a text, in lower case and without punctuation."""
    ids, stream = {"</s>": 0, "<unk>": 1}, list[int]()
    for line in read_text(source):
        words = re.sub(r"[^\w\s']", " ", line.lower()).split()
        stream += [*(ids.setdefault(word, len(ids)) for word in words), 0] if words else []
    model = estimate(torch.tensor(stream), order, len(ids), 0, prune=(0, 0, 1))
    save_ngram(arpa, model, list(ids))


def systems(whisper: WhisperRecogniser, source: Path, arpa: Path | None) -> dict[str, Fusion]:
    lm = LmScorer(ngram(whisper, source, 4))
    mini = IlmConfig(method="mini_lstm").new_context(whisper)
    scorers: dict[str, list[Any]] = {
        "plain": [whisper.scorer({})],
        "ngram": [whisper.scorer({}), lm],
        "ngram_lodr": [whisper.scorer({}), lm, LmScorer(ngram(whisper, source, 2), "ilm")],
        "ngram_mini_lstm": [whisper.scorer({"ilm": mini}), lm],
    }
    found = {
        name: Fusion(
            parts,
            {term: SCALES[term] for part in parts for term in part.terms},
            whisper.tokenizer.end,
            [Suppression(whisper.suppress, whisper.suppress_first), EndScoredBy(["aed"])],
        )
        for name, parts in scorers.items()
    }
    if arpa is not None:
        found["word_ngram"] = load_system(whisper, arpa).fusion({"lm": SCALES["lm"]})
    return found


def others(python: str, model: Path, audio: list[torch.Tensor], arpa: Path) -> dict[str, Any]:
    """What whisper-lm-transformers does with the same utterances, in its own environment."""
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "audio.npz", **{f"{n:04}": samples.numpy() for n, samples in enumerate(audio)})
        script = Path(__file__).with_name("whisper_lm.py")
        command = [python, "-P", str(script), str(model), str(Path(folder) / "audio.npz"), str(arpa), str(BEAM)]
        # -P, since this folder has a file named like the package `whisper`, which theirs needs
        own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=own)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def generate(model: Any, mels: list[torch.Tensor], batch: int) -> list[tuple[int, ...]]:
    found = []
    for first in range(0, len(mels), batch):
        group = mels[first : first + batch]
        found += [tuple(row) for row in model.generate(torch.cat(group), num_beams=BEAM).tolist()]
    return found


def batches(mels: list[torch.Tensor]) -> list[list[torch.Tensor]]:
    return [mels[first : first + BATCH] for first in range(0, len(mels), BATCH)]


def encode(whisper: WhisperRecogniser, mels: list[torch.Tensor]) -> Encoded:
    features = torch.cat(mels).transpose(1, 2)  # padded to 30 s already
    frames, none = torch.full((len(mels),), features.shape[1]), torch.zeros(len(mels), 0, dtype=torch.long)
    return whisper.encode(Batch([""] * len(mels), features, frames, none, none.sum(1)))


def search(whisper: WhisperRecogniser, fusion: Fusion, mels: list[torch.Tensor]) -> list[tuple[int, ...]]:
    found = []
    for group in batches(mels):
        encoded = encode(whisper, group)
        lists = beam_search(fusion, encoded, whisper.max_lengths(encoded), SearchOptions(beam=BEAM))
        found += [hypotheses[0].tokens for hypotheses in lists]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--utterances", type=int, default=16)
    parser.add_argument("--text", type=Path)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--against", metavar="PYTHON")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    whisper = load_whisper(arguments.model)
    model = WhisperForConditionalGeneration.from_pretrained(arguments.model, dtype=torch.float32).eval()
    manifest = Manifest(arguments.manifest)
    chosen = sorted(
        torch.linspace(0, len(manifest) - 1, arguments.utterances).long().tolist(), key=manifest.durations.__getitem__
    )
    extractor = WhisperFeatureExtractor.from_pretrained(arguments.model)
    audio = [load_audio(manifest[item], 16000) for item in chosen]
    mels = [extractor(samples.numpy(), sampling_rate=16000, return_tensors="pt").input_features for samples in audio]
    text = arguments.text or arguments.manifest
    scratch = tempfile.TemporaryDirectory()
    arpa = Path(scratch.name) / "words.arpa" if arguments.against else None
    if arpa is not None:
        word_ngram(text, 4, arpa)
    runs: dict[str, Callable[[], Any]] = {
        ENCODER: lambda: [encode(whisper, group) for group in batches(mels)],
        "generate, one by one": lambda: generate(model, mels, 1),
        f"generate, batches of {BATCH}": lambda: generate(model, mels, BATCH),
    }
    for name, fusion in systems(whisper, text, arpa).items():
        runs[name] = lambda fusion=fusion: search(whisper, fusion, mels)  # type: ignore[misc]
    seconds, found = dict.fromkeys(runs, float("inf")), {}
    with torch.inference_mode():
        for _ in range(arguments.repeats):  # in turn, so that noise hits all alike
            for name, run in runs.items():
                began = time.process_time()
                found[name] = run()
                seconds[name] = min(seconds[name], time.process_time() - began)
    theirs = [
        tuple(label for label in labels if label < whisper.tokenizer.end) for labels in found["generate, one by one"]
    ]
    same = sum(a == b for a, b in zip(theirs, found["plain"], strict=True))
    length = sum(float(manifest.durations[item]) for item in chosen)
    print(f"{len(mels)} utterances, {length:.0f} s of audio; the same hypothesis as `generate` in {same} of them")
    encoder = seconds[ENCODER]
    reference = min(seconds["generate, one by one"], seconds[f"generate, batches of {BATCH}"])
    for name, value in seconds.items():
        of_encoder = "" if name == ENCODER else f", {encoder / value:.0%} of that in the encoder"
        ratio = f"{value / reference:.2f} of generate"
        print(f"{name:30} {value / len(mels):6.3f} CPU-s per utterance, {ratio}{of_encoder}")
    ratios = {name: round(value / reference, 3) for name, value in seconds.items() if "generate" not in name}
    result: dict[str, Any] = {**ratios, "same": same, "utterances": len(mels)}
    if arpa is not None:
        theirs_too = others(arguments.against, arguments.model, audio, arpa)
        taken = theirs_too["seconds"]
        for name, value in taken.items():
            of_encoder = f"{encoder / value:.0%} of that in the encoder"
            print(f"{'whisper-lm-transformers, ' + name:30} {value / len(mels):6.3f} CPU-s per utterance, {of_encoder}")
        print(", ".join(f"{name} {number}" for name, number in theirs_too["versions"].items()))
        result["times_faster"] = {name: round(taken["lm"] / seconds[name], 2) for name in ("ngram", "word_ngram")}
        result["at_most"] = round(taken["lm"] / encoder, 2)
        result["their_lm_alone"] = round((taken["lm"] - taken["alone"]) / len(mels), 3)  # CPU-s per utterance
    print(json.dumps(result))


if __name__ == "__main__":
    main()
