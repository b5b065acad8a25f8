"""Text as labels on disk: tokenised once, then read by sentence from memory-mapped files.

A store is a folder: `labels` holds every sentence closed by the end label, one after the other; `ends` holds where each
sentence ends; `store.json` says what they are. It is named by what went into it, and appears only when it is complete.
"""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from fewer.config import Config, parse_config
from fewer.data.lines import read_lines
from fewer.data.manifest import is_manifest, read_transcripts
from fewer.data.spelling import Case, spell
from fewer.data.tokenizer import Tokenizer
from fewer.errors import FewerError
from fewer.files import fingerprint, locked, read_json_object, write_json
from fewer.progress import Bar, warn

FORMAT: Literal["fewer-tokens/1"] = "fewer-tokens/1"
UNKNOWN_SHARE = 1e-3  # of all labels; text with more unknown labels than that is reported, with examples
EXAMPLES = 8  # words that are shown then
BLOCK = 20_000  # lines between two moments at which tokenising can be taken up again


def read_text(path: str | Path, case: Case = "none") -> Iterator[str]:
    """The lines of a plain, gzip or xz text of any size, or the transcripts of a manifest (.jsonl, .jsonl.gz)."""
    lines = read_transcripts(path) if is_manifest(path) else read_lines(path)
    return map(spell(case), lines)


class _Summary(Config):
    """store.json"""

    format: Literal["fewer-tokens/1"] = FORMAT
    dtype: Literal["<u2", "<u4"]
    vocab_size: int = Field(ge=1, le=1 << 32)
    lines: int = Field(ge=1)
    sentences: int = Field(ge=1)
    labels: int = Field(ge=1)
    unknown: int = Field(ge=0)
    examples: tuple[str, ...] = ()
    files: tuple[str, ...]


class TokenStore:
    """Sentences by number; nothing is kept in memory."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.summary = parse_config(_Summary, read_json_object(self.folder / "store.json"), self.folder / "store.json")
        self._map()

    def _map(self) -> None:
        sizes = {
            "ends": 8 * self.summary.sentences,
            "labels": np.dtype(self.summary.dtype).itemsize * self.summary.labels,
        }
        for name, size in sizes.items():
            if not (self.folder / name).is_file() or (self.folder / name).stat().st_size != size:
                raise self._damaged(name, f"it should have {size:,} bytes, as store.json says")
        self.ends = np.memmap(self.folder / "ends", "<u8", "r")  # (sentences,)
        self.labels = np.memmap(self.folder / "labels", self.summary.dtype, "r")  # (all labels,)

    def _damaged(self, name: str, why: str) -> FewerError:
        return FewerError(f"{self.folder / name} is missing or damaged: {why}; remove the folder to make it again")

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self.folder, "summary": self.summary}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._map()

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> np.ndarray:
        """A sentence's labels, the end label last. (N,) int64"""
        if not 0 <= index < len(self):
            raise IndexError(f"sentence {index} of {len(self)}")
        start = int(self.ends[index - 1]) if index else 0
        labels = self.labels[start : int(self.ends[index])].astype(np.int64)
        if not len(labels) or labels.max() >= self.summary.vocab_size:
            raise self._damaged("labels" if len(labels) else "ends", f"sentence {index} is none")
        return labels

    def lengths(self, items: np.ndarray) -> np.ndarray:
        """Labels of each sentence, the end label counted. (n,) int64"""
        starts = np.where(items > 0, self.ends[np.maximum(items - 1, 0)], 0)
        lengths = self.ends[items].astype(np.int64) - starts.astype(np.int64)
        if len(lengths) and not 0 < lengths.min() <= lengths.max() <= len(self.labels):
            raise self._damaged("ends", "it does not rise")
        return lengths


@dataclass(frozen=True)
class _Progress:
    """How far tokenising has come."""

    lines: int = 0  # read, over all files
    sentences: int = 0
    labels: int = 0
    unknown: int = 0  # unknown labels among them
    examples: tuple[str, ...] = ()  # the first words that have them


def store_tokens(
    files: Sequence[str | Path],
    tokenizer: Tokenizer,
    folder: str | Path,
    case: Case = "none",
    allow_unknown: bool = False,
) -> TokenStore:
    """The store of these files in `folder`; made if it is not there, taken up again where it was interrupted.

    Empty lines are left out. allow_unknown: what the vocabulary lacks becomes the unknown label, instead of an error.
    """
    key = _key(files, tokenizer, case, allow_unknown)
    target = Path(folder) / f"tokens-{key[:16]}"
    if not target.exists():
        partial = Path(folder) / f".tokens-{key[:16]}.partial"
        try:
            with locked(partial):
                if target.exists():  # another process made it while this one waited
                    shutil.rmtree(partial, ignore_errors=True)
                else:
                    _tokenise(files, tokenizer, partial, case, allow_unknown)
                    partial.rename(target)
                    (target / "lock").unlink()
        except FewerError:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        except OSError as error:
            raise FewerError(
                f"cannot write {target}: {error.strerror or error}; is the disk full or read-only?"
            ) from error
    store = TokenStore(target)
    _report_unknown(store)
    return store


