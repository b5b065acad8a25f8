"""Growing: where old weights go, and that the grown net still computes with them."""

import pytest
import torch
from torch import Tensor, nn

from fewer.models.aed import AED, AedConfig
from fewer.models.decoder import DecoderConfig
from fewer.models.encoder import EncoderConfig
from fewer.training.growing import GrowingConfig, copy_leading, grow, stage_config

STATES = ["lstm", "zoneout_lstm", "feed_forward"]


def config(layers: int, size: int, state: str = "lstm", pools: tuple[int, ...] = (3, 2)) -> AedConfig:
    encoder = EncoderConfig(features=8, filters=2, layers=layers, size=size, pools=pools)
    decoder = DecoderConfig.model_validate({"state": state, "size": 6, "embedding": 4, "readout": 6, "history": 2})
    return AedConfig(vocab_size=9, encoder=encoder, decoder=decoder, energy=6)


def outputs(model: AED) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    features, lengths = torch.randn(2, 23, 8, generator=generator), torch.tensor([23, 14])
    labels = torch.tensor([[3, 1, 8, 0], [2, 0, 0, 0]])
    with torch.no_grad():
        encoded = model.eval().encode(features, lengths)
        return encoded.states, model.teacher_forced(encoded, labels).logits, model.ctc_log_probs(encoded)


def randomised(model: AED) -> AED:
    """Biases too, which start at zero."""
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -0.5, 0.5)
    return model


def test_the_papers_stages() -> None:
    final = AedConfig(vocab_size=10025)
    growing = GrowingConfig(starts=(26, 31, 36, 41))
    assert [growing.stage(sub_epoch) for sub_epoch in (1, 25, 26, 30, 31, 36, 40, 41, 300)] == [
        0,
        0,
        1,
        1,
        2,
        3,
        3,
        4,
        4,
    ]
    encoders = [stage_config(final, growing, stage).encoder for stage in range(5)]
    assert [(encoder.layers, encoder.size) for encoder in encoders] == [
        (2, 512),
        (3, 640),
        (4, 768),
        (5, 896),
        (6, 1024),
    ]
    assert [encoder.pools for encoder in encoders] == [(6,), (3, 2), (3, 2), (3, 2), (3, 2)]
    assert stage_config(final, growing, 4) == final
    assert growing.problem(6) is None
    assert "give 3 sub-epochs" in str(growing.problem(5))
    assert "must rise" in str(GrowingConfig(starts=(5, 5)).problem(4))


@pytest.mark.parametrize("state", STATES)
def test_with_zeros_as_new_weights_a_wider_net_computes_the_same(state: str) -> None:
    """Every place that reads a layer's output has its old weights where the old units now are."""
    torch.manual_seed(0)
    old, new = randomised(AED(config(3, 3, state))), AED(config(3, 5, state))
    with torch.no_grad():
        for parameter in new.parameters():
            parameter.zero_()
        grow(old, new)
    states, logits, ctc = outputs(old)
    new_states, new_logits, new_ctc = outputs(new)
    torch.testing.assert_close(new_states[:, :, [0, 1, 2, 5, 6, 7]], states)  # [forward; backward]
    assert (new_states[:, :, [3, 4, 8, 9]] == 0).all()
    torch.testing.assert_close(new_logits, logits)
    torch.testing.assert_close(new_ctc, ctc)


