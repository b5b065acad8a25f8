"""What the command line says when it is stopped."""

import sys

import pytest

from fewer.cli import COMMANDS, RESUMED
from fewer.cli.main import main


def stop(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("arguments", "where", "goes_on"),
    [
        (["adapt", "model", "out", "--text", "x"], "fewer.api.recognition.adapt_recogniser", True),
        (["rescore", "n.jsonl", "lm", "out.jsonl"], "fewer.api.recognition.load_lm_and_tokenizer", False),
    ],
)
def test_a_stopped_command_promises_to_go_on_only_if_it_does(
    arguments: list[str],
    where: str,
    goes_on: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(where, stop)
    monkeypatch.setattr(sys, "argv", ["fewer", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    told = capsys.readouterr().err
    assert told.startswith("fewer: stopped")
    assert ("goes on where it was" in told) == goes_on
    assert (arguments[0] in RESUMED) == goes_on


def test_what_goes_on_is_a_command() -> None:
    assert set(RESUMED) < set(COMMANDS)
