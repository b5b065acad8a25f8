"""CPU-seconds of `fewer score` beside jiwer's command, start-up included, interleaved in one run.

    python benchmarks/score.py PYTHON [--pairs 100000] [--rounds 3]

PYTHON is an interpreter that has jiwer. Both read references and hypotheses (5 to 30 words, every 16th wrong) from two
files and print the word error rate, which must be the same; fewer also gives a bootstrap interval. With --normalise
basic the hypotheses have capitals and full stops, which both ignore; jiwer does so by its transformations. The last
line is JSON with the ratio of the CPU time: the median, and the least and the largest of the rounds.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

VOCABULARY = 20_000
WRONG = 1 / 16
JIWER = {
    "none": "jiwer.wer(*texts)",
    "basic": "jiwer.wer(*texts, **dict.fromkeys(('reference_transform', 'hypothesis_transform'), jiwer.Compose(["
    "jiwer.ToLowerCase(), jiwer.RemovePunctuation(), jiwer.RemoveMultipleSpaces(), jiwer.Strip(), "
    "jiwer.ReduceToListOfListOfWords()])))",
}
READ = "import sys, jiwer; texts = [[line.split(maxsplit=1)[1] for line in open(path)] for path in sys.argv[1:]]; "


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jiwer", metavar="PYTHON")
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--normalise", choices=sorted(JIWER), default="none")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        refs, hyps, found = Path(folder) / "refs", Path(folder) / "hyps", Path(folder) / "found.json"
        write_pairs(refs, hyps, args.pairs, styled=args.normalise != "none")
        ours = [sys.executable, "-m", "fewer", "score", str(hyps), "--ref", str(refs)]
        ours += ["--normalise", args.normalise, "--json", str(found)]
        theirs = [args.jiwer, "-c", f"{READ}print({JIWER[args.normalise]})", str(refs), str(hyps)]
        seconds: dict[str, list[float]] = {"fewer": [], "jiwer": []}
        for _ in range(args.rounds):
            seconds["fewer"].append(run(ours)[0])
            taken, printed = run(theirs)
            seconds["jiwer"].append(taken)
        rate = json.loads(found.read_text())["wer"]
        assert abs(rate - 100 * float(printed)) < 1e-3, (rate, printed)
    for name, taken in seconds.items():
        print(f"{name}: {statistics.median(taken):.2f} CPU-s ({', '.join(f'{second:.2f}' for second in taken)})")
    ratios = [a / b for a, b in zip(*seconds.values(), strict=True)]
    middle = statistics.median(ratios)
    print(json.dumps({"wer": rate, "ratio": [round(value, 3) for value in (middle, min(ratios), max(ratios))]}))


def write_pairs(refs: Path, hyps: Path, count: int, styled: bool) -> None:
    rng, letters = np.random.default_rng(0), np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(letters[rng.integers(26, size=rng.integers(1, 10))]) for _ in range(VOCABULARY)]
    odds = np.cumsum(1 / np.arange(1, VOCABULARY + 1))  # Zipf's law
    with refs.open("w") as ref_file, hyps.open("w") as hyp_file:
        for number in range(count):
            said = [words[n] for n in np.searchsorted(odds, odds[-1] * rng.random(rng.integers(5, 31)))]
            heard = list[str]()
            for word, wrong, kind in zip(
                said, rng.random(len(said)) < WRONG, rng.integers(3, size=len(said)), strict=True
            ):
                other = words[rng.integers(VOCABULARY)]
                heard += [[], [other], [word, other]][kind] if wrong else [word]
            print(f"{number:06}", *said, file=ref_file)
            print(f"{number:06}", " ".join(heard).capitalize() + "." if styled else " ".join(heard), file=hyp_file)


def run(command: Sequence[str]) -> tuple[float, str]:
    """CPU-seconds of a process, and the last line that it prints."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, done.stdout.strip().splitlines()[-1]


if __name__ == "__main__":
    main()
