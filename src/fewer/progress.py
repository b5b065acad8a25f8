"""Progress that is visible: a bar with time left on a terminal, a plain line now and then elsewhere."""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

Item = TypeVar("Item")
console = Console(stderr=True, highlight=False)
PLAIN_SECONDS = 15.0  # how often a plain line is printed when there is no terminal


class Bar:
    """One task's progress. `advance` it; give `note`s (a loss, a perplexity) to show beside it."""

    def __init__(self, description: str, total: int | None = None):
        self.description, self.total, self.done, self.text = description, total, 0, ""
        self.began = self.printed = time.monotonic()
        self.bar: Progress | None = None
        if console.is_terminal:
            columns: list[Any] = [TextColumn("{task.description}"), BarColumn(bar_width=30), MofNCompleteColumn()]
            columns += [TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("{task.fields[note]}")]
            self.bar = Progress(*columns, console=console)
            self.task = self.bar.add_task(description, total=total, note="")

    def __enter__(self) -> "Bar":
        if self.bar:
            self.bar.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self.bar:
            self.bar.stop()
        elif kind is None:
            self.line(f"done in {time.monotonic() - self.began:.0f} s")

    def advance(self, steps: int = 1, note: str | None = None) -> None:
        self.done += steps
        self.text = self.text if note is None else note
        if self.bar:
            self.bar.update(self.task, advance=steps, note=self.text)
        elif time.monotonic() - self.printed > PLAIN_SECONDS:
            self.printed = time.monotonic()
            left = ""
            if self.total and self.done:
                left = f", {(self.printed - self.began) / self.done * (self.total - self.done):.0f} s left"
            self.line(f"{self.done}/{self.total or '?'}{left} {self.text}".rstrip())

    def line(self, text: str) -> None:
        print(f"{self.description}: {text}", file=sys.stderr, flush=True)


def progress(items: Iterable[Item], description: str, total: int | None = None) -> Iterator[Item]:
    """Iterate over `items` and show how far it is."""
    if total is None and hasattr(items, "__len__"):
        total = len(items)  # type: ignore[arg-type]
    with Bar(description, total) as bar:
        for item in items:
            yield item
            bar.advance()


def say(text: str) -> None:
    """Tell the user something on standard error (standard output is for results)."""
    console.print(text, soft_wrap=True, markup=False)


@contextmanager
def quiet_loading(source: str | Path) -> Iterator[None]:
    """Without the bar of transformers where weights come from a folder, in a moment; a download keeps its own."""
    from transformers.utils import logging

    quiet = Path(source).is_dir() and logging.is_progress_bar_enabled()
    if quiet:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        if quiet:
            logging.enable_progress_bar()
