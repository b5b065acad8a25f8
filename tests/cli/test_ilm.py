"""fewer ilm from the command line."""

from pathlib import Path

import pytest

from fewer.files import read_json
from tests.cli.running import Fewer


def test_the_perplexity_is_printed_and_stored(fewer: Fewer, tones: Path, tmp_path: Path) -> None:
    data = ("--train", tones / "train.jsonl", "--dev", tones / "dev.jsonl")
    code, out, _ = fewer("ilm", tones / "aed", tmp_path / "ilm", "--method", "enc_avg", *data)
    assert code == 0
    facts = read_json(tmp_path / "ilm" / "ilm.json")
    assert facts["config"]["method"] == "enc_avg"
    numbers = facts["perplexity"]["dev"]
    wanted = f"enc_avg: perplexity on dev {numbers['ppl_label']:.1f} per label, {numbers['ppl_word']:.1f} per word"
    assert out.startswith(wanted)


def test_options_of_the_method_are_set(fewer: Fewer, tones: Path, tmp_path: Path) -> None:
    data = ("--train", tones / "train.jsonl", "--dev", tones / "dev.jsonl")
    options = ("--set", "units=3", "--set", "passes=1", "--set", "batch=40")
    code, out, talk = fewer("ilm", tones / "aed", tmp_path / "ilm", *data, *options)
    assert code == 0, talk
    assert out.startswith("mini_lstm: perplexity on dev ")
    config = read_json(tmp_path / "ilm" / "ilm.json")["config"]
    assert (config["units"], config["passes"], config["batch"]) == (3, 1, 40)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--method", "nope"], "method"),
        (["--set", "unit=3"], "did you mean 'units'"),
        (["--set", "units"], "units"),
        (["--method", "enc_avg"], "--train"),
    ],
)
def test_what_cannot_be_is_named(fewer: Fewer, tones: Path, tmp_path: Path, options: list[str], complaint: str) -> None:
    code, out, talk = fewer("ilm", tones / "aed", tmp_path / "ilm", *options)
    assert (code, out) == (1, "")
    assert complaint in talk
    assert not (tmp_path / "ilm" / "ilm.json").exists()


def test_a_folder_without_a_recogniser_is_named(fewer: Fewer, tones: Path, tmp_path: Path) -> None:
    code, _, talk = fewer("ilm", tmp_path / "nowhere", tmp_path / "ilm", "--method", "zero")
    assert code == 1
    assert str(tmp_path / "nowhere") in talk
    assert fewer("ilm", tones / "lm", tmp_path / "ilm", "--method", "zero")[0] == 1
