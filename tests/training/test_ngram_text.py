"""From text files to n-gram models."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from fewer.data.tokenizers import CharacterTokenizer
from fewer.errors import FewerError
from fewer.store.ngram_files import save_ngram
from fewer.training import ngram_text
from fewer.training.ngram import estimate
from fewer.training.ngram_text import NGramConfig, ngram_of_texts, stream_log_probs

TOKENIZER = CharacterTokenizer(["</s>", *" abc"])


@pytest.fixture
def texts(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Much text of one kind, little of another, and held-out text mostly of the second kind."""
    first, second, held_out = tmp_path / "first.txt.gz", tmp_path / "second.txt", tmp_path / "held-out.txt"
    first.write_bytes(gzip.compress(b"ab ab abab\nabab a b ab\n" * 20))
    second.write_text("ccb bcc\ncc cb\n\nbccb c\n")
    held_out.write_text("cc bcc cb\nab c\n")
    return first, second, held_out


def stream(path: Path) -> torch.Tensor:
    raw = path.read_bytes()
    lines = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode().splitlines()
    return torch.tensor([label for line in lines if line for label in [*TOKENIZER.encode(line), 0]])


def test_texts_without_mixing_are_one_text(tmp_path: Path, texts: tuple[Path, Path, Path]) -> None:
    made = ngram_of_texts(texts[:2], TOKENIZER, NGramConfig(order=3, prune=(0, 0, 1)), tmp_path / "tokens")
    both = torch.cat([stream(path) for path in texts[:2]])
    expected = estimate(both, 3, TOKENIZER.size, prune=(0, 0, 1))
    assert made.labels == len(both)
    assert all(torch.equal(tensor, expected.tensors()[name]) for name, tensor in made.model.tensors().items())


def test_a_mixture_prefers_the_text_that_is_like_the_held_out_one(
    tmp_path: Path, texts: tuple[Path, Path, Path]
) -> None:
    *files, held_out = texts
    made = ngram_of_texts(files, TOKENIZER, NGramConfig(order=3), tmp_path / "tokens", held_out)
    together = ngram_of_texts(files, TOKENIZER, NGramConfig(order=3), tmp_path / "tokens")
    labels = stream(held_out).numpy()
    mixed = stream_log_probs(made.model, labels).sum()
    assert [part.path for part in made.parts] == files
    assert sum(part.weight for part in made.parts) == pytest.approx(1)
    assert made.parts[1].weight > 0.5
    assert mixed > max(part.log_prob for part in made.parts)
    assert mixed > stream_log_probs(together.model, labels).sum()


def test_a_model_that_is_there_can_be_mixed_in(tmp_path: Path, texts: tuple[Path, Path, Path]) -> None:
    first, second, held_out = texts
    model = tmp_path / "first.safetensors"
    save_ngram(model, estimate(stream(first), 3, TOKENIZER.size), TOKENIZER.labels)
    direct, via = (
        ngram_of_texts([one, second], TOKENIZER, NGramConfig(order=3), tmp_path / "tokens", held_out)
        for one in (first, model)
    )
    labels = stream(held_out)[None]
    torch.testing.assert_close(via.model.score(labels), direct.model.score(labels), rtol=0, atol=1e-5)
    with pytest.raises(FewerError, match="is a model, not text"):
        ngram_of_texts([model, second], TOKENIZER, NGramConfig(), tmp_path / "tokens")


def test_a_stream_scored_in_blocks_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = torch.randint(0, 5, (500,), generator=torch.Generator().manual_seed(0))
    labels[-1] = 0
    model = estimate(labels, 3, 5)
    whole = stream_log_probs(model, labels.numpy().astype(np.uint16))
    monkeypatch.setattr(ngram_text, "BLOCK", 7)
    torch.testing.assert_close(stream_log_probs(model, labels.numpy()), whole)
    assert len(whole) == 500


def test_mixing_needs_several_texts_and_unseen_held_out_text(tmp_path: Path, texts: tuple[Path, Path, Path]) -> None:
    first, second, held_out = texts
    with pytest.raises(FewerError, match="nothing to mix"):
        ngram_of_texts([first], TOKENIZER, NGramConfig(), tmp_path, held_out)
    with pytest.raises(FewerError, match="one of the texts"):
        ngram_of_texts([first, second], TOKENIZER, NGramConfig(), tmp_path, second)
