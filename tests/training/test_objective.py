"""The losses, against sums written out label by label."""

import math
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fewer.training.objective import (
    ctc_loss_sum,
    l2,
    local_fusion,
    off_diagonal,
    smoothed_cross_entropy,
)


def log_probs(*shape: int, seed: int = 0) -> Tensor:
    return functional.log_softmax(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double(), dim=-1)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
def test_smoothed_cross_entropy_label_by_label(smoothing: float) -> None:
    scores, labels, lengths = log_probs(2, 3, 5), torch.tensor([[1, 4, 0], [2, 0, 3]]), torch.tensor([3, 2])
    expected = 0.0
    for b, n in product(range(2), range(3)):
        if n < lengths[b]:
            for v in range(5):
                target = 1 - smoothing if v == labels[b, n] else smoothing / 4
                expected -= target * scores[b, n, v].item()
    assert smoothed_cross_entropy(scores, labels, lengths, smoothing).item() == pytest.approx(expected, rel=1e-6)


def test_a_perfect_model_reaches_the_entropy_of_the_smoothed_target() -> None:
    target = torch.full((1, 1, 6), 0.1 / 5)
    target[0, 0, 2] = 0.9
    loss = smoothed_cross_entropy(target.log(), torch.tensor([[2]]), torch.tensor([1]), 0.1)
    assert loss.item() == pytest.approx(-(target * target.log()).sum().item(), rel=1e-5)


def test_ctc_sums_over_all_alignments() -> None:
    """Two labels in four frames, by listing every path of labels and blanks (blank = 3)."""
    scores = log_probs(1, 4, 4)
    total = 0.0
    for path in product(range(4), repeat=4):
        merged = [label for n, label in enumerate(path) if label != 3 and (n == 0 or path[n - 1] != label)]
        if merged == [2, 0]:
            total += math.exp(sum(scores[0, n, label].item() for n, label in enumerate(path)))
    loss = ctc_loss_sum(scores, torch.tensor([4]), torch.tensor([[2, 0]]), torch.tensor([2]))
    assert loss.item() == pytest.approx(-math.log(total), rel=1e-5)


def test_ctc_ignores_an_utterance_that_is_too_short_for_its_labels() -> None:
    scores = log_probs(3, 4, 4).requires_grad_()
    labels = torch.tensor([[2, 2, 0, 1], [2, 1, 0, 0], [1, 1, 1, 0]])  # 4 frames cannot hold 2␣2 0 1, nor 1␣1␣1 0
    lengths, label_lengths = torch.tensor([4, 4, 4]), torch.tensor([4, 3, 4])
    loss = ctc_loss_sum(scores, lengths, labels, label_lengths)
    loss.backward()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
    assert (scores.grad[0] == 0).all()
    assert (scores.grad[2] == 0).all()
    alone = ctc_loss_sum(scores[1:2], lengths[1:2], labels[1:2], label_lengths[1:2])
    assert loss.item() == pytest.approx(alone.item(), rel=1e-6)


def test_l2_has_no_half() -> None:
    weights = [torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([[3.0]], requires_grad=True)]
    loss = l2(weights, 1e-4)
    loss.backward()
    assert loss.item() == pytest.approx(14e-4)
    assert weights[1].grad is not None
    assert weights[1].grad.item() == pytest.approx(6e-4)
    assert l2([]).item() == 0.0


def test_local_fusion_is_renormalised_and_trains_the_recogniser_only() -> None:
    aed, lm = log_probs(1, 2, 4).requires_grad_(), log_probs(1, 2, 4, seed=1).requires_grad_()
    fused = local_fusion(aed, lm, 0.5)
    joint = aed.exp() * lm.exp() ** 0.5
    torch.testing.assert_close(fused.exp().double(), joint / joint.sum(-1, keepdim=True), rtol=1e-5, atol=1e-7)
    (-fused[0, 0, 2]).backward()
    assert lm.grad is None
    assert aed.grad is not None
    expected = fused[0, 0].detach().exp().double()  # the gradient of a cross entropy: fused posterior − target
    expected[2] -= 1
    torch.testing.assert_close(aed.grad[0, 0], expected, rtol=1e-5, atol=1e-6)


def test_off_diagonal_is_what_attention_gives_to_distant_frames_label_by_label() -> None:
    weights, frames, lengths = torch.rand(2, 3, 5), torch.tensor([5, 4]), torch.tensor([3, 2])
    expected = 0.0
    for b, n, t in product(range(2), range(3), range(5)):
        if n < lengths[b]:
            distance = (n + 0.5) / lengths[b].item() - (t + 0.5) / frames[b].item()
            expected += weights[b, n, t].item() * (1 - math.exp(-(distance**2) / (2 * 0.1**2)))
    assert off_diagonal(weights, frames, lengths, 0.1).item() == pytest.approx(expected, rel=1e-5)
    on = torch.eye(4)[None]
    assert off_diagonal(on, torch.tensor([4]), torch.tensor([4]), 0.1).item() == 0.0
