"""`fewer …` for the tests of commands."""

import pytest

from tests.cli.running import Fewer


@pytest.fixture
def fewer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Fewer:
    return Fewer(monkeypatch, capsys)
