"""Short names of models."""

from pathlib import Path

import pytest

from fewer.errors import FewerError
from fewer.recognisers.loader import is_bundle
from fewer.recognisers.names import full_name


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("tiny.en", "openai/whisper-tiny.en"),
        ("large", "openai/whisper-large-v3"),
        ("large-v1", "openai/whisper-large"),
        ("turbo", "openai/whisper-large-v3-turbo"),
        ("distil-large-v3", "distil-whisper/distil-large-v3"),
        ("openai/whisper-small", "openai/whisper-small"),
        ("models/aed", "models/aed"),
    ],
)
def test_short_names_mean_the_hubs_models(short: str, full: str) -> None:
    assert full_name(short) == full


def test_a_folder_of_that_name_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny").mkdir()
    assert full_name("tiny") == "tiny"


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(FewerError, match=r"no model 'tinny\.en'.*did you mean tiny\.en\?"):
        full_name("tinny.en")
    with pytest.raises(FewerError, match=r"did you mean small\?"):
        full_name("whisper-small")
    with pytest.raises(FewerError, match=r"no model 'bundle'.*give a folder, .* one of tiny, tiny\.en, base"):
        full_name("bundle")


@pytest.mark.parametrize("name", ["é" * 200, "models/" * 700])
def test_a_name_that_no_file_can_have_is_no_model(name: str) -> None:
    with pytest.raises(FewerError, match=r"there is no model '.{,70}': File name too long"):
        full_name(name)
    assert not is_bundle(name)
