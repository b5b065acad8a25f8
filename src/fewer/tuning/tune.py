"""Tuning scales with a handful of decodes.

Decode at a few points, pool what they find, compute the word errors of every point of a fine grid from the pool, decode
at the centre of the best region, add what is new, and so on until the pool predicts what the decode gives and promises
nothing better elsewhere. The result is always a point that was really decoded.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from pydantic import Field

from fewer.config import Config
from fewer.errors import FewerError
from fewer.evaluation.wer import Result, compare
from fewer.progress import say
from fewer.search.nbest import NBest
from fewer.tuning.landscape import Landscape
from fewer.tuning.pool import Metric, Pool
from fewer.tuning.space import LENGTH_PARAMETERS, Point, Scales, Space, SpaceOptions
from fewer.tuning.surface import Surface

Decode: TypeAlias = Callable[[Scales], list[NBest]]

ROUNDING = 1e-9
SCORE_TOLERANCE = 1e-3  # relative; between the search's score and the sum of its terms
NARROWER = (1, 2, 4)  # by how much smaller a region may be looked for when the best one has been decoded
# Scales of the first decodes, for what is added and what is subtracted: nothing, a little LM, and both.
STARTS = ((0.0, 0.0), (0.4, 0.0), (0.7, 0.4))


class TuneOptions(Config):
    """How scales are tuned."""

    space: SpaceOptions = SpaceOptions()  # what is tuned, and over which values
    start: dict[str, float] | tuple[dict[str, float], ...] | None = None  # first decode, or decodes; None: usual ones
    budget: int = Field(default=6, ge=1)  # decodes at most, the first ones included
    tolerance: float = Field(default=0.05, ge=0)  # WERs agree within so many points …
    relative_tolerance: float = Field(default=0.005, ge=0)  # … or within this part of the WER
    smoothing: float = Field(default=0.04, ge=0)  # a point stands for its surroundings of ± this scale
    slack: float = Field(
        default=0.002, ge=0
    )  # the best region: within this part of the lowest number of errors, at least one
    no_harm: bool = False  # begin with no LM and no ILM, and stay there unless the dev set improves significantly
    confidence: float = Field(default=0.95, gt=0, lt=1)  # share of resampled dev sets that makes it significant

    @property
    def starts(self) -> tuple[dict[str, float], ...]:
        """The first decodes that are given."""
        return (self.start,) if isinstance(self.start, dict) else self.start or ()


@dataclass(frozen=True)
class Trial:
    """One decode while tuning."""

    parameters: dict[str, float]  # every parameter, as the user sees it
    scales: Scales  # the same, as the search sees it
    predicted: float | None  # the pool's WER (%) at this point before the decode, once there is a pool
    result: Result  # of the decode
    new: int  # hypotheses that were not in the pool before
    pool: int  # hypotheses in the pool afterwards
    unended: int  # utterances whose best hypothesis has no end label

    @property
    def wer(self) -> float:
        return self.result.wer


@dataclass(frozen=True)
class TuneResult:
    """The scales that tuning chose, and how it came to them."""

    chosen: Trial  # the decode whose scales were chosen
    baseline: Trial  # the first decode: where told to start; else, and with `no_harm`, no LM and no ILM if allowed
    improved: float  # share of resampled dev sets on which the best scales beat the baseline
    kept_baseline: bool  # whether `no_harm` refused the best scales, so that the baseline was chosen
    converged: bool  # whether pool and decodes agree, so that another decode would tell nothing new
    trials: tuple[Trial, ...]  # every decode, in order
    surface: Surface  # over the scales (at most two), the other parameters as chosen
    length_curve: Surface | None  # over the length parameter, the other parameters as chosen
    pool: Pool
    end_by: tuple[str, ...] | None = None  # terms that score the end label; None: the usual ones
    ends: Mapping[str, float] = field(default_factory=dict)  # WER with other terms scoring it, which were tried

    @property
    def scales(self) -> Scales:
        return self.chosen.scales

    @property
    def parameters(self) -> dict[str, float]:
        return self.chosen.parameters

    @property
    def wer(self) -> float:
        return self.chosen.wer


Asked = TypeVar("Asked")
Steps: TypeAlias = Generator[Asked, list[NBest], TuneResult]  # asks for decodes, and is sent what they find


def tune(
    decode: Decode,
    terms: Iterable[str],
    options: TuneOptions | None = None,
    metric: Metric | None = None,
    subtracted: Iterable[str] = ("ilm",),
) -> TuneResult:
    """Find the scales with the fewest word errors, calling `decode` at most `options.budget` times.

    `decode` searches the dev set with the given scales and returns N-best lists in which every hypothesis has a score
    of every term, also of those whose scale is zero.
    """
    steps = tuning(decode, terms, options or TuneOptions(), metric, subtracted)
    found = next(steps)
    while True:
        try:
            found = steps.send(found)
        except StopIteration as end:
            result: TuneResult = end.value
            return result


def tuning(
    ask: Callable[[Scales], Asked],
    terms: Iterable[str],
    options: TuneOptions,
    metric: Metric | None = None,
    subtracted: Iterable[str] = ("ilm",),
    name: str = "",
    below: float | None = None,
) -> Steps[Asked]:
    """The same step by step: it yields what `ask` makes of the scales to decode at, and is sent what the decode found.

    name: of what is tuned, for messages. below: it ends after the first decode unless that has a lower WER.
    """
    space = Space(tuple(terms), options.space, frozenset(subtracted))
    return _Tuning(space, Pool(space.terms, metric), options, name).run(ask, below)


def start_points(space: Space, given: Sequence[Mapping[str, float]] = ()) -> list[tuple[Point, bool]]:
    """Where to decode first, and whether that says how long hypotheses are to be.

    If not given: with nothing added and subtracted, with a little added, with some of both.
    """
    known = (*space.terms, *LENGTH_PARAMETERS)
    for name in (name for start in given for name in start if name not in known):
        raise FewerError(f"start at '{name}': there is no such parameter; there are {', '.join(known)}")
    usual = [
        {name: subtracted if name in space.subtracted else added for name in space.scale_names}
        for added, subtracted in STARTS
    ]
    points: list[tuple[Point, bool]] = []
    for wanted in given or usual:
        zero = dict.fromkeys(space.scale_names, 0.0) | {"reward": 0.0, "exponent": 1.0}
        point = space.nearest(zero | {name: wanted[name] for name in wanted if name in zero})
        if all(point != other for other, _ in points):
            points.append((point, any(name in wanted for name in LENGTH_PARAMETERS)))
    return points


class _Tuning:
    """One run of tuning: the pool, its landscape and the decodes so far."""

    def __init__(self, space: Space, pool: Pool, options: TuneOptions, name: str):
        self.space, self.pool, self.options, self.name = space, pool, options, name
        self.landscape = Landscape(pool, space, options.slack)
        self.lengths = [dimension.name for dimension in space.free if dimension.name in LENGTH_PARAMETERS]
        self.trials: list[Trial] = []
        self.starts = 0  # trials at points that were not chosen by the pool

    def run(self, ask: Callable[[Scales], Asked], below: float | None) -> Steps[Asked]:
        given = self.options.starts
        if given and self.options.no_harm:
            given = ({}, *given)
        for start, has_length in start_points(self.space, given):
            first = start if has_length else self._with_length(start)
            if all(trial.scales != self.space.scales(first) for trial in self.trials):
                self._add(first, (yield ask(self.space.scales(first))))
            if below is not None and self.trials[0].wer >= below:
                return self._result(converged=False)
            if len(self.trials) == self.options.budget:
                break
        self.starts = len(self.trials)
        while (point := self._next_point()) is not None and len(self.trials) < self.options.budget:
            self._add(point, (yield ask(self.space.scales(point))))
        return self._result(converged=point is None)

    def _with_length(self, start: Point) -> Point:
        """A start with the length parameter that suits its scales, as far as the pool knows already."""
        if not self.lengths or not self.trials:
            return start
        return self.landscape.centre(self.landscape.surface(self.lengths, start), self.options.smoothing)

    def _next_point(self) -> Point | None:
        """Where to decode next, or None when that would tell nothing new.

        First the centre of the best region, until it was decoded, or one was predicted correctly and the pool promises
        nothing better. Then smaller and smaller regions, but only for the promise of clearly fewer errors.
        """
        lowest = min(trial.wer for trial in self.trials)
        for narrower in NARROWER:
            point = self.landscape.best(self.options.smoothing / narrower)
            if any(self._near(point, trial) for trial in self.trials):
                continue
            if self.landscape.wer(point) < lowest - self._tolerance(lowest):
                return point
            if narrower == 1 and (len(self.trials) <= self.starts or not self._agreed(self.trials[-1])):
                return point
        return None

    def _near(self, point: Point, trial: Trial) -> bool:
        """Whether a decode at the point would hardly differ from one that was made."""
        reach = self.options.smoothing / 2 + ROUNDING
        return all(abs(value - trial.parameters[name]) < reach for name, value in point.items())

    def _agreed(self, trial: Trial) -> bool:
        """Whether the pool had predicted what the decode gave."""
        if trial.predicted is None:
            return False
        return trial.new == 0 or abs(trial.predicted - trial.wer) <= self._tolerance(trial.wer)

    def _tolerance(self, wer: float) -> float:
        return max(self.options.tolerance, self.options.relative_tolerance * wer)

    def _add(self, point: Point, lists: list[NBest]) -> None:
        """What a decode at a point found goes to the pool."""
        scales, parameters = self.space.scales(point), self.space.values(point)
        predicted = self.landscape.wer(point) if self.trials else None
        check_scores(lists, scales)
        new = self.pool.add(lists)
        unended = sum(not nbest.hypotheses[0].ended for nbest in lists)
        trial = Trial(parameters, scales, predicted, self.pool.score(lists), new, len(self.pool), unended)
        self.trials.append(trial)
        where = ", ".join(f"{name} {value:.2f}" for name, value in parameters.items() if name not in self.space.fixed)
        told = "" if predicted is None else f"the pool said {predicted:.2f} %, "
        never = f", {unended} of {len(lists)} utterances did not end" if unended else ""
        of = f"{self.name}, " if self.name else ""
        say(
            f"{of}decode {len(self.trials)}/{self.options.budget} at {where or 'the fixed scales'}: {trial.wer:.2f} %\n"
            f"  {told}{new} new hypotheses{never}"
        )

    def _result(self, converged: bool) -> TuneResult:
        """Choose among the decoded points: the lowest WER, and the latest of those that are as good."""
        lowest = min(self.trials, key=lambda trial: trial.wer)
        enough = lowest.wer + self.landscape.margin(lowest.wer, lowest.result.errors.words) + ROUNDING
        chosen = [trial for trial in self.trials if trial.wer <= enough][-1]
        baseline = self.trials[0]
        improved = compare(chosen.result, baseline.result).sure
        kept_baseline = self.options.no_harm and chosen is not baseline and improved < self.options.confidence
        if kept_baseline:
            chosen = baseline
        point = {dimension.name: chosen.parameters[dimension.name] for dimension in self.space.free}
        return TuneResult(
            chosen=chosen,
            baseline=baseline,
            improved=improved,
            kept_baseline=kept_baseline,
            converged=converged,
            trials=tuple(self.trials),
            surface=self.landscape.surface(self.space.scale_names[:2], point),
            length_curve=self.landscape.surface(self.lengths, point) if self.lengths else None,
            pool=self.pool,
        )


def check_scores(lists: list[NBest], scales: Scales) -> None:
    """The search must rank by the scales it was given, or nothing that a pool predicts is true."""
    for nbest in lists:
        for hypothesis in nbest.hypotheses[:1]:
            if not scales.terms.keys() <= hypothesis.scores.keys():
                continue  # the pool says which term is missing
            expected = hypothesis.rescored(scales.terms, scales.length)
            if abs(expected - hypothesis.score) > SCORE_TOLERANCE * max(1.0, abs(expected)):
                raise FewerError(
                    f"utterance {nbest.id}: the search ranked '{hypothesis.text}' by {hypothesis.score:.4f}, but its"
                    f" terms' scores with the scales {scales.terms} and {scales.length} give {expected:.4f};"
                    " the decode does not use the scales that it was given"
                )
