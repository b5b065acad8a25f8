"""CPU-seconds of Whisper decoding: fewer's search, alone and fused, against transformers' `generate`.

    python benchmarks/whisper.py WHISPER_FOLDER MANIFEST [--utterances 16] [--text books.txt]

Beam 5, float32, one thread, the same utterances and mel features for all; encoder and decoder are counted. `generate`
runs with one utterance at a time and in batches of 8; the faster is what the others are compared with. fewer runs in
batches of 8. The n-gram LM (4-gram) and the bigram of LODR are made of the text, or of the manifest's transcripts.
The neural ILM is a Mini-LSTM. The encoder, which is the same network for all, is timed alone as well: what it takes is
the least that any of them could take. The last line is JSON with each system's time relative to `generate`.
"""

import argparse
import contextlib
import io
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import WhisperFeatureExtractor, WhisperForConditionalGeneration

from fewer.data.audio import load_audio
from fewer.data.batches import Batch
from fewer.data.manifest import Manifest
from fewer.data.token_store import store_tokens
from fewer.ilm.config import IlmConfig
from fewer.models.encoded import Encoded
from fewer.models.lm import LmScorer
from fewer.models.ngram import NGram
from fewer.recognisers.whisper.recogniser import WhisperRecogniser, load_whisper
from fewer.search.beam import SearchOptions, beam_search
from fewer.search.fusion import Fusion
from fewer.search.rules import EndScoredBy, Suppression
from fewer.training.ngram import estimate

BEAM, BATCH = 5, 8
ENCODER = "encoder alone"
SCALES = {"aed": 1.0, "lm": 0.1, "ilm": -0.05}


def ngram(whisper: WhisperRecogniser, source: Path, order: int) -> NGram:
    tokenizer = whisper.tokenizer
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        labels = store_tokens([source], tokenizer, folder).labels
        return estimate(labels, order, tokenizer.size, tokenizer.end, prune=(0, 0, 1))


def systems(whisper: WhisperRecogniser, source: Path) -> dict[str, Fusion]:
    lm = LmScorer(ngram(whisper, source, 4))
    mini = IlmConfig(method="mini_lstm").new_context(whisper)
    scorers: dict[str, list[Any]] = {
        "plain": [whisper.scorer({})],
        "ngram": [whisper.scorer({}), lm],
        "ngram_lodr": [whisper.scorer({}), lm, LmScorer(ngram(whisper, source, 2), "ilm")],
        "ngram_mini_lstm": [whisper.scorer({"ilm": mini}), lm],
    }
    return {
        name: Fusion(
            parts,
            {term: SCALES[term] for part in parts for term in part.terms},
            whisper.tokenizer.end,
            [Suppression(whisper.suppress, whisper.suppress_first), EndScoredBy(["aed"])],
        )
        for name, parts in scorers.items()
    }


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
    runs: dict[str, Callable[[], Any]] = {
        ENCODER: lambda: [encode(whisper, group) for group in batches(mels)],
        "generate, one by one": lambda: generate(model, mels, 1),
        f"generate, batches of {BATCH}": lambda: generate(model, mels, BATCH),
    }
    for name, fusion in systems(whisper, text).items():
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
    print(json.dumps({**ratios, "same": same, "utterances": len(mels)}))


if __name__ == "__main__":
    main()
