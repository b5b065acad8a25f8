"""Hotwords, names and terms that a search rewards: a trie of their labels with suffix links (Aho and Corasick 1975).

A hotword of n labels and weight w is worth n · w wherever it stands as whole words. While it is being spelled, its
labels so far are paid in advance: with A(h) the largest advance of any hotword that the end of h may be a beginning of,
and C(h) the worth of all hotwords that are complete in h, a label v scores C(hv) + A(hv) − C(h) − A(h). So what an
unfinished hotword got is taken back, and a whole hypothesis scores what its hotwords are worth, however they overlap.

Whether a word ends is seen in the next label: a hotword is complete when that begins a word, is a mark, or ends all.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fewer.models.lm import read_along
from fewer.models.ngram import ROOT, Successors, find_child, room_for
from fewer.models.tree import free_to_ask


class PhraseState(NamedTuple):
    """Both (rows,)."""

    node: Tensor  # the longest end of what was read that begins a hotword
    closed: Tensor  # bool; whatever comes next begins a word


class Hotwords(nn.Module):
    """Scores labels as a `LanguageModel` does, though with rewards instead of log-probabilities."""

    normalised = False
    rewards = True
    labels: Tensor  # (nodes,) last label
    keys: Tensor  # (nodes − 1,) parent · V + label of nodes 1, 2, …; sorted
    begins: Tensor  # (nodes + 1,) first child
    suffixes: Tensor  # (nodes,) the next shorter end of the same labels that begins a hotword
    ahead: Tensor  # (nodes,) A
    worth: Tensor  # (nodes,) of all hotwords that end here, if the word does
    starts: Tensor  # (V,) bool; begins a word
    ends: Tensor  # (V,) bool; the next label begins a word
    splits: Tensor  # (V,) 1 where the label shows that the word before it has ended
    basis: Tensor  # (4, V) A of a hotword that begins with the label, inside a word and where one must begin; 1; splits

    def __init__(
        self, hotwords: Mapping[tuple[int, ...], float], starts: Tensor, ends: Tensor, splits: Tensor, end: int = 0
    ):
        """hotwords: weights of labels. starts, ends, splits: (V,) bool; what begins, closes, shows the end of words."""
        super().__init__()
        for hotword, weight in hotwords.items():
            if not hotword or not 0 < weight < float("inf"):
                raise ValueError(f"the hotword {hotword} of weight {weight}: it needs labels and a positive weight")
        self.vocab_size, self.end = len(starts), end
        trie = _Trie(hotwords, starts.tolist(), ends.tolist())
        self.depth = max(trie.links)
        splits = splits | starts
        splits[end] = True
        labels = torch.tensor(trie.labels)
        parents, ahead = torch.tensor(trie.parents), torch.tensor(trie.ahead)
        children_of = torch.bincount(parents[1:], minlength=len(labels))
        begins = children_of.cumsum(0) + 1
        self.most = int(children_of[1:].max()) if len(labels) > 1 else 0  # children of a node but the root
        marked = torch.zeros(self.vocab_size)
        children = slice(1, int(begins[ROOT]))
        marked[labels[children]] = ahead[children]
        for name, values in {
            "labels": labels,
            "keys": (parents * self.vocab_size + labels)[1:],
            "begins": nn.functional.pad(begins, (1, 0), value=1),
            "suffixes": torch.tensor(trie.suffixes),
            "ahead": ahead,
            "worth": torch.tensor(trie.worth),
            "starts": starts,
            "ends": ends,
            "splits": splits.float(),
            "basis": torch.stack([marked * starts, marked, torch.ones_like(marked), splits.float()]),
        }.items():
            self.register_buffer(name, values)

    def start(self, rows: int) -> PhraseState:
        node = torch.full((rows,), ROOT, device=self.labels.device)
        return PhraseState(node, torch.ones_like(node, dtype=torch.bool))

    def step(self, state: PhraseState, labels: Tensor) -> tuple[Tensor, PhraseState]:
        """Next label's scores after reading `labels`, -1 before the first. (rows,) -> (rows, V)"""
        state = self._read(state, labels)
        return self._scores(*state), state

    def log_probs(self, labels: Tensor) -> Tensor:
        """Score of every label at every position, given the labels before it. (B, N) -> (B, N, V)"""
        return torch.stack(list(read_along(self, labels)), dim=1)

    def _read(self, state: PhraseState, labels: Tensor) -> PhraseState:
        at = labels.clamp(min=0)
        chain = self._chain(state.node)
        found, children = find_child(self.keys, chain, at[:, None].expand_as(chain), self.vocab_size)
        found &= (chain != ROOT) | (self.starts[at] | state.closed)[:, None]
        longest = found.int().argmax(dim=1, keepdim=True)
        node = torch.where(found.any(dim=1), children.gather(1, longest).squeeze(1), ROOT)
        ended = at == self.end
        node, closed = torch.where(ended, ROOT, node), self.ends[at] | ended
        same = labels < 0
        return PhraseState(torch.where(same, state.node, node), torch.where(same, state.closed, closed))

    def _chain(self, node: Tensor) -> Tensor:
        """Each row's node and its shorter ends down to the root. (rows, depth + 1)"""
        chain = [node]
        for _ in range(self.depth):
            chain.append(self.suffixes[chain[-1]])
        return torch.stack(chain, dim=1)

    def _scores(self, node: Tensor, closed: Tensor) -> Tensor:
        """What every label changes: from short ends to long ones, each writes over the one before. (rows, V)"""
        back, worth = self.ahead[node], self.worth[node]
        scores = room_for(len(node), self.vocab_size, self.basis)
        inside = ~closed
        shares = torch.stack([inside, closed, closed * worth - back, inside * worth], dim=1).to(back.dtype)  # (rows, 4)
        if free_to_ask(node):  # most rows are inside a word, and no hotword has just been said
            torch.sub(self.basis[0], back[:, None], out=scores)
            rest = (closed | (worth > 0)).nonzero().squeeze(1)
            scores[rest] = shares[rest] @ self.basis
        else:
            torch.mm(shares, self.basis, out=scores)
        for nodes in self._chain(node).T.flip(0):
            begins = self.begins[nodes]
            found = Successors.of(begins, (self.begins[nodes + 1] - begins) * (nodes != ROOT), self.most)
            rows, labels = found.rows, self.labels[found.at]
            splits = torch.where(closed[rows], 1.0, self.splits[labels])
            found.write(scores, labels, self.ahead[found.at] - back[rows] + worth[rows] * splits)
        scores[:, self.end] = worth - back
        return scores


