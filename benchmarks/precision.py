"""Does a lower precision make more errors? A set in float32 and in another precision, and the texts that differ.

    python benchmarks/precision.py WORK whisper-tiny.en SET [--precision int8] [--results FOLDER]

SET is anything that `fewer decode` takes. N-best lists stay in WORK: the same command goes on where it was. Writes
precision.json and precision.md to WORK (or --results).
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

import fewer
from fewer.evaluation.normalise import load_normaliser
from fewer.evaluation.wer import word_errors
from fewer.recognisers.loader import load_recogniser
from fewer.search.nbest import read_nbest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("model")
    parser.add_argument("set", type=Path)
    parser.add_argument("--precision", default="int8")
    parser.add_argument("--results", type=Path, help="folder of precision.json and .md; default: WORK")
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.work.mkdir(parents=True, exist_ok=True)
    defaults = load_recogniser(args.model).defaults
    lists = {precision: args.work / f"{precision}.jsonl" for precision in ("float32", args.precision)}
    for precision, out in lists.items():
        if not out.exists():
            began = time.process_time()
            fewer.decode(args.model, args.set, out, n_best=1, device="cpu", precision=precision)
            out.with_suffix(".seconds").write_text(f"{time.process_time() - began:.0f}\n")
    scored = fewer.score(lists[args.precision], against=lists["float32"], normalise=defaults.normaliser)
    found: dict[str, Any] = scored.to_json()
    found["cpu_seconds"] = {name: int(out.with_suffix(".seconds").read_text()) for name, out in lists.items()}
    found["different"] = different(lists["float32"], lists[args.precision], defaults.normaliser)
    folder = args.results or args.work
    (folder / "precision.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    (folder / "precision.md").write_text(report(args, found))
    print(report(args, found))


def different(exact: Path, other: Path, normaliser: str) -> list[dict[str, Any]]:
    """Texts that differ in more than case and punctuation, with their errors."""
    normalise, rows = load_normaliser(normaliser), []
    for first, second in zip(read_nbest(exact), read_nbest(other), strict=True):
        texts = [each.hypotheses[0].text for each in (first, second)]
        if normalise.hyp(texts[0]) != normalise.hyp(texts[1]):
            errors = [word_errors(normalise.ref(first.ref or ""), normalise.hyp(text)).total for text in texts]
            rows.append({"id": first.id, "float32": texts[0], "other": texts[1], "errors": errors})
    return rows


def report(args: argparse.Namespace, found: dict[str, Any]) -> str:
    """Markdown."""
    exact, compared = found["against"]["result"], found["against"]["comparison"]
    pairs = [row["errors"] for row in found["different"]]
    lines = [
        f"# {args.precision} beside float32\n",
        f"    python benchmarks/precision.py WORK {Path(args.model).name} SET --precision {args.precision}\n",
        f"{found['utterances']} utterances, one thread.\n",
        "| precision | WER | 95 % | sub | del | ins | CPU-seconds |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, row in (("float32", exact), (args.precision, found)):
        rates = f"{row['wer']:.2f} | {row['low']:.2f} to {row['high']:.2f}"
        counts = f"{row['sub']} | {row['del']} | {row['ins']} | {found['cpu_seconds'][name]}"
        lines.append(f"| {name} | {rates} | {counts} |")
    lines += [
        f"\nDifference of the rates: {compared['difference']:+.2f} (95 %: {compared['low']:+.2f} to "
        f"{compared['high']:+.2f}). {len(pairs)} texts differ in more than case and punctuation: "
        f"{sum(b < a for a, b in pairs)} have fewer errors in {args.precision}, {sum(b > a for a, b in pairs)} have "
        "more.\n",
        f"| utterance | errors | float32 | {args.precision} |",
        "|---|---:|---|---|",
    ]
    for row in found["different"]:
        lines.append("| {id} | {errors[0]} → {errors[1]} | {float32} | {other} |".format_map(row))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
