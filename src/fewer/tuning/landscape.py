"""Where a pool's WER is lowest, over any number of parameters."""

from collections.abc import Mapping, Sequence

from fewer.evaluation.wer import percent
from fewer.tuning.pool import Pool
from fewer.tuning.region import centre
from fewer.tuning.space import Point, Space
from fewer.tuning.surface import Surface, predicted_wer, surface

COARSE_POINTS = 20_000  # of the joint grid over all free parameters
ROUNDS = 4  # of refining planes and lines in turn


class Landscape:
    """A pool's WER as a function of the free parameters; remembers its surfaces until the pool grows."""

    def __init__(self, pool: Pool, space: Space, slack: float):
        self.pool, self.space = pool, space
        self.slack = slack  # part of the lowest WER by which a point may be worse and still belong to the best region
        self._size = 0
        self._surfaces: dict[tuple[object, ...], Surface] = {}

    def surface(self, names: Sequence[str], at: Mapping[str, float], coarse: int | None = None) -> Surface:
        """The WER over some parameters; see `fewer.tuning.surface.surface`."""
        if len(self.pool) != self._size:
            self._size = len(self.pool)
            self._surfaces.clear()
        rest = tuple((name, at[name]) for name in at if name not in names)
        key = (tuple(names), rest, coarse)
        if key not in self._surfaces:
            self._surfaces[key] = surface(self.pool, self.space, names, at, coarse)
        return self._surfaces[key]

    def wer(self, point: Point) -> float:
        """What the pool predicts for a decode at the point."""
        return predicted_wer(self.pool, self.space.scales(point))

    def best(self, smoothing: float) -> Point:
        """The centre of the region with the fewest errors, where each point stands for its surroundings ± smoothing.

        With one or two free parameters, on the fine grid. With more, on a coarse joint grid of all of them; from there
        the plane of the first two and the line of each other one are refined in turn, each on the fine grid.
        """
        names = [dimension.name for dimension in self.space.free]
        if not names:
            return {}
        if len(names) <= 2:
            return self.centre(self.surface(names, {}), smoothing)
        coarse = int(COARSE_POINTS ** (1 / len(names)) + 1e-9)
        point = self.centre(self.surface(names, {}, coarse), smoothing)
        for _ in range(ROUNDS):
            before = point
            for axes in (names[:2], *([name] for name in names[2:])):
                point = self.centre(self.surface(axes, point), smoothing)
            if point == before:
                break
        return point

    def centre(self, found: Surface, smoothing: float) -> Point:
        """The point deepest inside the best region of a surface."""
        steps = [axis[1] - axis[0] if len(axis) > 1 else 1.0 for axis in found.axes]
        radius = tuple(max(round(smoothing / step), 1 if smoothing else 0) for step in steps)
        return found.point(centre(found.wer, radius, self.margin(float(found.wer.min()), int(found.words.min()))))

    def margin(self, wer: float, words: int) -> float:
        """By how much a WER may be higher and still be as good: some part of it, or one error."""
        return max(self.slack * wer, percent(1, words))
