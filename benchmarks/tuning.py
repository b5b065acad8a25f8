"""Tuning from pools against a brute-force grid of full decodes: the WER that each reaches and what it costs.

    python benchmarks/tuning.py [--utterances 300] [--grid 11] [--length fixed]
    python benchmarks/tuning.py --model MODEL --manifest DEV --lm LM --ilm ILM [--beam 12] [--grid 0]

Tunes a synthetic recogniser, a noisy channel with known language models, or a real one. The grid is of full decodes
over λ1 and λ2, length-normalised; --grid 0 leaves it out, to see only how long tuning takes. The last line is JSON.
"""

import argparse
import json
import time
from copy import copy
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from fewer.progress import progress
from fewer.search.nbest import Hypothesis, LengthPolicy, NBest
from fewer.tuning.pool import Pool
from fewer.tuning.space import Scales, Space, SpaceOptions
from fewer.tuning.surface import surface
from fewer.tuning.tune import Decode, TuneOptions, tune

TERMS = ("aed", "lm", "ilm")
END = 0
Found: TypeAlias = tuple[NDArray[np.int64], NDArray[np.float64], bool]  # labels, (3,) scores, whether it ended


class NoisyChannel:
    """A recogniser made of noise: what it heard at each position plus the bigram model of its training domain.

    References come from another domain's bigram model, which is (almost) the external LM; the internal LM is (almost)
    the training domain's. Decodes by a beam search that prunes, so hypotheses depend on the scales, as in reality.
    """

    def __init__(self, utterances: int, words: int = 50, beam: int = 12, noise: float = 0.8, seed: int = 0):
        rng = np.random.default_rng((seed, 1))
        size = words + 1  # label 0 ends a sentence
        shared = rng.dirichlet(np.full(size, 0.4), size)
        source = 0.4 * shared + 0.6 * rng.dirichlet(np.full(size, 0.15), size) + 1e-4
        target = 0.4 * shared + 0.6 * rng.dirichlet(np.full(size, 0.15), size) + 1e-4
        source[:, END] = target[:, END] = 0.08 * source.sum(1)
        source[END, END] = target[END, END] = 1e-4
        self.source = _log_normalise(np.log(source))
        self.target = np.log(target / target.sum(1, keepdims=True))
        self.lm = _log_normalise(self.target + 0.3 * rng.standard_normal(self.target.shape))
        self.ilm = _log_normalise(self.source + 0.3 * rng.standard_normal(self.source.shape))
        self.beam = beam
        self.references = [self._sentence(rng) for _ in range(utterances)]
        lengths = np.array([len(reference) for reference in self.references])
        steps = int(lengths.max()) + 4
        self.limits = lengths + 3
        heard = noise * rng.standard_normal((utterances, steps, size))
        heard[:, :, END] -= 3.0  # a recogniser seldom thinks that speech has ended where it has not
        for u, reference in enumerate(self.references):
            for i, label in enumerate([*reference, END]):
                heard[u, i, label] += 6.0 if label != END else 9.0
                heard[u, i, (label * 7 + 3) % size] += rng.uniform(2.0, 6.5)  # what sounds like it
        self.heard = heard  # (U, steps, V)
        self.decodes = 0

    def with_ilm(self, noise: float, seed: int) -> "NoisyChannel":
        """The same recogniser with an internal LM that is estimated less (or more) well."""
        other = copy(self)
        blur = noise * np.random.default_rng((seed, 2)).standard_normal(self.source.shape)
        other.ilm, other.decodes = _log_normalise(self.source + blur), 0
        return other

    def rescore(self, lists: list[NBest]) -> list[NBest]:
        """Add this channel's internal LM to hypotheses that some other search found."""

        def scored(hypothesis: Hypothesis) -> Hypothesis:
            labels = [*hypothesis.tokens, END] if hypothesis.ended else [*hypothesis.tokens]
            ilm = sum(float(self.ilm[pair]) for pair in zip([END, *labels], labels, strict=False))
            return replace(hypothesis, scores=hypothesis.scores | {"ilm": ilm})

        return [replace(nbest, hypotheses=tuple(map(scored, nbest.hypotheses))) for nbest in lists]

    def _sentence(self, rng: np.random.Generator) -> list[int]:
        labels: list[int] = []
        while len(labels) < 24:
            label = int(rng.choice(len(self.target), p=np.exp(self.target[labels[-1] if labels else END])))
            if label == END and len(labels) >= 4:
                break
            if label != END:
                labels.append(label)
        return labels

    def decode(self, scales: Scales) -> list[NBest]:
        """Beam search over all utterances at once, with the terms that have a scale."""
        self.decodes += 1
        weights = np.array([scales.terms.get(term, 0.0) for term in TERMS])
        utterances, steps, size = self.heard.shape
        beam = self.beam
        labels = np.full((utterances, beam, steps), -1)
        scores = np.zeros((3, utterances, beam))
        active = np.zeros((utterances, beam), bool)
        active[:, 0] = True
        found: list[list[Found]] = [[] for _ in range(utterances)]
        for i in range(steps):
            previous = labels[:, :, i - 1] if i else np.full((utterances, beam), END)
            aed = _log_normalise(self.heard[:, i, None] + self.source[previous])
            step = np.stack([aed, self.lm[previous], self.ilm[previous]])  # (3, U, K, V)
            total = np.tensordot(weights, scores[..., None] + step, 1)  # (U, K, V)
            total[~active] = -np.inf
            total[np.flatnonzero(i >= self.limits)] = -np.inf
            flat = total.reshape(utterances, -1)
            threshold = -np.partition(-flat, beam - 1, axis=1)[:, beam - 1]
            ends = (total[:, :, END] >= threshold[:, None]) & np.isfinite(total[:, :, END])
            for u, k in np.argwhere(ends):
                found[u].append((labels[u, k, :i], scores[:, u, k] + step[:, u, k, END], True))
            for u, k in np.argwhere(active & (self.limits == i)[:, None]):
                found[u].append((labels[u, k, :i], scores[:, u, k], False))
            total[:, :, END] = -np.inf
            order = np.argpartition(-flat, beam - 1, axis=1)[:, :beam]  # (U, K)
            rows, chosen = np.divmod(order, size)
            active = np.isfinite(np.take_along_axis(flat, order, axis=1))
            labels = np.take_along_axis(labels, rows[:, :, None], axis=1)
            labels[:, :, i] = chosen
            pick = np.arange(utterances)[:, None]
            scores = scores[:, pick, rows] + step[:, pick, rows, chosen]
        return [self._nbest(u, ended, scales) for u, ended in enumerate(found)]

    def _nbest(self, u: int, found: list[Found], scales: Scales) -> NBest:
        hypotheses = []
        for labels, terms, ended in found:
            tokens = tuple(labels.tolist())
            values = {t: s for t, s in zip(TERMS, terms.tolist(), strict=True) if t in scales.terms}
            hypothesis = Hypothesis(_text(tokens), tokens, values, len(tokens) + ended, 0.0, ended)
            hypotheses.append(replace(hypothesis, score=hypothesis.rescored(scales.terms, scales.length)))
        hypotheses.sort(key=lambda hypothesis: -hypothesis.score)
        return NBest(f"utterance-{u}", tuple(hypotheses[: self.beam]), _text(self.references[u]))


