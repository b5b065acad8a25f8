"""Hotwords as the field measures them: B-WER (words of the list), U-WER (all others), false insertions, and cost.

    python benchmarks/hotwords.py WORK whisper-tiny.en SET --text large.txt [--bundle BUNDLE] [--terms names.txt] \\
        [--lists 100,500,1000,2000] [--said N] [--weights 0.5,1,1.5,2] [--utterances 400] \\
        [--results hotwords.json --name NAME]

SET is anything that `fewer decode` takes. A word is rare if it is not among the 5,000 most frequent of --text. The
list for a batch of about 32 utterances holds their rare words (at most --said of them) and as many distractors as
--lists says: rare words of the whole SET that are not said in the batch, and of the text if these are too few.
--terms: instead, this list for all utterances.
--weights are what each label of a term is rewarded with; 0, no list, is always measured. The model is searched alone,
or with the bundle's language models. A word of the list that comes out where it was not said, inserted or in place of
another, is a false insertion. Intervals and p values are of utterances, resampled.

WORK keeps references and hypotheses, one file for each list. --results adds the numbers to a file, under --name.
Cost: CPU-seconds of the searches of --rounds batches with a list of 5,000 terms over those without, alternating; 0: not
measured.
"""

import argparse
import json
import random
import re
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fewer.adaptation.searching import Models, load_search
from fewer.compute.device import choose_placement
from fewer.data.corpora.given import as_manifest
from fewer.data.hotwords import read_terms
from fewer.data.manifest import Manifest
from fewer.data.token_store import read_text
from fewer.decoding.decode import search_set
from fewer.decoding.encoding import EncodedBatch, hold_set
from fewer.decoding.system import Search, load_hotwords
from fewer.evaluation.alignment import align
from fewer.evaluation.normalise import load_normaliser
from fewer.evaluation.significance import bootstrap, chance, interval, two_sided
from fewer.evaluation.wer import percent
from fewer.files import read_json, write_json
from fewer.models.hotwords import Hotwords

FREQUENT = 5000  # words that are not rare
LARGE = 5000  # terms of the list whose cost is measured
WORD = re.compile("[a-z]+")


@dataclass
class Counts:
    """Errors of an utterance: of the words in a list and of the others."""

    listed: int = 0
    listed_errors: int = 0
    others: int = 0
    other_errors: int = 0
    false: int = 0  # words of the list that come out where they were not said

    @classmethod
    def of(cls, ref: str, hyp: str, words: set[str]) -> "Counts":
        counts = cls()
        for edit in align(ref, hyp):
            wanted, found, wrong = edit.ref, edit.hyp, edit.kind != "="
            if wanted in words or (wanted is None and found in words):
                counts.listed += wanted is not None
                counts.listed_errors += wrong
            else:
                counts.others += wanted is not None
                counts.other_errors += wrong
            counts.false += wrong and found in words
        return counts


def rates(counts: Sequence[Counts], without: Sequence[Counts]) -> dict[str, Any]:
    """Rates of a set, and how sure they differ from those without a list."""
    table, before = (np.array([[*vars(one).values()] for one in some]).T for some in (counts, without))  # (5, U)
    listed, listed_errors, others, other_errors, false = table
    words, errors = listed + others, listed_errors + other_errors
    row: dict[str, Any] = {}
    for name, wrong, said, wrong_before in (
        ("wer", errors, words, before[1] + before[3]),
        ("b_wer", listed_errors, listed, before[1]),
        ("u_wer", other_errors, others, before[3]),
    ):
        units = np.arange(len(counts))
        drawn = bootstrap(np.stack([wrong, wrong_before]), np.stack([said, said]), units)
        row[name] = round(percent(int(wrong.sum()), int(said.sum())), 2)
        row[f"{name}_interval"] = [round(100 * edge, 2) for edge in interval(drawn[0])]
        row[f"{name}_p"] = round(two_sided(drawn[0] - drawn[1], chance(np.stack([wrong, wrong_before]), units)), 4)
    return row | {
        "false_per_1000": round(1000 * int(false.sum()) / int(words.sum()), 2),
        "listed": int(listed.sum()),
        "words": int(words.sum()),
    }


