"""The recogniser: padding never matters, and its parts do what SPEC says."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fewer.models.aed import AED, AedConfig
from fewer.models.attention import Attention, additive_energies
from fewer.models.decoder import DecoderConfig
from fewer.models.encoded import Encoded
from fewer.models.encoder import stack_time
from tests.golden.golden import aed_arrays, arrays, encoded, golden_aed, labels
from tests.models.small import STATES, random_encoded, random_labels, small_aed, small_config


@settings(max_examples=25, deadline=None)
@given(lengths=st.lists(st.integers(1, 40), min_size=2, max_size=5), extra=st.integers(0, 13), seed=st.integers(0, 99))
def test_a_sequence_alone_and_in_any_batch_gives_the_same_result(lengths: list[int], extra: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    model = small_aed(seed=seed)
    features = torch.randn(len(lengths), max(lengths) + extra, 8, generator=generator)  # garbage in the padding
    targets = random_labels(len(lengths), 6, seed)
    with torch.no_grad():
        together = model.encode(features, torch.tensor(lengths))
        decoded = model.teacher_forced(together, targets).logits
        ctc = model.ctc_log_probs(together)
        for b, length in enumerate(lengths):
            alone = model.encode(features[b : b + 1, :length], torch.tensor([length]))
            frames = int(alone.lengths[0])
            assert frames == -(-length // 6) == int(together.lengths[b])
            assert together.states[b, frames:].abs().sum() == 0
            torch.testing.assert_close(together.states[b, :frames], alone.states[0], atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(ctc[b, :frames], model.ctc_log_probs(alone)[0], atol=1e-5, rtol=1e-5)
            single = model.teacher_forced(alone, targets[b : b + 1]).logits[0]
            torch.testing.assert_close(decoded[b], single, atol=1e-5, rtol=1e-5)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def numpy_decoder(model: AED, states: np.ndarray, targets: list[int]) -> np.ndarray:
    """One utterance, label by label, as SPEC §1 says it, in NumPy. -> (N, V) logits"""
    config = model.config.decoder
    p = {name: value.numpy().astype(float) for name, value in model.state_dict().items()}
    keys = states @ p["attention.key.weight"].T + p["attention.key.bias"]
    fertility = sigmoid(states @ p["attention.fertility.weight"][0])
    accumulated, context = np.zeros(len(states)), np.zeros(states.shape[1])
    h, c = np.zeros(config.size), np.zeros(config.size)
    history = [np.zeros(config.embedding) for _ in range(config.history)]
    rows = []
    for previous in [None, *targets[:-1]]:
        embedded = np.zeros(config.embedding) if previous is None else p["decoder.embedding.weight"][previous]
        if config.state == "feed_forward":
            history = [embedded, *history[: config.history - 1]]
            inputs = np.concatenate([*history, context])
            s = np.tanh(p["decoder.state.linear.weight"] @ inputs + p["decoder.state.linear.bias"])
            query = s
        else:
            w_ih, w_hh = p["decoder.state.lstm.weight_ih"], p["decoder.state.lstm.weight_hh"]
            gates = w_ih @ np.concatenate([embedded, context]) + w_hh @ h + p["decoder.state.lstm.bias"]
            i, f, g, o = np.split(gates, 4)
            new_c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(g)
            s = sigmoid(o) * np.tanh(new_c)
            zone_c, zone_h = (0.15, 0.05) if config.state == "zoneout_lstm" else (0.0, 0.0)
            h, c = zone_h * h + (1 - zone_h) * s, zone_c * c + (1 - zone_c) * new_c
            query = p["attention.query.weight"] @ s
        energies = np.tanh(keys + query + np.outer(accumulated, p["attention.feedback"])) @ p["attention.energy"]
        weights = np.exp(energies - energies.max())
        weights /= weights.sum()
        context = weights @ states
        accumulated = accumulated + 0.5 * weights * fertility
        readout = p["decoder.readout.weight"] @ np.concatenate([s, embedded, context]) + p["decoder.readout.bias"]
        rows.append(p["decoder.output.weight"] @ readout.reshape(-1, 2).max(1) + p["decoder.output.bias"])
    return np.stack(rows)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("history", [1, 3])
def test_decoders_agree_with_a_numpy_oracle(state: str, history: int) -> None:
    model, states, targets = small_aed(state, history), random_encoded([7, 4]), random_labels(2, 6)
    with torch.no_grad():
        ours = model.teacher_forced(states, targets).logits
    for b, frames in enumerate([7, 4]):
        theirs = numpy_decoder(model, states.states[b, :frames].numpy().astype(float), targets[b].tolist())
        np.testing.assert_allclose(ours[b].numpy(), theirs, atol=2e-5, rtol=1e-4)


def test_zoneout_keeps_old_values_at_random_in_training() -> None:
    model = small_aed("zoneout_lstm").train()
    states, targets = random_encoded([5]), random_labels(1, 8)
    torch.manual_seed(0)
    first = model.teacher_forced(states, targets).logits
    second = model.teacher_forced(states, targets).logits
    assert not torch.allclose(first, second)


def test_energies_and_their_gradients() -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = [(2, 4, 5), (2, 3, 5), (2, 3, 4), (5,), (5,)]
    inputs = [torch.randn(*s, generator=generator, dtype=torch.float64, requires_grad=True) for s in shapes]
    keys, query, feedback, weight, energy = inputs
    plain = torch.tanh(keys[:, None] + query[:, :, None] + feedback[..., None] * weight) @ energy
    torch.testing.assert_close(additive_energies(*inputs), plain)
    assert torch.autograd.gradcheck(additive_energies, inputs)


def test_encoder_gradients_by_gradcheck() -> None:
    model = small_aed().double()
    features = torch.randn(2, 9, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    lengths = torch.tensor([9, 5])
    names = [
        "encoder.convolutions.0.weight",
        "encoder.layers.0.backward_lstm.weight_ih",
        "encoder.layers.2.forward_lstm.bias",
    ]
    parameters = dict(model.named_parameters())

    def states(*values: torch.Tensor) -> torch.Tensor:
        encoded: Encoded = torch.func.functional_call(
            model.encoder,
            {n.removeprefix("encoder."): v for n, v in zip(names, values, strict=True)},
            (features, lengths),
        )
        return encoded.states

    assert torch.autograd.gradcheck(states, [parameters[name] for name in names], atol=1e-6)


@pytest.mark.parametrize("batch", ["A", "B"])
def test_training_objective_and_gradients_agree_with_the_toolkit(batch: str) -> None:
    from fewer.training.objective import ctc_loss_sum, l2, smoothed_cross_entropy

    golden, model = arrays("train_objective"), golden_aed()
    targets, lengths = labels(batch)
    states = encoded(batch)
    log_probs = model.teacher_forced(states, targets).logits.log_softmax(-1)
    ce = smoothed_cross_entropy(log_probs, targets, lengths, 0.1)
    ctc = ctc_loss_sum(model.ctc_log_probs(states), states.lengths, targets, lengths)
    penalty = l2(model.l2_parameters())
    entropy = -(0.9 * np.log(0.9) + 0.1 * np.log(0.1 / 29)) * int(lengths.sum())  # of the smoothed target
    assert ce.item() - entropy == pytest.approx(float(golden[f"{batch}:ce_sum"]), abs=1e-3, rel=1e-4)
    assert ctc.item() == pytest.approx(float(golden[f"{batch}:ctc_sum"]), rel=1e-4)
    assert penalty.item() == pytest.approx(float(golden[f"{batch}:l2"]), rel=1e-4)
    (ce + ctc + penalty).backward()
    theirs = aed_arrays("train_objective", f"{batch}:grad:")
    checked = 0
    for name, parameter in model.named_parameters():
        if name.startswith("encoder."):
            continue  # the toolkit's encoder depends on the rest of the batch
        torch.testing.assert_close(
            parameter.grad, theirs[name], atol=1e-4, rtol=1e-4, msg=lambda m, n=name: f"{n}: {m}"
        )
        checked += 1
    assert checked == 16


def test_teacher_forcing_keeps_no_activation_of_labels_times_frames_times_energy() -> None:
    attention = Attention(16, 8, energy=64)
    memory = attention.prepare(random_encoded([50, 40], 16))
    saved: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.numel()) or t, lambda t: t):
        _, state = attention.start(memory, torch.zeros(2, 8))
        attention.step(memory, state, torch.randn(2, 8, requires_grad=True), torch.zeros(2, 4))
    assert max(saved) <= memory.keys.numel()  # the keys themselves are shared by all steps
    assert sum(n for n in saved if n == memory.keys.numel()) == memory.keys.numel()


def test_a_feed_forward_decoder_must_be_as_wide_as_the_energy() -> None:
    with pytest.raises(ValidationError, match=r"decoder\.size to 1024"):
        AedConfig(vocab_size=10, decoder=DecoderConfig(state="feed_forward", size=1000))


@pytest.mark.parametrize("way", ["input_pool", "input_stack"])
def test_pooling_and_stacking_before_the_first_layer_shorten_the_sequence(way: str) -> None:
    config = small_config()
    encoder = config.encoder.model_copy(update={way: 2, "pools": (3,)})
    assert encoder.reduction == 6
    model = AED(config.model_copy(update={"encoder": encoder})).eval()
    features = torch.randn(2, 29, 8)
    together = model.encode(features, torch.tensor([29, 16]))
    assert together.lengths.tolist() == [5, 3]
    alone = model.encode(features[1:, :16], torch.tensor([16]))
    torch.testing.assert_close(together.states[1, :3], alone.states[0], atol=1e-5, rtol=1e-5)


def test_stacking_joins_frames_and_loses_none() -> None:
    frames = torch.arange(10.0).reshape(1, 5, 2)
    stacked, lengths = stack_time(frames, torch.tensor([5]), 3)
    assert stacked.tolist() == [[[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 0, 0]]]
    assert lengths.tolist() == [2]


def test_no_convolutions_and_no_layers_hand_on_the_features() -> None:
    config = small_config()
    encoder = config.encoder.model_copy(update={"filters": 0, "layers": 0})
    model = AED(config.model_copy(update={"encoder": encoder}))
    features = torch.randn(2, 6, 8)
    features[1, 4:] = 0
    encoded = model.encode(features, torch.tensor([6, 4]))
    torch.testing.assert_close(encoded.states, features)
