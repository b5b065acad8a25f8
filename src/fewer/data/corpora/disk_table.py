"""A sorted dictionary that lives on disk, so that memory does not grow with the corpus."""

import contextlib
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fewer.errors import FewerError


class DiskTable:
    """Keys with a tuple of strings each, handed back in the order of the keys. Gone when closed."""

    def __init__(self, *columns: str):
        self._folder = tempfile.TemporaryDirectory(prefix="fewer-prepare-")
        self._database = sqlite3.connect(Path(self._folder.name) / "table.sqlite", isolation_level=None)
        self._database.execute("PRAGMA journal_mode=OFF")
        self._database.execute("PRAGMA synchronous=OFF")
        names = ", ".join(f'"{column}" TEXT NOT NULL' for column in columns)
        self._database.execute(f"CREATE TABLE entries (key TEXT PRIMARY KEY, {names}) WITHOUT ROWID")
        self._database.execute("BEGIN")
        self._insert = f"INSERT OR IGNORE INTO entries VALUES ({', '.join('?' * (len(columns) + 1))})"

    def __enter__(self) -> "DiskTable":
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._database.close()
        self._folder.cleanup()

    def add(self, key: str, *values: str) -> bool:
        """Add an entry; False, and nothing is changed, if the key is there already."""
        try:
            return self._database.execute(self._insert, (key, *values)).rowcount == 1
        except sqlite3.OperationalError as error:
            place = tempfile.gettempdir()
            raise FewerError(f"cannot write to {place}: {error}; name a folder with more room by TMPDIR") from error

    def get(self, key: str) -> tuple[str, ...] | None:
        row = self._database.execute("SELECT * FROM entries WHERE key = ?", (key,)).fetchone()
        return row and row[1:]

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        """(key, *values), sorted by key as Python sorts strings."""
        return iter(self._database.execute("SELECT * FROM entries ORDER BY key"))

    def __len__(self) -> int:
        return int(self._database.execute("SELECT COUNT(*) FROM entries").fetchone()[0])
