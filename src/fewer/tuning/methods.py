"""Tuning every method of a comparison with the same effort, reusing only what each would have found by itself.

Each method has its own pool, the same budget of decodes and the same length parameter. A decode is shared between
methods only where it is the same search: with all terms that belong to one method alone at scale zero (the plain
recogniser, shallow fusion as a special case of subtracting an ILM with scale 0). Each method would make exactly that
decode itself; it is made once, the method's own terms score its hypotheses afterwards, and it counts in the budget of
every method that uses it. No pool ever holds a hypothesis that only another method's search has found.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from fewer.errors import FewerError
from fewer.evaluation.wer import compare
from fewer.progress import say
from fewer.search.nbest import NBest
from fewer.tuning.pool import Metric
from fewer.tuning.space import LENGTH_PARAMETERS, Scales
from fewer.tuning.store import SavedDecodes, save_result
from fewer.tuning.tune import Decode, TuneOptions, TuneResult, tune

MORE = 3  # decodes with another rule for the end label, if the first has fewer errors

Rescore: TypeAlias = Callable[[list[NBest]], list[NBest]]


@dataclass(frozen=True)
class Method:
    """One row of a comparison: shallow fusion, density ratio, an ILM method."""

    name: str
    terms: tuple[str, ...]  # of its search, the recogniser's among them
    decode: Decode
    rescore: Rescore | None = None  # adds to every hypothesis the scores of those of the method's terms that it lacks
    own: frozenset[str] = frozenset({"ilm"})  # terms that are another model in other methods; all others are common
    subtracted: frozenset[str] = frozenset({"ilm"})
    options: Mapping[str, Any] = field(default_factory=dict)  # of tuning, where they differ from the others'
    identity: str = ""  # fingerprint of all that its decodes depend on but the scales: models, beam, dev set
    end_by: tuple[str, ...] = ()  # terms that score the end label
    other_ends: tuple["Method", ...] = ()  # the same with others scoring it; tried where the scales are tuned


class SharedDecodes:
    """The decodes that are the same search for every method, made once."""

    def __init__(self) -> None:
        self.lists: dict[tuple[Any, ...], list[NBest]] = {}

    def of(self, method: Method, folder: Path | None) -> Decode:
        """The method's decode, which takes from here what is here already."""

        def decode(scales: Scales) -> list[NBest]:
            lists = self.lists.get(self._key(method, scales))
            if lists is None:
                return method.decode(scales)
            if all(term in lists[0].hypotheses[0].scores for term in method.terms):
                return lists
            return method.rescore(lists) if method.rescore else method.decode(scales)

        remembered = decode if folder is None else SavedDecodes(decode, folder, method.identity)

        def share(scales: Scales) -> list[NBest]:
            lists = remembered(scales)
            key = self._key(method, scales)
            if key and key not in self.lists and lists and lists[0].hypotheses:
                self.lists[key] = [_without(nbest, method.own) for nbest in lists]
            return lists

        return share

    @staticmethod
    def _key(method: Method, scales: Scales) -> tuple[Any, ...]:
        """Names a search by the common terms that take part in it; empty if a term of the method's own does."""
        used = {term: scale for term, scale in scales.terms.items() if scale != 0.0}
        if used.keys() & method.own:
            return ()
        return (*sorted(used.items()), scales.length.exponent, scales.length.reward)


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
) -> dict[str, TuneResult]:
    """Tune every method under the same options; results and decodes are kept in FOLDER/<method>, if one is given.

    Constraints on a scale and starts at one hold for the methods that have it. Ordering shallow fusion first makes the
    shared decodes the cheapest ones.
    """
    options = options or TuneOptions()
    check_methods(methods, options)
    shared = SharedDecodes()
    results: dict[str, TuneResult] = {}
    for method in methods:
        say(f"tuning {method.name}")
        place = None if folder is None else Path(folder) / method.name
        decode = shared.of(method, None if place is None else place / "decodes")
        of_method = TuneOptions(**{**dict(options), **method.options})
        of_method = options_of(method.terms, of_method)
        result = tune(decode, method.terms, of_method, metric, method.subtracted)
        tried = {_scoring_end(method, result)}
        for other in method.other_ends:
            if (rule := _scoring_end(other, result)) not in tried:  # else it would be the same search
                tried.add(rule)
                result = _with_end(other, result, of_method, metric, place)
        if place is not None:
            save_result(place, result, of_method, method.name, dev_set)
        results[method.name] = result
    return results


def _scoring_end(method: Method, result: TuneResult) -> frozenset[str]:
    """Those of the terms that score the end label whose scale is not zero."""
    return frozenset(term for term in method.end_by if result.scales.terms.get(term))


def _with_end(
    other: Method, before: TuneResult, options: TuneOptions, metric: Metric | None, folder: Path | None
) -> TuneResult:
    """The same method with other terms scoring the end label, if that is significantly better.

    One decode at the scales that were chosen before; if it has fewer errors, scales are tuned on from there.
    """
    say(f"the end scored by {', '.join(other.end_by)}")
    saved = None if folder is None else SavedDecodes(other.decode, folder / "decodes", other.identity, other.end_by)
    made: dict[Any, list[NBest]] = {}

    def decode(scales: Scales) -> list[NBest]:
        key = (*scales.terms.items(), scales.length)
        if key not in made:
            made[key] = (saved or other.decode)(scales)
        return made[key]

    for budget in (1, MORE):
        update = {"start": before.parameters, "budget": budget, "no_harm": False}
        after = tune(decode, other.terms, options.model_copy(update=update), metric, other.subtracted)
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
