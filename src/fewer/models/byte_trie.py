"""A trie of many words' bytes as tensors, in breadth-first order: node 0 is the root."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor

from fewer.models.ngram import ROOT, find_child, spread

BYTES = 256


@dataclass(frozen=True)
class ByteTrie:
    """All prefixes of some words."""

    keys: Tensor  # (nodes − 1,) parent · 256 + last byte of nodes 1, 2, …; sorted
    ends: Tensor  # (words,) node of each word
    levels: list[int]  # first node of each depth 1, 2, …, and the number of nodes

    @property
    def size(self) -> int:
        return len(self.keys) + 1

    @cached_property
    def begins(self) -> Tensor:
        """First child of each node. (nodes + 1,)"""
        children = torch.bincount(self.keys // BYTES, minlength=self.size)
        return torch.cat([children.new_zeros(1), children.cumsum(0)]) + 1

    @classmethod
    def of(cls, words: Sequence[bytes]) -> "ByteTrie":
        """Grow all words by one byte at a time."""
        letters, offsets, lengths = _flat(words)
        ends = torch.zeros(len(words), dtype=torch.long)
        keys, levels = [torch.empty(0, dtype=torch.long)], [1]
        for depth in range(int(lengths.max()) if len(words) else 0):
            longer = (lengths > depth).nonzero().squeeze(1)
            level, index = (ends[longer] * BYTES + letters[offsets[longer] + depth]).unique(return_inverse=True)
            ends[longer] = levels[-1] + index
            keys.append(level)
            levels.append(levels[-1] + len(level))
        return cls(torch.cat(keys), ends, levels)

    def walk(self, texts: Sequence[bytes], outside: int) -> Tensor:
        """The node that each text leads to from the root, `outside` if it leaves the trie. (texts,)"""
        letters, offsets, lengths = _flat(texts)
        nodes = torch.full((len(texts),), ROOT)
        for depth in range(int(lengths.max())):
            going = ((lengths > depth) & (nodes != outside)).nonzero().squeeze(1)
            found, children = find_child(self.keys, nodes[going], letters[offsets[going] + depth], BYTES)
            nodes[going] = torch.where(found, children, outside)
        return nodes

    def arcs(self, texts: Sequence[bytes]) -> tuple[Tensor, Tensor, Tensor]:
        """All (node, index of a text that is not empty, node it leads to) but those from the root.

        Walks this trie from every node and the trie of the texts from its root, side by side.
        """
        indices = torch.tensor([i for i, text in enumerate(texts) if text], dtype=torch.long)
        other = ByteTrie.of([text for text in texts if text])
        by_node = other.ends.argsort(stable=True)
        counts = torch.bincount(other.ends, minlength=other.size)  # texts that end at a node
        firsts = counts.cumsum(0) - counts
        origins = torch.arange(1, self.size)
        here, there = origins, torch.zeros_like(origins)
        found_arcs = []
        while len(origins):
            came, at = spread(self.begins[here], self.begins[here + 1] - self.begins[here])
            found, next_there = find_child(other.keys, there[came], self.keys[at - 1] % BYTES, BYTES)
            origins, here, there = origins[came][found], at[found], next_there[found]
            came, at = spread(firsts[there], counts[there])
            found_arcs.append((origins[came], indices[by_node[at]], here[came]))
        nodes, labels, targets = (torch.cat(part) for part in zip(*found_arcs, strict=True))
        return nodes, labels, targets

    def join_below(self, values: Tensor, how: str) -> Tensor:
        """Each node's value joined ("amax" or "sum") with those of all nodes below it. (nodes,)"""
        values = values.clone()
        for first, last in reversed(list(pairwise(self.levels))):
            parents = self.keys[first - 1 : last - 1] // BYTES
            values.scatter_reduce_(0, parents, values[first:last].clone(), how)
        return values


def _flat(texts: Sequence[bytes]) -> tuple[Tensor, Tensor, Tensor]:
    """The bytes of all texts, where each begins, and its length."""
    lengths = torch.tensor([len(text) for text in texts], dtype=torch.long)
    joined = bytearray(b"".join(texts) or b"\0")
    return torch.frombuffer(joined, dtype=torch.uint8).long(), lengths.cumsum(0) - lengths, lengths
