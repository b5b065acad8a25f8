"""Models that cannot be built are refused by the name of the field, before any of it is built."""

from typing import Any

import pytest

from fewer.config import Config, parse_config
from fewer.errors import FewerError
from fewer.models.aed import AedConfig
from fewer.models.decoder import DecoderConfig, DecoderLikeLmConfig
from fewer.models.encoder import EncoderConfig
from fewer.models.lm import LstmLmConfig, TransformerLmConfig

FRACTIONS: dict[type[Config], list[str]] = {
    EncoderConfig: ["dropout"],
    DecoderConfig: ["dropout", "cell_zoneout", "output_zoneout"],
    LstmLmConfig: ["dropout"],
    TransformerLmConfig: ["dropout"],
}
SIZES: dict[type[Config], list[str]] = {
    EncoderConfig: ["features", "size"],
    DecoderConfig: ["size", "embedding", "readout", "history"],
    AedConfig: ["vocab_size", "energy"],
    DecoderLikeLmConfig: ["vocab_size", "size"],
    LstmLmConfig: ["vocab_size", "embedding", "size", "layers"],
    TransformerLmConfig: ["vocab_size", "layers", "size", "feed_forward", "heads", "embedding"],
}


def values(kind: type[Config], **given: Any) -> dict[str, Any]:
    return ({"vocab_size": 10} if "vocab_size" in kind.model_fields else {}) | given


@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind, fields in SIZES.items() for field in fields])
def test_sizes_begin_with_one(kind: type[Config], field: str) -> None:
    for size in (0, -2):
        with pytest.raises(FewerError, match=f"my.yaml: {field}: .* greater than or equal to 1"):
            parse_config(kind, values(kind, **{field: size}), "my.yaml")


@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind, fields in FRACTIONS.items() for field in fields])
def test_dropout_leaves_something(kind: type[Config], field: str) -> None:
    for share in (-0.1, 1.0):
        with pytest.raises(FewerError, match=f"my.yaml: {field}: .* (greater|less) than"):
            parse_config(kind, values(kind, **{field: share}), "my.yaml")


@pytest.mark.parametrize(
    ("kind", "given", "complaint"),
    [
        (DecoderConfig, {"readout": 7}, "readout: .* multiple of 2"),
        (TransformerLmConfig, {"embedding": 7}, "embedding: .* multiple of 2"),
        (TransformerLmConfig, {"size": 20, "heads": 8}, "20 cannot be divided among 8 heads"),
        (EncoderConfig, {"features": 3}, "of 3 nothing is left"),
        (EncoderConfig, {"filters": -1}, "filters: .* greater than or equal to 0"),
        (EncoderConfig, {"layers": -1}, "layers: .* greater than or equal to 0"),
    ],
)
def test_parts_that_do_not_fit_are_refused(kind: type[Config], given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(FewerError, match=complaint):
        parse_config(kind, values(kind, **given), "my.yaml")


def test_an_encoder_may_hand_on_its_input() -> None:
    assert EncoderConfig(features=3, filters=0, layers=0).output == 3
