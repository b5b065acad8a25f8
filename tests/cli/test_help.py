"""What --help says of each command."""

import importlib
import inspect

import pytest
import typer

import fewer
from fewer.cli import COMMANDS
from fewer.cli.main import app
from tests.cli.running import Fewer

NAMES = {
    "ilm": "estimate_ilm",
    "report": "write_report",
    "import-returnn": "import_returnn",
}  # functions that are not called as their command
SHELL_ONLY = {  # options for what Python programs do themselves
    "json", "per_speaker", "alignments", "write_ref", "write_hyp", "dry_run", "output", "fix", "tie", "limit", "out",
    "gpu", "shard"
}  # fmt: skip


@pytest.mark.parametrize("verb", COMMANDS)
def test_commands_and_functions_have_the_same_options_and_defaults(verb: str) -> None:
    functions = [getattr(fewer, NAMES.get(verb, verb.replace("-", "_")))]
    if verb == "transcribe":
        functions += [fewer.Model.transcribe, fewer.load]
    known = {name: one for function in functions for name, one in inspect.signature(function).parameters.items()}
    for name, option in inspect.signature(
        importlib.import_module(f"fewer.cli.{verb.replace('-', '_')}").command
    ).parameters.items():
        if name in SHELL_ONLY - known.keys():
            continue
        ours, theirs = option.default, known[name].default
        optional = {inspect.Parameter.empty, None}  # the shell needs an `out` where Python can do without
        assert {ours, theirs} <= optional or str(ours) == str(theirs) or name == "prune", f"fewer {verb}: {name}"


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
