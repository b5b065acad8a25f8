"""Data for the page: one JSON value and named arrays of numbers, packed, compressed and written as base64.

After gzip: length of the JSON (uint32, little endian), the JSON in UTF-8, then the arrays one after another. An array's
bytes are stored plane by plane (all first bytes, all second bytes, …), which compresses better; page/data.js undoes it.
"""

import base64
import gzip
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

TYPES = {"f64": "<f8", "i32": "<i4", "u8": "u1"}


class Blob:
    """Collects the arrays; `encode` joins them with the JSON value."""

    def __init__(self) -> None:
        self.places: dict[str, dict[str, Any]] = {}
        self.chunks: list[bytes] = []

    def add(self, name: str, array: NDArray[Any], kind: str, delta: bool = False) -> str:
        """Keep an array under a name, which is returned; `delta`: as differences of neighbours (integers only)."""
        values = np.ascontiguousarray(array).reshape(-1)
        if kind != "f64":
            limits = np.iinfo(TYPES[kind])
            if len(values) and not (limits.min <= values.min() and values.max() <= limits.max):
                raise OverflowError(f"{name}: values from {values.min()} to {values.max()} do not fit {kind}")
        if delta:
            values = np.diff(values, prepend=0)
        packed = values.astype(TYPES[kind])
        self.places[name] = {"kind": kind, "count": len(packed), "delta": delta}
        self.chunks.append(packed.view(np.uint8).reshape(-1, packed.itemsize).T.tobytes())
        return name

    def encode(self, value: dict[str, Any]) -> str:
        """The base64 text that the page holds; the same data give the same text."""
        text = json.dumps({**value, "arrays": self.places}, ensure_ascii=False, separators=(",", ":")).encode()
        raw = len(text).to_bytes(4, "little") + text + b"".join(self.chunks)
        return base64.b64encode(gzip.compress(raw, compresslevel=9, mtime=0)).decode("ascii")