class Bench:
    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.search: Search = load_search(Models(args.bundle or args.model, placement=choose_placement()))
        self.recogniser = self.search.system.recogniser
        self.normalise = load_normaliser(self.recogniser.defaults.normaliser).hyp
        self.folder = Path(tempfile.mkdtemp())
        given = as_manifest(args.set)
        held = hold_set(self.recogniser, Manifest(self._manifest(given)), args.work / "encodings")
        self.batches: list[EncodedBatch] = [held[index] for index in range(len(held))]
        words = Counter(word for line in read_text(args.text) for word in WORD.findall(line.lower()))
        self.frequent = {word for word, _ in words.most_common(FREQUENT)}
        whole = Manifest(given)
        said = {word for at in range(len(whole)) for word in self._rare(whole[at].supervisions[0].text or "")}
        others = [word for word, count in words.items() if count > 1 and word not in said and self._is_rare(word)]
        random.Random(1).shuffle(others)
        self.said, self.others = sorted(said), others
        self.terms = [term.text for term in read_terms(args.terms)] if args.terms else None
        self.without: dict[int, list[tuple[str, str]]] = {}  # of each batch, what is found without a list

    def _manifest(self, source: Path) -> Path:
        """The first utterances of every speaker in turn, so that a part of the set has all speakers."""
        manifest = Manifest(source)
        speakers: dict[str, list[int]] = {}
        for index in range(len(manifest)):
            speakers.setdefault(str(manifest[index].supervisions[0].speaker), []).append(index)
        rounds = zip_longest(*speakers.values())
        turns = [index for group in rounds for index in group if index is not None][: self.args.utterances]
        lines = source.read_text(encoding="utf-8").splitlines()
        out: Path = self.args.work / "set.jsonl"
        out.write_text("".join(f"{lines[index]}\n" for index in sorted(turns)), encoding="utf-8")
        return out

    def _is_rare(self, word: str) -> bool:
        return word not in self.frequent and re.fullmatch("[a-z]{3,}", word) is not None

    def _rare(self, text: str) -> set[str]:
        return {word for word in self.normalise(text).split() if self._is_rare(word)}

    def list_of(self, batch: EncodedBatch, number: int, distractors: int) -> list[str]:
        if self.terms is not None:
            return self.terms
        rng = random.Random(number)
        own = sorted(set().union(*(self._rare(utterance.ref or "") for utterance in batch.utterances)))
        kept = own if self.args.said is None else rng.sample(own, min(self.args.said, len(own)))
        said = [word for word in self.said if word not in own]
        more = max(0, distractors - len(said))
        return sorted([*kept, *rng.sample(said, distractors - more), *self.others[:more]])

    def hotwords(self, terms: Sequence[str]) -> Hotwords:
        path = self.folder / "terms.txt"
        path.write_text("".join(f"{term}\n" for term in terms), encoding="utf-8")
        return load_hotwords(path, self.recogniser.tokenizer)

    def found(self, batch: EncodedBatch, words: Hotwords | None, weight: float) -> Iterator[tuple[str, str]]:
        """Reference and hypothesis of each utterance."""
        system = replace(self.search.system, words=words)
        scales = {term: scale for term, scale in self.search.scales.items() if term != "words"}
        scales |= {"words": weight} if words is not None else {}
        for _, nbest in search_set(system, [batch], scales, self.search.options):
            yield self.normalise(nbest.ref or ""), self.normalise(nbest.hypotheses[0].text)

    def measure(self, name: str, distractors: int, weights: Sequence[float]) -> dict[str, dict[str, Any]]:
        counts: dict[float, list[Counts]] = {weight: [] for weight in (0.0, *weights)}
        with (self.args.work / f"found-{self.args.name}-{name}.jsonl").open("w", encoding="utf-8") as kept:
            for number, batch in enumerate(self.batches):
                terms = self.list_of(batch, number, distractors)
                listed = {word for term in terms for word in self.normalise(term).split() if word not in self.frequent}
                words = self.hotwords(terms)
                for weight, of_weight in counts.items():
                    for ref, hyp in self._of_weight(number, words, weight):
                        of_weight.append(Counts.of(ref, hyp, listed))
                        kept.write(json.dumps({"batch": number, "weight": weight, "ref": ref, "hyp": hyp}) + "\n")
                kept.flush()
        return {f"{weight:g}": rates(of_weight, counts[0.0]) for weight, of_weight in counts.items()}

    def _of_weight(self, number: int, words: Hotwords, weight: float) -> list[tuple[str, str]]:
        batch = self.batches[number]
        if weight:
            return list(self.found(batch, words, weight))
        if number not in self.without:
            self.without[number] = list(self.found(batch, None, 0.0))
        return self.without[number]

    def cost(self) -> dict[str, float]:
        words = self.hotwords(sorted([*self.said, *self.others][:LARGE]))
        ratios = []
        for batch in self.batches[: self.args.rounds]:
            spent = []
            for used in (None, words, words, None):
                began = time.process_time()
                list(self.found(batch, used, 1e-6))  # a weight that changes no result
                spent.append(time.process_time() - began)
            ratios.append((spent[1] + spent[2]) / (spent[0] + spent[3]))
        return {"terms": LARGE, "ratio": round(statistics.median(ratios), 3), "largest": round(max(ratios), 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("model")
    parser.add_argument("set", type=Path)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--bundle")
    parser.add_argument("--terms", type=Path)
    parser.add_argument("--lists", default="100,500,1000,2000")
    parser.add_argument("--said", type=int)
    parser.add_argument("--weights", default="0.5,1,1.5,2")
    parser.add_argument("--utterances", type=int, default=400)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--name", default="hotwords")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    bench = Bench(args)
    weights = [float(weight) for weight in args.weights.split(",")]
    sizes = [0] if args.terms else [int(size) for size in args.lists.split(",")]
    facts: dict[str, Any] = {
        "set": args.set.stem,
        "utterances": sum(len(batch.utterances) for batch in bench.batches),
        "bundle": args.bundle and Path(args.bundle).name,
        "said": args.said,
        "lists": {},
    }
    print("| list | weight | WER | B-WER | U-WER | p of U-WER | false insertions per 1,000 words |")
    print("|---|---|---|---|---|---|---|")
    for size in sizes:
        name = args.terms.stem if args.terms else str(size)
        facts["lists"][name] = bench.measure(name, size, weights)
        for weight, row in facts["lists"][name].items():
            cells = (row[key] for key in ("wer", "b_wer", "u_wer", "u_wer_p", "false_per_1000"))
            print(f"| {name} | {weight} |", " | ".join(map(str, cells)), "|", flush=True)
        keep(args, facts)
    if args.rounds:
        facts["cost"] = bench.cost()
        print(f"\ncost of {LARGE} terms: {facts['cost']['ratio']} × (largest {facts['cost']['largest']})")
        keep(args, facts)


def keep(args: argparse.Namespace, facts: dict[str, Any]) -> None:
    if args.results:
        write_json(args.results, (read_json(args.results) if args.results.exists() else {}) | {args.name: facts})


if __name__ == "__main__":
    main()
