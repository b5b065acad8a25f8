"""A binary n-gram file is checked when it is loaded: whatever is in it, loading ends with a model or with an error."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from fewer.errors import FewerError
from fewer.store.ngram_files import FORMAT, labels_fingerprint, load_ngram, save_ngram
from fewer.training.ngram import estimate

LABELS = ["</s>", "a", "b", "c", "d"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ngram") / "m.safetensors"
    labels = torch.randint(0, 5, (300,), generator=torch.Generator().manual_seed(0))
    labels[-1] = 0
    save_ngram(path, estimate(labels, 3, len(LABELS)), LABELS)
    return path


def write(path: Path, tensors: dict[str, torch.Tensor], end: str = "0") -> Path:
    save_file(tensors, path, {"format": FORMAT, "end": end, "labels": labels_fingerprint(LABELS)})
    return path


def changed(saved: Path, path: Path, name: str, index: int, value: float) -> Path:
    tensors = load_file(saved)
    tensors[name][index] = value
    return write(path, tensors)


@pytest.mark.parametrize(
    ("name", "index", "value", "complaint"),
    [
        ("begins", 1, 1, "'begins' leads from an n-gram back to an earlier one"),
        ("begins", 0, 0, "'begins' does not rise"),
        ("begins", -1, 7, "'begins' does not rise"),
        ("begins", 3, 2**31 - 1, "'begins' does not rise"),
        ("labels", 40, 5, "'labels' holds a label outside the vocabulary of 5"),
        ("labels", 40, -1, "'labels' holds a label outside"),
        ("labels", 2, 0, "'labels' does not begin with all labels in order"),
        ("targets", 9, 2**30, "'targets' leads outside"),
        ("suffixes", 9, 9, "'suffixes' does not lead to shorter histories"),
        ("suffixes", 9, -1, "'suffixes' does not lead"),
        ("backoffs", 3, float("nan"), "'backoffs' holds numbers that are not finite"),
        ("node_log_probs", 3, float("-inf"), "'node_log_probs' holds numbers that are not finite"),
        ("node_log_probs", 3, 0.5, "'node_log_probs' holds probabilities above 1"),
    ],
)
def test_a_wrong_number_is_found(
    saved: Path, tmp_path: Path, name: str, index: int, value: float, complaint: str
) -> None:
    with pytest.raises(FewerError, match=rf"x\.safetensors is not a usable n-gram model: {complaint}"):
        load_ngram(changed(saved, tmp_path / "x.safetensors", name, index, value), LABELS)


@pytest.mark.parametrize(
    ("name", "tensor", "complaint"),
    [
        ("labels", None, "it should hold the tensors"),
        ("labels", torch.zeros(5, 5, dtype=torch.int32), "'labels' is torch.int32 of shape"),
        ("labels", torch.zeros(5), "'labels' is torch.float32"),
        ("labels", torch.zeros(0, dtype=torch.int32), "it holds no n-grams"),
        ("suffixes", torch.zeros(3, dtype=torch.int32), "'suffixes' has 3 entries"),
        ("surprise", torch.zeros(3), "it should hold the tensors"),
    ],
)
def test_wrong_tensors_are_found(saved: Path, tmp_path: Path, name: str, tensor: torch.Tensor, complaint: str) -> None:
    tensors = {**load_file(saved), name: tensor}
    if tensor is None:
        del tensors[name]
    with pytest.raises(FewerError, match=complaint):
        load_ngram(write(tmp_path / "x.safetensors", tensors), LABELS)


@pytest.mark.parametrize("end", ["5", "-1", "x"])
def test_a_wrong_end_label_is_found(saved: Path, tmp_path: Path, end: str) -> None:
    with pytest.raises(FewerError, match=r"x\.safetensors"):
        load_ngram(write(tmp_path / "x.safetensors", load_file(saved), end), LABELS)


@given(st.sampled_from(["begins", "labels", "targets", "suffixes"]), st.integers(-400, 400), st.integers(-5, 500))
@settings(max_examples=150)
def test_whatever_is_changed_loads_and_scores_or_is_refused(
    saved: Path, tmp_path_factory: pytest.TempPathFactory, name: str, index: int, value: int
) -> None:
    tensors = load_file(saved)
    tensors[name][index % len(tensors[name])] = value
    path = write(tmp_path_factory.getbasetemp() / "mutated.safetensors", tensors)
    try:
        model = load_ngram(path, LABELS)
    except FewerError:
        return
    labels = torch.randint(0, 5, (2, 9))
    assert model.log_probs(labels).isfinite().all()
    assert model.score(labels).isfinite().all()


def test_the_same_model_is_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    program = (
        "import sys, torch\n"
        "from fewer.store.ngram_files import save_ngram\n"
        "from fewer.training.ngram import estimate\n"
        "for name in sys.argv[1:]:\n"
        "    save_ngram(name, estimate(torch.arange(61) % 5, 2, 5), ['</s>', 'a', 'b', 'c', 'd'])\n"
    )
    paths = [tmp_path / f"{number}.safetensors" for number in range(8)]
    subprocess.run([sys.executable, "-c", program, *map(str, paths)], check=True)
    assert len({path.read_bytes() for path in paths}) == 1
    assert load_ngram(paths[0], LABELS).order == 2
