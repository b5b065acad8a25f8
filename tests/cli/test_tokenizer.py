"""`fewer tokenizer` on the command line."""

import gzip
import subprocess
import sys

import pytest

from fewer.data.tokenizers import load_tokenizer
from tests.data.manifests import cut, write_manifest


def fewer(*arguments):
    code = "from fewer.cli.main import main; main()"
    command = [sys.executable, "-c", code, "tokenizer", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture
def sources(tmp_path):
    text = tmp_path / "text.gz"
    text.write_bytes(gzip.compress(b"the old man and the sea\nshe sells sea shells\n"))
    return write_manifest(tmp_path / "train.jsonl", [cut("u1", "THE OLD MAN"), cut("u2", "THE SHORE")]), text


@pytest.mark.parametrize("kind", ["bpe", "characters", "words"])
def test_a_tokenizer_from_transcripts_and_text(tmp_path, sources, kind):
    out = tmp_path / "out/tokenizer.json"
    size = ["--size", "30"] if kind == "bpe" else []
    result = fewer(*sources, out, "--kind", kind, "--case", "upper", *size)
    assert result.returncode == 0, result.stderr
    tokenizer = load_tokenizer(out)
    assert result.stdout == f"{out}: {tokenizer.size} labels\n"
    assert tokenizer.decode(tokenizer.encode("SHE SELLS THE SHORE")) == "SHE SELLS THE SHORE"


def test_a_tokenizer_from_subword_nmt(tmp_path):
    (tmp_path / "codes").write_text("#version: 0.2\na b</w>\n")
    (tmp_path / "vocab").write_text("{'</s>': 0, 'ab': 1, 'a@@': 2}")
    result = fewer(tmp_path / "codes", tmp_path / "vocab", tmp_path / "t.json", "--kind", "subword_nmt")
    assert result.returncode == 0, result.stderr
    assert load_tokenizer(tmp_path / "t.json").encode("ab aab") == [1, 2, 1]


def test_a_tokenizer_learnt_as_subword_nmt_does(tmp_path, sources):
    result = fewer(*sources, tmp_path / "t.json", "--kind", "subword_nmt", "--merges", "10", "--case", "upper")
    assert result.returncode == 0, result.stderr
    tokenizer = load_tokenizer(tmp_path / "t.json")
    assert len(tokenizer.merges) == 10
    assert tokenizer.decode(tokenizer.encode("SHE SELLS THE SHORE")) == "SHE SELLS THE SHORE"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--size", "5000"], "5000 labels are too many: the text yields at most"),
        (["--size", "5"], "5 labels are too few"),
        (["--size", "30", "--kind", "characters"], "--size has no meaning"),
        (["--kind", "subword_nmt"], r"expected two symbols to merge"),
        (["--merges", "30"], "--merges has no meaning for --kind bpe"),
    ],
)
def test_one_clear_error_and_no_file(tmp_path, sources, options, complaint):
    result = fewer(*sources, tmp_path / "t.json", *options)
    assert result.returncode == 1
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "t.json").exists()
    if "5000" in options:
        assert fewer(*sources, tmp_path / "t.json", *options, "--at-most").returncode == 0
