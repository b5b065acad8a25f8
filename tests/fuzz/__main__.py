"""python -m tests.fuzz --inputs 10000: mutated files of every kind through what reads them; 1 if any ends badly."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

from tests.fuzz.generated import run_generated
from tests.fuzz.kinds import kinds
from tests.fuzz.run import Tally, run_kind

GENERATED = 1.0  # share of inputs that hypothesis generates


def main() -> None:
    torch.set_num_threads(1)  # threads do not survive a fork
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1000, help="of all kinds together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", help="only this one; repeat")
    parser.add_argument("--keep", type=Path, help="folder for inputs that end badly")
    options = parser.parse_args()
    chosen = [kind for kind in kinds() if not options.kind or kind.name in options.kind]
    generated = GENERATED if not options.kind or "generated" in options.kind else 0.0
    shares = sum(kind.share for kind in chosen) + generated
    total = Tally()
    print(f"{'kind':<14}{'inputs':>8}{'read':>8}{'errors':>8}{'tracebacks':>12}{'hangs':>8}{'seconds':>9}")

    def tallies() -> Iterator[tuple[str, Tally]]:
        for kind in chosen:
            count = max(1, round(options.inputs * kind.share / shares))
            yield kind.name, run_kind(kind, count, options.seed, options.keep)
        if generated:
            yield "generated", run_generated(round(options.inputs * generated / shares), options.seed)

    for name, tally in tallies():
        show(name, tally)
        for problem, count in tally.bad.most_common():
            print(f"    {count} × {problem}\n        {' '.join(tally.examples[problem].split())}")
        total.inputs, total.read = total.inputs + tally.inputs, total.read + tally.read
        total.errors, total.seconds = total.errors + tally.errors, total.seconds + tally.seconds
        total.bad.update(tally.bad)
    show("all", total)
    sys.exit(bool(total.bad))


def show(name: str, tally: Tally) -> None:
    counts = f"{tally.inputs:>8}{tally.read:>8}{tally.errors:>8}{tally.tracebacks:>12}{tally.hangs:>8}"
    print(f"{name:<14}{counts}{tally.seconds:>9.0f}", flush=True)


if __name__ == "__main__":
    main()
