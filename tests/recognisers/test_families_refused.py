"""Models of transformers whose configurations cannot be right."""

import json
from pathlib import Path
from typing import Any

import pytest

from fewer.errors import FewerError
from fewer.hugging_face import check_sizes
from fewer.recognisers.loader import load_recogniser
from tests.recognisers.families import make_model


@pytest.mark.parametrize(
    ("file", "values", "message"),
    [
        ("preprocessor_config.json", {"feature_size": {}}, r"preprocessor_config\.json: what it prepares is not what"),
        ("config.json", {"num_hidden_layers": 0}, r"config\.json describes a decoder without layers"),
        (
            "config.json",
            {"num_hidden_layers": 1 << 63},
            r"config\.json: num_hidden_layers is 9223372036854775808, but ",
        ),
        ("config.json", {"model_type": [1]}, r"is a model of type \[1\] \(config\.json\), an encoder-decoder that"),
        ("generation_config.json", {"bos_token_id": 10**6}, r"generation_config\.json .* start with 1000000 "),
        ("generation_config.json", {"decoder_start_token_id": ["a"]}, r"generation_config\.json .* start with \['a'\]"),
    ],
)
def test_what_only_longer_sound_or_a_search_would_meet_is_refused(
    tmp_path: Path, file: str, values: dict[str, Any], message: str
) -> None:
    folder = make_model(tmp_path / "model", "moonshine_streaming")
    (folder / file).write_text(json.dumps(json.loads((folder / file).read_text()) | values))
    with pytest.raises(FewerError, match=message):
        load_recogniser(folder)


def test_sizes_of_well_known_models_are_allowed() -> None:
    check_sizes({"vocab_size_per_layer_input": 262144, "text_config": {"num_hidden_layers": 126}}, "config.json")
    with pytest.raises(FewerError, match=r"config\.json: n_layer is 2000, but at most 1000 is allowed"):
        check_sizes({"text_config": {"n_layer": 2000}}, "config.json")


def test_a_configuration_that_the_family_cannot_have_is_refused(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "model", "moonshine")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": -9}))
    with pytest.raises(FewerError, match=r"config\.json and .* describe no moonshine that fewer can use"):
        load_recogniser(folder)
