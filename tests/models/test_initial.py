"""The first weights of models, as their configuration says."""

import pytest
import torch
from torch import Tensor, nn

from fewer.models.decoder import Decoder, DecoderConfig, DecoderLikeLm, DecoderLikeLmConfig
from fewer.models.lm import LstmLm, LstmLmConfig, TransformerLm, TransformerLmConfig


def bound(weight: Tensor) -> float:
    """Of a uniform distribution, from a sample of it."""
    return float(weight.detach().abs().max())


@pytest.mark.parametrize("state", ["lstm", "zoneout_lstm"])
@pytest.mark.parametrize("joint", [True, False])
def test_a_decoder_s_lstm_is_drawn_as_one_matrix_if_asked_to(state: str, joint: bool) -> None:
    torch.manual_seed(0)
    config = DecoderConfig.model_validate({"state": state, "size": 60, "embedding": 30, "joint_initial": joint})
    lstm = Decoder(config, vocab_size=9, context_size=50).state.lstm  # type: ignore[union-attr]
    fans = (80 + 60 + 240, 80 + 60 + 240) if joint else (80 + 240, 60 + 240)
    for weight, fan in zip((lstm.weight_ih, lstm.weight_hh), fans, strict=True):
        assert bound(weight) == pytest.approx((6 / fan) ** 0.5, rel=2e-3)
    assert not lstm.bias.any()


@pytest.mark.parametrize(
    "lm",
    [
        lambda: LstmLm(LstmLmConfig(vocab_size=200, embedding=40, size=50, initial="normal")),
        lambda: DecoderLikeLm(
            DecoderLikeLmConfig(
                vocab_size=200, embedding=40, size=50, readout=60, initial="normal", kind="decoder_like_lm"
            )
        ),
    ],
)
def test_lms_of_transcripts_may_start_from_a_normal_distribution(lm) -> None:
    torch.manual_seed(0)
    for name, parameter in lm().named_parameters():
        tolerance = 4 / parameter.numel() ** 0.5  # four deviations of the estimates
        assert float(parameter.std()) == pytest.approx(0.1, rel=tolerance), name
        assert float(parameter.mean()) == pytest.approx(0, abs=0.1 * tolerance), name


def test_transformer_lms_may_start_with_variances_of_one_over_the_inputs() -> None:
    torch.manual_seed(0)
    config = TransformerLmConfig(
        vocab_size=90, layers=1, size=64, feed_forward=128, heads=2, embedding=32, initial="fan_in"
    )
    model = TransformerLm(config)
    assert bound(model.embedding.weight) == pytest.approx((3 / 90) ** 0.5, rel=5e-3)
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    assert len(layers) == 6
    for layer in layers:
        assert bound(layer.weight) == pytest.approx((3 / layer.in_features) ** 0.5, rel=5e-3)
        assert layer.bias is None or not layer.bias.any()
