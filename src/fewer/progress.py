"""What the library tells while it works. Nothing is visible until `show_progress()`; the command line calls it.

Messages go through the logger "fewer": `say` at level INFO, `warn` at level WARNING. Bars are drawn only when progress
is shown: with time left on a terminal, as a plain line now and then elsewhere. All of it goes to standard error.
Results go to standard output, through `write` where a bar may be on the screen.
"""

import logging
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

Item = TypeVar("Item")
console = Console(stderr=True, highlight=False)
logger = logging.getLogger("fewer")
logger.addHandler(logging.NullHandler())  # or Python would print warnings that nobody asked for
PLAIN_SECONDS = 15.0  # how often a plain line is printed when there is no terminal
WIDE = 80  # columns of a terminal that has room for everything in one line
_live: list[Progress] = []  # the bar on the terminal, if there is one


class _ToConsole(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if console.is_terminal:  # break between words; a long path stays whole, so that it can be copied
            text = "\n".join(
                textwrap.fill(line, console.width, break_long_words=False, break_on_hyphens=False)
                for line in text.splitlines()
            )
        console.print(text, soft_wrap=True, markup=False)


_shown = _ToConsole(logging.INFO)


def show_progress(on: bool = True) -> None:
    """Show messages, warnings and progress bars on standard error, or stop showing them.

    Without it fewer prints nothing. Its warnings can also be seen with Python's `logging`, by the logger "fewer".
    """
    if on:
        logger.addHandler(_shown)
    else:
        logger.removeHandler(_shown)
    logger.setLevel(logging.INFO if on else logging.NOTSET)
    logger.propagate = not on  # libraries that set up the root logger would have everything printed twice


def is_shown() -> bool:
    return _shown in logger.handlers


def say(text: str) -> None:
    """Tell the user what is being done."""
    logger.info("%s", text)


def warn(text: str) -> None:
    """Tell the user something that they should know about their data or results."""
    logger.warning("%s", text)


@contextmanager
def collected() -> Iterator[list[tuple[int, str]]]:
    """Messages with their levels, which are not shown: a worker's, which the first process tells again."""
    messages: list[tuple[int, str]] = []
    kept, level, shared = logger.handlers[:], logger.level, logger.propagate
    logger.handlers[:] = [_Collecting(messages)]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield messages
    finally:
        logger.handlers[:], logger.propagate = kept, shared
        logger.setLevel(level)


def tell_again(messages: Iterable[tuple[int, str]]) -> None:
    """What was collected in another process."""
    for level, text in messages:
        logger.log(level, "%s", text)


class _Collecting(logging.Handler):
    def __init__(self, messages: list[tuple[int, str]]):
        super().__init__()
        self.messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append((record.levelno, record.getMessage()))


def write(text: str) -> None:
    """Print a line of results to standard output at once; above the bar if both are on a terminal."""
    if _live and sys.stdout.isatty():
        console.print(text, soft_wrap=True, markup=False)
    else:
        print(text, flush=True)


class _Count(ProgressColumn):
    """How many are done, and of how many if that is known."""

    def render(self, task: Task) -> Text:
        done = f"{int(task.completed):,}"
        return Text(done if task.total is None else f"{done}/{int(task.total):,}", style="progress.download")


def _columns(width: int) -> list[ProgressColumn]:
    """What a bar shows in one line of a terminal: on a narrow one a shorter bar, and no time that has passed."""
    name = Column(no_wrap=True, overflow="ellipsis", max_width=width // 2)
    note = Column(no_wrap=True, overflow="ellipsis", max_width=width // 3)
    columns: list[ProgressColumn] = [TextColumn("{task.description}", markup=False, table_column=name)]
    columns += [BarColumn(bar_width=30 if width >= WIDE else 10), _Count(table_column=Column(no_wrap=True))]
    columns += [TimeElapsedColumn()] if width >= WIDE else []
    columns += [TimeRemainingColumn(compact=width < WIDE)]
    return [*columns, TextColumn("{task.fields[note]}", markup=False, table_column=note)]


class Bar:
    """One task's progress. `advance` it; give `note`s (a loss, a perplexity) to show beside it."""

    def __init__(self, description: str, total: int | None = None):
        self.description, self.total, self.done, self.text = description, total, 0, ""
        self.began = self.printed = time.monotonic()
        self.shown, self.bar = is_shown(), None
        if self.shown and console.is_terminal and not _live:
            # Standard output stays as it is: rich would send what is printed there to standard error.
            self.bar = Progress(*_columns(console.width), console=console, redirect_stdout=False)
            self.task = self.bar.add_task(description, total=total, note="")

    def __enter__(self) -> "Bar":
        if self.bar:
            _live.append(self.bar)
            self.bar.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self.bar:
            self.bar.stop()
            _live.remove(self.bar)
        elif kind is None:
            self.line(f"done in {time.monotonic() - self.began:.0f} s")

    def advance(self, steps: int = 1, note: str | None = None) -> None:
        self.done += steps
        self.text = self.text if note is None else note
        if self.bar:
            self.bar.update(self.task, advance=steps, note=self.text)
        elif time.monotonic() - self.printed > PLAIN_SECONDS:
            self.printed = time.monotonic()
            of = left = ""
            if self.total:
                of = f"/{self.total}"
                left = f", {(self.printed - self.began) / self.done * (self.total - self.done):.0f} s left"
            self.line(f"{self.done}{of}{left} {self.text}".rstrip())

    def line(self, text: str) -> None:
        if self.shown and not _live:
            print(f"{self.description}: {text}", file=sys.stderr, flush=True)


def progress(items: Iterable[Item], description: str, total: int | None = None) -> Iterator[Item]:
    """Iterate over `items` and show how far it is."""
    if total is None and hasattr(items, "__len__"):
        total = len(items)  # type: ignore[arg-type]
    with Bar(description, total) as bar:
        for item in items:
            yield item
            bar.advance()


@contextmanager
def quiet_loading(source: str | Path) -> Iterator[None]:
    """Without the bars of transformers, except for that of a download if progress is shown."""
    from transformers.utils import logging as theirs

    quiet = (Path(source).is_dir() or not is_shown()) and theirs.is_progress_bar_enabled()
    if quiet:
        theirs.disable_progress_bar()
    try:
        yield
    finally:
        if quiet:
            theirs.enable_progress_bar()
