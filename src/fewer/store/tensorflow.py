"""Reading TensorFlow checkpoints without TensorFlow.

A checkpoint PREFIX is two kinds of files. PREFIX.index is a sorted table in LevelDB's format: it maps each tensor's
name to a protocol buffer with its type, its shape, and where its bytes are. PREFIX.data-00000-of-00001 and so on hold
the bytes, little-endian. Tables that TensorFlow writes are not compressed.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fewer.errors import FewerError

MAGIC = 0xDB4775248B80FB57  # the last eight bytes of a table
FOOTER = 48  # bytes: two block handles, padding, MAGIC
TRAILER = 5  # bytes after each block: how it is compressed, and its checksum
TYPES = {1: "<f4", 2: "<f8", 3: "<i4", 4: "u1", 6: "i1", 9: "<i8", 10: "?", 19: "<f2"}  # TensorFlow's numbers
MASK = 0xA282EAD8  # checksums are stored rotated and with this added


@dataclass(frozen=True)
class Entry:
    """Where a tensor is."""

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    sliced: bool  # it is kept in several parts


def read_checkpoint(prefix: str | Path) -> dict[str, np.ndarray]:
    """All tensors of numbers by name; strings and what else there may be are left out."""
    prefix = Path(str(prefix).removesuffix(".index"))
    entries, shards = read_index(Path(f"{prefix}.index"))
    found: dict[str, np.ndarray] = {}
    for name, entry in entries.items():
        if entry.dtype not in TYPES:
            continue
        path = Path(f"{prefix}.data-{entry.shard:05d}-of-{shards:05d}")
        if entry.sliced:
            raise FewerError(f"{prefix}: {name} is kept in slices, which cannot be read; save the checkpoint without")
        dtype = np.dtype(TYPES[entry.dtype])
        count = int(np.prod(entry.shape, dtype=np.int64))
        if entry.size != count * dtype.itemsize:
            raise FewerError(
                f"{prefix}.index: {name} has {entry.size} bytes, which does not fit its shape {entry.shape}"
            )
        try:
            with open(path, "rb") as stream:
                stream.seek(entry.offset)
                values = stream.read(entry.size)
        except OSError as error:
            raise FewerError(f"cannot read {path}: {error.strerror}; copy all files {prefix.name}.*") from error
        if len(values) < entry.size:
            raise FewerError(f"{path} is cut off: {name} should be at {entry.offset}; copy it again")
        found[name] = np.frombuffer(values, dtype).reshape(entry.shape)
    return found


def read_index(path: Path) -> tuple[dict[str, Entry], int]:
    """The tensors of an index, and in how many files their bytes are."""
    try:
        table = path.read_bytes()
    except OSError as error:
        advice = "name the checkpoint without its ending, such as net-model/network.200"
        raise FewerError(f"cannot read {path}: {error.strerror}; {advice}") from error
    if len(table) < FOOTER or struct.unpack("<Q", table[-8:])[0] != MAGIC:
        raise FewerError(f"{path} is not the index of a TensorFlow checkpoint (version 2), or it is cut off")
    try:
        _, position = _handle(table[-FOOTER:], 0)  # of the meta index, which is empty
        handle, _ = _handle(table[-FOOTER:], position)
        entries: dict[str, Entry] = {}
        shards = 1
        for _, block in _block(table, *handle):
            for key, value in _block(table, *_handle(block, 0)[0]):
                if key:
                    entries[key.decode()] = _entry(value)
                else:  # the header
                    fields = dict(_fields(value))
                    shards = int(fields.get(1, 1))
                    if fields.get(2, 0):
                        raise FewerError(f"{path}: the checkpoint is big-endian, which cannot be read")
    except (IndexError, ValueError, struct.error, UnicodeDecodeError) as error:
        raise FewerError(f"{path} is damaged ({error}); copy it again") from error
    return entries, shards


def _handle(data: bytes, position: int) -> tuple[tuple[int, int], int]:
    """Offset and size of a block, and where to read on."""
    offset, position = _varint(data, position)
    size, position = _varint(data, position)
    return (offset, size), position


def _block(table: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values. Each key shares so many bytes with the one before."""
    block, trailer = table[offset : offset + size], table[offset + size : offset + size + TRAILER]
    if len(trailer) < TRAILER:
        raise ValueError("a block is missing")
    if trailer[0]:
        raise ValueError("a block is compressed")
    if struct.unpack("<I", trailer[1:])[0] != masked_crc(block + trailer[:1]):
        raise ValueError("a checksum is wrong")
    restarts = struct.unpack("<I", block[-4:])[0]
    end, position, key = size - 4 * (restarts + 1), 0, b""
    while position < end:
        shared, position = _varint(block, position)
        own, position = _varint(block, position)
        length, position = _varint(block, position)
        key = key[:shared] + block[position : position + own]
        yield key, block[position + own : position + own + length]
        position += own + length


def _entry(value: bytes) -> Entry:
    fields: dict[int, int | bytes] = dict(_fields(value))
    shape = fields.get(2, b"")
    assert isinstance(shape, bytes)
    sizes = [dict(_fields(dim)).get(1, 0) for number, dim in _fields(shape) if number == 2 and isinstance(dim, bytes)]
    dtype, shard, offset, size = (int(fields.get(number, 0)) for number in (1, 3, 4, 5))
    return Entry(dtype, tuple(int(one) for one in sizes), shard, offset, size, 7 in fields)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field of a protocol buffer."""
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        kind = tag & 7
        if kind == 0:
            value, position = _varint(message, position)
            yield tag >> 3, value
            continue
        if kind == 2:
            width, position = _varint(message, position)
        elif kind in (1, 5):
            width = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of kind {kind}")
        if position + width > len(message):
            raise ValueError("a field is cut off")
        yield tag >> 3, message[position : position + width]
        position += width


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 127) << shift
        position += 1
        if byte < 128:
            return value, position
        shift += 7


def _crc_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)  # CRC-32C, reflected
        table.append(value)
    return table


CRC = _crc_table()


def masked_crc(data: bytes) -> int:
    """The CRC-32C of LevelDB's blocks, as it is stored."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + MASK) & 0xFFFFFFFF
