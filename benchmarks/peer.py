"""One recogniser of `benchmarks/peers.py`, in the environment of its own package.

    PYTHON -P benchmarks/peer.py SYSTEM MODEL AUDIO.npz [LM.arpa]

AUDIO.npz has samples at 16 kHz by names such as `short-0003` and `long-0000`. Reads names of sets from standard input,
one on each line, and answers with a line of JSON: CPU-seconds, texts, and the largest memory so far. The first line
says what was loaded. All compute on one CPU thread with beam 5 and else with what is usual for them.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

BEAM, BATCH, RATE = 5, 8, 16_000
Texts = Callable[[Sequence[np.ndarray]], list[str]]


def fewer(model: str, precision: str) -> Texts:
    import torch

    import fewer

    torch.set_num_threads(1)
    loaded = fewer.load(model, beam=BEAM, device="cpu", precision=precision)
    return lambda audio: [found.text for found in loaded.transcribe(list(audio))]


def faster_whisper(model: str, precision: str, batched: bool) -> Texts:
    from faster_whisper import BatchedInferencePipeline, WhisperModel

    loaded = WhisperModel(model, device="cpu", compute_type=precision, cpu_threads=1)
    options: dict[str, Any] = {"beam_size": BEAM, "language": "en"}
    if batched:
        pipeline = BatchedInferencePipeline(loaded)
        return lambda audio: [_joined(pipeline.transcribe(one, batch_size=BATCH, **options)[0]) for one in audio]
    return lambda audio: [_joined(loaded.transcribe(one, **options)[0]) for one in audio]


def _joined(segments: Any) -> str:
    return " ".join(segment.text.strip() for segment in segments)


def openai_whisper(model: str) -> Texts:
    import torch
    import whisper

    torch.set_num_threads(1)
    loaded = whisper.load_model(model, device="cpu")
    options: dict[str, Any] = {"beam_size": BEAM, "language": "en", "fp16": False}
    return lambda audio: [loaded.transcribe(one, **options)["text"] for one in audio]


def transformers(model: str) -> Texts:
    import torch
    from transformers import WhisperForConditionalGeneration, WhisperProcessor

    torch.set_num_threads(1)
    loaded = WhisperForConditionalGeneration.from_pretrained(model, torch_dtype=torch.float32).eval()
    processor = WhisperProcessor.from_pretrained(model)

    def texts(audio: Sequence[np.ndarray]) -> list[str]:
        found = list[str]()
        for first in range(0, len(audio), BATCH):
            group = [*audio[first : first + BATCH]]
            if max(map(len, group)) > 30 * RATE:  # windows one after the other, by the timestamps of the one before
                options = {"truncation": False, "padding": "longest", "return_attention_mask": True}
                inputs = processor(group, sampling_rate=RATE, return_tensors="pt", **options)
                labels = loaded.generate(**inputs, num_beams=BEAM, return_timestamps=True)
            else:
                inputs = processor(group, sampling_rate=RATE, return_tensors="pt")
                labels = loaded.generate(inputs.input_features, num_beams=BEAM)
            found += processor.batch_decode(labels, skip_special_tokens=True)
        return found

    return torch.inference_mode()(texts)


def whisper_lm(model: str, arpa: str) -> Texts:
    """One utterance of at most 30 s at a time: its processor has neither batches nor recordings."""
    import kenlm
    import torch
    from transformers import WhisperFeatureExtractor, WhisperTokenizerFast
    from whisper_lm_transformers import WhisperWithLM

    torch.set_num_threads(1)
    extractor = WhisperFeatureExtractor.from_pretrained(model)
    tokenizer = WhisperTokenizerFast.from_pretrained(model)
    loaded, lm = WhisperWithLM.from_pretrained(model, torch_dtype=torch.float32).eval(), kenlm.Model(arpa)

    def texts(audio: Sequence[np.ndarray]) -> list[str]:
        found = list[str]()
        for one in audio:
            mel = extractor(one, sampling_rate=RATE, return_tensors="pt").input_features
            labels = loaded.generate(tokenizer, lm_model=lm, lm_alpha=0.1, input_features=mel, num_beams=BEAM)
            found += tokenizer.batch_decode(labels, skip_special_tokens=True)
        return found

    return torch.inference_mode()(texts)


def load(system: str, model: str, arpa: str) -> Texts:
    name, *options = system.split()
    if name == "faster-whisper":
        return faster_whisper(model, options[0], "batched" in options)
    if name == "openai-whisper":
        return openai_whisper(model)
    if name == "transformers":
        return transformers(model)
    if name == "whisper-lm-transformers":
        return whisper_lm(model, arpa)
    return fewer(model, options[-1])


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    sys.stdout = sys.stderr  # packages may print
    system, model, audio, arpa = [*sys.argv[1:], ""][:4]
    sets: dict[str, list[np.ndarray]] = {}
    with np.load(audio) as samples:
        for name in sorted(samples.files):
            sets.setdefault(name.split("-")[0], []).append(samples[name])
    texts = load(system, model, arpa)
    answer: dict[str, Any] = {"version": version(system.split()[0])}
    print(json.dumps(answer), file=answers, flush=True)
    for line in sys.stdin:
        began = time.process_time()
        found = texts(sets[line.strip()])
        seconds = time.process_time() - began
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(json.dumps({"seconds": seconds, "texts": found, "megabytes": memory}), file=answers, flush=True)


if __name__ == "__main__":
    main()
