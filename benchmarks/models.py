"""What adaptation gains with several recognisers: the same text, the same sets, the same defaults.

    python benchmarks/models.py WORK --model whisper-tiny.en --model whisper-base@en --text domain.txt \\
        --set report.jsonl [--set uqm.csv] [--dev dev.jsonl] [--method zero_encoder] [--method seq_avg]

--model takes a folder or hub name, with @LANGUAGE, or @LANGUAGE:translate, for one that knows several. Each is adapted
to the text with `fewer adapt`, by the dev set if there is one, and decodes each set alone and adapted, once for each
--method without a dev set. Word error rates as for the model, with a paired test against the model alone; translations
by chrF (sacrebleu, which must be installed), with its paired bootstrap. Writes models.json and models.md to WORK, where
bundles and N-best lists stay: the same command goes on where it was.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fewer
from fewer.evaluation.transcripts import read_transcripts
from fewer.recognisers.loader import load_recogniser


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--model", action="append", required=True, metavar="MODEL[@LANGUAGE[:TASK]]")
    parser.add_argument("--text", action="append", required=True, help="of the domain")
    parser.add_argument("--set", action="append", required=True, help="with transcripts, to be reported")
    parser.add_argument("--dev", help="a set by which method and scales are chosen")
    parser.add_argument("--method", action="append", default=[], help="default: that of the model")
    parser.add_argument("--beam", type=int, default=5)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    rows = []
    for row in measured(args):
        rows.append(row)
        (args.work / "models.json").write_text(json.dumps(rows, indent=1) + "\n")
        (args.work / "models.md").write_text(table(rows))
        print(table([row]).splitlines()[-1], flush=True)


def measured(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for given in args.model:
        name, _, speech = given.partition("@")
        language, _, task = speech.partition(":")
        spoken = {"language": language or None, "task": task or "transcribe"}
        defaults = load_recogniser(name, language or None, task or "transcribe").defaults
        place = args.work / given.replace("/", "-").replace("@", "-").replace(":", "-")
        place.mkdir(exist_ok=True)
        alone = {each: decoded(place, "alone", each, name, beam=args.beam, **spoken) for each in args.set}
        for method in [None] if args.dev else args.method or [defaults.method]:
            system = method or "tuned"
            bundle = place / system
            if not bundle.exists():
                options = {"dev": args.dev, "method": method, "beam": args.beam, **spoken}
                fewer.adapt(name, bundle, text=args.text, **options)
            scales = json.loads((bundle / "bundle.json").read_text())["scales"]
            for each in args.set:
                found = decoded(place, system, each, bundle)
                row = {"model": given, "set": each, "method": system, "scales": scales}
                if spoken["task"] == "translate":
                    yield row | chrf(alone[each], found)
                else:
                    score = fewer.score(found, against=alone[each], normalise=defaults.normaliser).to_json()
                    other, p = score["against"]["result"], score["against"]["comparison"]["p_bootstrap"]
                    yield row | {"measure": "WER", "alone": other["wer"], "adapted": score["wer"], "p": p, **score}


def decoded(place: Path, system: str, source: str, model: str | Path, **options: Any) -> Path:
    out = place / f"{Path(source).stem}.{system}.jsonl"
    if not out.exists():
        fewer.decode(model, source, out, **options)
    return out


def chrf(alone: Path, adapted: Path) -> dict[str, Any]:
    from sacrebleu.metrics import CHRF
    from sacrebleu.significance import PairedTest

    systems = [read_transcripts(path) for path in (alone, adapted)]
    references = systems[0].refs or {}
    texts = [[system.texts[utterance] for utterance in references] for system in systems]
    named = list(zip(("alone", "adapted"), texts, strict=True))
    test = PairedTest(named, {"chrF": CHRF()}, [list(references.values())], test_type="bs", n_samples=1000)
    scores = test()[1]
    first, second = scores["chrF2"]
    return {"measure": "chrF", "alone": first.score, "adapted": second.score, "p": second.p_value}


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| model | set | measure | alone | method | adapted | difference |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        cells = [row["model"], Path(row["set"]).stem, row["measure"], f"{row['alone']:.2f}", row["method"]]
        cells += [f"{row['adapted']:.2f}", f"{row['adapted'] - row['alone']:+.2f} (p = {row['p']:.3f})"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
