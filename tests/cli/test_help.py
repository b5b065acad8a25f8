"""What --help says of each command."""

import pytest
import typer

from fewer.cli import COMMANDS
from fewer.cli.main import app
from tests.cli.running import Fewer


@pytest.mark.parametrize("verb", COMMANDS)
def test_the_help_is_complete_and_short(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    command = typer.main.get_command(app).commands[verb]  # type: ignore[attr-defined]
    summary = (command.help or "").splitlines()[0]
    assert 20 < len(summary) <= 120
    assert summary.endswith((".", "…"))
    for parameter in command.params:
        if "--help" not in parameter.opts:
            help = getattr(parameter, "help", None)
            assert help, f"fewer {verb}: {parameter.name} is not explained"
    code, out, err = Fewer(monkeypatch, capsys)(verb, "--help")
    assert (code, err) == (0, "")
    assert len(out.splitlines()) < 90
