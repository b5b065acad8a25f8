"""Time and peak memory of estimating 4-grams of large texts, in memory, in files (`--memory`), and by kenlm's lmplz.

    python benchmarks/ngram_scale.py TEXT --words 5000000 --memory 500 --lmplz kenlm/build/bin/lmplz \\
        --build-binary kenlm/build/bin/build_binary

The words of TEXT are labels: the 20,000 most frequent ones, and one for all others. A text that is too short is
repeated, with every tenth word replaced by a random one. All ways read the same labels, are given one thread where they
have a choice, and run in processes of their own, one after the other. Sizes for search: what ours takes in memory, and
what kenlm's build_binary (--build-binary) says of its own tables for the n-grams of lmplz. The last line is JSON.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np

from fewer.data.lines import read_lines

VOCABULARY, ORDER = 20_000, 4


def stream_of(text: Path, words: int) -> np.ndarray:
    """Labels, 0 at the end of each line."""
    frequent = Counter(text.read_text(encoding="utf-8", errors="replace").split()).most_common(VOCABULARY - 2)
    numbers = {word: number for number, (word, _) in enumerate(frequent, start=2)}
    found: list[int] = []
    for line in read_lines(text):
        if split := line.split():
            found += [numbers.get(word, 1) for word in split]
            found.append(0)
        if len(found) >= words:
            break
    once = np.array(found, np.uint16)
    rng, parts = np.random.default_rng(0), [once]
    while sum(map(len, parts)) < words:
        noisy = once.copy()
        places = (rng.random(len(once)) < 0.1) & (once != 0)
        noisy[places] = rng.permutation(once[once != 0])[: places.sum()]
        parts.append(noisy)
    stream = np.concatenate(parts)[:words]
    stream[-1] = 0
    return stream


def make(stream: np.ndarray, folder: Path) -> None:
    """The labels as numbers, and as text for lmplz."""
    stream.tofile(folder / "stream")
    with open(folder / "text", "w") as text:
        for first in range(0, len(stream), 1 << 20):
            words = " ".join(map(str, stream[first : first + (1 << 20)].tolist()))
            text.write(f" {words} ".replace(" 0 ", "\n").strip(" ") + " ")


def measured(name: str, command: list[str], **options: object) -> dict[str, object]:
    """Seconds by the clock, CPU-seconds and peak memory of a program."""
    began = time.perf_counter()
    process = subprocess.Popen(command, **options)  # type: ignore[call-overload]
    _, status, usage = os.wait4(process.pid, 0)
    row: dict[str, object] = {"way": name, "seconds": round(time.perf_counter() - began, 1)}
    row |= {"cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1), "peak_MB": round(usage.ru_maxrss / 1024)}
    row |= {} if status == 0 else {"failed": status}
    print(row, flush=True)
    return row


def ours(stream: Path, out: Path, memory: int | None) -> None:
    """What a process of its own does: estimate and write the model."""
    import torch

    from fewer.store.ngram_files import save_ngram, save_tensor_files
    from fewer.training.columns import Column
    from fewer.training.ngram import estimate
    from fewer.training.ngram_disk import Estimator

    torch.set_num_threads(1)
    labels = [str(number) for number in range(VOCABULARY)]
    if memory is None:
        save_ngram(out, estimate(np.fromfile(stream, np.uint16), ORDER, VOCABULARY), labels)
        return
    with tempfile.TemporaryDirectory(dir=out.parent) as folder:
        files = Estimator(Column(stream, "<u2"), ORDER, VOCABULARY, 0, Path(folder), memory).estimate()
        save_tensor_files(out, files.tensors, files.end, labels)
        print(f"{out.stat().st_size / sum(files.counts):.1f} bytes for each of {sum(files.counts):,} n-grams")


def in_search(model: Path) -> float:
    """Bytes for each n-gram that a loaded model takes, without the distributions that are kept ready."""
    from fewer.store.ngram_files import load_ngram

    lm = load_ngram(model, [str(number) for number in range(VOCABULARY)])
    sizes = [values.nbytes for name, values in lm.named_buffers() if name != "table"]
    return sum(sizes) / sum(lm.counts())


def kenlm_sizes(build_binary: Path, arpa: Path) -> dict[str, float]:
    """Bytes for each n-gram of kenlm's tables: hashed, trie, and trie with 8-bit numbers and compressed pointers."""
    said = subprocess.run([build_binary, arpa], capture_output=True, text=True, check=True).stderr  # it only estimates
    with open(arpa) as lines:
        count = sum(int(line.split("=")[1]) for line in islice(lines, 1, 1 + ORDER))
    unit = {"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}[re.findall(r"type\s+(\w+)", said)[0]]
    rows = re.findall(r"^(probing|trie)\s+(\d+)(.*)$", said, re.MULTILINE)
    return {f"{kind}{about}".strip(): round(int(size) * unit / count, 1) for kind, size, about in rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--words", type=int, default=5_000_000)
    parser.add_argument("--memory", type=int, default=500, help="MB")
    parser.add_argument("--lmplz", type=Path)
    parser.add_argument("--build-binary", type=Path, help="kenlm's; needs --lmplz")
    parser.add_argument("--in-memory", action="store_true", help="also without a bound")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--ours", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        make(stream_of(options.text, options.words), options.make)
        return
    if options.ours:
        stream, out, memory = options.ours
        ours(Path(stream), Path(out), None if memory == "none" else int(memory))
        return
    with tempfile.TemporaryDirectory(dir=options.work) as name:
        folder = Path(name)
        this = [sys.executable, __file__, str(options.text), "--words", str(options.words)]
        subprocess.run([*this, "--make", name], check=True)  # not here: a child's peak is at least its parent's size
        this += ["--ours", str(folder / "stream")]
        bound = str(options.memory << 20)
        rows = [measured(f"--memory {options.memory}M", [*this, str(folder / "disk.safetensors"), bound])]
        if options.in_memory:
            rows.append(measured("in memory", [*this, str(folder / "memory.safetensors"), "none"]))
            same = (folder / "disk.safetensors").read_bytes() == (folder / "memory.safetensors").read_bytes()
            print(f"the same file: {same}")
        if options.lmplz:
            command = [
                str(options.lmplz),
                "-o",
                str(ORDER),
                "-S",
                f"{options.memory}M",
                "-T",
                name,
                "--discount_fallback",
            ]
            with open(folder / "text") as text:
                rows.append(measured("lmplz", [*command, "--arpa", str(folder / "lmplz.arpa")], stdin=text, stderr=-3))
        sizes = {"ours": round(in_search(folder / "disk.safetensors"), 1)}
        if options.build_binary:
            sizes |= kenlm_sizes(options.build_binary, folder / "lmplz.arpa")
        print(f"bytes for each n-gram in search: {sizes}")
    print(json.dumps({"words": options.words, "memory_MB": options.memory, "rows": rows, "bytes": sizes}))


if __name__ == "__main__":
    main()
