"""What is shown, to whom, and when."""

import logging

import pytest

from fewer.progress import Bar, is_shown, progress, say, show_progress, warn


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
