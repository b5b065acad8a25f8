"""Tuning every method of a comparison with the same effort, reusing only what each would have found by itself.

Each method has its own pool, the same budget of decodes and the same length parameter. A decode is shared between
methods only where it is the same search: with all terms that belong to one method alone at scale zero (the plain
recogniser, shallow fusion as a special case of subtracting an ILM with scale 0). Each method would make exactly that
decode itself; it is made once, the method's own terms score its hypotheses afterwards, and it counts in the budget of
every method that uses it. No pool ever holds a hypothesis that only another method's search has found.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from fewer.compute.engines.engine import Engine, Job, Local
from fewer.errors import FewerError
from fewer.evaluation.wer import compare
from fewer.progress import say
from fewer.search.nbest import NBest
from fewer.tuning.pool import Metric
from fewer.tuning.space import LENGTH_PARAMETERS, Scales
from fewer.tuning.store import SavedDecodes, save_result
from fewer.tuning.tune import Steps, TuneOptions, TuneResult, tuning

MORE = 3  # decodes with another rule for the end label, if the first has fewer errors

Rescore: TypeAlias = Callable[[list[NBest]], list[NBest]]


@dataclass(frozen=True)
class Method:
    """One row of a comparison: shallow fusion, density ratio, an ILM method."""

    name: str
    terms: tuple[str, ...]  # of its search, the recogniser's among them
    decode: Callable[[Scales], list[NBest] | Job]  # what a search finds, or a job of (line, N-best list) pairs
    rescore: Rescore | None = None  # adds to every hypothesis the scores of those of the method's terms that it lacks
    own: frozenset[str] = frozenset({"ilm"})  # terms that are another model in other methods; all others are common
    subtracted: frozenset[str] = frozenset({"ilm"})
    options: Mapping[str, Any] = field(default_factory=dict)  # of tuning, where they differ from the others'
    identity: str = ""  # fingerprint of all that its decodes depend on but the scales: models, beam, dev set
    end_by: tuple[str, ...] = ()  # terms that score the end label
    other_ends: tuple["Method", ...] = ()  # the same with others scoring it; tried where the scales are tuned


@dataclass(frozen=True)
class Asked:
    """A decode that the tuning of a method asks for."""

    method: Method
    saved: SavedDecodes | None  # where it is kept, if it is
    shared: bool  # whether it may be taken from another method's, and given to them
    scales: Scales

    @property
    def key(self) -> tuple[Any, ...]:
        """Names a search by the common terms that take part in it; empty if a term of the method's own does."""
        used = {term: scale for term, scale in self.scales.terms.items() if scale != 0.0}
        if not self.shared or used.keys() & self.method.own:
            return ()
        return (*sorted(used.items()), self.scales.length.exponent, self.scales.length.reward)


class Decodes:
    """Makes the decodes that methods ask for: side by side, and once where it is the same search for several."""

    def __init__(self, engine: Engine):
        self.engine = engine
        self.common: dict[tuple[Any, ...], list[NBest]] = {}  # searches without a method's own terms

    def __call__(self, asked: Mapping[str, Asked]) -> dict[str, list[NBest]]:
        found: dict[str, list[NBest]] = {}
        while waiting := {name: one for name, one in asked.items() if name not in found}:
            searches: dict[str, Asked] = {}
            for name, one in waiting.items():
                if (lists := self._there(one)) is not None:
                    found[name] = lists
                elif not one.key or all(one.key != other.key for other in searches.values()):
                    searches[name] = one
                # else the search is under way
            for name, lists in zip(searches, self._searched(list(searches.values())), strict=True):
                found[name] = self._keep(searches[name], lists)
        return found

    def _there(self, one: Asked) -> list[NBest] | None:
        """What was found before, by this method or by the same search of another, with the method's own scores."""
        if one.saved is not None and (lists := one.saved.load(one.scales)) is not None:
            return self._share(one, lists)
        if (lists := self.common.get(one.key)) is None:
            return None
        if not all(term in lists[0].hypotheses[0].scores for term in one.method.terms):
            if one.method.rescore is None:
                return None
            lists = one.method.rescore(lists)
        return self._keep(one, lists)

    def _keep(self, one: Asked, lists: list[NBest]) -> list[NBest]:
        if one.saved is not None:
            one.saved.save(one.scales, lists)
        return self._share(one, lists)

    def _share(self, one: Asked, lists: list[NBest]) -> list[NBest]:
        if one.key and one.key not in self.common and lists and lists[0].hypotheses:
            self.common[one.key] = [_without(nbest, one.method.own) for nbest in lists]
        return lists

    def _searched(self, searches: Sequence[Asked]) -> list[list[NBest]]:
        made = [one.method.decode(one.scales) for one in searches]
        jobs = {number: job for number, job in enumerate(made) if isinstance(job, Job)}
        found: dict[int, dict[int, NBest]] = {number: {} for number in jobs}
        for place, lists in self.engine.side_by_side(list(jobs.values())):
            found[list(jobs)[place]] |= dict(lists)
        return [
            [found[number][line] for line in sorted(found[number])] if isinstance(each, Job) else each
            for number, each in enumerate(made)
        ]


def _without(nbest: NBest, terms: frozenset[str]) -> NBest:
    hypotheses = tuple(
        replace(h, scores={term: score for term, score in h.scores.items() if term not in terms})
        for h in nbest.hypotheses
    )
    return replace(nbest, hypotheses=hypotheses)


