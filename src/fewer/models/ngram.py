"""Back-off n-gram language model that scores the whole vocabulary of all rows at once.

The model is a trie in breadth-first order. Node 0 is the empty history, node 1 + v the unigram v, and so on; the
children of node n (the n-grams that add one label to it) are nodes begins[n] … begins[n + 1] − 1, sorted by label. A
history is a node, so a row's state is one integer, and

    P(v | h) = P(child of h with label v)         if h has such a child,
               backoff(h) · P(v | suffix of h)    otherwise.

The end label as a history is the start of a sentence, as a prediction its end (ARPA's <s> and </s>).
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fewer.models.lm import shifted
from fewer.models.tree import free_to_ask

ROOT = 0  # the node of the empty history
TABLE_ROWS = 64  # histories with the most successors whose distributions are kept ready
ROWS = 1 << 18  # n-grams that are read at once where all are
MOST_KEYS = 1 << 23  # n-grams; a larger model finds children more slowly, with 8 bytes less for each n-gram


class Level(NamedTuple):
    """The n-grams of one length, sorted by (parent, label). Nodes are numbered over all levels, from 1 on."""

    parents: Tensor  # (L,) node of the n-gram without its last label
    labels: Tensor  # (L,) last label
    suffixes: Tensor  # (L,) node of the longest n-gram in the model that ends it
    log_probs: Tensor  # (L,) natural log
    backoffs: Tensor  # (L,) natural log; of no meaning for the longest n-grams


class NGram(nn.Module):
    """An n-gram LM of any order; a `LanguageModel`. State: (rows,) int64, the node of each row's history."""

    labels: Tensor  # (nodes,) int32, last label of each n-gram
    node_log_probs: Tensor  # (nodes,) log P(last label | the labels before it)
    targets: Tensor  # (histories,) int32, the history to go on from after this n-gram: its longest useful suffix
    backoffs: Tensor  # (histories,) log back-off weight
    begins: Tensor  # (histories + 1,) int32, first child; the nodes of full length are no histories
    suffixes: Tensor  # (histories,) int32, the next shorter useful history
    keys: Tensor | None  # (nodes − 1,) int64, parent · V + label of nodes 1, 2, …, sorted; None in large models
    table: Tensor  # (1 + table rows, V) log P(v | h) of the root and of the histories with the most successors
    table_rows: Tensor  # (histories,) uint8, row in the table, 0 for all others

    def __init__(
        self,
        labels: Tensor,
        node_log_probs: Tensor,
        targets: Tensor,  # of all nodes or of the histories
        backoffs: Tensor,
        begins: Tensor,
        suffixes: Tensor,
        end: int = 0,
    ):
        super().__init__()
        self.end = end
        self.vocab_size = int(begins[1]) - 1
        firsts = [1]  # first node of each level, and the number of nodes
        while firsts[-1] < len(labels):
            firsts.append(int(begins[firsts[-1]]))
        self.firsts = firsts
        self.order = len(firsts) - 1
        for name, values in zip(
            ("labels", "node_log_probs", "targets", "backoffs", "begins", "suffixes"),
            (labels, node_log_probs, targets[: len(backoffs)].clone(), backoffs, begins, suffixes),
            strict=True,
        ):
            self.register_buffer(name, values)
        self.register_buffer("keys", self.all_keys() if len(labels) <= MOST_KEYS else None, persistent=False)
        self.first_state = int(targets[1 + end]) if self.order > 1 else ROOT
        self.register_buffer("table", node_log_probs[None, 1 : 1 + self.vocab_size], persistent=False)
        self.register_buffer("table_rows", torch.zeros(len(backoffs), dtype=torch.uint8), persistent=False)
        children, by_children = begins.diff()[1:].sort(descending=True)
        largest = 1 + by_children[:TABLE_ROWS]
        self.most = int(children[TABLE_ROWS]) if len(children) > TABLE_ROWS else 1  # of a history without a row
        self.table = torch.cat([self.table, self.distribution(largest)])
        self.table_rows[largest] = torch.arange(1, len(self.table), dtype=torch.uint8)

    @classmethod
    def from_levels(cls, levels: Sequence[Level], end: int = 0) -> "NGram":
        """A model from its n-grams by length; the first level holds every label of the vocabulary in order."""
        levels = [level for level in levels if len(level.labels)]
        histories = 1 + sum(len(level.labels) for level in levels[:-1])
        root = torch.zeros(1, dtype=torch.long)
        labels = torch.cat([root, *(level.labels for level in levels)])
        suffixes = torch.cat([root, *(level.suffixes for level in levels)])
        children = torch.bincount(torch.cat([level.parents for level in levels]), minlength=histories)
        begins = torch.cat([root, children.cumsum(0)]) + 1
        zero = levels[0].log_probs.new_zeros(1)
        log_probs = torch.cat([zero, *(level.log_probs for level in levels)])
        backoffs = torch.cat([zero, *(level.backoffs for level in levels[:-1])])

        # A history without children whose back-off weight is 1 says no more than its suffix does.
        useful = (children > 0) | (backoffs != 0)
        useful[ROOT] = True
        targets, first = torch.zeros(histories, dtype=torch.long), 1
        for level in levels[:-1]:
            nodes = torch.arange(first, first + len(level.labels))
            targets[nodes] = torch.where(useful[nodes], nodes, targets[level.suffixes])
            first += len(level.labels)
        shorter = targets[suffixes[:histories]]
        narrow = (labels.int(), log_probs, targets.int(), backoffs, begins.int(), shorter.int())
        return cls(*narrow, end=end)

    @classmethod
    def from_ngrams(cls, orders: Sequence[tuple[Tensor, Tensor, Tensor]], end: int = 0) -> "NGram":
        """A model from (labels (L, n), log P (L,), log back-off (L,)) of each n, in any order but unigrams complete.

        Raises MissingHistory for an n-gram whose first n − 1 labels are no n-gram, DuplicateNGram for one given twice.
        """
        levels: list[Level] = []
        vocab_size = len(orders[0][0])
        keys = torch.empty(0, dtype=torch.long)  # parent · V + label of every node so far
        suffixes = torch.zeros(1, dtype=torch.long)  # of every node so far
        for n, (ngrams, log_probs, backoffs) in enumerate(orders, start=1):
            parents = torch.zeros(len(ngrams), dtype=torch.long)
            for position in range(n - 1):
                found, parents = find_child(keys, parents, ngrams[:, position], vocab_size)
                if not bool(found.all()):
                    raise MissingHistory(n, int((~found).nonzero()[0]))
            level_keys, by_key = (parents * vocab_size + ngrams[:, -1]).sort(stable=True)
            twice = level_keys[1:] == level_keys[:-1]
            if bool(twice.any()):
                raise DuplicateNGram(n, int(by_key[1:][twice].min()))
            parents, labels, backoffs = parents[by_key], ngrams[by_key, -1], backoffs[by_key]
            if n > 1:
                backoffs = backoffs.masked_fill(labels == end, 0.0)  # nothing follows the end of a sentence
            level_suffixes = torch.zeros_like(parents)
            if n > 1:  # the suffix of h·v is the child v of the longest suffix of h that has one; the root has
                shorter, found = suffixes[parents], torch.zeros_like(parents, dtype=torch.bool)
                while not bool(found.all()):
                    there, nodes = find_child(keys, shorter, labels, vocab_size)
                    level_suffixes = torch.where(found, level_suffixes, nodes)
                    found, shorter = found | there, suffixes[shorter]
            levels.append(Level(parents, labels, level_suffixes, log_probs[by_key], backoffs))
            keys, suffixes = torch.cat([keys, level_keys]), torch.cat([suffixes, level_suffixes])
        return cls.from_levels(levels, end)

    def ngrams(self, n: int) -> tuple[Tensor, Tensor, Tensor]:
        """The n-grams of length n in sorted order: labels (L, n), log P (L,), log back-off (L,)."""
        nodes = torch.arange(self.firsts[n - 1], self.firsts[n], device=self.labels.device)
        parents = self.parents()
        columns, at = [], nodes
        for _ in range(n):
            columns.append(self.labels[at].long())
            at = parents[at - 1]
        backoffs = self.backoffs[nodes] if n < self.order else torch.zeros_like(self.node_log_probs[nodes])
        return torch.stack(columns[::-1], dim=1), self.node_log_probs[nodes], backoffs

    def counts(self) -> list[int]:
        """Number of n-grams of each length."""
        return [b - a for a, b in pairwise(self.firsts)]

    def parents(self) -> Tensor:
        """The history of nodes 1, 2, …. (nodes − 1,)"""
        return torch.repeat_interleave(self.begins.long().diff())

    def all_keys(self) -> Tensor:
        """parent · V + label of nodes 1, 2, …: sorted. (nodes − 1,)"""
        return self.parents() * self.vocab_size + self.labels[1:]

    def start(self, rows: int) -> Tensor:
        return torch.full((rows,), self.first_state, dtype=torch.long, device=self.labels.device)

    def step(self, state: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Next label's log-probabilities after reading `labels`, -1 before the first. (rows,) -> (rows, V)"""
        _, after = self.read(state, labels.clamp(min=0))
        state = torch.where(labels < 0, state, after)
        return self.distribution(state), state

    def read(self, state: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """log P(label | history) of one label for each row, and the histories after it. (rows,), (rows,)"""
        chain, weights = self._chain(state)
        found, nodes = self._child(chain, labels[:, None].expand_as(chain))
        depth = found.int().argmax(dim=1, keepdim=True)  # the longest history that has it; the root has every label
        node = nodes.gather(1, depth).squeeze(1)
        log_probs = self.node_log_probs[node] + weights.gather(1, depth).squeeze(1)
        # An n-gram of full length is no history; the next shorter one that is there is its suffix.
        after = torch.where(found & (nodes < len(self.targets)), nodes, ROOT).amax(dim=1)
        return log_probs, self.targets[after].long()

    def distribution(self, state: Tensor) -> Tensor:
        """log P(v | history) of every label. (rows,) -> (rows, V)

        Takes the longest history's row that the table has, then writes over it the explicit successors of ever longer
        histories.
        """
        chain, weights = self._chain(state)
        rows_in_table = self.table_rows[chain].long()
        depths = (rows_in_table > 0).int().argmax(dim=1)
        depths = torch.where(rows_in_table.any(dim=1), depths, self.order - 1)[:, None]
        log_probs = room_for(len(state), self.vocab_size, self.table)
        torch.index_select(self.table, 0, rows_in_table.gather(1, depths).squeeze(1), out=log_probs)
        log_probs.add_(weights.gather(1, depths))
        for depth in range(self.order - 2, -1, -1):
            nodes = chain[:, depth]
            begins = self.begins[nodes].long()
            counts = (self.begins[nodes + 1] - begins) * (depth < depths.squeeze(1)) * (nodes != ROOT)
            found = Successors.of(begins, counts, self.most)
            values = self.node_log_probs.index_select(0, found.at)
            values.add_(weights[:, depth].index_select(0, found.rows))
            found.write(log_probs, self.labels.index_select(0, found.at), values)
        return log_probs

    def score(self, labels: Tensor) -> Tensor:
        """log P(labels[i] | labels[<i]), each row from the start of a sentence, without a (B, N, V) tensor. (B, N)"""
        previous = shifted(labels, self.end)
        log_probs = self.node_log_probs[1 + labels]
        for history, exists in self._histories(previous):
            found, nodes = self._child(history, labels)
            backed_off = log_probs + torch.where(exists, self.backoffs[history], 0.0)
            log_probs = torch.where(exists & found, self.node_log_probs[nodes], backed_off)
        return log_probs

    def log_probs(self, labels: Tensor) -> Tensor:
        """log P(labels[i] = v | labels[<i]) for every v. (B, N) -> (B, N, V)"""
        state = torch.full_like(labels, ROOT)
        for history, exists in self._histories(shifted(labels, self.end)):
            state = torch.where(exists, self.targets[history].long(), state)
        return self.distribution(state.flatten()).view(*labels.shape, self.vocab_size)

    def _histories(self, previous: Tensor) -> Sequence[tuple[Tensor, Tensor]]:
        """For each length 1 … order − 1: the node of that many labels up to each position, and whether there is one."""
        node, exists = 1 + previous, torch.ones_like(previous, dtype=torch.bool)
        found = []
        for length in range(1, self.order):
            if length > 1:
                there, nodes = self._child(node[:, :-1], previous[:, 1:])
                there = exists[:, :-1] & there
                node = nn.functional.pad(torch.where(there, nodes, ROOT), (1, 0))
                exists = nn.functional.pad(there, (1, 0))
            found.append((node, exists))
        return found

    def _chain(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Each row's histories from its own down to the root, and the log weight of backing off to each. (rows, n)"""
        chain = [state]
        for _ in range(self.order - 1):
            chain.append(self.suffixes[chain[-1]].long())
        nodes = torch.stack(chain, dim=1)
        passed = self.backoffs[nodes].cumsum(dim=1)
        return nodes, nn.functional.pad(passed[:, :-1], (1, 0))

    def _child(self, nodes: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Whether each history has a child with that label, and the child (any node where not)."""
        if self.keys is not None:
            return find_child(self.keys, nodes, labels, self.vocab_size)
        first, end = self.begins[nodes].long(), self.begins[nodes + 1].long()
        for halving in reversed(range(self.vocab_size.bit_length())):  # every child before `first` has a smaller label
            probe = first + (1 << halving)
            smaller = self.labels[torch.minimum(probe, end) - 1] < labels
            first = torch.where(smaller & (probe <= end), probe, first)
        at = first.clamp(max=len(self.labels) - 1)
        return (first < end) & (self.labels[at] == labels), at

    def extra_repr(self) -> str:
        return f"order={self.order}, vocab_size={self.vocab_size}, ngrams={self.counts()}"

    def tensors(self) -> dict[str, Any]:
        """What the binary file holds; NGram(**tensors, end=…) makes the model again."""
        return {**self.state_dict(), "targets": self._all_targets()}

    def _all_targets(self) -> Tensor:
        """The history after each n-gram, also of those that are none themselves. (nodes,) int32"""
        suffixes = self.suffixes[self.parents()[len(self.targets) - 1 :]].long()
        pieces = zip(suffixes.split(ROWS), self.labels[len(self.targets) :].long().split(ROWS), strict=True)
        return torch.cat([self.targets, *(self.read(*piece)[1].int() for piece in pieces)])


def find_child(keys: Tensor, nodes: Tensor, labels: Tensor, vocab_size: int) -> tuple[Tensor, Tensor]:
    """Whether each node of a breadth-first trie has a child with that label, and the child (any node where not).

    keys: parent · V + label of nodes 1, 2, …
    """
    wanted = nodes * vocab_size + labels
    if not len(keys):
        return torch.zeros_like(wanted, dtype=torch.bool), torch.zeros_like(wanted)
    at = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
    return keys[at] == wanted, at + 1


def spread(begins: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Ranges begins[i] … begins[i] + counts[i] − 1 one behind the other: which i, and the number. (Σ counts,) each"""
    which = torch.repeat_interleave(counts)
    shift = begins - (counts.cumsum(0) - counts)
    return which, torch.arange(len(which), device=which.device) + shift.index_select(0, which)


class Successors(NamedTuple):
    """What may follow in each row, one behind the other. On a GPU, whose memory must be asked how many there are, each
    row has as many as any may have."""

    rows: Tensor  # (n,)
    at: Tensor  # (n,) number of the successor; any where there is none
    there: Tensor | None  # (n,) whether there is one; None: all

    @classmethod
    def of(cls, begins: Tensor, counts: Tensor, most: int) -> "Successors":
        """Numbers begins[row] … begins[row] + counts[row] − 1 of each row. most: no row has more."""
        if free_to_ask(begins):
            return cls(*spread(begins, counts), None)
        number = torch.arange(most, device=begins.device)  # (most,)
        there = number < counts[:, None]  # (rows, most)
        at = torch.where(there, begins[:, None] + number, 0)
        rows = torch.arange(len(begins), device=begins.device)[:, None].expand_as(at)
        return cls(rows.flatten(), at.flatten(), there.flatten())

    def write(self, scores: Tensor, labels: Tensor, values: Tensor) -> None:
        """scores[row, label] = value of each successor. scores: from `room_for`; labels, values: (n,)"""
        places = self.rows * scores.shape[1] + labels
        if self.there is not None:
            places = torch.where(self.there, places, scores.numel())
        flat = torch.as_strided(scores, (scores.numel() + 1,), (1,))
        flat.scatter_(0, places, values)


def room_for(rows: int, columns: int, like: Tensor) -> Tensor:
    """(rows, columns), with one more number behind it, where `Successors` writes what is nothing."""
    return like.new_empty(rows * columns + 1)[:-1].view(rows, columns)


class MissingHistory(ValueError):
    """An n-gram whose history is not in the model."""

    def __init__(self, n: int, index: int):
        super().__init__(f"{n}-gram number {index + 1} has a history that is not in the model")
        self.n, self.index = n, index


class DuplicateNGram(ValueError):
    """An n-gram that is given twice."""

    def __init__(self, n: int, index: int):
        super().__init__(f"{n}-gram number {index + 1} is given twice")
        self.n, self.index = n, index
