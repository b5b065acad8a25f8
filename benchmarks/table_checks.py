"""What checking n-gram and hotword tables costs when they are loaded: CPU-seconds on random text and terms.

python benchmarks/table_checks.py
"""

import random
import tempfile
from pathlib import Path

import torch
from machine import cpu_seconds
from safetensors.torch import load_file

from fewer.data.hotwords import read_terms
from fewer.data.tokenizers import train_characters
from fewer.decoding.system import load_hotwords
from fewer.store.ngram_check import ngram_problem
from fewer.store.ngram_files import load_ngram, save_ngram
from fewer.training.ngram import estimate

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def main() -> None:
    torch.set_num_threads(1)
    vocabulary, rng = 10_000, random.Random(0)
    labels = (torch.rand(4_000_000, generator=torch.Generator().manual_seed(0)) ** 3 * vocabulary).long()
    labels[-1] = 0
    names = ["</s>", "<unk>", *(f"w{number}" for number in range(vocabulary - 2))]
    with tempfile.TemporaryDirectory() as folder:
        path, terms = Path(folder) / "m.safetensors", Path(folder) / "terms.txt"
        save_ngram(path, estimate(labels, 3, vocabulary), names)
        tensors, size = load_file(path), path.stat().st_size
        load, check = cpu_seconds(lambda: load_ngram(path, names)), cpu_seconds(lambda: ngram_problem(tensors, 0))
        count = len(tensors["labels"]) - 1
        print(f"{count:,} n-grams ({size / 1e6:.0f} MB): {load:.2f} s to load, {check:.2f} s of it checks")
        words = ["".join(rng.choices(LETTERS, k=rng.randint(4, 14))) for _ in range(10_000)]
        terms.write_text("".join(f"{word}\t2\n" for word in words))
        tokenizer = train_characters([LETTERS, LETTERS.upper(), "a b"])
        load, check = cpu_seconds(lambda: load_hotwords(terms, tokenizer), 1), cpu_seconds(lambda: read_terms(terms))
        print(f"{len(words):,} hotwords: {load:.2f} s to load, {check:.2f} s of it reading and checks")


if __name__ == "__main__":
    main()