def tune_all(
    methods: Sequence[Method],
    options: TuneOptions | None = None,
    metric: Metric | None = None,
    folder: str | Path | None = None,
    dev_set: str = "dev",
    engine: Engine = Local(),
) -> dict[str, TuneResult]:
    """Tune every method under the same options; results and decodes are kept in FOLDER/<method>, if one is given.

    Methods go on together, a decode at a time, and the engine makes their decodes side by side. Constraints on a scale
    and starts at one hold for the methods that have it. Ordering shallow fusion first makes the shared decodes the
    cheapest ones.
    """
    options = options or TuneOptions()
    check_methods(methods, options)
    say(f"tuning {', '.join(method.name for method in methods)}")
    places = {method.name: None if folder is None else Path(folder) / method.name for method in methods}
    steps = {m.name: _tuning(m, options, metric, places[m.name], dev_set) for m in methods}
    decodes, results = Decodes(engine), dict[str, TuneResult]()
    asked = {name: next(each) for name, each in steps.items()}
    while asked:
        found = decodes(asked)
        for name in list(asked):
            try:
                asked[name] = steps[name].send(found[name])
            except StopIteration as end:
                results[name] = end.value
                del asked[name]
    return {method.name: results[method.name] for method in methods}


def _tuning(
    method: Method, options: TuneOptions, metric: Metric | None, folder: Path | None, dev_set: str
) -> Steps[Asked]:
    """One method, with its own options and every rule for the end label."""
    options = options_of(method.terms, TuneOptions(**{**dict(options), **method.options}))
    result = yield from _asking(method, options, metric, folder)
    tried = {_scoring_end(method, result)}
    for other in method.other_ends:
        if (rule := _scoring_end(other, result)) not in tried:  # else it would be the same search
            tried.add(rule)
            result = yield from _with_end(other, result, options, metric, folder)
    if folder is not None:
        save_result(folder, result, options, method.name, dev_set)
    return result


def _asking(
    method: Method, options: TuneOptions, metric: Metric | None, folder: Path | None, below: float | None = None
) -> Steps[Asked]:
    """Tuning whose decodes are the method's.

    below: of one with another rule for the end label, whose decodes are not shared; it ends after the first unless that
    has a lower WER.
    """
    end_by = None if below is None else method.end_by
    saved = None if folder is None else SavedDecodes(folder / "decodes", method.identity, end_by)
    ask = partial(Asked, method, saved, below is None)
    return tuning(ask, method.terms, options, metric, method.subtracted, method.name, below)


def _scoring_end(method: Method, result: TuneResult) -> frozenset[str]:
    """Those of the terms that score the end label whose scale is not zero."""
    return frozenset(term for term in method.end_by if result.scales.terms.get(term))


def _with_end(
    other: Method, before: TuneResult, options: TuneOptions, metric: Metric | None, folder: Path | None
) -> Steps[Asked]:
    """The same method with other terms scoring the end label, if that is significantly better.

    One decode at the scales that were chosen before; if it has fewer errors, scales are tuned on from there.
    """
    say(f"{other.name}, the end scored by {', '.join(other.end_by)}")
    update = {"start": before.parameters, "budget": MORE, "no_harm": False}
    after = yield from _asking(other, options.model_copy(update=update), metric, folder, before.wer)
    tried = {**before.ends, "+".join(other.end_by): after.wer}
    if after.wer >= before.wer:
        return replace(before, ends=tried)
    if compare(after.chosen.result, before.chosen.result).sure < options.confidence:
        return replace(before, ends=tried)
    improved = compare(after.chosen.result, before.baseline.result).sure
    trials = before.trials + after.trials
    return replace(after, end_by=other.end_by, ends=tried, baseline=before.baseline, improved=improved, trials=trials)


def check_methods(methods: Sequence[Method], options: TuneOptions) -> None:
    """Whether they can be tuned so."""
    names = [method.name for method in methods]
    if len(set(names)) < len(names):
        raise FewerError(f"two methods have the same name: {', '.join(names)}; rename the folder of one of them")
    terms = [term for method in methods for term in method.terms]
    for each in (options, *(TuneOptions(**method.options) for method in methods)):
        if unknown := unknown_scale(terms, each):
            raise FewerError(f"{unknown}, but no method has it; they are {', '.join(names)}")


def unknown_scale(terms: Sequence[str], options: TuneOptions) -> str | None:
    """What the options say of a scale that is not there, if they do."""
    space = options.space
    constrained = [*space.ranges, *space.fixed, *space.tied, *(other for _, other in space.tied.values())]
    started = [name for start in options.starts for name in start]
    for what, names in (("is constrained", constrained), ("is where tuning is to start", started)):
        for name in names:
            if name not in (*terms, *LENGTH_PARAMETERS):
                return f"'{name}' {what}"
    return None


def options_of(terms: Sequence[str], options: TuneOptions) -> TuneOptions:
    """The options without constraints on scales that are not there, and without starts at such."""
    known, space = {*terms, *LENGTH_PARAMETERS}, options.space
    constraints = {
        "ranges": {name: value for name, value in space.ranges.items() if name in known},
        "fixed": {name: value for name, value in space.fixed.items() if name in known},
        "tied": {name: tie for name, tie in space.tied.items() if name in known and tie[1] in known},
    }
    starts = tuple(start for start in options.starts if start.keys() <= known)
    if options.starts and not starts:
        starts = ({},)  # where nothing is added; the usual ones were not asked for
    return options.model_copy(update={"space": space.model_copy(update=constraints), "start": starts or None})
