"""ĉ_i = E_D[h]: the mean encoder state of the training set."""

from typing import Literal

import torch
from torch import Tensor

from fewer.compute.world import World
from fewer.errors import FewerError
from fewer.files import fingerprint
from fewer.ilm.config import IlmConfig
from fewer.ilm.estimate import Estimation
from fewer.ilm.method import IlmMethod
from fewer.models.context import ConstantContext
from fewer.models.encoded import length_mask
from fewer.models.tree import exact
from fewer.recognisers.recogniser import Recogniser
from fewer.store.checkpoint import load_tensors, save_tensors


class Mean:
    """Exact, in one pass: a sum in float64 and a count, over all batches and processes."""

    def __init__(self, size: int, world: World):
        self.world = world
        self.total = torch.zeros(size, dtype=torch.float64)
        self.count = 0

    def add(self, values: Tensor, mask: Tensor) -> None:
        """(B, N, D), (B, N)"""
        self.total += (values.to(exact(values.device)) * mask[:, :, None]).sum((0, 1)).cpu()
        self.count += int(mask.sum())

    def result(self) -> Tensor:
        *total, count = self.world.sum([*self.total.tolist(), float(self.count)])
        if not count:
            raise FewerError("there is nothing to average: the training set is empty")
        return (torch.tensor(total, dtype=torch.float64) / count).float()


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
    means = {name: Mean(sizes[name], estimation.world) for name in wanted}
    for batch, encoded in estimation.heard(transcripts="c" in wanted, shared=True):
        if "h" in means:
            means["h"].add(encoded.states, encoded.mask)
        if "c" in means:
            contexts = recogniser.teacher_forced_contexts(encoded, batch.labels.to(recogniser.device))
            means["c"].add(contexts, length_mask(batch.label_lengths.to(recogniser.device), contexts.shape[1]))
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
