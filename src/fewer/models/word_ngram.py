"""A word-level n-gram model that scores the labels of a subword vocabulary.

A row's state is the node of its unfinished word in a trie of all words' bytes, and the n-gram history of the words
before it. A word is scored when the next one starts (or the sentence ends); inside a word, look-ahead pays an advance:
with L(node) the log of the largest (or summed) unigram probability of the words at and below a node, a label that
leads from node to node′ scores L(node′) − L(node), and a word end scores log P(word | history) − L(node). So at every
word end the total is exactly the word model's. The root has L = 0.

A word that the model lacks is charged as soon as it leaves the trie. All ways to spell a word in labels count alike,
and the numbers are not normalised over labels.
"""

from collections.abc import Sequence
from copy import copy
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from fewer.config import Config
from fewer.models.byte_trie import ByteTrie
from fewer.models.lm import read_along
from fewer.models.ngram import ROOT, NGram, Successors, find_child, room_for


class WordNGramConfig(Config):
    lookahead: Literal["max", "sum"] = "max"  # of the unigram probabilities of the words below a node
    unknown: float | None = None  # natural log-probability of a word the LM lacks; None: what it says of <unk>


class Piece(NamedTuple):
    """What one label writes."""

    text: bytes  # without the mark that says where words begin or end
    starts: bool = False  # a new word begins with it
    ends: bool = False  # its word ends with it


class WordState(NamedTuple):
    """All (rows,)."""

    node: Tensor  # the unfinished word in the trie; ROOT when there is none
    closed: Tensor  # bool; the word is complete although the next one has not begun
    history: Tensor  # state of the word model before the unfinished word
    after: Tensor  # its state when the unfinished word ends here