def _report_unknown(store: TokenStore) -> None:
    """Say so if the vocabulary lacks much of the text: it may be spelled otherwise, and a model of it learns little."""
    unknown, labels = store.summary.unknown, store.summary.labels
    if unknown <= UNKNOWN_SHARE * labels:
        return
    words = ", ".join(store.summary.examples)
    warn(
        f"{', '.join(store.summary.files)}: {unknown:,} of {labels:,} labels ({unknown / labels:.2%}) are unknown"
        f"{f', the first ones in: {words}' if words else ''}; is the text spelled as the tokenizer expects it?"
    )


def _key(files: Sequence[str | Path], tokenizer: Tokenizer, case: Case, allow_unknown: bool) -> str:
    """By what the files hold: wherever a run is made, its store has the same name."""
    parts = [FORMAT, tokenizer.fingerprint, case, str(allow_unknown)]
    for path in files:
        try:
            parts.append(fingerprint(Path(path)))
        except OSError as error:
            raise FewerError(f"cannot read {path}: {error.strerror}") from error
    return fingerprint(*parts)


def _tokenise(files: Sequence[str | Path], tokenizer: Tokenizer, folder: Path, case: Case, allow_unknown: bool) -> None:
    folder.mkdir(exist_ok=True)  # a process that failed while this one waited took it away
    dtype = np.dtype("<u2" if tokenizer.size <= 1 << 16 else "<u4")
    progress = _read_progress(folder)
    with open(folder / "labels", "ab") as labels, open(folder / "ends", "ab") as ends, Bar("tokenising") as bar:
        labels.truncate(progress.labels * dtype.itemsize)
        ends.truncate(progress.sentences * 8)
        bar.advance(progress.lines)
        lines = islice(_numbered(files, case), progress.lines, None)
        while block := list(islice(lines, BLOCK)):
            texts = [(f"{path}, line {number}", text) for path, number, text in block if text.strip()]
            sentences = [_encode(tokenizer, text, where, allow_unknown) for where, text in texts]
            flat = np.array([id for sentence in sentences for id in sentence], dtype)
            lengths = np.array([len(sentence) for sentence in sentences], "<u8")
            labels.write(flat.tobytes())
            ends.write((progress.labels + np.cumsum(lengths, dtype="<u8")).tobytes())
            progress = replace(
                progress,
                lines=progress.lines + len(block),
                sentences=progress.sentences + len(sentences),
                labels=progress.labels + len(flat),
                unknown=progress.unknown + (0 if tokenizer.unknown is None else int((flat == tokenizer.unknown).sum())),
                examples=_more_examples(progress.examples, tokenizer, [text for _, text in texts], sentences),
            )
            for stream in (labels, ends):
                stream.flush()
                os.fsync(stream.fileno())
            write_json(folder / "progress.json", asdict(progress))
            bar.advance(len(block), f"{progress.labels:,} labels")
    if not progress.sentences:
        raise FewerError(f"there is no text in {', '.join(map(str, files))}")
    names = [str(path) for path in files]
    summary = _Summary.model_validate(
        {"dtype": dtype.str, "vocab_size": tokenizer.size, **asdict(progress), "files": names}
    )
    write_json(folder / "store.json", summary.model_dump(mode="json"))
    (folder / "progress.json").unlink(missing_ok=True)


def _more_examples(
    known: tuple[str, ...], tokenizer: Tokenizer, texts: Sequence[str], sentences: Sequence[list[int]]
) -> tuple[str, ...]:
    """Different words with unknown labels, those that are known already and the next ones of these texts."""
    found = dict.fromkeys(known)
    if tokenizer.unknown is None or len(found) >= EXAMPLES:
        return known
    for text, labels in zip(texts, sentences, strict=True):
        if tokenizer.unknown in labels:
            found.update(dict.fromkeys(word for word in text.split() if tokenizer.unknown in tokenizer.encode(word)))
            if len(found) >= EXAMPLES:
                break
    return tuple(islice(found, EXAMPLES))


def _read_progress(folder: Path) -> _Progress:
    try:
        values = json.loads((folder / "progress.json").read_text())
        return _Progress(**{**values, "examples": tuple(values.get("examples", ()))})
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return _Progress()


def _numbered(files: Sequence[str | Path], case: Case) -> Iterator[tuple[str | Path, int, str]]:
    for path in files:
        for number, line in enumerate(read_text(path, case), start=1):
            yield path, number, line


def _encode(tokenizer: Tokenizer, text: str, where: str, allow_unknown: bool) -> list[int]:
    try:
        ids = tokenizer.encode(text)
    except FewerError as error:
        raise FewerError(f"{where}: {error}") from error
    if not allow_unknown and tokenizer.unknown in ids:
        raise FewerError(
            f"{where}: the vocabulary lacks a part of this text: {text!r:.200}; set allow_unknown to keep it"
        )
    return [*ids, tokenizer.end]
