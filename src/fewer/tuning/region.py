"""Choosing a point of an error surface that is good because its neighbourhood is, not by luck.

A single grid point may be lowest by chance: a few hypotheses change places there. So the surface is smoothed first,
and among the points that are then as good as the best one the deepest is taken: the one farthest from where the
surface gets worse, which is the centre of a flat region.
"""

import numpy as np
from numpy.typing import NDArray


def smooth(wer: NDArray[np.float64], radius: tuple[int, ...]) -> NDArray[np.float64]:
    """Mean over the box of ± radius cells around each point; at the edge, over the part inside the grid."""
    result = wer
    for axis, cells in enumerate(radius):
        size = result.shape[axis]
        sums = np.concatenate([np.zeros_like(result.take([0], axis)), result.cumsum(axis)], axis)
        low = np.maximum(np.arange(size) - cells, 0)
        high = np.minimum(np.arange(size) + cells + 1, size)
        width = (high - low).reshape([-1 if dimension == axis else 1 for dimension in range(result.ndim)])
        result = (sums.take(high, axis) - sums.take(low, axis)) / width
    return result


def depth(inside: NDArray[np.bool_]) -> NDArray[np.int64]:
    """For each point of a set the number of cells to walk, diagonals allowed, until one is outside it; else 0.

    Beyond the grid is outside, except along an axis with a single value.
    """
    axes = [axis for axis, size in enumerate(inside.shape) if size > 1]
    result = inside.astype(np.int64)
    while axes and inside.any():
        for axis in axes:
            inside = _erode(inside, axis)
        result += inside
    return result


def _erode(inside: NDArray[np.bool_], axis: int) -> NDArray[np.bool_]:
    """The points whose two neighbours along the axis are inside with them."""
    lines = np.moveaxis(inside, axis, 0)
    left = np.zeros_like(lines)
    left[1:-1] = lines[1:-1] & lines[2:] & lines[:-2]
    return np.moveaxis(left, 0, axis)


def centre(wer: NDArray[np.float64], radius: tuple[int, ...], slack: float) -> tuple[int, ...]:
    """Index of the point deepest inside the set whose smoothed WER is within `slack` of the lowest.

    Among equally deep points, the one nearest to their middle.
    """
    smoothed = smooth(wer, radius)
    deep = depth(smoothed <= smoothed.min() + slack)
    candidates = np.argwhere(deep == deep.max())  # (n, k)
    middle = candidates.mean(0)
    return tuple(int(i) for i in candidates[np.square(candidates - middle).sum(1).argmin()])