def test_old_weights_lead_every_gate_and_new_ones_are_as_the_model_made_them() -> None:
    torch.manual_seed(0)
    old, new = randomised(AED(config(2, 3))), randomised(AED(config(3, 5)))
    fresh = {name: parameter.detach().clone() for name, parameter in new.named_parameters()}
    with torch.no_grad():
        grow(old, new)
    before, after = old.encoder.layers[1].backward_lstm, new.encoder.layers[2].backward_lstm  # type: ignore[union-attr]
    made = fresh["encoder.layers.2.backward_lstm.weight_hh"].view(4, 5, 5)
    recurrent = after.weight_hh.view(4, 5, 5)  # type: ignore[union-attr,operator]
    assert torch.equal(recurrent[:, :3, :3], before.weight_hh.view(4, 3, 3))  # type: ignore[union-attr,operator]
    assert torch.equal(recurrent[:, 3:], made[:, 3:])
    assert torch.equal(recurrent[:, :, 3:], made[:, :, 3:])
    inputs, old_inputs = after.weight_ih.view(4, 5, 2, 5), before.weight_ih.view(4, 3, 2, 3)  # type: ignore[union-attr,operator]
    assert torch.equal(inputs[:, :3, :, :3], old_inputs)
    assert torch.equal(after.bias.view(4, 5)[:, :3], before.bias.view(4, 3))  # type: ignore[union-attr,operator]
    readout = new.decoder.readout.weight[:, 10:].view(6, 2, 5)
    assert torch.equal(readout[:, :, :3], old.decoder.readout.weight[:, 10:].view(6, 2, 3))
    assert torch.equal(new.decoder.readout.weight[:, :10], old.decoder.readout.weight[:, :10])


def test_a_new_layer_is_put_below_the_last_and_is_all_new() -> None:
    torch.manual_seed(0)
    old, new = randomised(AED(config(2, 3, pools=(6,)))), AED(config(3, 3))
    fresh = {name: parameter.detach().clone() for name, parameter in new.named_parameters()}
    with torch.no_grad():
        grow(old, new)
    for name, parameter in new.named_parameters():
        if name.startswith("encoder.layers.1."):
            assert torch.equal(parameter, fresh[name])
        else:
            source = name.replace("layers.2.", "layers.1.")
            assert torch.equal(parameter, old.get_parameter(source)), name


def test_a_new_layer_on_top_leaves_the_others_in_their_places() -> None:
    """As the authors' configurations: decoder, attention and CTC keep their weights, but listen to a new layer."""
    torch.manual_seed(0)
    old, new = randomised(AED(config(2, 3, pools=(6,)))), AED(config(3, 3))
    fresh = {name: parameter.detach().clone() for name, parameter in new.named_parameters()}
    with torch.no_grad():
        grow(old, new, "top")
    for name, parameter in new.named_parameters():
        source = fresh[name] if name.startswith("encoder.layers.2.") else old.get_parameter(name)
        assert torch.equal(parameter, source), name


def test_dropout_grows_with_the_width_only_if_asked_to() -> None:
    final = AedConfig(vocab_size=10025, encoder=EncoderConfig(dropout=0.3))
    starts = (26, 31, 36, 41)
    scaled, constant = (GrowingConfig(starts=starts, scale_regularisation=on) for on in (True, False))
    dropouts = [stage_config(final, scaled, stage).encoder.dropout for stage in range(6)]
    assert dropouts == pytest.approx([0.15, 0.1875, 0.225, 0.2625, 0.3, 0.3])
    assert {stage_config(final, constant, stage).encoder.dropout for stage in range(6)} == {0.3}
    assert [scaled.share(stage) for stage in range(6)] == [0.5, 0.625, 0.75, 0.875, 1.0, 1.0]


def test_growing_stage_by_stage_reaches_the_final_model() -> None:
    torch.manual_seed(0)
    final, growing = config(5, 8), GrowingConfig(starts=(2, 3, 4))
    model = AED(stage_config(final, growing, 0))
    assert outputs(model)[0].shape == (2, 4, 8)
    for stage in (1, 2, 3):
        grown = AED(stage_config(final, growing, stage))
        with torch.no_grad():
            grow(model, grown)
        model = grown
    assert model.config == final
    assert outputs(model)[0].shape == (2, 4, 16)


def test_copy_leading_block_by_block() -> None:
    old, new = torch.arange(1.0, 9.0).view(2, 4), torch.zeros(4, 6)
    copy_leading(old, new, ((1, 1), (2, 2)), ((2, 2), (3, 3)))
    expected = torch.zeros(4, 6)
    expected[0, :2], expected[0, 3:5] = torch.tensor([1.0, 2]), torch.tensor([3.0, 4])
    expected[2, :2], expected[2, 3:5] = torch.tensor([5.0, 6]), torch.tensor([7.0, 8])
    assert torch.equal(new, expected)
