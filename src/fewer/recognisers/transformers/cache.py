"""Keys and values of a beam search's hypotheses, which beam search does not move.

Hypotheses of an utterance share most of their past. So each position's keys and values are written once, into the
next slots of their utterance, and a hypothesis knows which slots are its own past (`visible`). Reordering the beam
only reorders that table. The hypotheses of an utterance attend to all of its slots in one product, with a mask. Slots
that no hypothesis sees any more are dropped now and then (not on a GPU, which would have to be asked for them).
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from fewer.models.tree import free_to_ask

LEAST = 64  # slots before it is looked whether some can be dropped


class Slots:
    """The memory that several states may share: a state owns the slots before its `used`, the rest is free or newer."""

    def __init__(self, tensor: Tensor, filled: int):
        self.tensor = tensor  # (layers, 2, A · B, heads, capacity, head): keys and values
        self.filled = filled

    def roomy(self, used: int, more: int) -> "Slots":
        """Slots in which `more` can be written after `used`: these, or a copy where they are full or written on."""
        if used == self.filled and used + more <= self.tensor.shape[4]:
            return self
        shape = list(self.tensor.shape)
        shape[4] = max(LEAST, 2 * (used + more))
        tensor = self.tensor.new_empty(shape)
        tensor[..., :used, :] = self.tensor[..., :used, :]
        return Slots(tensor, used)


@dataclass(frozen=True)
class BeamCache:
    """The past of B utterances × K hypotheses under A contexts, which all have the same hypotheses."""

    slots: Slots
    visible: Tensor  # (B, K, used) bool
    review: int = LEAST  # look for slots to drop when so many are used

    @classmethod
    def empty(cls, layers: int, contexts: int, utterances: int, heads: int, head: int, like: Tensor) -> "BeamCache":
        """Of one hypothesis for each utterance, without past. heads, head: how many, and the size of one."""
        shape = (layers, 2, contexts * utterances, heads, LEAST, head)
        visible = torch.zeros(utterances, 1, 0, dtype=torch.bool, device=like.device)
        return cls(Slots(like.new_empty(shape), 0), visible)

    def extended(self) -> "Extension":
        """Room for one more position of each hypothesis."""
        utterances, width, used = self.visible.shape
        slots = self.slots.roomy(used, width)
        slots.filled = used + width
        itself = torch.eye(width, dtype=torch.bool, device=self.visible.device).expand(utterances, -1, -1)
        return Extension(BeamCache(slots, torch.cat([self.visible, itself], dim=2), self.review))

    def reordered(self, rows: Tensor) -> "BeamCache":
        """Row i is what row rows[i] was; whole utterances may be missing. (B', K')"""
        if not len(rows):  # all utterances are done
            return BeamCache(self.slots, self.visible[:0], self.review)
        utterances, width, used = self.visible.shape
        visible = self.visible.flatten(0, 1)[rows]  # (B', K', used)
        slots, review = self.slots, self.review
        if len(rows) < utterances:
            kept = rows[:, 0].div(width, rounding_mode="floor")  # (B',)
            by_context = slots.tensor.unflatten(2, (-1, utterances))[..., :used, :]
            slots = Slots(by_context.index_select(3, kept).flatten(2, 3), used)
        if used >= review and free_to_ask(visible):  # a GPU has room
            slots, visible = _without_unseen(slots, visible)
            review = max(LEAST, 2 * visible.shape[2])
        return BeamCache(slots, visible, review)


class Extension:
    """One step: every layer writes its keys and values into the new slots and attends to all."""

    def __init__(self, cache: BeamCache):
        self.cache = cache
        self.utterances, self.width, self.used = cache.visible.shape
        self.bias = torch.zeros_like(cache.visible, dtype=cache.slots.tensor.dtype)
        self.bias.masked_fill_(~cache.visible, float("-inf"))
        self.bias = self.bias.unsqueeze(1).repeat(cache.slots.tensor.shape[2] // self.utterances, 1, 1, 1)

    def attend(self, layer: int, qkv: Tensor) -> Tensor:
        """(A · B · K, 3 · W) -> (A · B · K, W)"""
        tensor = self.cache.slots.tensor[layer]  # (2, A · B, heads, capacity, head)
        heads = tensor.shape[2]
        parts = qkv.view(-1, self.width, 3, heads, tensor.shape[4]).permute(2, 0, 3, 1, 4)  # (3, A · B, heads, K, head)
        tensor[..., self.used - self.width : self.used, :] = parts[1:]
        keys, values = tensor[..., : self.used, :].unbind(0)
        attended = functional.scaled_dot_product_attention(parts[0], keys, values, attn_mask=self.bias, scale=1.0)
        return attended.transpose(1, 2).reshape(len(qkv), -1)


def _without_unseen(slots: Slots, visible: Tensor) -> tuple[Slots, Tensor]:
    """Drop slots that no hypothesis sees, as far as all utterances have such."""
    seen = visible.any(dim=1)  # (B, used)
    most = int(seen.sum(1).max())
    if 2 * most > visible.shape[2]:
        return slots, visible
    order = seen.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :most]  # (B, most)
    contexts = slots.tensor.shape[2] // len(order)
    index = order.repeat(contexts, 1)[None, None, :, None, :, None]
    shape = (*slots.tensor.shape[:4], most, slots.tensor.shape[5])
    tensor = slots.tensor.gather(4, index.expand(shape))
    return Slots(tensor, most), visible.gather(2, order[:, None].expand(-1, visible.shape[1], -1))
