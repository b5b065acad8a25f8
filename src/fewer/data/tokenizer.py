"""What a tokenizer is: text to labels and back. Each is one JSON file; label 0 ends a sequence."""

import json
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from fewer.errors import FewerError
from fewer.files import fingerprint, write_json

VERSION = 1
END, END_LABEL, UNKNOWN_LABEL = 0, "</s>", "<unk>"


class Tokenizer(Protocol):
    """Text to labels and back. White space is folded: words come back separated by single blanks."""

    kind: ClassVar[str]
    labels: list[str]  # (V,) the end label first
    end: int = END
    unknown: int | None = None  # the label of what the vocabulary lacks; None: that is an error

    def encode(self, text: str) -> list[int]:
        """The labels of a text, without the end label."""
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """The text of labels; end labels are ignored."""
        ...

    def word_start(self, id: int) -> bool:
        """Whether a label alone says that a word begins with it (the first of a text always begins one)."""
        ...

    def word_end(self, id: int) -> bool:
        """Whether a label alone says that a word ends with it (the last of a text always ends one)."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Everything but kind and version; `from_json` reads it."""
        ...

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self: ...

    @property
    def size(self) -> int:
        """V, the end label included."""
        return len(self.labels)

    @cached_property
    def fingerprint(self) -> str:
        """Equal for tokenizers that give the same labels."""
        return fingerprint(self.kind, json.dumps(self.to_json(), sort_keys=True))

    def save(self, path: str | Path) -> None:
        write_json(path, {"kind": self.kind, "version": VERSION, **self.to_json()})

    def spelled(self, ids: Iterable[int]) -> list[str]:
        """The labels' spellings, end labels left out."""
        ids, size, end = [int(id) for id in ids], self.size, self.end
        for id in ids:
            if not 0 <= id < size:
                raise FewerError(f"label {id} is outside the vocabulary of {size} labels")
        return [self.labels[id] for id in ids if id != end]
