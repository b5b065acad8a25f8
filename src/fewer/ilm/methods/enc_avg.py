"""ĉ_i = E_D[h]: the mean encoder state of the training set."""

from typing import Literal

import torch
from torch import Tensor

from fewer.data.batches import Batch
from fewer.errors import FewerError
from fewer.files import fingerprint
from fewer.ilm.config import IlmConfig
from fewer.ilm.estimate import Estimation
from fewer.ilm.method import IlmMethod
from fewer.models.context import ConstantContext
from fewer.models.encoded import Encoded, length_mask
from fewer.models.tree import exact
from fewer.recognisers.recogniser import Recogniser
from fewer.store.checkpoint import load_tensors, save_tensors


class Mean:
    """Exact, in one pass: a sum in float64 and a count, over all batches in order."""

    def __init__(self, size: int):
        self.total, self.count = torch.zeros(size, dtype=torch.float64), 0

    def add(self, total: Tensor, count: int) -> None:
        """Of a batch, by `sum_of`. (D,)"""
        self.total += total
        self.count += count

    def result(self) -> Tensor:
        if not self.count:
            raise FewerError("there is nothing to average: the training set is empty")
        return (self.total / self.count).float()


def sum_of(values: Tensor, mask: Tensor) -> tuple[Tensor, int]:
    """And how many there are. (B, N, D), (B, N) -> (D,)"""
    return (values.to(exact(values.device)) * mask[:, :, None]).sum((0, 1)).cpu().double(), int(mask.sum())


@torch.no_grad()
def training_mean(estimation: Estimation, of: Literal["h", "c"]) -> Tensor:
    """E_D[h] over all frames of speech, or E_D[c] over all labels, end labels included, teacher-forced.

    Where means are kept (`means`), one pass over the training set measures both, and the second time is free.
    """
    config, recogniser, world = estimation.config, estimation.recogniser, estimation.world
    if config.means is None or config.own_transcripts:  # these leave utterances out, which E_D[h] need not
        return _measured(estimation, (of,))[of]
    path = config.means / f"{fingerprint(recogniser.fingerprint, estimation.train)[:16]}.safetensors"
    if not world.same(path.exists()):
        both = _measured(estimation, ("h", "c"))
        if world.first:
            save_tensors(path, both)
        world.wait()
    return load_tensors(path, "delete it to measure it again")[0][of]


def _measured(estimation: Estimation, wanted: tuple[str, ...]) -> dict[str, Tensor]:
    recogniser = estimation.recogniser
    sizes = {"h": recogniser.sizes.encoder, "c": recogniser.sizes.context}
    means = {name: Mean(sizes[name]) for name in wanted}

    @torch.no_grad()
    def sums(batch: Batch, encoded: Encoded) -> dict[str, tuple[Tensor, int]]:
        found = {"h": sum_of(encoded.states, encoded.mask)} if "h" in wanted else {}
        if "c" in wanted:
            contexts = recogniser.teacher_forced_contexts(encoded, batch.labels.to(recogniser.device))
            found["c"] = sum_of(contexts, length_mask(batch.label_lengths.to(recogniser.device), contexts.shape[1]))
        return found

    for found in estimation.on_heard(sums, transcripts="c" in wanted):
        for name, (total, count) in found.items():
            means[name].add(total, count)
    return {name: mean.result() for name, mean in means.items()}


def new_context(config: IlmConfig, recogniser: Recogniser) -> ConstantContext:
    """A vector that is to be measured."""
    return ConstantContext(torch.zeros(recogniser.sizes.context), config.zero_first(recogniser))


@torch.no_grad()
def measure(estimation: Estimation) -> ConstantContext:
    """Over all frames of speech."""
    recogniser = estimation.recogniser
    vector = recogniser.hear_only(training_mean(estimation, "h").to(recogniser.device))
    return ConstantContext(vector, estimation.config.zero_first(recogniser))


METHOD = IlmMethod(
    "enc_avg",
    "Internal LM: the decoder with the training set's mean encoder state as context.",
    symbol="E_D[h]",
    order=(3, 2),
    needs=("audio",),
    context=new_context,
    estimate=measure,
)