class _Trie:
    """The hotwords in breadth-first order, children by label; node 0 is the root."""

    def __init__(self, hotwords: Mapping[tuple[int, ...], float], starts: Sequence[bool], ends: Sequence[bool]):
        self.labels, self.parents, self.suffixes, self.links = [0], [0], [ROOT], [0]
        self.ahead, self.worth = [0.0], [0.0]
        children: dict[tuple[int, int], int] = {}
        level = [(ROOT, sorted(hotwords))] if hotwords else []
        depth = 0
        while level:
            below = []
            for parent, group in level:
                longer = (labels for labels in group if len(labels) > depth)  # sorted
                for label, same in groupby(longer, key=itemgetter(depth)):
                    node, through = len(self.labels), list(same)
                    children[parent, label] = node
                    below.append((node, through))
                    self.labels.append(label)
                    self.parents.append(parent)
                    shorter = self._suffix(children, parent, label, starts, ends)
                    self.suffixes.append(shorter)
                    self.links.append(self.links[shorter] + 1)
                    own = (depth + 1) * max(hotwords[labels] for labels in through)
                    self.ahead.append(max(own, self.ahead[shorter]))
                    complete = (depth + 1) * hotwords.get(through[0], 0.0) if len(through[0]) == depth + 1 else 0.0
                    self.worth.append(complete + self.worth[shorter])
            level, depth = below, depth + 1

    def _suffix(
        self,
        children: Mapping[tuple[int, int], int],
        parent: int,
        label: int,
        starts: Sequence[bool],
        ends: Sequence[bool],
    ) -> int:
        """The longest shorter end of parent's labels and this one that begins a hotword, at the start of a word."""
        if parent == ROOT:
            return ROOT
        at = self.suffixes[parent]
        while at != ROOT:
            if (at, label) in children:
                return children[at, label]
            at = self.suffixes[at]
        begins = starts[label] or ends[self.labels[parent]]
        return children.get((ROOT, label), ROOT) if begins else ROOT
