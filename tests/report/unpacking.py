"""Reads in Python what the page's script reads: the data at the end of a report."""

import base64
import gzip
import json
import re
from typing import Any

import numpy as np

from fewer.report.blob import TYPES


class Unpacked:
    """The JSON value and the arrays of a page's data."""

    def __init__(self, text: str):
        raw = gzip.decompress(base64.b64decode(text))
        length = int.from_bytes(raw[:4], "little")
        self.value: dict[str, Any] = json.loads(raw[4 : 4 + length])
        self.arrays: dict[str, Any] = {}
        offset = 4 + length
        for name, place in self.value["arrays"].items():
            kind = np.dtype(TYPES[place["kind"]])
            size = place["count"] * kind.itemsize
            planes = np.frombuffer(raw[offset : offset + size], np.uint8).reshape(kind.itemsize, -1)
            values = np.ascontiguousarray(planes.T).view(kind).reshape(-1)
            self.arrays[name] = np.cumsum(values) if place["delta"] else values
            offset += size
        assert offset == len(raw)

    @classmethod
    def of_page(cls, page: str) -> "Unpacked":
        found = re.search(r'<script type="text/plain" id="data">([A-Za-z0-9+/=]*)</script>', page)
        assert found is not None
        return cls(found.group(1))

    def best_texts(
        self, set_name: str, row: str, scales: list[float], exponent: float, reward: float
    ) -> dict[str, str]:
        """Rank a list by the page's rules, in plain Python."""
        texts, one = self.value["texts"][set_name], self.value["lists"][set_name][row]
        counts, local = self.arrays[one["counts"]], self.arrays[one["texts"]]
        lengths, starts = self.arrays[one["lengths"]], self.arrays[texts["starts"]]
        scores = self.arrays[one["scores"]].reshape(len(one["terms"]), -1)
        powers = self.value["powers"]
        table = self.arrays[powers["values"]].reshape(len(powers["exponents"]), -1)[powers["exponents"].index(exponent)]
        power = dict(zip(self.arrays[powers["lengths"]].tolist(), table.tolist(), strict=True))
        found, h = {}, 0
        for u, id in enumerate(texts["ids"]):
            best = -float("inf")
            for _ in range(counts[u]):
                total = 0.0
                for scale, value in zip(scales, scores[:, h].tolist(), strict=True):
                    total += scale * value
                score = (total + reward * int(lengths[h])) / power[int(lengths[h])]
                if score > best:
                    best, found[id] = score, texts["texts"][starts[u] + local[h]]
                h += 1
        return found
