"""Choosing what to do with a language model by a dev set: nothing, shallow fusion, or an internal LM subtracted.

Every method gets the same budget of decodes and its own pool. What has the fewest word errors is taken only if it beats
the recogniser alone significantly; otherwise nothing is added.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fewer.data.manifest import Manifest
from fewer.decoding.decode import search_set
from fewer.decoding.encoding import hold_set
from fewer.decoding.identity import identity
from fewer.decoding.system import System
from fewer.decoding.tunable import tuning_method
from fewer.evaluation.wer import Comparison, Result, compare
from fewer.progress import warn
from fewer.recognisers.recogniser import Defaults, Recogniser
from fewer.search.beam import SearchOptions
from fewer.search.fusion import signed
from fewer.tuning.methods import options_of, tune_all
from fewer.tuning.pool import Metric
from fewer.tuning.space import Scales, SpaceOptions
from fewer.tuning.tune import TuneOptions, TuneResult

FEW = 100  # utterances, of which gains as they are usual can hardly be told from luck
WORDS_BUDGET = 3  # decodes for the scale of hotwords
WORDS_RANGE = (0.0, 4.0)


def usual_scales(defaults: Defaults, method: str) -> Scales:
    """Of a method that was not tuned."""
    terms = {"none": (), "sf": ("lm",)}.get(method, ("lm", "ilm"))
    return Scales(signed(defaults.scales(terms)), defaults.search.length)


class Trials:
    """A set, encoded once, on which systems are tried."""

    def __init__(self, recogniser: Recogniser, manifest: Path, metric: Metric, search: SearchOptions, work: Path):
        """work: folder for encoder states that have no room in memory."""
        self.recogniser, self.manifest, self.metric, self.search = recogniser, manifest, metric, search
        self.batches = hold_set(recogniser, Manifest(manifest), work)

    def __len__(self) -> int:
        return len(self.batches.manifest)

    def _marks(self, system: System) -> str:
        return identity(system, self.search, self.manifest)

    def result(self, system: System, scales: Scales) -> Result:
        """One decode, scored."""
        options = replace(self.search, length=scales.length)
        lists = dict(search_set(system, self.batches, scales.terms, options)).values()
        refs = {nbest.id: nbest.ref or "" for nbest in lists}
        hyps = {nbest.id: nbest.hypotheses[0].text for nbest in lists}
        return self.metric.score(refs, hyps, {nbest.id: nbest.speaker or "" for nbest in lists})

    def tune(
        self, systems: Mapping[str, System], options: TuneOptions, folder: Path, ends: bool = False
    ) -> dict[str, TuneResult]:
        """ends: also choose which terms score the end label."""
        methods = [
            tuning_method(name, system, self.batches, self.search, self._marks, ends=ends)
            for name, system in systems.items()
        ]
        # The usual starts speak of internal LMs, which there may be none of.
        options = options_of([term for method in methods for term in method.terms], options)
        return tune_all(methods, options, self.metric, folder, self.manifest.stem)


@dataclass(frozen=True)
class Choice:
    """A method, its scales, and what was measured on the way."""

    method: str
    scales: Scales  # without the recogniser's own
    facts: dict[str, Any]
    end_by: tuple[str, ...] | None = None  # terms that score the end label; None: the usual ones


def choose(trials: Trials, systems: Mapping[str, System], budget: int, confidence: float, folder: Path) -> Choice:
    """Tune every system, of which "none" is the recogniser alone; take the best if it is significantly better."""
    if (count := len(trials)) < FEW:
        warn(f"{trials.manifest.stem}: {count} utterances show large gains only; a few hundred are better")
    defaults = trials.recogniser.defaults
    results = trials.tune(systems, TuneOptions(**{**defaults.tuning, "budget": budget}), folder, ends=True)
    alone = results["none"]
    best = min(results, key=lambda name: results[name].wer)
    compared = compare(results[best].chosen.result, alone.chosen.result)
    plain = trials.result(systems["none"], usual_scales(defaults, "none"))
    better = min(compared.sure, compare(results[best].chosen.result, plain).sure)
    facts = {
        "set": trials.manifest.stem,
        "utterances": len(alone.chosen.result.ids),
        "normaliser": trials.metric.normaliser.name,
        "confidence": confidence,
        "plain": plain.to_json(),
        "methods": {name: _tuned(result) for name, result in results.items()},
        "best": best,
        "comparison": compared.to_json(),
    }
    if best != "none" and better >= confidence:
        return Choice(best, _own(results[best].scales), facts | {"kept": False}, results[best].end_by)
    if best == "none":
        warn(f"no LM does better than the recogniser alone ({alone.wer:.2f} %), so nothing is added")
    else:
        warn(
            f"{best} has WER {results[best].wer:.2f} % against {alone.wer:.2f} % without an LM, better in "
            f"{100 * better:.0f} % of resampled dev sets: not significant, so nothing is added"
        )
    sure = compare(alone.chosen.result, plain).sure >= confidence
    scales = _own(alone.scales) if sure else usual_scales(defaults, "none")
    return Choice("none", scales, facts | {"kept": True, "length_tuned": sure})


def tune_words(trials: Trials, system: System, chosen: Scales, folder: Path) -> TuneResult:
    """The scale of hotwords, all others as they were chosen."""
    fixed = {term: abs(scale) for term, scale in chosen.terms.items()}
    fixed |= {"exponent": chosen.length.exponent, "reward": chosen.length.reward}
    space = SpaceOptions(length="fixed", fixed=fixed, ranges={"words": WORDS_RANGE}, step=0.1)
    options = TuneOptions(space=space, start=({}, {"words": trials.recogniser.defaults.hotwords}), budget=WORDS_BUDGET)
    return trials.tune({"words": system}, options, folder)["words"]


def with_and_without(
    trials: Trials, plain: tuple[System, Scales], adapted: tuple[System, Scales]
) -> tuple[dict[str, Any], Comparison]:
    """WERs of the recogniser alone and adapted."""
    before, after = trials.result(*plain), trials.result(*adapted)
    compared = compare(after, before)
    facts = {
        "set": trials.manifest.stem,
        "utterances": len(before.ids),
        "none": before.to_json(),
        "adapted": after.to_json(),
        "comparison": compared.to_json(),
    }
    return facts, compared


def _own(scales: Scales) -> Scales:
    return Scales({term: scale for term, scale in scales.terms.items() if term != "aed"}, scales.length)


def _tuned(result: TuneResult) -> dict[str, Any]:
    low, high = result.chosen.result.interval
    return {
        "wer": round(result.wer, 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "parameters": result.parameters,
        "end_by": result.end_by and list(result.end_by),
        "decodes": len(result.trials),
        "converged": result.converged,
    }
