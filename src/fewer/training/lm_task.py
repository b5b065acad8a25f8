"""Training a language model on text."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from fewer.data.batches import TextBatch
from fewer.data.reading import Batches
from fewer.training.objective import smoothed_cross_entropy
from fewer.training.task import Losses, Moment, Task


class LmTask(Task):
    """Cross entropy of every label given those before it. Any module with `log_probs(labels)` will do."""

    def __init__(
        self,
        make: Callable[[], nn.Module],
        train: Batches[TextBatch],
        dev: Batches[TextBatch],
        smoothing: float = 0.0,
        penalised: Callable[[Any], Tensor] | None = None,
    ):
        """make: builds the LM; parameters of it that do not require gradients stay as they are. penalised: as L2."""
        self.make, self.train, self.dev, self.smoothing, self.penalised = make, train, dev, smoothing, penalised

    def build(self, stage: int) -> nn.Module:
        return self.make()

    def losses(self, module: Any, batch: TextBatch, moment: Moment) -> Losses:
        log_probs = module.log_probs(batch.labels)  # (B, N, V)
        plain = smoothed_cross_entropy(log_probs, batch.labels, batch.label_lengths)
        if not (moment.training and self.smoothing):
            return Losses(plain, {"ce": plain.detach()})
        total = smoothed_cross_entropy(log_probs, batch.labels, batch.label_lengths, self.smoothing)
        return Losses(total, {"ce": plain.detach()})

    def penalty(self, module: nn.Module) -> Tensor | None:
        return None if self.penalised is None else self.penalised(module)
