"""What training minimises (SPEC §2, §5). Every function gives a sum; the trainer divides by the global label count."""

import math
from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn import functional

from fewer.models.encoded import length_mask


def smoothed_cross_entropy(log_probs: Tensor, labels: Tensor, lengths: Tensor, smoothing: float = 0.0) -> Tensor:
    """Σ −Σ_v q(v)·log p(v), where q is 1 − smoothing on the label and smoothing/(V−1) on each other label.

    log_probs (B, N, V), labels (B, N), lengths (B,); positions from `lengths` on do not count.
    """
    log_probs = log_probs.float()
    score = log_probs.gather(2, labels[:, :, None]).squeeze(2)  # (B, N)
    if smoothing > 0:
        other = smoothing / (log_probs.shape[2] - 1)
        score = (1 - smoothing - other) * score + other * log_probs.sum(2)
    return -score.masked_fill(~length_mask(lengths, labels.shape[1]), 0.0).sum()


def smoothing_entropy(smoothing: float, labels: int) -> float:
    """The entropy of a smoothed target over so many labels: the least that its cross entropy can be."""
    if smoothing == 0:
        return 0.0
    return -(1 - smoothing) * math.log(1 - smoothing) - smoothing * math.log(smoothing / (labels - 1))


def ctc_loss_sum(log_probs: Tensor, lengths: Tensor, labels: Tensor, label_lengths: Tensor) -> Tensor:
    """Σ −log P_CTC(labels | frames); an utterance with too few frames for its labels counts 0, never NaN.

    log_probs (B, T, V+1) with the blank last, lengths (B,), labels (B, N), label_lengths (B,).
    """
    losses = functional.ctc_loss(
        log_probs.float().transpose(0, 1),
        labels,
        lengths,
        label_lengths,
        blank=log_probs.shape[2] - 1,
        reduction="none",
        zero_infinity=True,
    )
    return losses.sum()


def off_diagonal(weights: Tensor, frames: Tensor, lengths: Tensor, width: float) -> Tensor:
    """Σ_n Σ_t weight·(1 − exp(−(n/N − t/T)²/2·width²)): attention that lies off the diagonal (Tachibana et al. 2018).

    weights (B, N, T), frames and lengths (B,): T and N of each utterance.
    """
    label = torch.arange(weights.shape[1], device=weights.device).add(0.5) / lengths[:, None]  # (B, N)
    frame = torch.arange(weights.shape[2], device=weights.device).add(0.5) / frames[:, None]  # (B, T)
    distance = label[:, :, None] - frame[:, None]  # (B, N, T)
    off = 1 - torch.exp(-distance.square() / (2 * width**2))
    counted = length_mask(lengths, weights.shape[1])[:, :, None]
    return (weights.float() * off).masked_fill(~counted, 0.0).sum()


def l2(parameters: Iterable[Tensor], scale: float = 1e-4) -> Tensor:
    """scale·Σw², without ½, so that its gradient is 2·scale·w."""
    squares = [torch.linalg.vector_norm(parameter.float()).square() for parameter in parameters]
    return scale * torch.stack(squares).sum() if squares else torch.zeros(())


def local_fusion(aed_log_probs: Tensor, lm_log_probs: Tensor, scale: float) -> Tensor:
    """Softmax over labels of log P_AED + λ·log P_LM: training with an external LM. (B, N, V) each -> (B, N, V)

    The LM is frozen; gradients reach the AED through the renormalisation.
    """
    return functional.log_softmax(aed_log_probs.float() + scale * lm_log_probs.detach().float(), dim=-1)
