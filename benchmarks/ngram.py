"""Seconds to estimate an n-gram model of some 10 million words, and to score with it.

    python benchmarks/ngram.py [TEXT] [--words 10000000] [--order 4] [--prune "0 0 1"]

With TEXT, its first words in byte-pair encoding of 10,000 labels trained on it; else a synthetic Zipfian text over
51,864 labels (Whisper's), 1.3 for each word. Estimation is timed with two threads, everything else with one; steps are
of 60 rows with 51,864 labels (the vocabulary is padded with labels that never occur). Tokenising is not counted. The
last line is JSON.
"""

import argparse
import json
import time
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from fewer.data.lines import read_lines
from fewer.data.tokenizers import train_sentencepiece
from fewer.models.ngram import NGram
from fewer.training.ngram import estimate

LABELS, ROWS, STEPS = 51_864, 60, 40


def zipfian(length: int) -> np.ndarray:
    """Sentences of some 25 labels; each label is Zipfian, and in half of the places decided by the one before it."""
    rng = np.random.default_rng(0)
    ranks = np.minimum(rng.zipf(1.2, length), LABELS - 1)
    follows = (ranks[:-1] * 7919 + rng.zipf(1.5, length - 1) % 50) % (LABELS - 1) + 1
    ranks[1:] = np.where(rng.random(length - 1) < 0.5, follows, ranks[1:])
    ranks[rng.random(length) < 0.04] = 0
    ranks[-1] = 0
    return ranks


def tokenised(path: Path, words: int) -> np.ndarray:
    """The first words of a text, in labels."""
    tokenizer = train_sentencepiece(islice(read_lines(path), 100_000), 10_000)
    sentences, count = [], 0
    for line in read_lines(path):
        sentences.append(np.array([*tokenizer.encode(line), tokenizer.end], dtype=np.uint16))
        count += len(line.split())
        if count >= words:
            break
    return np.concatenate(sentences)


def timed_estimate(stream: np.ndarray, order: int, prune: tuple[int, ...], threads: int) -> tuple[NGram, float, float]:
    """The model, seconds by the clock, and CPU-seconds."""
    torch.set_num_threads(threads)
    clock, cpu = time.perf_counter(), time.process_time()
    model = estimate(stream, order, LABELS, prune=prune)
    return model, time.perf_counter() - clock, time.process_time() - cpu


def step_seconds(model: NGram, stream: np.ndarray) -> float:
    """Median CPU-seconds of a step over the whole vocabulary, along stretches of the text itself."""
    stretches = torch.from_numpy(stream[: ROWS * STEPS].astype(np.int64)).view(ROWS, STEPS)
    state, previous, seconds = model.start(ROWS), torch.full((ROWS,), -1), []
    for column in stretches.T:
        began = time.process_time()
        _, state = model.step(state, previous)
        seconds.append(time.process_time() - began)
        previous = column
    return float(np.median(seconds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", nargs="?", type=Path)
    parser.add_argument("--words", type=int, default=10_000_000)
    parser.add_argument("--order", type=int, default=4)
    parser.add_argument("--prune", default="0")
    options = parser.parse_args()
    prune = tuple(int(number) for number in options.prune.split())
    stream = tokenised(options.text, options.words) if options.text else zipfian(int(options.words * 1.3))
    model, seconds, cpu = timed_estimate(stream, options.order, prune, threads=2)
    print(f"{len(stream):,} labels: {seconds:.1f} s, {cpu:.1f} CPU-s, n-grams {model.counts()}")
    torch.set_num_threads(1)
    step = step_seconds(model, stream)
    print(f"a step of {ROWS} rows × {LABELS:,} labels: {step * 1e3:.2f} ms")
    part = torch.from_numpy(stream[:200_000].astype(np.int64))[None]
    began = time.process_time()
    model.score(part)
    scored = part.shape[1] / (time.process_time() - began)
    print(f"teacher-forced: {scored:,.0f} labels per CPU-second")
    result = {"labels": len(stream), "ngrams": model.counts(), "estimate_seconds": seconds}
    print(json.dumps({**result, "estimate_cpu_seconds": cpu, "step_ms": step * 1e3, "labels_per_cpu_second": scored}))


if __name__ == "__main__":
    main()
