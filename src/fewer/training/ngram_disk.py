"""The same estimate in bounded memory: n-grams are sorted in runs that fit, and all else lies in files.

Every array of `fewer.training.ngram` is a file of numbers here, read and written in chunks. An array that is looked up
at random places is loaded in slices, with one pass over the places for each. Sums are formed in the same order, so the
model is the same to the last bit.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from fewer.errors import FewerError
from fewer.progress import say
from fewer.training.columns import Column, sorted_lookup
from fewer.training.ngram import discounts_of, thresholds_of

NONE = np.uint32(2**32 - 1)  # the node of an n-gram that was pruned
PAIR = np.dtype([("key", "<i8"), ("suffix", "<u4"), ("place", "<u4")])
RANK = np.dtype([("place", "<u4"), ("rank", "<u4")])
LEAST = 1 << 24  # bytes that are used at least
STRETCHES, SAMPLE = 500, 1000  # of the text, and places in each, by which runs are made equally large


class Columns(NamedTuple):
    """The n-grams of one length, as in `fewer.training.ngram.Counts`."""

    parents: Column
    labels: Column
    suffixes: Column
    occurrences: Column


@dataclass(frozen=True)
class NGramFiles:
    """A model whose tensors are files, as `NGram.tensors` names them."""

    tensors: dict[str, Column]
    counts: tuple[int, ...]  # n-grams of each length
    end: int


class Estimator:
    """One estimation in a scratch folder."""

    def __init__(self, stream: Column, order: int, vocab_size: int, end: int, folder: Path, memory: int):
        """memory: bytes that arrays may take."""
        self.stream, self.order, self.vocab_size, self.end, self.folder = stream, order, vocab_size, end, folder
        self.memory = max(memory, LEAST)
        self.chunk = self.memory // 256  # numbers that are worked on at once
        self.length = len(stream) + 1  # with the start of the first sentence
        if self.length >= NONE:
            raise FewerError(f"the text has {self.length:,} labels; at most {NONE:,} can be counted")
        folder.mkdir(parents=True, exist_ok=True)

    def column(self, name: str, dtype: np.typing.DTypeLike = "<u4") -> Column:
        """A new one."""
        column = Column(self.folder / name, dtype)
        column.remove()
        column.append(np.zeros(0))
        return column

    def estimate(self, prune: Sequence[int] = ()) -> NGramFiles:
        thresholds = thresholds_of(prune, self.order)
        levels = self._counted()
        kept = self._kneser_ney(levels, thresholds)
        return self._assembled(kept)

    # Counting

    def _labels(self, first: int, last: int) -> np.ndarray:
        """Of places first … last − 1; place 0 is the start of the first sentence."""
        read = self.stream.read(max(first - 1, 0), last - 1).astype(np.int64)
        return np.concatenate([[self.end], read]) if first == 0 else read

    def _counted(self) -> list[Columns]:
        levels = [self._unigrams()]
        numbers: Column | None = None  # of the n-gram that starts at each place; None: the labels themselves
        for n in range(2, self.order + 1):
            say(f"counting {n}-grams")
            level, numbers = self._longer(n, numbers)
            if not len(level.labels):
                break
            levels.append(level)
        return levels

    def _unigrams(self) -> Columns:
        occurrences = np.zeros(self.vocab_size, np.int64)
        for _, labels in self.stream.chunks(self.chunk):
            if len(labels) and int(labels.max()) >= self.vocab_size:
                raise FewerError(f"the text has label {labels.max()}, but the vocabulary has {self.vocab_size} labels")
            occurrences += np.bincount(labels, minlength=self.vocab_size)
        if not occurrences.sum():
            raise FewerError("there is no text to count n-grams of")
        if int(self.stream.read(self.length - 2, self.length - 1)[0]) != self.end:
            raise FewerError(f"the last sentence is not closed by the end label {self.end}")
        level = Columns(*(self.column(f"1-{name}") for name in Columns._fields))
        nowhere = np.zeros(self.vocab_size)
        for column, values in zip(level, (nowhere, np.arange(self.vocab_size), nowhere, occurrences), strict=True):
            column.append(values)
        return level

    def _pairs(self, n: int, numbers: Column | None, first: int, last: int) -> np.ndarray:
        """What stands at places first … last − 1: keys, numbers of suffixes, places; of n-grams in one sentence."""
        last = min(last, self.length - n + 1)
        if last <= first:
            return np.zeros(0, PAIR)
        labels = self._labels(first, last + n - 1)
        shorter = labels[: last - first + 1] if numbers is None else numbers.read(first, last + 1).astype(np.int64)
        count = last - first
        inside = np.ones(count, bool)
        for offset in range(1, n - 1):
            inside &= labels[offset : offset + count] != self.end
        pairs = np.empty(int(inside.sum()), PAIR)
        pairs["key"] = (shorter[:count] * self.vocab_size + labels[n - 1 : n - 1 + count])[inside]
        pairs["suffix"] = shorter[1 : count + 1][inside]
        pairs["place"] = first + np.flatnonzero(inside)
        return pairs

    def _longer(self, n: int, numbers: Column | None) -> tuple[Columns, Column | None]:
        """The n-grams of a length, sorted in runs, and the number of the one that starts at each place."""
        runs = self._runs(n, numbers)
        level = Columns(*(self.column(f"{n}-{name}") for name in Columns._fields))
        ranks, base = self.column(f"{n}-ranks", RANK), 0
        for run in runs:
            pairs = run.read(0, len(run))
            run.remove()
            pairs = pairs[np.argsort(pairs["key"], kind="stable")]
            keys = pairs["key"]
            is_first = np.concatenate([np.ones(min(len(keys), 1), bool), keys[1:] != keys[:-1]])
            firsts = np.flatnonzero(is_first)
            parents, labels = np.divmod(keys[firsts], self.vocab_size)
            level.parents.append(parents)
            level.labels.append(labels)
            level.suffixes.append(pairs["suffix"][firsts])
            level.occurrences.append(np.diff(firsts, append=len(keys)))
            if n < self.order:
                ranked = np.empty(len(pairs), RANK)
                ranked["place"], ranked["rank"] = pairs["place"], base + np.cumsum(is_first) - 1
                ranks.append(ranked)
            base += len(firsts)
        if numbers is not None:
            numbers.remove()
        return level, self._numbers(n, ranks) if n < self.order else None

    def _runs(self, n: int, numbers: Column | None) -> list[Column]:
        """All n-grams of a length in files, each with greater keys than the one before, and small enough to sort."""
        count = math.ceil(self.length * 64 / (self.memory / 2))
        stretches = np.linspace(0, max(self.length - n, 0), STRETCHES if count > 1 else 1).astype(np.int64)
        sampled = [self._pairs(n, numbers, int(place), int(place) + SAMPLE)["key"] for place in stretches]
        keys = np.sort(np.concatenate(sampled))
        splits = keys[np.arange(1, count) * len(keys) // count] if len(keys) else keys
        runs = [self.column(f"{n}-run{number}", PAIR) for number in range(len(splits) + 1)]
        for first in range(0, self.length, self.chunk):
            pairs = self._pairs(n, numbers, first, first + self.chunk)
            if len(runs) == 1:
                runs[0].append(pairs)
                continue
            which = np.searchsorted(splits, pairs["key"], side="right")
            pairs = pairs[np.argsort(which, kind="stable")]
            ends = np.cumsum(np.bincount(which, minlength=len(runs)))
            for run, part in zip(runs, np.split(pairs, ends[:-1]), strict=True):
                run.append(part)
        return runs

    def _numbers(self, n: int, ranks: Column) -> Column:
        numbers, size = self.column(f"{n}-numbers"), self.memory // 16
        for first in range(0, self.length, size):
            part = np.zeros(min(size, self.length - first), np.uint32)
            for _, ranked in ranks.chunks(self.chunk):
                inside = ranked[(ranked["place"] >= first) & (ranked["place"] < first + len(part))]
                part[inside["place"] - first] = inside["rank"]
            numbers.append(part)
        ranks.remove()
        return numbers

    # Random access

    def _gathered(self, name: str, table: Column, places: Column) -> Column:
        """table[places]"""
        size = self.memory // 4 // table.dtype.itemsize
        found: Column | None = None
        for number, first in enumerate(range(0, max(len(table), 1), size)):
            part = table.read(first, min(first + size, len(table)))
            after = self.column(f"{name}.{number}", table.dtype)
            for start, at in places.chunks(self.chunk):
                inside = (at >= first) & (at < first + len(part))
                values = np.zeros(len(at), table.dtype) if found is None else found.read(start, start + len(at))
                values[inside] = part[at[inside] - first]
                after.append(values)
            if found is not None:
                found.remove()
            found = after
        assert found is not None
        return found

    def _how_often(self, name: str, places: Column, length: int) -> Column:
        """How often each number below `length` is among the places."""
        result, size = self.column(name), self.memory // 32
        for first in range(0, length, size):
            part = np.zeros(min(size, length - first), np.int64)
            for _, at in places.chunks(self.chunk):
                inside = at[(at >= first) & (at < first + len(part))]
                part += np.bincount(inside - np.uint32(first), minlength=len(part))
            result.append(part)
        return result

    def _families(self, level: Columns) -> Iterator[tuple[int, int, int, int]]:
        """The level in chunks that hold all children of their parents: first and last n-gram, first and last parent."""
        first, parent, total = 0, 0, len(level.labels)
        while first < total:
            parents = level.parents.read(first, min(first + self.chunk, total))
            if first + len(parents) == total:
                last, after = total, int(parents[-1]) + 1
            else:
                after = int(parents[-1])
                last = first + int(np.searchsorted(parents, after))
                if last == first:  # a parent with more children than a chunk holds
                    last, after = self._end_of_family(level, first, after), after + 1
            yield first, last, parent, after
            first, parent = last, after

    def _end_of_family(self, level: Columns, first: int, parent: int) -> int:
        for start in range(first, len(level.labels), self.chunk):
            parents = level.parents.read(start, min(start + self.chunk, len(level.labels)))
            if int(parents[-1]) != parent:
                return start + int(np.searchsorted(parents, parent, side="right"))
        return len(level.labels)

    # Estimation

    def _kneser_ney(self, levels: Sequence[Columns], thresholds: Sequence[int]) -> list["_Kept"]:
        lower, nodes, first_labels = self.column("0-lower", "<f8"), self.column("0-nodes"), levels[0].labels
        lower.append(np.array([1 / self.vocab_size]))
        nodes.append(np.zeros(1))
        next_node, result = 1, list[_Kept]()
        for n, level in enumerate(levels, start=1):
            say(f"estimating {n}-grams")
            if n > 1:
                first_labels = self._mapped(f"{n}-firsts", level.parents, partial(sorted_lookup, first_labels))
            counts = self._adjusted(n, levels, first_labels)
            having = np.zeros(6, np.int64)
            for _, part in counts.chunks(self.chunk):
                having += np.bincount(np.minimum(part, 5), minlength=6)
            discount = discounts_of(torch.from_numpy(having)).numpy()
            below = self._gathered(f"{n}-below", lower, level.suffixes)
            suffix_nodes = self._gathered(f"{n}-suffix-nodes", nodes, level.suffixes)
            kept = _Kept(*(self.column(f"{n}-kept-{name}", kind) for name, kind in _Kept.kinds()))
            new_lower, new_nodes = self.column(f"{n}-lower", "<f8"), self.column(f"{n}-nodes")
            done = 0  # parents whose weight is written
            for first, last, parent, after in self._families(level):
                c = counts.read(first, last).astype(np.int64)
                parents = level.parents.read(first, last).astype(np.int64) - parent
                keep = level.occurrences.read(first, last) > thresholds[n - 1] if n > 1 else np.ones(len(c), bool)
                d = discount[np.minimum(c, 3)]
                totals = np.bincount(parents, weights=c.astype(np.float64), minlength=after - parent)
                saved = np.bincount(parents, weights=np.where(keep, d, c), minlength=after - parent)
                with np.errstate(invalid="ignore"):
                    gammas = np.where(totals > 0, saved / totals, 1.0)
                parent_nodes = nodes.read(parent, after)
                if n > 1:
                    _append_backoffs(result[-1], gammas, parent_nodes)
                value = (c - d) / totals[parents] + gammas[parents] * below.read(first, last)
                new_lower.append(value)
                kept.parents.append(parent_nodes[parents][keep])
                kept.labels.append(level.labels.read(first, last)[keep])
                kept.suffixes.append(suffix_nodes.read(first, last)[keep])
                kept.log_probs.append(torch.from_numpy(value[keep]).log().float().numpy())
                new_nodes.append(np.where(keep, np.cumsum(keep) - 1 + next_node, NONE))
                next_node += int(keep.sum())
                done = after
            if n > 1:  # what nothing follows
                for start in range(done, len(nodes), self.chunk):
                    rest = nodes.read(start, min(start + self.chunk, len(nodes)))
                    _append_backoffs(result[-1], np.ones(len(rest)), rest)
            result.append(kept)
            for old in (lower, nodes, below, suffix_nodes, counts):
                old.remove()
            lower, nodes = new_lower, new_nodes
        return [kept for kept in result if len(kept.labels)]

    def _adjusted(self, n: int, levels: Sequence[Columns], first_labels: Column) -> Column:
        """Of the longest n-grams how often they occur; of others, how many labels precede them, but at a start."""
        level = levels[n - 1]
        if n == len(levels):
            return self._mapped(f"{n}-counts", level.occurrences, lambda values: values)
        counts = self._how_often(f"{n}-preceding", levels[n].suffixes, len(level.labels))
        if n == 1:
            return counts
        result = self.column(f"{n}-counts")
        for start, part in counts.chunks(self.chunk):
            last = start + len(part)
            begins = first_labels.read(start, last) == self.end
            result.append(np.where(begins, level.occurrences.read(start, last), part))
        counts.remove()
        return result

    def _mapped(self, name: str, source: Column, function: Callable[[np.ndarray], np.ndarray]) -> Column:
        result = self.column(name)
        for _, values in source.chunks(self.chunk):
            result.append(function(values))
        return result

    # The model, as `NGram.from_levels` makes it

    def _assembled(self, levels: Sequence["_Kept"]) -> NGramFiles:
        histories = 1 + sum(len(level.labels) for level in levels[:-1])
        labels, log_probs = self.column("labels", "<i4"), self.column("node_log_probs", "<f4")
        suffixes, parents = self.column("all-suffixes"), self.column("all-parents")
        backoffs = self.column("backoffs", "<f4")
        for column in (labels, log_probs, suffixes, backoffs):
            column.append(np.zeros(1))
        for number, level in enumerate(levels):
            pairs = [(labels, level.labels), (log_probs, level.log_probs)]
            pairs += [(suffixes, level.suffixes), (parents, level.parents)]
            pairs += [(backoffs, level.backoffs)] if number + 1 < len(levels) else []
            for target, source in pairs:
                for _, values in source.chunks(self.chunk):
                    target.append(values)
        children = self._how_often("children", parents, histories)
        begins, total = self.column("begins", "<i4"), 1
        begins.append(np.ones(1))
        useful = self.column("useful", "?")
        for start, part in children.chunks(self.chunk):
            begins.append(total + np.cumsum(part.astype(np.int64)))
            total += int(part.sum())
            says = (part > 0) | (backoffs.read(start, start + len(part)) != 0)
            if start == 0:
                says[0] = True
            useful.append(says)
        targets = self.column("targets", "<i4")
        targets.append(np.zeros(1))
        first = 1
        for number, level in enumerate(levels):
            reached = self._gathered(f"reached-{number}", targets, level.suffixes)
            for start, at in reached.chunks(self.chunk):
                if number + 1 < len(levels):
                    nodes = np.arange(first + start, first + start + len(at))
                    at = np.where(useful.read(first + start, first + start + len(at)), nodes, at)
                targets.append(at)
            first += len(level.labels)
            reached.remove()
        own = self.column("own-suffixes")
        for start in range(0, histories, self.chunk):
            own.append(suffixes.read(start, min(start + self.chunk, histories)))
        shorter = self._gathered("suffixes", targets, own)
        tensors = {"labels": labels, "node_log_probs": log_probs, "targets": targets}
        tensors |= {"backoffs": backoffs, "begins": begins, "suffixes": shorter}
        return NGramFiles(tensors, tuple(len(level.labels) for level in levels), self.end)


class _Kept(NamedTuple):
    """The n-grams of one length that are not pruned, by nodes, as in `fewer.models.ngram.Level`."""

    parents: Column
    labels: Column
    suffixes: Column
    log_probs: Column
    backoffs: Column

    @classmethod
    def kinds(cls) -> list[tuple[str, str]]:
        return [(name, "<f4" if name in ("log_probs", "backoffs") else "<u4") for name in cls._fields]


def _append_backoffs(level: _Kept, gammas: np.ndarray, nodes: np.ndarray) -> None:
    level.backoffs.append(torch.from_numpy(gammas).log()[torch.from_numpy(nodes != NONE)].float().numpy())
