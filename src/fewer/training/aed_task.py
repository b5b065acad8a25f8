"""Training a recogniser: cross entropy with label smoothing, CTC, L2, growing, and an external LM if there is one."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fewer.data.batches import Batch
from fewer.data.reading import Batches
from fewer.models.aed import AED
from fewer.models.encoded import Encoded
from fewer.training.configs import AedTrainConfig
from fewer.training.growing import grow, stage_config
from fewer.training.objective import (
    ctc_loss_sum,
    l2,
    local_fusion,
    off_diagonal,
    smoothed_cross_entropy,
    smoothing_entropy,
)
from fewer.training.task import Losses, Moment, Task

ENCODER = ("encoder.", "ctc.")  # how the names of the weights begin that CTC alone trains


class AedTask(Task):
    """The paper's objective (SPEC §2), with local fusion (SPEC §5) if an external LM is given."""

    def __init__(
        self,
        config: AedTrainConfig,
        train: Batches[Batch],
        dev: Batches[Batch],
        external_lm: Any = None,
        initialise: Callable[[AED], None] = lambda model: None,
    ):
        """external_lm: a module with `log_probs(labels)`; it is frozen. initialise: changes a new model's weights."""
        self.config, self.train, self.dev, self.initialise = config, train, dev, initialise
        self.external_lm: Any = None if external_lm is None else external_lm.eval().requires_grad_(False)
        self.lm_scale = config.external_lm.scale if config.external_lm else 0.0

    def stage(self, sub_epoch: int) -> int:
        """Of growing. Where Adam starts anew with label smoothing, that is one stage more, of the same size."""
        growing = self.config.growing
        if growing is None:
            return 0
        return growing.stage(sub_epoch) + (growing.reset_with_smoothing and sub_epoch >= self.config.smoothing_from)

    def build(self, stage: int) -> nn.Module:
        model = AED(stage_config(self.config.model, self.config.growing, stage))
        self.initialise(model)
        return model

    def grow(self, old: Any, new: Any) -> None:
        grow(old, new, self.config.growing.new_layer if self.config.growing else "below_last")

    def losses(self, module: Any, batch: Batch, moment: Moment) -> Losses:
        encoded = module.encode(batch.features, batch.feature_lengths)
        if moment.training and self._encoder_first(moment.sub_epoch):
            ctc = self._ctc(module, encoded, batch)
            return Losses(self.config.ctc_scale * ctc, {"ctc": ctc.detach()})
        decoded = module.teacher_forced(encoded, batch.labels)
        log_probs = functional.log_softmax(decoded.logits.float(), dim=-1)  # (B, N, V)
        if self.external_lm is not None:
            log_probs = local_fusion(log_probs, self._lm_log_probs(batch.labels), self.lm_scale)
        smoothing = self.smoothing(moment)
        labels, lengths = batch.labels, batch.label_lengths
        plain = smoothed_cross_entropy(log_probs if smoothing == 0 else log_probs.detach(), labels, lengths)
        total = plain if smoothing == 0 else smoothed_cross_entropy(log_probs, labels, lengths, smoothing)
        parts = {"ce": plain.detach()}
        if not moment.training and self.steering(moment.sub_epoch) == "smoothed":
            parts["smoothed"] = self._divergence(log_probs, batch, moment.sub_epoch)
        if self.config.ctc_scale:
            ctc = self._ctc(module, encoded, batch)
            total = total + self.config.ctc_scale * ctc
            parts["ctc"] = ctc.detach()
        if (guide := self.config.guide) is not None and moment.training and moment.sub_epoch <= guide.last:
            weights = torch.stack([state.weights for state in decoded.context_states], dim=1)  # (B, N, T)
            off = off_diagonal(weights, encoded.lengths, lengths, guide.width)
            total = total + guide.scale * off
            parts["off_diagonal"] = off.detach()
        return Losses(total, parts)

    def _ctc(self, module: Any, encoded: Encoded, batch: Batch) -> Tensor:
        return ctc_loss_sum(module.ctc_log_probs(encoded), encoded.lengths, batch.labels, batch.label_lengths)

    def smoothing(self, moment: Moment) -> float:
        return self._smoothing_at(moment.sub_epoch) if moment.training else 0.0

    def _smoothing_at(self, sub_epoch: int) -> float:
        return self.config.smoothing if sub_epoch >= self.config.smoothing_from else 0.0

    def _divergence(self, log_probs: Tensor, batch: Batch, sub_epoch: int) -> Tensor:
        """The loss that the authors' newbob sees: of smoothed targets, as training has them, without their entropy."""
        smoothing, labels = self._smoothing_at(sub_epoch), batch.label_lengths
        loss = smoothed_cross_entropy(log_probs, batch.labels, labels, smoothing)
        return loss - labels.sum() * smoothing_entropy(smoothing, log_probs.shape[-1])

    def penalty(self, module: Any) -> Tensor | None:
        if not self.config.l2:
            return None
        penalty = l2(module.l2_parameters(self.config.l2_parts), self.config.l2)
        parts = self.config.l2_parts
        growing = self.config.growing is not None and self.config.growing.scale_regularisation
        share = module.config.encoder.size / self.config.model.encoder.size
        if growing and share < 1 and (parts is None or "encoder" in parts):  # less for the layers that grow
            penalty = penalty - l2(module.encoder.layers.parameters(), (1 - share) * self.config.l2)
        return penalty

    def frozen(self, module: nn.Module, sub_epoch: int) -> list[nn.Parameter]:
        """The decoder and its attention, while the encoder comes first."""
        if not self._encoder_first(sub_epoch):
            return []
        return [parameter for name, parameter in module.named_parameters() if not name.startswith(ENCODER)]

    def watched(self, sub_epoch: int) -> str:
        return "ctc" if self._encoder_first(sub_epoch) else "ce"

    def steering(self, sub_epoch: int) -> str:
        newbob = self.config.schedule.newbob
        smoothed = newbob is not None and newbob.measure == "smoothed"
        return "smoothed" if smoothed and not self._encoder_first(sub_epoch) else self.watched(sub_epoch)

    def _encoder_first(self, sub_epoch: int) -> bool:
        return sub_epoch <= self.config.encoder_first

    @torch.no_grad()
    def _lm_log_probs(self, labels: Tensor) -> Tensor:
        """Of the true prefixes. (B, N) -> (B, N, V)"""
        return self.external_lm.to(labels.device).log_probs(labels)
