"""The space in which scales are tuned: which parameters are free, over what range, and which are fixed or tied.

A parameter is a term's scale, named as the term, or one of the two length parameters `reward` and `exponent`. Users
see every scale as a positive number; `fewer.search.fusion.signed` gives what is subtracted its minus sign.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from fewer.config import Config
from fewer.errors import FewerError
from fewer.search.fusion import SUBTRACTED
from fewer.search.nbest import LengthPolicy

Value: TypeAlias = float | NDArray[np.float64]
Point: TypeAlias = dict[str, float]  # free parameter -> its value

Range: TypeAlias = tuple[float, float]  # lowest and highest value

LENGTH_PARAMETERS = ("reward", "exponent")
LEADING = ("lm", "ilm")  # first whatever the order of terms: λ1 and λ2 span the surface that is shown
DIGITS = 6  # grid values are rounded to this many decimals, so that 0.42 is 0.42


@dataclass(frozen=True)
class Scales:
    """What a search must know to decode at a point."""

    terms: dict[str, float]  # term -> what its score is multiplied by; negative for what is subtracted
    length: LengthPolicy = field(default_factory=LengthPolicy)


class SpaceOptions(Config):
    """How the parameters may move."""

    length: Literal["fixed", "exponent", "reward"] = "exponent"  # the one length parameter that is tuned, if any
    ranges: dict[str, Range] = Field(default={})  # parameter -> lowest and highest value, instead of the usual range
    fixed: dict[str, float] = Field(default={})  # parameter -> the value that it keeps
    tied: dict[str, tuple[float, str]] = Field(
        default={}
    )  # parameter -> (k, other): it is always k times the other one
    step: float = 0.01  # grid step of every term's scale
    length_step: float = 0.05  # grid step of the length parameter
    scale_range: Range = (0.0, 1.5)  # usual range of a term's scale
    exponent_range: Range = (0.0, 1.5)  # usual range of the exponent
    reward_range: Range = (-2.0, 4.0)  # usual range of the reward; below 0 as an ILM rewards length too

    @field_validator("step", "length_step")
    @classmethod
    def _positive(cls, value: float) -> float:
        if not value > 0:
            raise ValueError("a grid step is positive")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> "SpaceOptions":
        ranges = {**self.ranges, "scales": self.scale_range, "exponent": self.exponent_range}
        for name, (low, high) in (ranges | {"reward": self.reward_range} | self.ranges).items():
            if not (np.isfinite([low, high]).all() and low <= high):
                raise ValueError(f"the range of {name} is {low} to {high}; the lower end comes first")
        for name in self.tied:
            if name in self.fixed:
                raise ValueError(f"{name} is both fixed and tied; choose one")
            if self.tied[name][1] in self.tied:
                raise ValueError(f"{name} is tied to {self.tied[name][1]}, which is tied itself; tie both to one")
        for name in self.ranges:
            if name in self.fixed or name in self.tied:
                raise ValueError(f"{name} is fixed or tied, so its range says nothing; leave the range out")
        return self


@dataclass(frozen=True)
class Dimension:
    """One free parameter and the values it may take."""

    name: str
    axis: NDArray[np.float64]  # (n,), ascending

    def coarse(self, points: int) -> NDArray[np.float64]:
        """At most `points` values of the axis, both ends among them."""
        if points >= len(self.axis):
            return self.axis
        return self.axis[np.unique(np.linspace(0, len(self.axis) - 1, points).round().astype(int))]

    def nearest(self, value: float) -> float:
        return float(self.axis[np.abs(self.axis - value).argmin()])


def _place(name: str) -> int:
    return LEADING.index(name) if name in LEADING else len(LEADING)


class Space:
    """The free parameters for a list of terms, and how a point becomes scales of the search."""

    def __init__(self, terms: tuple[str, ...], options: SpaceOptions, subtracted: frozenset[str] = SUBTRACTED):
        self.terms, self.options, self.subtracted = terms, options, subtracted
        known = (*terms, *LENGTH_PARAMETERS)
        for what, names in (
            ("range of", options.ranges),
            ("fixed", options.fixed),
            ("tied", options.tied),
            ("tied to", [other for _, other in options.tied.values()]),
        ):
            for name in names:
                if name not in known:
                    raise FewerError(f"{what} '{name}': there is no such parameter; there are {', '.join(known)}")
        # The recogniser's own scale is 1: only ratios of scales matter. A policy's default length is the paper's.
        self.fixed: dict[str, float] = {"aed": 1.0} if "aed" in terms and "aed" not in options.ranges else {}
        usual = {"reward": 0.0, "exponent": 0.0 if options.length == "reward" else 1.0}
        self.fixed |= {name: value for name, value in usual.items() if name != options.length}
        self.fixed |= options.fixed
        self.tied = options.tied
        for name in options.tied:
            self.fixed.pop(name, None)
        for name in options.ranges:
            if name in self.fixed and name in LENGTH_PARAMETERS:
                raise FewerError(f"range of '{name}': it is not tuned; choose it as the length parameter")
        free = [name for name in known if name not in self.fixed and name not in self.tied]
        free.sort(key=_place)
        self.free = tuple(Dimension(name, self._axis(name)) for name in free)

    def _axis(self, name: str) -> NDArray[np.float64]:
        options = self.options
        usual = {"reward": options.reward_range, "exponent": options.exponent_range}.get(name, options.scale_range)
        low, high = options.ranges.get(name, usual)
        step = options.length_step if name in LENGTH_PARAMETERS else options.step
        count = int(np.floor((high - low) / step + 1e-6)) + 1
        return np.asarray(np.round(low + step * np.arange(count), DIGITS))

    @property
    def scale_names(self) -> tuple[str, ...]:
        """The free parameters that are scales of terms."""
        return tuple(dimension.name for dimension in self.free if dimension.name not in LENGTH_PARAMETERS)

    def dimension(self, name: str) -> Dimension:
        return next(dimension for dimension in self.free if dimension.name == name)

    def nearest(self, wanted: Mapping[str, float]) -> Point:
        """The point of the grid nearest to what is wanted."""
        return {dimension.name: dimension.nearest(wanted[dimension.name]) for dimension in self.free}

    def values(self, free: Mapping[str, Any]) -> dict[str, Any]:
        """Every parameter's value (or array of values, for a grid) when the free ones have these."""
        values: dict[str, Any] = {**self.fixed, **{dimension.name: free[dimension.name] for dimension in self.free}}
        for name, (ratio, other) in self.tied.items():
            values[name] = ratio * values[other]
        return {name: values[name] for name in (*sorted(self.terms, key=_place), *LENGTH_PARAMETERS)}

    def sign(self, term: str) -> float:
        return -1.0 if term in self.subtracted else 1.0

    def scales(self, point: Mapping[str, float]) -> Scales:
        """What the search multiplies by at a point: here a subtracted term's scale becomes negative."""
        values = self.values(point)
        terms = {term: self.sign(term) * values[term] + 0.0 for term in self.terms}  # no -0.0
        return Scales(terms, LengthPolicy(exponent=values["exponent"], reward=values["reward"]))
