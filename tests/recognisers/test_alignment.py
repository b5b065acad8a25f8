"""Times of labels: cross-attention and warping as transformers has them, rows as openai/whisper takes them."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from transformers.models.whisper.generation_whisper import _dynamic_time_warping, _median_filter

from fewer.recognisers.transformers.contexts import Listening
from fewer.recognisers.whisper.alignment import Aligner, alignment_heads, median, smoothed, warp
from fewer.recognisers.whisper.recogniser import WhisperRecogniser
from tests.recognisers.tiny import noises

HEADS = [(1, 0), (2, 3), (2, 1)]
LABELS = [5, 9, 70, 33, 12, 5]


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (5, 5), (7, 40), (30, 12)])
def test_the_path_is_that_of_transformers(shape: tuple[int, int]) -> None:
    for seed in range(3):
        cost = np.random.default_rng(seed).standard_normal(shape)
        rows, columns = _dynamic_time_warping(cost)
        expected = [columns[rows == row].min() for row in range(shape[0])]
        assert warp(cost).tolist() == expected


def test_a_clear_diagonal_is_followed() -> None:
    cost = np.ones((3, 9))
    for row in range(3):
        cost[row, 3 * row : 3 * row + 3] = -1.0
    assert warp(cost).tolist() == [0, 3, 6]


def test_weights_and_times_are_those_of_transformers(whisper: WhisperRecogniser, theirs: Any) -> None:
    samples = noises(1)[0]
    encoded = whisper.listen([samples])
    aligner = Aligner(whisper.attention, whisper.prompt, HEADS)
    inputs = torch.tensor([[*whisper.prompt, *LABELS]])
    theirs.set_attn_implementation("eager")
    with torch.inference_mode():
        outputs = theirs(encoder_outputs=(encoded.states,), decoder_input_ids=inputs, output_attentions=True)
    theirs.set_attn_implementation("sdpa")
    expected = torch.stack([outputs.cross_attentions[layer][0, head] for layer, head in HEADS])
    ours = aligner.weights(encoded, LABELS)
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-4)
    frames = int(encoded.lengths[0])
    first = len(whisper.prompt) - 1  # where the first label is predicted
    part = expected[:, first:, :frames]
    standard = (part - part.mean(1, keepdim=True)) / part.std(1, keepdim=True, unbiased=False)
    matrix = _median_filter(standard[None], 7)[0].mean(0)
    torch.testing.assert_close(smoothed(ours[:, first:, :frames]), matrix, atol=1e-3, rtol=1e-3)
    rows, columns = _dynamic_time_warping(-matrix.double().numpy())
    starts = [0.02 * columns[rows == row].min() for row in range(len(LABELS) + 1)]
    times = aligner.times(encoded, LABELS)
    assert [start for start, _ in times] == pytest.approx(starts[:-1])
    assert [end for _, end in times] == pytest.approx(starts[1:])
    assert aligner.times(encoded, []) == []


def test_weights_in_8_bits_are_nearly_those_in_float32(whisper: WhisperRecogniser) -> None:
    encoded = whisper.listen([noises(1)[0]])
    quick = Listening(whisper.decoder.for_search("int8"))
    found, exact = (
        Aligner(attention, whisper.prompt, HEADS).weights(encoded, LABELS) for attention in (quick, whisper.attention)
    )
    assert 0 < float((found - exact).norm() / exact.norm()) < 0.03


def test_heads_are_the_models_own_or_those_of_the_upper_layers() -> None:
    assert alignment_heads(SimpleNamespace(alignment_heads=[[2, 1], [3, 0]]), 4, 6) == [(2, 1), (3, 0)]
    assert alignment_heads(object(), 4, 2) == [(2, 0), (2, 1), (3, 0), (3, 1)]


@pytest.mark.parametrize("count", [1, 3, 7])
def test_the_median_is_that_of_sorting(count: int) -> None:
    values = torch.randn(4, 9, count).round(decimals=1)  # with equal numbers
    assert torch.equal(median(values.unbind(-1)), values.median(dim=-1).values)
