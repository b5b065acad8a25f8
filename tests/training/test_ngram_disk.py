"""Estimation in bounded memory gives the same model, to the last bit."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer.errors import FewerError
from fewer.models.ngram import NGram
from fewer.store.ngram_files import save_ngram, save_tensor_files
from fewer.training import ngram_disk
from fewer.training.columns import Column
from fewer.training.ngram import estimate
from fewer.training.ngram_disk import Estimator

V = 30


def text(length: int, seed: int = 0) -> np.ndarray:
    """Zipfian labels, 0 ends a sentence."""
    rng = np.random.default_rng(seed)
    labels = np.minimum(rng.zipf(1.3, length), V - 1)
    labels[rng.random(length) < 0.1] = 0
    labels[-1] = 0
    return labels.astype("<u2")


def on_disk(folder: Path, stream: np.ndarray, order: int, prune: tuple[int, ...] = (), memory: int = 0) -> NGram:
    folder.mkdir(exist_ok=True, parents=True)
    stream.tofile(folder / "stream")
    files = Estimator(Column(folder / "stream", "<u2"), order, V, 0, folder / "work", memory).estimate(prune)
    tensors = {name: torch.from_numpy(column.read(0, len(column))) for name, column in files.tensors.items()}
    model = NGram(**tensors, end=files.end)
    assert torch.equal(model.tensors()["targets"], tensors["targets"])  # which the model does not keep
    assert model.counts() == list(files.counts)
    return model


def assert_same(one: NGram, other: NGram) -> None:
    assert one.end == other.end
    theirs = other.tensors()
    for name, tensor in one.tensors().items():
        assert tensor.dtype == theirs[name].dtype
        assert torch.equal(tensor, theirs[name]), name


@pytest.mark.parametrize("prune", [(), (0, 1), (0, 0, 2, 3)])
@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("memory", [20_000, 1 << 30])
def test_the_model_is_the_same_to_the_bit(
    tmp_path: Path, order: int, prune: tuple[int, ...], memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ngram_disk, "LEAST", 20_000)
    stream = text(1500, seed=order)
    assert_same(on_disk(tmp_path, stream, order, prune, memory), estimate(stream, order, V, 0, prune))


@settings(max_examples=30)
@given(sentences=st.lists(st.lists(st.integers(1, 3), max_size=6), min_size=1, max_size=12), order=st.integers(1, 4))
def test_small_texts_too(tmp_path_factory: pytest.TempPathFactory, sentences: list[list[int]], order: int) -> None:
    stream = np.array([label for sentence in sentences for label in (*sentence, 0)], dtype="<u2")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ngram_disk, "LEAST", 1500)
        model = on_disk(tmp_path_factory.mktemp("small"), stream, order)
    assert_same(model, estimate(stream, order, V, 0))


@pytest.mark.parametrize(
    ("labels", "problem"),
    [([], "there is no text"), ([1, 2], "the last sentence is not closed"), ([1, 77, 0], "the text has label 77")],
)
def test_what_is_no_text_is_refused(tmp_path: Path, labels: list[int], problem: str) -> None:
    with pytest.raises(FewerError, match=problem):
        on_disk(tmp_path, np.array(labels, dtype="<u2"), 3)


def test_the_file_is_the_same_to_the_byte(tmp_path: Path) -> None:
    stream = text(800)
    stream.tofile(tmp_path / "stream")
    files = Estimator(Column(tmp_path / "stream", "<u2"), 3, V, 0, tmp_path / "work", 0).estimate()
    labels = [f"label {number}" for number in range(V)]
    save_tensor_files(tmp_path / "disk.safetensors", files.tensors, files.end, labels)
    save_ngram(tmp_path / "memory.safetensors", estimate(stream, 3, V), labels)
    assert (tmp_path / "disk.safetensors").read_bytes() == (tmp_path / "memory.safetensors").read_bytes()
