"""The corpus's word errors at every point of a grid of scales at once, exactly, from a pool.

A hypothesis's score is computed as `Hypothesis.rescored` does: the same operations in the same order, so that both
agree to the last bit, ties included. Hypotheses that another one beats at every corner of the grid cannot win
anywhere inside (scores are linear in the scales) and are left out first; this is exact as well.
"""

import itertools
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewer.config import shortened
from fewer.errors import FewerError
from fewer.evaluation.wer import percent
from fewer.files import atomic_write
from fewer.tuning.pool import Pool
from fewer.tuning.space import Scales, Space

LARGEST_SURFACE = 1 << 30  # bytes of an unpacked file
WORDS_SHIFT = 31  # bits for the errors of a corpus
MARGIN = 1e-9  # relative; a hypothesis is beaten only by more than rounding could undo


@dataclass(frozen=True)
class Surface:
    """Word errors over a grid of some parameters while the others keep their values."""

    names: tuple[str, ...]  # the parameter of each axis, positive as the user sees it
    axes: tuple[NDArray[np.float64], ...]  # values of each
    errors: NDArray[np.int64]  # (n_1, …, n_k) errors of the whole corpus
    words: NDArray[np.int64]  # (n_1, …, n_k) reference words; all the same unless references have alternatives
    at: dict[str, float]  # the free parameters that are not an axis

    @property
    def wer(self) -> NDArray[np.float64]:
        """Word error rate in per cent, (n_1, …, n_k)."""
        return 100.0 * self.errors / self.words

    def point(self, index: Sequence[int]) -> dict[str, float]:
        """The free parameters at a grid index."""
        return self.at | {name: float(axis[i]) for name, axis, i in zip(self.names, self.axes, index, strict=True)}

    def save(self, path: str | Path) -> None:
        """Write as a compressed npz: names, axis_0 …, errors, words, at_names, at_values."""
        arrays: dict[str, Any] = {f"axis_{i}": axis for i, axis in enumerate(self.axes)}
        arrays |= {"names": np.array(self.names, "U"), "errors": self.errors, "words": self.words}
        arrays |= {"at_names": np.array(list(self.at), "U"), "at_values": np.array(list(self.at.values()), float)}
        with atomic_write(path, "wb") as stream:
            np.savez_compressed(stream, **arrays)

    @classmethod
    def load(cls, path: str | Path) -> "Surface":
        try:
            with zipfile.ZipFile(path) as archive:
                if sum(entry.file_size for entry in archive.infolist()) > LARGEST_SURFACE:
                    raise ValueError(f"it unpacks to more than {LARGEST_SURFACE:,} bytes")
            with np.load(path, allow_pickle=False) as file:
                names = tuple(str(name) for name in file["names"])
                axes = tuple(file[f"axis_{i}"] for i in range(len(names)))
                at = {str(k): float(v) for k, v in zip(file["at_names"], file["at_values"], strict=True)}
                read = cls(names, axes, file["errors"], file["words"], at)
            read.check()
            return read
        except Exception as error:  # damaged archives lead to whatever numpy, zipfile and zlib happen to raise
            why = shortened(" ".join(str(error).split()))
            raise FewerError(f"{path} is not a WER surface of `fewer tune`: {why}; run `fewer tune` again") from error

    def check(self) -> None:
        """A ValueError unless the parts fit each other."""
        shape = tuple(len(axis) for axis in self.axes)
        for axis in self.axes:
            if axis.ndim != 1 or axis.dtype.kind != "f" or not np.isfinite(axis).all():
                raise ValueError("an axis is not a row of finite numbers")
        for name, counts in (("errors", self.errors), ("words", self.words)):
            if counts.shape != shape or counts.dtype.kind not in "iu" or (counts < 0).any():
                raise ValueError(f"{name} are not counts on the grid {list(shape)}")
        if (self.words == 0).any():
            raise ValueError("there are no reference words")


def surface(
    pool: Pool, space: Space, names: Sequence[str], at: Mapping[str, float], coarse: int | None = None
) -> Surface:
    """Errors over the grid of the parameters `names`, the other free ones as in `at`.

    `coarse` limits the number of values of each axis.
    """
    axes = [space.dimension(name).axis if coarse is None else space.dimension(name).coarse(coarse) for name in names]
    rest = {dimension.name: at[dimension.name] for dimension in space.free if dimension.name not in names}
    grid = dict(zip(names, np.meshgrid(*axes, indexing="ij", sparse=True), strict=True)) if names else {}
    values = space.values({**rest, **grid})
    coefficients = [np.asarray(space.sign(term) * values[term], float) for term in space.terms]
    reward, exponent = np.asarray(values["reward"], float), np.asarray(values["exponent"], float)
    errors, words = grid_counts(pool, coefficients, reward, exponent)
    return Surface(tuple(names), tuple(axes), errors, words, rest)


