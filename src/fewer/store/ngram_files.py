"""N-gram models in files: ARPA (.arpa, .arpa.gz) or the compact binary form that loads at once (.safetensors)."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from fewer.config import shortened
from fewer.errors import FewerError
from fewer.files import atomic_write, fingerprint
from fewer.models.ngram import DuplicateNGram, MissingHistory, NGram
from fewer.store.arpa import Arpa, read_arpa, write_arpa
from fewer.store.ngram_check import ngram_problem

FORMAT = "fewer-ngram/1"
ARPA_SUFFIXES, BINARY_SUFFIX = (".arpa", ".arpa.gz"), ".safetensors"


def is_ngram_file(path: str | Path) -> bool:
    """Whether the name is that of an n-gram model."""
    return str(path).endswith((*ARPA_SUFFIXES, BINARY_SUFFIX))


def check_name(path: str | Path) -> None:
    """An error unless the name is that of an n-gram model."""
    if not is_ngram_file(path):
        raise FewerError(f"{path}: an n-gram model's name ends in {', '.join(ARPA_SUFFIXES)} or {BINARY_SUFFIX}")


def save_ngram(path: str | Path, model: NGram, labels: Sequence[str]) -> None:
    """Write a model over these labels; the suffix decides the form."""
    check_name(path)
    _check_size(path, len(labels), model.vocab_size)
    if str(path).endswith(ARPA_SUFFIXES):
        write_arpa(path, [model.ngrams(n) for n in range(1, model.order + 1)], labels, model.end)
    else:
        write_binary(path, model, FORMAT, {"labels": labels_fingerprint(labels)})


def load_ngram(path: str | Path, labels: Sequence[str], end: int = 0) -> NGram:
    """Read a model of either form; an error if it is over other labels than these."""
    if str(path).endswith(BINARY_SUFFIX):
        return _load_binary(path, labels, end)
    return ngram_of_arpa(path, read_arpa(path, labels, end)).float()


def ngram_of_arpa(path: str | Path, arpa: Arpa) -> NGram:
    """The double-precision model of what an ARPA file says."""
    orders = [tuple(torch.from_numpy(part) for part in level) for level in arpa.orders]
    try:
        return NGram.from_ngrams(orders, arpa.end)  # type: ignore[arg-type]
    except (MissingHistory, DuplicateNGram) as error:
        line = arpa.first_lines[error.n - 1] + error.index
        problem = "is there twice" if isinstance(error, DuplicateNGram) else "follows on no shorter n-gram"
        raise FewerError(f"{path}, line {line}: this {error.n}-gram {problem}") from error


def labels_fingerprint(labels: Sequence[str]) -> str:
    """Names a vocabulary, whatever tokenizer it comes from."""
    return fingerprint(json.dumps(list(labels)))


def write_binary(path: str | Path, model: NGram, format: str, metadata: dict[str, str]) -> None:
    """Write a model in single precision, with a few strings about it."""
    tensors = {name: t.float() if t.is_floating_point() else t for name, t in model.tensors().items()}
    data = save(tensors, {"format": format, "end": str(model.end), **metadata})
    with atomic_write(path, "wb") as stream:
        for part in _with_sorted_metadata(data):
            stream.write(part)


class TensorFile(Protocol):
    """A tensor's numbers in a file."""

    path: Path
    dtype: np.dtype

    def __len__(self) -> int: ...


def save_tensor_files(path: str | Path, tensors: Mapping[str, TensorFile], end: int, labels: Sequence[str]) -> None:
    """The binary form of a model that is too large for the memory: the same file, copied from those of its tensors."""
    kinds = {name: torch.from_numpy(np.zeros(0, tensor.dtype)) for name, tensor in tensors.items()}
    metadata = {"format": FORMAT, "end": str(end), "labels": labels_fingerprint(labels)}
    order = [name for name in _header(save(kinds, metadata)) if name != "__metadata__"]
    header: dict[str, Any] = {"__metadata__": dict(sorted(metadata.items()))}
    place = 0
    for name in order:
        size = tensors[name].path.stat().st_size
        kind = {"f": "F32", "i": "I32"}[tensors[name].dtype.kind]
        header[name] = {"dtype": kind, "shape": [len(tensors[name])], "data_offsets": [place, place + size]}
        place += size
    with atomic_write(path, "wb") as stream:
        stream.write(_encoded(header))
        for name in order:
            with open(tensors[name].path, "rb") as source:
                shutil.copyfileobj(source, stream, 1 << 22)


def _header(data: bytes) -> dict[str, Any]:
    header: dict[str, Any] = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return header


def _encoded(header: dict[str, Any]) -> bytes:
    """The beginning of a safetensors file."""
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # tensors begin at a multiple of 8
    return len(text).to_bytes(8, "little") + text


def _with_sorted_metadata(data: bytes) -> tuple[bytes, memoryview]:
    """A safetensors file whose bytes depend on its contents alone: the library writes metadata in random order."""
    header = _header(data)
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    return _encoded(header), memoryview(data)[8 + int.from_bytes(data[:8], "little") :]


def binary_format(path: str | Path) -> str | None:
    """What kind of model a binary file says that it holds."""
    try:
        with safe_open(path, framework="pt") as file:
            return (file.metadata() or {}).get("format")
    except (OSError, SafetensorError) as error:
        raise FewerError(f"cannot read {path} as an n-gram model: {error}") from error


def read_binary(path: str | Path, format: str) -> tuple[NGram, dict[str, str]]:
    """The model and its strings; an error if the file is of another kind."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != format:
                raise FewerError(f"{path} is of format {metadata.get('format')}, but {format} is needed here")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        end = int(metadata["end"])
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise FewerError(f"cannot read {path} as an n-gram model: {shortened(str(error), 200)}") from error
    if problem := ngram_problem(tensors, end):
        raise FewerError(f"{path} is not a usable n-gram model: {problem}; make it again with `fewer ngram`")
    return NGram(**tensors, end=end), metadata


def _load_binary(path: str | Path, labels: Sequence[str], end: int) -> NGram:
    model, metadata = read_binary(path, FORMAT)
    _check_size(path, len(labels), model.vocab_size)
    if metadata.get("labels") != labels_fingerprint(labels) or model.end != end:
        raise FewerError(f"{path} was made with another tokenizer: its labels are not the model's own")
    return model


def _check_size(path: str | Path, labels: int, vocab_size: int) -> None:
    if labels != vocab_size:
        raise FewerError(f"{path}: the n-gram model has {vocab_size} labels, but the tokenizer {labels}")
