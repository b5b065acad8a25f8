"""Makes run folders as an experiment leaves them, from a small world in which every score can be had at once.

Recogniser and language models are formulas: a candidate's acoustic score falls with its errors, the recogniser leans
towards its training domain, the external LM knows the target domain, and an ILM method sees the lean with more or less
noise. Tuning, scoring and all files are the real ones.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fewer.evaluation.wer import Result, compare, score
from fewer.files import write_json
from fewer.search.nbest import Header, Hypothesis, LengthPolicy, NBest, write_nbest
from fewer.tuning.methods import Method, tune_all
from fewer.tuning.space import Scales, SpaceOptions
from fewer.tuning.tune import TuneOptions, TuneResult

NAMES = {
    "none": ("None", 0.0),
    "sf": ("Shallow fusion", 0.0),
    "dr": ("Density ratio", 2.6),
    "zero": ("zero", 3.4),
    "enc_avg": ("E_D[h]", 2.2),
    "ctx_avg": ("E_D[c]", 2.4),
    "seq_avg": ("E_x[h]", 2.8),
    "mini_lstm": ("Mini-LSTM", 0.8),
    "lodr": ("LODR", 2.9),
    "decoder_like": ("Decoder-like LM", 1.8),
}  # method -> its name and how noisily it sees the recogniser's lean
CONFUSED = {
    "berth": "birth",
    "pilot": "pile",
    "quay": "key",
    "ballast": "ballad",
    "mooring": "morning",
    "harbour": "arbour",
    "tide": "tied",
    "bow": "bough",
    "stern": "stone",
    "cargo": "cargos",
    "crane": "crown",
    "buoy": "boy",
    "channel": "china",
    "anchor": "anger",
    "vessel": "vassal",
    "knots": "nuts",
}  # words of the target domain -> what they are taken for
HARBOUR, HOME = list(CONFUSED), list(CONFUSED.values())
SHARED = [
    "the",
    "a",
    "to",
    "on",
    "at",
    "of",
    "and",
    "ready",
    "clear",
    "for",
    "with",
    "starboard",
    "port",
    "inbound",
    "two",
    "three",
    "seven",
    "please",
    "report",
]


@dataclass(frozen=True)
class Candidate:
    text: str
    tokens: tuple[int, ...]
    scores: dict[str, float]  # aed, lm, and ilm:<method>


class World:
    """Utterances of some sets, each with all the candidates that any search may find."""

    def __init__(self, sets: dict[str, int], methods: tuple[str, ...], candidates: int = 24, seed: int = 0):
        self.methods, self.seed = methods, seed
        self.vocabulary = {word: index + 1 for index, word in enumerate((*HARBOUR, *HOME, *SHARED))}
        rng = np.random.default_rng(seed)
        lean = {**dict.fromkeys(HARBOUR, -8.0), **dict.fromkeys(HOME, -5.0), **dict.fromkeys(SHARED, -3.0)}
        self.lean = {word: value + rng.normal(0, 0.5) for word, value in lean.items()}  # the training domain's
        target = {**dict.fromkeys(HARBOUR, -4.5), **dict.fromkeys(HOME, -9.0), **dict.fromkeys(SHARED, -3.0)}
        self.target = {word: value + rng.normal(0, 0.5) for word, value in target.items()}
        self.refs: dict[str, dict[str, str]] = {}
        self.candidates: dict[str, list[Candidate]] = {}
        for set_name, count in sets.items():
            self.refs[set_name] = {}
            for number in range(count):
                id = f"{set_name}-{number % 7:02d}-{number:04d}"
                words = [str(rng.choice(HARBOUR if rng.random() < 0.4 else SHARED)) for _ in range(rng.integers(4, 11))]
                self.refs[set_name][id] = " ".join(words)
                self.candidates[id] = self._candidates(words, candidates, rng)

    def _candidates(self, words: list[str], count: int, rng: np.random.Generator) -> list[Candidate]:
        texts = [words]
        while len(texts) < count:
            texts.append(self._misheard(texts[rng.integers(len(texts))], rng))
        found: dict[str, Candidate] = {}
        for text in texts:
            wrong = sum(a != b for a, b in zip(text, words, strict=False)) + abs(len(text) - len(words))
            acoustic = -1.9 * wrong - rng.gamma(2.0, 0.9) * (1 + len(text)) * 0.3
            lean = sum(self.lean[word] for word in text) - 2.0
            scores = {"aed": acoustic + 0.45 * lean, "lm": sum(self.target[word] for word in text) - 2.0}
            scores["lm"] += rng.normal(0, 1.0)
            scores |= {f"ilm:{m}": lean + rng.normal(0, NAMES[m][1]) for m in self.methods}
            candidate = Candidate(" ".join(text), tuple(self.vocabulary[word] for word in text), scores)
            found.setdefault(candidate.text, candidate)
        return list(found.values())

    def _misheard(self, words: list[str], rng: np.random.Generator) -> list[str]:
        words, place, kind = list(words), int(rng.integers(len(words))), rng.random()
        pairs = dict(zip((*HARBOUR, *HOME), (*HOME, *HARBOUR), strict=True))
        if kind < 0.65:
            words[place] = pairs.get(words[place]) or str(rng.choice(SHARED))
        elif kind < 0.85 and len(words) > 2:
            del words[place]
        else:
            words.insert(place, str(rng.choice(SHARED)))
        return words

    def terms(self, method: str) -> tuple[str, ...]:
        return {"none": ("aed",), "sf": ("aed", "lm")}.get(method, ("aed", "lm", "ilm"))

    def decode(self, method: str, set_name: str, scales: Scales, beam: int) -> list[NBest]:
        """What a search with a large enough beam would find."""
        lists = []
        for id, ref in self.refs[set_name].items():
            found = []
            for candidate in self.candidates[id]:
                scores = {
                    term: candidate.scores[f"ilm:{method}" if term == "ilm" else term] for term in self.terms(method)
                }
                hypothesis = Hypothesis(candidate.text, candidate.tokens, scores, len(candidate.tokens) + 1, 0.0)
                rank = hypothesis.rescored(scales.terms, scales.length)
                found.append(Hypothesis(candidate.text, candidate.tokens, scores, len(candidate.tokens) + 1, rank))
            found.sort(key=lambda hypothesis: -hypothesis.score)
            lists.append(NBest(id, tuple(found[:beam]), ref, id.split("-")[1]))
        return lists


def make_run(
    folder: Path,
    sets: dict[str, int] | None = None,
    methods: tuple[str, ...] = ("none", "sf", "dr", "zero", "mini_lstm"),
    beam: int = 8,
    candidates: int = 24,
    step: float = 0.05,
    length: str = "exponent",
    seed: int = 0,
) -> Path:
    """A run whose scales are tuned on its first set; returns its folder."""
    world = World(sets or {"dev": 40, "test": 25}, methods, candidates, seed)
    tuned_on, *_ = world.refs
    options = TuneOptions(space=SpaceOptions(step=step, length_step=0.1, length=length))  # type: ignore[arg-type]
    found = tune_all(
        [
            Method(m, world.terms(m), lambda scales, m=m: world.decode(m, tuned_on, scales, beam))  # type: ignore[misc]
            for m in methods
        ],
        options,
        folder=folder / "tuning",
        dev_set=tuned_on,
    )
    results: dict[tuple[str, str], Result] = {}
    for method in methods:
        pool = folder / "tuning" / method / "pool.jsonl"
        (folder / "pools").mkdir(exist_ok=True)
        (folder / "pools" / f"{method}.jsonl").write_bytes(pool.read_bytes())
        for name in world.refs:
            results[method, name] = _decode(folder, world, method, name, found[method].scales, beam)
    write_json(folder / "results.json", _results(world, tuned_on, methods, found, results))
    _write_curves(folder, seed)
    _write_attention(folder, world, seed)
    return folder


def _decode(folder: Path, world: World, method: str, set_name: str, scales: Scales, beam: int) -> Result:
    lists = world.decode(method, set_name, scales, beam)
    header = Header(world.terms(method), scales.terms, scales.length, {"set": set_name})
    write_nbest(folder / "decodes" / set_name / f"{method}.jsonl", header, lists)
    hyps = {nbest.id: nbest.hypotheses[0].text for nbest in lists}
    speakers = {nbest.id: nbest.speaker or "" for nbest in lists}
    return score(world.refs[set_name], hyps, speakers, replications=500)


def _results(
    world: World,
    tuned_on: str,
    methods: tuple[str, ...],
    found: dict[str, TuneResult],
    results: dict[tuple[str, str], Result],
) -> dict[str, Any]:
    rows = []
    for method in reversed(methods):  # tables put them in order
        scales = found[method].scales
        wer = {}
        for name in world.refs:
            p = None if method == "sf" else compare(results[method, name], results["sf", name]).p_bootstrap
            wer[name] = results[method, name].to_json() | {"p_vs_sf": p}
        label, noise = NAMES[method]
        rows.append(
            {
                "method": method,
                "name": label,
                "lm_scale": scales.terms.get("lm", 0.0),
                "ilm_scale": -scales.terms.get("ilm", 0.0) + 0.0,
                "length": asdict(scales.length),
                "ilm_ppl": 30.0 * 2.4**noise if method not in ("none", "sf") else None,
                "ilm_ppl_set": "source-dev",
                "decodes": len(found[method].trials),
                "wer": wer,
            }
        )
    return {
        "title": "A harbour heard from home",
        "language": "en",
        "tuned_on": tuned_on,
        "sets": list(world.refs),
        "rows": rows,
        "warnings": ["test: 1 of 25 test transcripts are in the language model's text"],
        "versions": {"fewer": "0.1.0", "torch": "2.13.0", "python": "3.11.4"},
        "commands": ["fewer demo --seed 1"],
        "seconds": {"recogniser aed": 412.5, "internal LMs": 35.1, "tuning": 60.0},
        "seed": world.seed,
    }


def _write_curves(folder: Path, seed: int) -> None:
    rng = np.random.default_rng((seed, 1))
    for model, (top, floor) in {"aed": (5.2, 0.45), "lm": (5.6, 2.9), "density_ratio": (5.5, 1.7)}.items():
        place = folder / "models" / model / "curves.jsonl"
        place.parent.mkdir(parents=True, exist_ok=True)
        with open(place, "w", encoding="utf-8") as stream:
            for epoch in range(1, 31):
                ce = floor + (top - floor) * float(np.exp(-epoch / 6)) + float(rng.normal(0, 0.03))
                step = {"kind": "step", "step": 40 * epoch - 20, "loss": ce + 0.4, "ce": ce + 0.2, "rate": 1e-3}
                entry = {"kind": "sub_epoch", "step": 40 * epoch, "sub_epoch": epoch, "stage": 0, "rate": 1e-3}
                entry |= {"seconds": 12.0, "train_loss": ce + 0.3, "train_ce": ce, "dev_loss": ce + 0.4}
                entry |= {"dev_ce": floor + 0.2 + (top - floor) * float(np.exp(-epoch / 5)) + epoch * 0.004}
                stream.write(json.dumps(step) + "\n" + json.dumps(entry) + "\n")


def _write_attention(folder: Path, world: World, seed: int) -> None:
    rng = np.random.default_rng((seed, 2))
    utterances = []
    for id, ref in list(next(iter(world.refs.values())).items())[:3]:
        labels = [*ref.split(), "</s>"]
        frames = 9 * len(labels) + int(rng.integers(12))
        centres = (np.arange(len(labels)) + 0.5) * frames / len(labels)
        logits = -(((np.arange(frames) - centres[:, None]) / 3.0) ** 2) + rng.normal(0, 0.4, (len(labels), frames))
        weights = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        utterances.append({"id": id, "text": ref, "labels": labels, "weights": weights.round(5).tolist()})
    write_json(folder / "attention.json", {"utterances": utterances})


TERMS = ("aed", "lm", "ilm")


def random_lists(seed: int, utterances: int, hypotheses: int) -> list[NBest]:
    """Lists with many near ties and a few exact ones."""
    rng = np.random.default_rng(seed)
    lists = []
    for u in range(utterances):
        found = []
        for h in range(int(rng.integers(1, hypotheses + 1))):
            if found and rng.random() < 0.15:
                scores = dict(found[int(rng.integers(len(found)))].scores)  # a tie: the first must win
            else:
                values = np.round(-rng.gamma(4, 2, len(TERMS)), int(rng.integers(1, 15)))
                scores = dict(zip(TERMS, values.tolist(), strict=True))
            words = [f"w{rng.integers(5)}" for _ in range(rng.integers(1, 5))]
            found.append(Hypothesis(" ".join(words), (u, h), scores, len(words) + 1, 0.0))
        lists.append(NBest(f"u{u}", tuple(found), "w1 w2 w3"))
    return lists


HOSTILE = "</script><img src=x onerror='window.hacked=1'>&amp;\"{{data}}${1}<!--"


def make_hostile_run(folder: Path) -> Path:
    """A run in which every text wants to be markup."""
    texts = {f"{HOSTILE}-{n}": (f"a {HOSTILE} b", f"a b {HOSTILE}") for n in range(3)}
    for method, order in (("sf", 1), ("zero", -1)):
        header = Header(("aed", "lm"), {"aed": 1.0, "lm": 0.3}, LengthPolicy())
        lists = []
        for id, (ref, hyp) in texts.items():
            found = [
                Hypothesis(text, (n,), {"aed": -1.0, "lm": -2.0 - n}, 3, 0.0)
                for n, text in enumerate((ref, hyp)[::order])
            ]
            lists.append(NBest(id, tuple(found), ref, HOSTILE))
        write_nbest(folder / "pools" / f"{method}.jsonl", header, lists)
        write_nbest(folder / "decodes" / "dev" / f"{method}.jsonl", header, lists)
    score = {"wer": 10.0, "low": 9.0, "high": 11.0, "p_vs_sf": 0.5}
    rows = [
        {"method": method, "name": f"{method} {HOSTILE}", "ilm_ppl": 5.0, "ilm_ppl_set": HOSTILE, "wer": {"dev": score}}
        for method in ("sf", "zero")
    ]
    results = {"title": HOSTILE, "tuned_on": "dev", "sets": ["dev"], "rows": rows, "warnings": [HOSTILE]}
    results |= {"versions": {HOSTILE: HOSTILE}, "commands": [HOSTILE], "seconds": {HOSTILE: 1.0}, "seed": 1}
    write_json(folder / "results.json", results)
    attention = {"id": HOSTILE, "text": HOSTILE, "labels": [HOSTILE, "b"], "weights": [[0.5, 0.5], [1.0, 0.0]]}
    write_json(folder / "attention.json", {"utterances": [attention]})
    curves = folder / "models" / "<img src=x onerror=window.hacked=1>" / "curves.jsonl"
    curves.parent.mkdir(parents=True)
    points = [{"kind": "sub_epoch", "step": n, "train_ce": 1.0 / n, "dev_ce": 1.0} for n in (1, 2)]
    curves.write_text("".join(json.dumps(point) + "\n" for point in points))
    return folder


TELEPHONE = {  # reference and hypothesis, of which hubscr forgives alternatives, hesitations and fragments
    "sw-1": ("i {can not / cannot} (uh) go", "i cannot go"),
    "sw-2": ("we {can not / cannot} wor- now", "well we can word"),
    "sw-3": ("uh yes", "yes um"),
}


def write_telephone_lists(folder: Path) -> tuple[Path, Path]:
    """A GLM, and an N-best file whose references need it."""
    glm, path = folder / "telephone.glm", folder / "telephone.jsonl"
    head = ["name 'telephone'", "format = 'NIST1'", "max_nrules = '9'", "copy_no_hit = 'T'", "case_sensitive = 'F'"]
    rules = ["UH => %HESITATION", "UM => (%HESITATION)", "(UH) => (%HESITATION)"]
    lines = [";; telephone speech", *(f"* {line}" for line in head), *(f"{rule} / [ ] __ [ ]" for rule in rules)]
    glm.write_text("".join(f"{line}\n" for line in lines))
    header = Header(("aed", "lm"), {"aed": 1.0, "lm": 0.3}, LengthPolicy())
    found = [
        NBest(id, (Hypothesis(hyp, (1,), {"aed": -1.0, "lm": -1.0}, 2, -0.65),), ref)
        for id, (ref, hyp) in TELEPHONE.items()
    ]
    write_nbest(path, header, found)
    return glm, path


def make_telephone_run(folder: Path) -> Path:
    """A run of one method on a set that is scored with a GLM, in the table by an STM file."""
    glm, lists = write_telephone_lists(folder)
    for place in ("pools", "decodes/dev"):
        (folder / place).mkdir(parents=True)
        (folder / place / "sf.jsonl").write_bytes(lists.read_bytes())
    rows = [{"method": "sf", "name": "Shallow fusion", "wer": {"dev": {"wer": 10.0}}}]
    results = {"title": "Telephone", "tuned_on": "dev", "sets": ["dev"], "rows": rows, "normaliser": f"glm:{glm}"}
    results |= {"references": {"dev": "eval.stm"}}
    write_json(folder / "results.json", results)
    return folder
