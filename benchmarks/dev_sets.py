"""Scales without transcripts: how far those of other dev sets are from those of a real one, and what that costs.

    python benchmarks/dev_sets.py WORK MODEL --text domain.txt --dev dev.jsonl --report report.jsonl \\
        [--teacher MODEL[@LANGUAGE]]

The same model and text are adapted by `fewer adapt --dev` with

    real        the dev set with its transcripts
    synthetic   sentences of the text, spoken by synthetic voices; the LM does not read them
    own         the dev set with the model's own transcripts, of the half of which it is surest
    agreement   the dev set with the transcripts of another model (--teacher), of the half where both agree most
    usual       no dev set: the usual scales

and each bundle decodes the report set. Prints scales and word error rates, with paired tests against the model alone
and against `real`; writes dev_sets.json and dev_sets.md to WORK (or --results), where sets, bundles and N-best lists
stay.
"""

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fewer
from fewer.data.lines import read_raw_lines
from fewer.data.synthesis.spoken import speak_set
from fewer.data.token_store import read_text
from fewer.evaluation.normalise import load_normaliser
from fewer.evaluation.wer import word_errors
from fewer.ilm.transcripts import with_text
from fewer.recognisers.loader import load_recogniser
from fewer.search.nbest import Hypothesis, read_nbest

WORDS = range(5, 26)  # of a sentence that is spoken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("model")
    parser.add_argument("--text", type=Path, required=True, help="of the domain")
    parser.add_argument("--dev", type=Path, required=True, help="manifest with transcripts")
    parser.add_argument("--report", type=Path, required=True, help="manifest with transcripts, of other speakers")
    parser.add_argument("--teacher", metavar="MODEL[@LANGUAGE]", help="another model, to judge own transcripts")
    parser.add_argument("--sentences", type=int, default=64, help="that are spoken")
    parser.add_argument("--method", default=None, help="default: that of the model")
    parser.add_argument("--budget", type=int, default=4, help="decodes of a dev set")
    parser.add_argument("--results", type=Path, help="folder of dev_sets.json and .md; default: WORK")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    found = [*measured(args)]
    folder = args.results or args.work
    (folder / "dev_sets.json").write_text(json.dumps(found, indent=1) + "\n")
    (folder / "dev_sets.md").write_text("# Scales without transcripts\n\n" + table(found))
    print(table(found))


def measured(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    defaults = load_recogniser(args.model).defaults
    norm = defaults.normaliser
    alone = decoded(args, "alone", args.model)
    yield {"dev set": "none: the model alone", "scales": {}, "wer": fewer.score(alone, normalise=norm).to_json()}
    real = None
    for name, (text, dev) in dev_sets(args, norm).items():
        bundle = args.work / "bundles" / name
        if not bundle.exists():
            bundle.parent.mkdir(exist_ok=True)
            chosen = args.method or defaults.method
            fewer.adapt(args.model, bundle, text=text, dev=dev, method=chosen, budget=args.budget)
        out = decoded(args, name, bundle)
        row: dict[str, Any] = {"dev set": name}
        row["scales"] = json.loads((bundle / "bundle.json").read_text())["scales"]
        row["wer"] = fewer.score(out, against=alone, normalise=norm).to_json()
        if real is not None:
            row["beside_real"] = fewer.score(out, against=real, normalise=norm).to_json()["against"]["comparison"]
        real = real or out
        yield row


def dev_sets(args: argparse.Namespace, normaliser: str) -> dict[str, tuple[Path, Path | None]]:
    """Of each way: the text of the LM, and the manifest by which scales are chosen."""
    rest, spoken = synthetic(args)
    sets: dict[str, tuple[Path, Path | None]] = {"real": (args.text, args.dev), "synthetic": (rest, spoken)}
    own = best(transcribed(args, "own", args.model))
    sure = {id: each.scores["aed"] / max(1, len(each.tokens)) for id, each in own.items()}
    sets["own"] = (args.text, half(args, "own", own, sure))
    if args.teacher is not None:
        teacher, compared = best(transcribed(args, "teacher", args.teacher)), load_normaliser(normaliser)
        agreed = {
            id: -word_errors(compared.ref(each.text), compared.hyp(own[id].text)).wer for id, each in teacher.items()
        }
        sets["agreement"] = (args.text, half(args, "agreement", teacher, agreed))
    return sets | {"usual": (args.text, None)}


def synthetic(args: argparse.Namespace) -> tuple[Path, Path]:
    """The text without the sentences that are spoken, and these as a manifest."""
    rest, manifest = args.work / "rest.txt", args.work / "synthetic" / "synthetic.jsonl"
    if not manifest.exists():
        lines = [line for line in read_text(args.text) if line.strip()]
        fit = [line for line in dict.fromkeys(lines) if len(line.split()) in WORDS and line.replace(" ", "").isascii()]
        held = random.Random(1).sample(fit, min(args.sentences, len(fit) // 2))
        spoken = set(held)
        rest.write_text("".join(f"{line}\n" for line in lines if line not in spoken))
        speak_set(held, manifest)
    return rest, manifest


def transcribed(args: argparse.Namespace, name: str, model: str) -> Path:
    """N-best lists of the dev set by a model alone."""
    out: Path = args.work / f"dev.{name}.jsonl"
    if not out.exists():
        name, _, language = model.partition("@")
        fewer.decode(name, args.dev, out, language=language or None)
    return out


def best(nbest: Path) -> dict[str, Hypothesis]:
    return {each.id: each.hypotheses[0] for each in read_nbest(nbest)}


def half(args: argparse.Namespace, name: str, said: dict[str, Hypothesis], quality: dict[str, float]) -> Path:
    """The better half of the dev set, with the hypotheses as transcripts."""
    out: Path = args.work / f"{name}.jsonl"
    texts = {id: each.text.strip() for id, each in said.items() if each.ended and each.text.strip()}
    ranked = sorted(texts, key=lambda id: -quality[id])
    kept = set(ranked[: max(1, len(ranked) // 2)])
    cuts = (json.loads(line) for line in read_raw_lines(args.dev))
    out.write_text("".join(json.dumps(with_text(cut, texts[cut["id"]])) + "\n" for cut in cuts if cut["id"] in kept))
    return out


def decoded(args: argparse.Namespace, name: str, model: str | Path) -> Path:
    out: Path = args.work / f"report.{name}.jsonl"
    if not out.exists():
        fewer.decode(model, args.report, out)
    return out


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| dev set | λ1 | λ2 | WER | sub | del | ins | against the model alone | against real |"]
    lines.append("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for row in rows:
        wer, scales = row["wer"], row["scales"]
        cells = [row["dev set"], *(f"{scales[term]:.2f}" if term in scales else "–" for term in ("lm", "ilm"))]
        cells += [f"{wer['wer']:.2f}", *(str(wer[kind]) for kind in ("sub", "del", "ins"))]
        for found in (wer.get("against", {}).get("comparison"), row.get("beside_real")):
            cells.append(f"{found['difference']:+.2f} (p = {found['p_bootstrap']:.3f})" if found else "–")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
