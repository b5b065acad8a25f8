"""Runs commands as a shell would, without its price."""

import sys

import pytest

from fewer.cli.main import main


class Fewer:
    """Runs `fewer …` in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        self.monkeypatch.setattr(sys, "argv", ["fewer", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = self.capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err