def _log_normalise(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    shifted = scores - scores.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def _text(labels: Any) -> str:
    return " ".join(f"w{label}" for label in labels)


def compare(decode: Decode, terms: tuple[str, ...], options: TuneOptions, grid: int) -> dict[str, Any]:
    """Tune, then decode at every point of a grid × grid of λ1 and λ2 over the same ranges, length-normalised."""
    began = time.process_time()
    result = tune(decode, terms, options)
    tuned: dict[str, Any] = {
        "tuned_wer": round(result.wer, 3),
        "tuned_at": result.parameters,
        "tuned_decodes": len(result.trials),
        "tuned_cpu_seconds": round(time.process_time() - began, 2),
        "converged": result.converged,
        "baseline_wer": round(result.baseline.wer, 3),
    }
    if not grid:
        return tuned
    began = time.process_time()
    values = np.linspace(*options.space.scale_range, grid).round(6).tolist()
    points = [{"aed": 1.0, "lm": lm, "ilm": -ilm} for lm in values for ilm in values]
    wers = [result.pool.score(decode(Scales(point, LengthPolicy()))).wer for point in progress(points, "grid")]
    best = min(wers)
    at = points[wers.index(best)]
    allowed = max(0.1, 0.01 * best)
    return tuned | {
        "grid_wer": round(best, 3),
        "grid_at": {"lm": at["lm"], "ilm": -at["ilm"]},
        "grid_decodes": grid**2,
        "grid_cpu_seconds": round(time.process_time() - began, 2),
        "difference": round(result.wer - best, 3),
        "allowed": round(allowed, 3),
        "within": result.wer <= best + allowed,
    }


def surface_seconds(decode: Decode, terms: tuple[str, ...]) -> dict[str, Any]:
    """CPU seconds for the WER of all 151 × 151 points of a pool of a few decodes."""
    space = Space(terms, SpaceOptions(length="fixed"))
    pool = Pool(terms)
    for lm, ilm in ((0.0, 0.0), (0.4, 0.0), (0.8, 0.4), (0.6, 0.3), (1.0, 0.8)):
        pool.add(decode(space.scales({"lm": lm, "ilm": ilm})))
    began = time.process_time()
    errors = surface(pool, space, ("lm", "ilm"), {}).errors
    seconds = time.process_time() - began
    return {
        "points": errors.size,
        "utterances": len(pool.ids),
        "hypotheses": len(pool),
        "cpu_seconds": round(seconds, 2),
    }


def real_decode(model: str, manifest: str, lm: str, ilm: str, beam: int) -> tuple[Decode, tuple[str, ...]]:
    """The decode of a trained system, its utterances encoded once, and its terms."""
    from fewer.data.manifest import Manifest
    from fewer.decoding.decode import search_set
    from fewer.decoding.encoding import encode_set
    from fewer.decoding.system import load_system
    from fewer.search.beam import SearchOptions

    system = load_system(model, lm, ilm)
    batches, scorers = list(encode_set(system, Manifest(manifest))), system.scorers()

    def decode(scales: Scales) -> list[NBest]:
        found = dict(search_set(system, batches, scales.terms, SearchOptions(beam, scales.length), scorers))
        return [found[index] for index in sorted(found)]

    return decode, system.fusion({}, scorers).terms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--utterances", type=int, default=300, help="of the synthetic recogniser")
    parser.add_argument("--seed", type=int, default=0, help="of the synthetic recogniser")
    parser.add_argument("--grid", type=int, default=11, help="points of the grid in each direction; 0: no grid")
    parser.add_argument("--length", choices=["fixed", "exponent", "reward"], default="fixed")
    parser.add_argument("--model", help="a trained recogniser instead of the synthetic one")
    for name in ("manifest", "lm", "ilm"):
        parser.add_argument(f"--{name}", help="of the trained recogniser")
    parser.add_argument("--beam", type=int, default=12)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.model:
        if not (arguments.manifest and arguments.lm and arguments.ilm):
            parser.error("--model needs --manifest, --lm and --ilm")
        decode, terms = real_decode(arguments.model, arguments.manifest, arguments.lm, arguments.ilm, arguments.beam)
    else:
        decode, terms = NoisyChannel(arguments.utterances, beam=arguments.beam, seed=arguments.seed).decode, TERMS
    options = TuneOptions(space=SpaceOptions(length=arguments.length))
    result = compare(decode, terms, options, arguments.grid)
    print(json.dumps({"benchmark": "tuning", **result, "surface": surface_seconds(decode, terms)}))


if __name__ == "__main__":
    main()
