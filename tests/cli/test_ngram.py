"""`fewer ngram` from the outside."""

import re
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from fewer.cli.main import app
from fewer.data.tokenizers import CharacterTokenizer
from fewer.errors import FewerError
from fewer.store.ngram_files import load_ngram

TOKENIZER = CharacterTokenizer(["</s>", *" abc"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    TOKENIZER.save(tmp_path / "tokenizer.json")
    (tmp_path / "a.txt").write_text("ab ab\nabab b\n" * 9)
    (tmp_path / "b.txt").write_text("cc bc\nccb\n")
    (tmp_path / "held-out.txt").write_text("cc b\nab\n")
    return tmp_path


def run(folder: Path, *arguments: str) -> str:
    result = CliRunner().invoke(app, ["ngram", *arguments, "--tokenizer", str(folder)], catch_exceptions=True)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("name", ["lm.arpa", "lm.arpa.gz", "lm.safetensors"])
def test_it_writes_a_mixture_and_tells_perplexities(folder: Path, name: str) -> None:
    texts = [str(folder / "a.txt"), str(folder / "b.txt")]
    told = run(folder, *texts, str(folder / name), "--order", "3", "--mix", str(folder / "held-out.txt"))
    model = load_ngram(folder / name, TOKENIZER.labels)
    assert f"5 1-grams, {model.counts()[1]} 2-grams, {model.counts()[2]} 3-grams" in told
    sentences = [torch.tensor([[*TOKENIZER.encode(line), 0]]) for line in ("cc b", "ab")]
    log_prob = sum(model.score(sentence).sum() for sentence in sentences)
    perplexities = [float(number) for number in re.findall(r"perplexity ([\d.]+) per label", told)]
    assert len(perplexities) == 3
    assert perplexities[-1] == pytest.approx((-log_prob / 8).exp().item(), abs=0.01)
    assert perplexities[-1] < min(perplexities[:2])
    weights = [float(number) for number in re.findall(r"weight ([\d.]+)", told)]
    assert sum(weights) == pytest.approx(1, abs=1e-3)


def test_it_prunes_and_counts(folder: Path) -> None:
    arguments = (str(folder / "a.txt"), str(folder / "lm.arpa"), "--order", "2", "--heldout", str(folder / "b.txt"))
    everything, pruned = run(folder, *arguments), run(folder, *arguments, "--prune", "0 9")
    counts = [int(re.search(r"(\d+) 2-grams", told)[1]) for told in (everything, pruned)]  # type: ignore[index]
    assert counts[0] > counts[1] > 0
    assert "per word: " in pruned


def test_what_is_wrong_is_said(folder: Path) -> None:
    with pytest.raises(FewerError, match="ends in"):
        run(folder, str(folder / "a.txt"), str(folder / "lm.bin"))
    with pytest.raises(FewerError, match="--prune 'x'"):
        run(folder, str(folder / "a.txt"), str(folder / "lm.arpa"), "--prune", "x")
    (folder / "d.txt").write_text("ab\nabd\n")
    with pytest.raises(FewerError, match=r"d\.txt, line 2"):
        run(folder, str(folder / "d.txt"), str(folder / "lm.arpa"))
    with pytest.raises(FewerError, match=r"cannot read .*absent\.txt"):
        run(folder, str(folder / "absent.txt"), str(folder / "lm.arpa"))
    assert not (folder / "lm.arpa").exists()


def test_little_memory_gives_the_same_file(folder: Path) -> None:
    texts = (str(folder / "a.txt"), str(folder / "b.txt"))
    options = ("--order", "3", "--prune", "0 0 1", "--heldout", str(folder / "held-out.txt"))
    told = [
        run(folder, *texts, str(folder / f"{number}.safetensors"), *options, *memory)
        for number, memory in enumerate([(), ("--memory", "20M")])
    ]
    assert (folder / "0.safetensors").read_bytes() == (folder / "1.safetensors").read_bytes()
    assert "bytes for each n-gram" in told[1]
    numbers = [re.findall(r"perplexity ([\d.]+)", text) for text in told]
    assert numbers[0] == numbers[1] != []


@pytest.mark.parametrize(("name", "memory"), [("lm.arpa", "4G"), ("lm.safetensors", "four"), ("lm.safetensors", "0")])
def test_a_memory_that_is_none_or_another_form_is_refused(folder: Path, name: str, memory: str) -> None:
    with pytest.raises(FewerError, match=f"--memory {memory}: "):
        run(folder, str(folder / "a.txt"), str(folder / name), "--memory", memory)