class WordNGram(nn.Module):
    """A `LanguageModel` over labels that is an n-gram model of words."""

    normalised = False
    words: Tensor  # (nodes,) word that is complete here; where none is, <unk>
    known: Tensor  # (nodes,) bool; a word is complete here
    ahead: Tensor  # (nodes,) L
    firsts: Tensor  # (V,) node that each label reaches from the root
    starts: Tensor  # (V,) bool
    ends: Tensor  # (V,) bool
    silent: Tensor  # (V,) bool; writes nothing and begins no word
    arc_begins: Tensor  # (nodes + 1,) first arc of each node; arcs are the labels that go on within known words
    arc_labels: Tensor  # (arcs,)
    arc_targets: Tensor  # (1 + arcs,) where each arc leads; before them, where no arc leads
    arc_keys: Tensor  # (arcs,) node · V + label, sorted
    basis: Tensor  # (5, V) that every row's scores but those of the arcs are combined from

    def __init__(
        self,
        model: NGram,
        words: Sequence[bytes],
        pieces: Sequence[Piece],
        end: int = 0,
        unknown: int | None = None,
        config: WordNGramConfig | None = None,
    ):
        """words: how each word of `model` is written, empty for what is never written (</s>, <unk>)."""
        super().__init__()
        config = config or WordNGramConfig()
        if config.unknown is None and unknown is None:
            raise ValueError("the word model has no <unk>; say what log-probability an unknown word has")
        self.model, self.end, self.vocab_size = model, end, len(pieces)
        self.scores_end = True  # False: the end label only completes the last word
        self.config, self.remembers_unknown = config, unknown is not None
        unknown = model.end if unknown is None else unknown
        unigrams = model.node_log_probs[1 : 1 + model.vocab_size]

        written = torch.tensor([id for id, word in enumerate(words) if word], dtype=torch.long)
        trie = ByteTrie.of([word for word in words if word])
        self.outside = trie.size  # the node of words that the model lacks
        word_of = torch.full((trie.size + 1,), -1, dtype=torch.long)
        word_of[trie.ends] = written
        below = torch.zeros(trie.size, dtype=torch.double)
        below[trie.ends] = unigrams[written].double().exp()
        below = trie.join_below(below, {"max": "amax", "sum": "sum"}[config.lookahead])
        below[ROOT] = 1.0
        outside = unigrams[unknown] if config.unknown is None else unigrams.new_tensor(config.unknown)
        ahead = torch.cat([below.log().to(unigrams.dtype), outside.reshape(1)])

        starts, ends = (torch.tensor([piece[field] for piece in pieces]) for field in (1, 2))
        silent = torch.tensor([not (piece.text or piece.starts) for piece in pieces])
        firsts = trie.walk([piece.text for piece in pieces], self.outside)
        nodes, labels, targets = trie.arcs([b"" if piece.starts else piece.text for piece in pieces])
        keys, by_key = (nodes * self.vocab_size + labels).sort()
        targets = nn.functional.pad(targets[by_key], (1, 0), value=self.outside)
        counts = torch.bincount(nodes, minlength=trie.size + 1)
        self.most = int(counts.max())  # arcs of a node
        goes_on = ~(starts | silent)
        first_ahead = ahead[firsts]
        for name, values in {
            "words": torch.where(word_of < 0, unknown, word_of),
            "known": word_of >= 0,
            "ahead": ahead,
            "firsts": firsts,
            "starts": starts,
            "ends": ends,
            "silent": silent,
            "arc_begins": nn.functional.pad(counts.cumsum(0), (1, 0)),
            "arc_labels": labels[by_key],
            "arc_targets": targets,
            "arc_keys": keys,
            "basis": torch.stack([starts, ~starts, goes_on, starts * first_ahead, ~starts * first_ahead]).to(ahead),
        }.items():
            self.register_buffer(name, values)

    def start(self, rows: int) -> WordState:
        node = torch.full((rows,), ROOT, device=self.words.device)
        history = self.model.start(rows)
        return WordState(node, torch.zeros_like(node, dtype=torch.bool), history, history)

    def step(self, state: WordState, labels: Tensor) -> tuple[Tensor, WordState]:
        """Next label's scores after reading `labels`, -1 before the first. (rows,) -> (rows, V)"""
        node, closed, history = self._read(state, labels)
        gain, after = self._end_word(node, history)
        return self._scores(node, closed, gain, after), WordState(node, closed, history, after)

    def log_probs(self, labels: Tensor) -> Tensor:
        """Score of every label at every position, given the labels before it. (B, N) -> (B, N, V)"""
        return torch.stack(list(read_along(self, labels)), dim=1)

    def score(self, labels: Tensor) -> Tensor:
        """Score of each label given the labels before it. (B, N)"""
        columns = zip(read_along(self, labels), labels.T, strict=True)
        return torch.stack([scores.gather(1, column[:, None]).squeeze(1) for scores, column in columns], dim=1)

    def _read(self, state: WordState, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Node, closed and history after the labels. (rows,) each"""
        at = labels.clamp(min=0)
        begins = self.starts[at] | state.closed
        history = torch.where(begins, state.after, state.history)
        node = torch.where(begins, ROOT, state.node)
        found, arc = find_child(self.arc_keys, node, at, self.vocab_size)
        inside = self.arc_targets[arc * found]
        inside = torch.where(self.silent[at], node, inside)
        node = torch.where(node == ROOT, self.firsts[at], inside)
        closed = self.ends[at]
        ended = at == self.end
        node, closed = torch.where(ended, ROOT, node), closed & ~ended
        history = torch.where(ended, self.model.first_state, history)
        same = labels < 0
        return (
            torch.where(same, state.node, node),
            torch.where(same, state.closed, closed),
            torch.where(same, state.history, history),
        )

    def _end_word(self, node: Tensor, history: Tensor) -> tuple[Tensor, Tensor]:
        """What it adds to end the word at `node`, and the word model's state after it. (rows,) each"""
        log_prob, after = self.model.read(history, self.words[node])
        known, none = self.known[node], node == ROOT
        if self.config.unknown is not None:
            log_prob = torch.where(known, log_prob, self.config.unknown)
        if not self.remembers_unknown:
            after = torch.where(known, after, ROOT)
        return torch.where(none, 0.0, log_prob - self.ahead[node]), torch.where(none, history, after)

    def _scores(self, node: Tensor, closed: Tensor, gain: Tensor, after: Tensor) -> Tensor:
        """Scores of all labels. (rows,) -> (rows, V)"""
        fresh = closed | (node == ROOT)  # whatever comes begins a word
        leave = torch.where(fresh, 0.0, self.ahead[self.outside] - self.ahead[node])
        ones = torch.ones_like(gain)
        scores = room_for(len(node), self.vocab_size, self.basis)
        torch.mm(torch.stack([gain, gain * fresh, leave, ones, ones * fresh], dim=1), self.basis, out=scores)
        begins = self.arc_begins[node]
        found = Successors.of(begins, (self.arc_begins[node + 1] - begins) * ~fresh, self.most)
        targets = self.arc_targets.index_select(0, found.at + 1)
        values = self.ahead[targets] - self.ahead[node].index_select(0, found.rows)
        found.write(scores, self.arc_labels.index_select(0, found.at), values)
        ended = torch.full_like(after, self.model.end)
        scores[:, self.end] = gain + self.model.read(after, ended)[0] if self.scores_end else gain
        return scores

    def without_end(self) -> "WordNGram":
        """The same model, which says nothing about where a sentence ends."""
        model = copy(self)
        model.scores_end = False
        return model
