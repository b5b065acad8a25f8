"""fewer perplexity from the command line."""

import math
from pathlib import Path

import pytest
import torch

from fewer.files import read_json
from fewer.store.lms import load_lm_and_tokenizer
from tests.cli.running import Fewer


def test_it_is_what_the_lm_says_of_the_text_sentence_by_sentence(fewer: Fewer, tones: Path, tmp_path: Path) -> None:
    paths = (tones / "dev.txt", tones / "dev.jsonl")
    code, out, _ = fewer("perplexity", tones / "lm", *paths, "--json", tmp_path / "ppl.json")
    assert code == 0
    numbers = read_json(tmp_path / "ppl.json")
    assert list(numbers) == [str(path) for path in paths]
    lm, tokenizer = load_lm_and_tokenizer(tones / "lm")
    total, labels, texts = 0.0, 0, (tones / "dev.txt").read_text().split()
    for text in texts:
        ids = torch.tensor([[*tokenizer.encode(text), 0]])
        with torch.no_grad():
            total += float(lm.log_probs(ids).gather(-1, ids.unsqueeze(-1)).sum())
        labels += ids.shape[1]
    for path, line in zip(paths, out.splitlines(), strict=True):
        found = numbers[str(path)]
        assert found["ppl_label"] == pytest.approx(math.exp(-total / labels), rel=1e-5)
        assert (found["sentences"], found["words"], found["labels"]) == (len(texts), len(texts), labels)
        assert line.startswith(f"{path}: perplexity {found['ppl_label']:.2f} per label, {found['ppl_word']:.2f} per")


def test_an_n_gram_file_is_read_with_a_models_tokenizer(fewer: Fewer, tones: Path, tmp_path: Path) -> None:
    arpa = tmp_path / "two.arpa"
    code, told, talk = fewer(
        "ngram", tones / "train.txt", arpa, "--order", 2, "--tokenizer", tones, "--heldout", tones / "dev.txt"
    )
    assert code == 0, talk
    code, out, _ = fewer("perplexity", arpa, tones / "dev.txt", "--model", tones / "aed")
    assert code == 0
    assert out.split("perplexity ")[1].split()[0] in told
    code, out, talk = fewer("perplexity", arpa, tones / "dev.txt")
    assert (code, out) == (1, "")
    assert "--model" in talk


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["{tones}/lm", "{tones}/nothing.txt"], "nothing.txt"),
        (["{tones}/nothing", "{tones}/dev.txt"], "nothing"),
        (["{tones}/lm", "{tones}/dev.txt", "--case", "upper"], "line 1: character"),  # the vocabulary is abcd
    ],
)
def test_what_cannot_be_is_named(fewer: Fewer, tones: Path, arguments: list[str], complaint: str) -> None:
    code, out, talk = fewer("perplexity", *(argument.format(tones=tones) for argument in arguments))
    assert (code, out) == (1, "")
    assert talk.startswith("fewer: ")
    assert complaint in talk