def grid_counts(
    pool: Pool,
    coefficients: Sequence[NDArray[np.float64]],
    reward: NDArray[np.float64],
    exponent: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Corpus errors and reference words on a grid, given as arrays that broadcast to its shape.

    `coefficients` are what each term of the pool is multiplied by.
    """
    arrays = pool.arrays()
    shape = np.broadcast_shapes(*(c.shape for c in coefficients), reward.shape, exponent.shape)
    alive = arrays.valid & ~beaten(pool, coefficients, reward, exponent)  # (U, H)
    powers = {int(n): _power(int(n), exponent) for n in np.unique(arrays.length[alive])}
    counts = arrays.errors + (arrays.words << WORDS_SHIFT)  # both in one number, as one choice decides both
    total = np.zeros(shape, np.int64)
    best, chosen = np.empty(shape), np.empty(shape, np.int64)
    better = np.empty(shape, bool)
    for u, row in enumerate(alive):
        candidates = np.flatnonzero(row)
        if len(candidates) == 1:
            total += counts[u, candidates[0]]
            continue
        best.fill(-np.inf)
        for h in candidates:
            length = int(arrays.length[u, h])
            score: Any = coefficients[0] * arrays.scores[u, h, 0]
            for term in range(1, len(coefficients)):
                score = score + coefficients[term] * arrays.scores[u, h, term]
            score = (score + reward * length) / powers[length]
            np.greater(score, best, out=better)
            np.copyto(best, score, where=better)
            np.copyto(chosen, counts[u, h], where=better)
        total += chosen
    return total & ((1 << WORDS_SHIFT) - 1), total >> WORDS_SHIFT


def _power(length: int, exponent: NDArray[np.float64]) -> NDArray[np.float64]:
    """length^exponent by Python's own power, which numpy's vectorised one may miss by a bit."""
    return np.array([length ** float(e) for e in exponent.ravel()]).reshape(exponent.shape)


def beaten(
    pool: Pool,
    coefficients: Sequence[NDArray[np.float64]],
    reward: NDArray[np.float64],
    exponent: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """(U, H): hypotheses that one other beats at all corners of the box of scales, for every exponent of the grid."""
    arrays = pool.arrays()
    ends = [sorted({float(c.min()), float(c.max())}) for c in (*coefficients, reward)]
    corners = np.array(list(itertools.product(*ends)))  # (corners, terms + 1)
    features = np.concatenate([arrays.scores, arrays.length[..., None]], axis=-1)  # (U, H, terms + 1)
    exponents = np.unique(exponent)
    beaten = np.zeros(arrays.valid.shape, bool)
    for u, valid in enumerate(arrays.valid):
        linear = features[u] @ corners.T  # (H, corners)
        lengths = arrays.length[u].astype(float)[:, None, None] ** exponents  # (H, 1, E)
        scores = (linear[:, :, None] / lengths).reshape(len(valid), -1)  # (H, corners · E)
        scores[~valid] = -np.inf
        margin = MARGIN * (1.0 + np.abs(scores[valid]).max())
        ahead = np.ones((len(valid), len(valid)), bool)
        for column in scores.T:
            ahead &= column[:, None] > column[None, :] + margin
        beaten[u] = ahead.any(0)
    return beaten


def choose(pool: Pool, scales: Scales) -> NDArray[np.int64]:
    """For each utterance (U,) the index, in pool order, of the hypothesis that wins under the given scales."""
    arrays = pool.arrays()
    score: Any = scales.terms[pool.terms[0]] * arrays.scores[..., 0]
    for index, term in enumerate(pool.terms[1:], start=1):
        score = score + scales.terms[term] * arrays.scores[..., index]
    score = score + scales.length.reward * arrays.length
    lengths, inverse = np.unique(arrays.length, return_inverse=True)
    powers = np.array([int(n) ** scales.length.exponent for n in lengths])
    score = np.where(arrays.valid, score / powers[inverse].reshape(arrays.length.shape), -np.inf)
    return np.asarray(score.argmax(1))


def predicted_wer(pool: Pool, scales: Scales) -> float:
    """The WER (%) that the pool predicts for a decode with the given scales."""
    arrays, chosen = pool.arrays(), choose(pool, scales)[:, None]
    errors, words = (np.take_along_axis(counts, chosen, axis=1).sum() for counts in (arrays.errors, arrays.words))
    return percent(int(errors), int(words))
