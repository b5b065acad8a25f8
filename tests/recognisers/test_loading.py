"""Whisper folders with wrong values: named with file and field when they are loaded."""

import json
from pathlib import Path

import pytest

from fewer.errors import FewerError
from fewer.recognisers.whisper.recogniser import load_whisper
from tests.recognisers.tiny import make_whisper


@pytest.mark.parametrize(
    ("file", "field", "value", "complaint"),
    [
        ("config.json", "dropout", -1e308, "dropout: Input should be greater than or equal to 0"),
        ("preprocessor_config.json", "hop_length", -1, "hop_length: Input should be greater than or equal to 1"),
        ("preprocessor_config.json", "feature_size", 80, "but num_mel_bins of config.json is 8"),
        ("preprocessor_config.json", "chunk_length", 2, "200 frames .* do not fit 50 max_source_positions"),
        ("generation_config.json", "suppress_tokens", ["x"], "suppress_tokens.0: Input should be a valid integer"),
        ("generation_config.json", "suppress_tokens", [2**40], "but the model has 3"),
        ("generation_config.json", "alignment_heads", [[9, 0]], "but the decoder has 3 layers of 4 heads"),
    ],
)
def test_wrong_values_of_a_whisper_are_named_with_file_and_field(
    tmp_path: Path, file: str, field: str, value: object, complaint: str
) -> None:
    folder = make_whisper(tmp_path / "whisper")
    values = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps({**values, field: value}))
    with pytest.raises(FewerError, match=f"{file}: .*{complaint}") as raised:
        load_whisper(folder)
    assert len(str(raised.value).splitlines()) == 1
