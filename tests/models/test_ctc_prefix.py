"""The CTC prefix score against an enumeration of all alignments."""

import itertools
import math

import pytest
import torch

from fewer.models.ctc_prefix import CtcPrefixScorer
from fewer.models.encoded import Encoded
from tests.models.small import random_encoded


class Branch:
    """Only a CTC branch: random log-probabilities of 3 labels (0: the end, never emitted) and blank."""

    vocab_size = 3

    def ctc_log_probs(self, encoded: Encoded) -> torch.Tensor:
        generator = torch.Generator().manual_seed(5)
        logits = 1.5 * torch.randn(len(encoded), encoded.states.shape[1], 4, generator=generator)
        logits[:, :, 0] = -1e4
        return logits.log_softmax(-1)


def collapse(path: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(label for label, _ in itertools.groupby(path) if label != 3)


@pytest.mark.parametrize("labels", [[1, 2], [1, 1], [2, 2, 1], [2]])
def test_prefix_scores_equal_the_sum_over_all_alignments(labels: list[int]) -> None:
    encoded = random_encoded([5, 4], 2)
    branch = Branch()
    scorer = CtcPrefixScorer(branch)  # type: ignore[arg-type]
    log_probs = branch.ctc_log_probs(encoded)
    for utterance, frames in enumerate([5, 4]):
        mass: dict[tuple[int, ...], float] = {}
        for path in itertools.product(range(4), repeat=frames):
            p = math.exp(sum(float(log_probs[utterance, t, label]) for t, label in enumerate(path)))
            mass[collapse(path)] = mass.get(collapse(path), 0.0) + p
        memory, state = scorer.start(encoded)
        read = torch.full((2,), -1)
        for i in range(len(labels) + 1):
            scores, state = scorer.step(memory, state, read)
            prefix = tuple(labels[:i])
            psi = sum(p for sequence, p in mass.items() if sequence[:i] == prefix)
            for label in (1, 2):
                longer = sum(p for sequence, p in mass.items() if sequence[: i + 1] == (*prefix, label))
                if longer > 1e-12:
                    assert float(scores[0, utterance, label]) == pytest.approx(math.log(longer / psi), abs=1e-4)
            assert float(scores[0, utterance, 0]) == pytest.approx(math.log(mass.get(prefix, 0.0) / psi), abs=1e-4)
            if i < len(labels):
                read = torch.full((2,), labels[i])


def test_rows_are_scored_independently() -> None:
    encoded = random_encoded([5, 4], 2)
    scorer = CtcPrefixScorer(Branch())  # type: ignore[arg-type]
    memory, state = scorer.start(encoded)
    _, state = scorer.step(memory, state, torch.full((2,), -1))
    state = scorer.reorder(state, torch.tensor([0, 0, 1, 1]))
    together, _ = scorer.step(memory, state, torch.tensor([1, 2, 2, 1]))
    keep = torch.tensor([1])
    alone, _ = scorer.step(scorer.select(memory, keep), scorer.reorder(state, torch.tensor([2])), torch.tensor([2]))
    torch.testing.assert_close(together[:, 2:3], alone)
