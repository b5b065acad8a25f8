"""A minimal writer of TensorFlow checkpoints, independent of the reader: one block of every kind, keys in full."""

import struct
from pathlib import Path

import numpy as np

MAGIC = bytes.fromhex("57fb808b247547db")
NUMBERS = {"float32": 1, "float64": 2, "int32": 3, "int64": 9}


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value % 128 + 128])
        value //= 128
    return out + bytes([value])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, bytes):
        return varint(8 * number + 2) + varint(len(value)) + value
    return varint(8 * number) + varint(value)


def crc32c(data: bytes) -> int:
    """Bit by bit."""
    crc = 2**32 - 1
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc // 2) ^ (0x82F63B78 * (crc % 2))
    return 2**32 - 1 - crc


def block(entries: list[tuple[bytes, bytes]], share: bool = False) -> bytes:
    """share: keys without the bytes that they have in common with the one before."""
    body, before = b"", b""
    for key, value in entries:
        common = 0
        while share and common < min(len(key), len(before)) and key[common] == before[common]:
            common += 1
        body += varint(common) + varint(len(key) - common) + varint(len(value)) + key[common:] + value
        before = key
    body += struct.pack("<II", 0, 1) + b"\0"  # one restart, at 0; not compressed
    crc = crc32c(body)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32
    return body + struct.pack("<I", masked)


def write_checkpoint(prefix: Path, arrays: dict[str, np.ndarray], blocks: int = 2, shards: int = 1) -> None:
    """blocks: how many the index is divided into; shards: files that the tensors are spread over."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    data = [b""] * shards
    entries = [(b"", field(1, shards) + field(3, field(1, 1)))]
    for number, (name, array) in enumerate(sorted(arrays.items())):
        shard = number % shards
        shape = b"".join(field(2, field(1, size)) for size in array.shape)
        place = field(3, shard) + field(4, len(data[shard])) + field(5, array.nbytes)
        check = varint(8 * 6 + 5) + struct.pack("<I", 0)
        entries.append((name.encode(), field(1, NUMBERS[str(array.dtype)]) + field(2, shape) + place + check))
        data[shard] += array.tobytes()
    for shard, part in enumerate(data):
        Path(f"{prefix}.data-{shard:05d}-of-{shards:05d}").write_bytes(part)
    table, handles = b"", []
    size = -(-len(entries) // blocks)
    for first in range(0, len(entries), size):
        part = entries[first : first + size]
        made = block(part, share=True)
        handles.append((part[-1][0] + b"\xff", varint(len(table)) + varint(len(made) - 5)))
        table += made
    footer = b""
    for made in (block([]), block(handles)):
        footer += varint(len(table)) + varint(len(made) - 5)
        table += made
    Path(f"{prefix}.index").write_bytes(table + footer.ljust(40, b"\0") + MAGIC)
