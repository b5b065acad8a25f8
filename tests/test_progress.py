"""What is shown, to whom, and when."""

import io
import logging
import re
import sys
from collections.abc import Iterator

import pytest
from rich.console import Console

from fewer import progress as module
from fewer.progress import Bar, is_shown, progress, say, show_progress, warn, write


def work() -> None:
    say("step one")
    warn("look out")
    assert list(progress([1, 2], "items")) == [1, 2]
    with Bar("steps", 2) as bar:
        bar.advance(2)


def test_nothing_is_shown_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    work()
    assert capsys.readouterr() == ("", "")
    show_progress()
    try:
        assert is_shown()
        work()
    finally:
        show_progress(False)
    out, told = capsys.readouterr()
    assert out == ""
    assert told.splitlines() == ["step one", "look out", "items: done in 0 s", "steps: done in 0 s"]
    work()
    assert capsys.readouterr() == ("", "")


def test_messages_go_to_the_logger(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "fewer"):
        work()
    assert [(record.name, record.levelno, record.getMessage()) for record in caplog.records] == [
        ("fewer", logging.INFO, "step one"),
        ("fewer", logging.WARNING, "look out"),
    ]


@pytest.fixture
def shown() -> Iterator[None]:
    show_progress()
    yield
    show_progress(False)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, shown: None) -> io.StringIO:
    """What a terminal of 60 columns gets."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=60, highlight=False, color_system=None)
    monkeypatch.setattr(module, "console", console)
    return screen


def test_a_bar_of_unknown_length_counts(
    shown: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "PLAIN_SECONDS", -1.0)
    with Bar("reading text") as bar:
        bar.advance(2000)
    assert capsys.readouterr().err.splitlines() == ["reading text: 2000", "reading text: done in 0 s"]


@pytest.mark.parametrize(("total", "count"), [(None, "2,000 "), (4000, "2,000/4,000 ")])
def test_a_narrow_terminal_shows_a_bar_in_one_line(terminal: io.StringIO, total: int | None, count: str) -> None:
    with Bar("sub-epoch 12/13", total) as bar:
        bar.advance(2000, note="loss 1.041 ppl 2.83 and more than there is room for")
    shown = re.sub(r"\x1b\[[?\d]*[a-zA-Z]", "", terminal.getvalue())
    lines = [line.split("\r")[-1] for line in shown.splitlines() if line.strip()]
    assert all(line.startswith("sub-epoch 12/13") and len(line) <= 60 for line in lines)  # it is never broken
    assert count in lines[-1]
    assert "loss 1.041" in lines[-1]
    assert "?" not in shown


def test_messages_on_a_narrow_terminal_break_between_words(terminal: io.StringIO) -> None:
    path = "/a/folder/with/a/path/that/is/longer/than/the/sixty/columns/of/this/terminal"
    say(f"decode 2/5: lm 0.40, ilm 0.00: WER 27.35 % (the pool said 28.01 %) {path}")
    lines = terminal.getvalue().splitlines()
    assert lines == ["decode 2/5: lm 0.40, ilm 0.00: WER 27.35 % (the pool said", "28.01 %)", path]


def test_results_go_to_standard_output_also_while_a_bar_is_on_the_terminal(
    terminal: io.StringIO, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Bar("seconds of audio", 2) as bar, Bar("inner", 1):
        bar.advance()
        write("Hello.")
        print("printed")
    assert capsys.readouterr().out == "Hello.\nprinted\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with Bar("seconds of audio", 2):
        write("both are a terminal")
    assert capsys.readouterr().out == ""
    assert "both are a terminal" in terminal.getvalue()
