"""A Hugging Face causal LM with a tokenizer of its own, as a language model over a recogniser's labels: by words.

A word is scored when it is complete ("delayed fusion"): by the label that begins the next one, or by the end. Then its
text has tokens of its own, whatever the recogniser's labels are. What the LM keeps of the words before it (keys and
values) is state, so no word is read twice.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fewer.data.tokenizer import Tokenizer
from fewer.errors import FewerError
from fewer.models.lm import read_along
from fewer.progress import say
from fewer.store.hf_lm import HfLm, first_token, has_labels, load_hf_parts, over_labels

MOST = 1 << 16  # words whose tokens are remembered
ANCHOR = "a"  # a word, to find out the tokens of those behind it
PROBE = "It's 5 o'clock, isn't it? The cat (a Siamese) sat; then Zoë-Marie left Łódź…"


@dataclass(frozen=True)
class History:
    """What the LM knows after some words."""

    past: Sequence[tuple[Tensor, Tensor]]  # keys and values of each layer, (heads, n, head)
    next: Tensor  # (V_lm,) log-probabilities of the next token
    words: int

    @property
    def length(self) -> int:
        return self.past[0][0].shape[1]


@dataclass(frozen=True)
class Row:
    """A hypothesis: words that are complete, and the labels of the one that is not."""

    before: History
    labels: tuple[int, ...]
    gain: float  # log-probability of the last word, if it is complete now
    after: History  # … and what the LM then knows


class Rows(list[Row]):
    """The state of a search: one for each row."""

    def select_rows(self, rows: Tensor) -> "Rows":
        return Rows(self[row] for row in rows.flatten().tolist())


@dataclass
class Asked:
    """What searches have asked of an LM: the cost of using it."""

    calls: int = 0  # of the network
    words: int = 0  # in all calls; one that is not complete is a word each time
    tokens: int = 0  # of its own that it has read

    def __str__(self) -> str:
        return f"the LM was asked for {self.words:,} words, of {self.tokens:,} tokens, in {self.calls:,} batches"


class WordwiseLm(nn.Module):
    """log P of every word at the label behind it; labels inside of a word score 0."""

    normalised = False  # scores of whole words
    starts: Tensor  # (V,) labels that begin a word
    ends: Tensor  # (V,) labels that end one

    def __init__(self, model: Any, tokenizer: Any, labels: Tokenizer):
        """tokenizer: the LM's own, of transformers. labels: the recogniser's."""
        super().__init__()
        self.model = model.eval().requires_grad_(False)
        self.tokenizer, self.labels = tokenizer, labels
        self.vocab_size, self.end, self.scores_end = labels.size, labels.end, True
        self.register_buffer("starts", torch.tensor([labels.word_start(id) for id in range(labels.size)]))
        self.register_buffer("ends", torch.tensor([labels.word_end(id) for id in range(labels.size)]))
        if not bool((self.starts | self.ends).any()) or not getattr(labels, "leading_space", True):
            raise FewerError("labels do not tell where words begin: use this LM with `fewer rescore`")
        self.known: dict[tuple[str, bool], list[int]] = {}
        parts = [token for place, word in enumerate(PROBE.split()) for token in self.tokens(word, place == 0)]
        if parts != tokenizer.encode(PROBE, add_special_tokens=False):
            raise FewerError("its tokens cross words, so it cannot score word by word: use it with `fewer rescore`")
        self.asked = Asked()

    def without_end(self) -> "WordwiseLm":
        """The same model, which says nothing about where a sentence ends."""
        model = copy(self)
        model.scores_end = False
        return model

    def tokens(self, word: str, first: bool) -> list[int]:
        """The LM's tokens of a word, at the start of a text or behind another word."""
        if (word, first) not in self.known:
            if len(self.known) >= MOST:
                self.known.clear()
            self.known[word, first] = self._tokens(word, first)
        return self.known[word, first]

    def _tokens(self, word: str, first: bool) -> list[int]:
        if first:
            return list(self.tokenizer.encode(word, add_special_tokens=False))
        before, both = (self.tokenizer.encode(text, add_special_tokens=False) for text in (ANCHOR, f"{ANCHOR} {word}"))
        return list(both[len(before) :])

    @torch.inference_mode()
    def start(self, rows: int) -> Rows:
        device = next(self.model.parameters()).device
        inputs = torch.tensor([[first_token(self.tokenizer)]], device=device)
        output = self.model(input_ids=inputs, use_cache=True)
        past = [(layer.keys[0], layer.values[0]) for layer in _layers(output.past_key_values)]
        nothing = History(past, functional.log_softmax(output.logits[0, -1].float(), dim=-1), 0)
        return Rows([Row(nothing, (), 0.0, nothing)] * rows)

    @torch.inference_mode()
    def step(self, state: Rows, labels: Tensor) -> tuple[Tensor, Rows]:
        """Next label's scores after reading `labels`, -1 before the first. (rows,) -> (rows, V)"""
        read = [self._reading(row, label) for row, label in zip(state, labels.tolist(), strict=True)]
        new = self._scored(read)
        gain = torch.tensor([row.gain for row in new], device=self.starts.device)[:, None]  # (rows, 1)
        closed = torch.tensor([bool(row.labels) and bool(self.ends[row.labels[-1]]) for row in new])
        scores = gain * (self.starts | closed[:, None].to(self.starts.device))
        scores[:, self.end] = gain[:, 0]
        if self.scores_end:
            ended = self.tokenizer.eos_token_id
            scores[:, self.end] += torch.stack([row.after.next[ended] for row in new]).to(scores)
        return scores, new

    def log_probs(self, labels: Tensor) -> Tensor:
        """Score of every label at every position, given the labels before it. (B, N) -> (B, N, V)"""
        return torch.stack(list(read_along(self, labels)), dim=1)

    def _reading(self, row: Row, label: int) -> tuple[History, tuple[int, ...]]:
        """The words before the one that is being said, and its labels, after one more label."""
        if label < 0 or label == self.end:
            return row.before, row.labels
        if row.labels and (bool(self.starts[label]) or bool(self.ends[row.labels[-1]])):
            return row.after, (label,)
        return row.before, (*row.labels, label)

    def _scored(self, read: Sequence[tuple[History, tuple[int, ...]]]) -> Rows:
        """Each with its last word as if it were complete; what several rows ask is asked once."""
        texts = [self.labels.decode(labels) for _, labels in read]
        keys = [(id(before), text) for (before, _), text in zip(read, texts, strict=True)]
        asked: dict[tuple[int, str], tuple[History, list[int]]] = {}
        for (before, _), text, key in zip(read, texts, keys, strict=True):
            tokens = [token for place, word in enumerate(text.split()) for token in self._of(before, word, place)]
            if tokens:
                asked.setdefault(key, (before, tokens))
        answers = dict(zip(asked, self._ask(list(asked.values())), strict=True))
        rows = Rows()
        for (before, labels), key in zip(read, keys, strict=True):
            gain, after = answers.get(key, (0.0, before))
            rows.append(Row(before, labels, gain, after))
        return rows

    def _of(self, before: History, word: str, place: int) -> list[int]:
        return self.tokens(word, before.words + place == 0)

    def _ask(self, asked: Sequence[tuple[History, list[int]]]) -> list[tuple[float, History]]:
        """log P(word | words before) and what the LM then knows. One batch: shorter pasts are filled up at the left,
        shorter words at the right."""
        from transformers import DynamicCache

        if not asked:
            return []
        self.asked.calls, self.asked.words = self.asked.calls + 1, self.asked.words + len(asked)
        self.asked.tokens += sum(len(tokens) for _, tokens in asked)
        device, count = asked[0][0].next.device, max(len(tokens) for _, tokens in asked)
        lengths = torch.tensor([before.length for before, _ in asked], device=device)
        longest = int(lengths.max())
        pasts = [
            tuple(
                torch.stack([_left_filled(before.past[layer][part], longest) for before, _ in asked]) for part in (0, 1)
            )
            for layer in range(len(asked[0][0].past))
        ]
        inputs = torch.tensor([[*tokens, *[tokens[-1]] * (count - len(tokens))] for _, tokens in asked], device=device)
        there = torch.arange(longest, device=device) >= longest - lengths[:, None]  # (asked, longest)
        output = self.model(
            input_ids=inputs,
            past_key_values=DynamicCache(pasts),
            attention_mask=torch.cat([there, torch.ones_like(inputs, dtype=torch.bool)], dim=1).long(),
            position_ids=lengths[:, None] + torch.arange(count, device=device),
            use_cache=True,
        )
        log_probs = functional.log_softmax(output.logits.float(), dim=-1)  # (asked, count, V_lm)
        kept = [(layer.keys, layer.values) for layer in _layers(output.past_key_values)]
        answers = []
        for row, (before, tokens) in enumerate(asked):
            inside = log_probs[row, torch.arange(len(tokens) - 1), tokens[1:]].sum()
            span = slice(longest - before.length, longest + len(tokens))
            past = [(keys[row, :, span].clone(), values[row, :, span].clone()) for keys, values in kept]
            after = History(past, log_probs[row, len(tokens) - 1].clone(), before.words + 1)
            answers.append((float(before.next[tokens[0]] + inside), after))
        return answers


def load_hf_over(source: str, labels: Tokenizer) -> HfLm | WordwiseLm:
    """A causal LM by name or folder: over the recogniser's labels if they are tokens of it, else by words."""
    model, tokenizer = load_hf_parts(source)
    if tokenizer is None or has_labels(tokenizer, labels.labels):
        return over_labels(source, model, tokenizer, labels.labels, labels.end)
    try:
        lm = WordwiseLm(model, tokenizer, labels)
    except FewerError as error:
        which = f"its tokenizer (tokenizer.json or vocab.json in {source})"
        raise FewerError(f"{source}: {which} is another one than the recogniser's, and {error}") from error
    say(f"{source}: its tokenizer is another one than the recogniser's, so words are scored when they are complete")
    return lm


def _layers(cache: Any) -> Any:
    """Those of a key-value cache."""
    if not all(getattr(layer, "keys", None) is not None for layer in cache.layers):
        raise FewerError("this LM keeps no keys and values in every layer: use it with `fewer rescore`")
    return cache.layers


def _left_filled(values: Tensor, longest: int) -> Tensor:
    """(heads, n, head) -> (heads, longest, head)"""
    return functional.pad(values, (0, 0, longest - values.shape[1], 0))
