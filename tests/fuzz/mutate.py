"""Wrong versions of a right file: bytes that are flipped, cut or repeated, and JSON, YAML or tensors that say the wrong
things. Everything is drawn from the generator that is passed in."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save

VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**70, -(2**70), 1e308, -1e308, 1e-320, 0.5, float("nan"), float("inf"),
    "", "x", "0", "1e9", "../../etc/passwd", "/dev/zero", "\ud800", "\0", "x" * 5000, "é" * 300, "\u202e\n\t",
    [], {}, [[]], [None], [1, "x"], {"": 0}, {"x": {"y": []}}, [[[[[[[[[[[[]]]]]]]]]]]], list(range(200)),
]  # fmt: skip
TEXTS = [
    b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\n" * 50, b" " * 500, b"\t", b"-inf", b"nan", b"1e999", b"<s>",
    b"</s>", b"<unk>", b'"', b"{", b"[" * 3000, b"\\ud800", "😀é".encode(), b"9" * 5000, b"A" * 20_000, b"\x1f\x8b",
    b"|", b"*x", b"!!python/name:os.system ", b"&a [*a, *a]", b"2024-13-45", b"<<: ", b"\x1b[31m", b"../",
    b"pipe:touch /tmp/x", b"%s%n", b"(" * 200,
]  # fmt: skip


def mutated(path: Path, rng: random.Random) -> bytes:
    """The contents of a file after one to three changes that suit its kind."""
    content = path.read_bytes()
    for _ in range(rng.choice([1, 1, 2, 3])):
        choice = rng.random()
        if path.suffix in (".json", ".jsonl") and choice < 0.75:
            content = _json_lines(content, rng, lines=path.suffix == ".jsonl")
        elif path.suffix == ".safetensors" and choice < 0.75:
            content = _tensors(content, rng)
        else:
            content = _bytes(content, rng)
    if rng.random() < 0.03:
        content = gzip.compress(content)
        return content if rng.random() < 0.5 else content[: rng.randrange(len(content))]
    return content


def _bytes(content: bytes, rng: random.Random) -> bytes:
    data = bytearray(content)
    at = rng.randrange(len(data) + 1)
    kind = rng.randrange(8)
    if kind == 0 and data:
        data[at % len(data)] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del data[at:]
    elif kind == 2:
        del data[at : at + rng.choice([1, 2, 8, 100])]
    elif kind == 3:
        data[at:at] = rng.choice(TEXTS)
    elif kind == 4:
        data[at : at + rng.choice([1, 4, 20])] = rng.choice(TEXTS)
    elif kind == 5:
        data[at:at] = data[at : at + rng.choice([1, 10, 1000])] * rng.choice([1, 2, 50])
    elif kind == 6 and len(data) > 8:
        data[at % (len(data) - 8) :][:8] = rng.randbytes(8)
    else:
        for _ in range(rng.choice([1, 5, 50])):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def _json_lines(content: bytes, rng: random.Random, lines: bool) -> bytes:
    """One value of a JSON text is another one, or missing, or there twice."""
    parts = content.splitlines() if lines else [content]
    if not parts:
        return content
    number = rng.randrange(len(parts))
    try:
        value = json.loads(parts[number])
    except (ValueError, RecursionError):
        return _bytes(content, rng)
    parts[number] = json.dumps(_changed(value, rng)).encode()
    return b"\n".join(parts) + b"\n"


def _changed(value: Any, rng: random.Random) -> Any:
    if not isinstance(value, dict | list) or not value or rng.random() < 0.1:
        return rng.choice(VALUES)
    key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
    kind = rng.random()
    if kind < 0.1:
        del value[key]
    elif kind < 0.15:
        if isinstance(value, dict):
            value[rng.choice(["x", "", "__class__", "type", "id"])] = value[key]
        else:
            value.insert(key, value[key])
    else:
        value[key] = _changed(value[key], rng)
    return value


def _tensors(content: bytes, rng: random.Random) -> bytes:
    """One tensor has another value, shape or type, or the metadata say something else."""
    path = Path(f"/proc/self/fd/{_memory(content)}")
    try:
        with safe_open(path, framework="pt") as file:
            metadata, tensors = file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except Exception:  # not a file of tensors any more
        return _bytes(content, rng)
    if metadata and rng.random() < 0.25:
        key = rng.choice(sorted(metadata))
        metadata[key] = rng.choice(
            ["", "x", "-1", "{", "[]", "null", "7", metadata[key][: rng.randrange(20)], "[" * 999]
        )
    elif tensors:
        name = rng.choice(sorted(tensors))
        tensors[name] = _wrong(tensors[name].clone(), rng)
        if rng.random() < 0.1:
            del tensors[name]
        elif rng.random() < 0.05:
            tensors["surprise"] = torch.zeros(3)
    return save(tensors, {key: value for key, value in metadata.items() if value is not None})


def _wrong(tensor: torch.Tensor, rng: random.Random) -> torch.Tensor:
    kind, flat = rng.randrange(8), tensor.view(-1)
    if kind <= 3 and len(flat):
        limits = [0, 1, -1, 7, 2**31 - 1, -(2**31), len(flat)]
        extra = [float("nan"), float("inf"), 1e30, -1e-30, 0.5] if tensor.is_floating_point() else []
        flat[rng.randrange(len(flat))] = torch.tensor(rng.choice([*limits, *extra])).to(tensor.dtype)
        return tensor
    if kind == 4:
        return flat[: rng.randrange(len(flat) + 1)].clone()
    if kind == 5:
        return tensor[None].clone()
    if kind == 6:
        return tensor.to(rng.choice([torch.float64, torch.int64, torch.uint8, torch.bool, torch.float16]))
    return torch.cat([flat, flat[:3]])


_descriptors: list[int] = []


def _memory(content: bytes) -> int:
    import os

    for descriptor in _descriptors:
        os.close(descriptor)
    _descriptors[:] = [os.memfd_create("tensors")]
    os.write(_descriptors[0], content)
    return _descriptors[0]
