"""A small shell that runs the commands of a page in this process, so that they cost little."""

import functools
import os
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import typer
from torch.distributed.run import get_args_parser

from fewer.cli.main import app
from tests.cli.running import Fewer
from tests.docs.pages import ROOT


class Shell:
    """Keeps the folder and the variables from one command to the next."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
        self.monkeypatch, self.capsys, self.fewer = monkeypatch, capsys, Fewer(monkeypatch, capsys)
        monkeypatch.chdir(folder)

    def run(self, command: str) -> str:
        """Run it; an assertion fails if it does. Returns what it printed."""
        words = shlex.split(command)
        if words[0] == "cd":
            self.monkeypatch.chdir(words[1])
            return ""
        if words[0] == "export":
            variable, _, value = words[1].partition("=")
            self.monkeypatch.setenv(variable, value)
            return ""
        if words[0] == "fewer":
            code, out, err = self.fewer(*words[1:])
        elif words[0] == "python" and words[1].startswith("benchmarks/"):
            return self.benchmark(*words[1:])
        else:
            done = subprocess.run(
                ["bash", "-c", command], capture_output=True, text=True, check=False, cwd=os.getcwd(), env=environment()
            )
            code, out, err = done.returncode, done.stdout, done.stderr
        assert code == 0, f"{command}\n{err[-2000:]}"
        return out

    def benchmark(self, script: str, *options: str) -> str:
        """Run a program of the repository. One that starts processes needs one of its own."""
        path = ROOT / script
        if "multiprocessing" in path.read_text():
            return self.run(shlex.join(["python", str(path), *options]))
        self.monkeypatch.setattr(sys, "argv", [script, *options])
        self.monkeypatch.syspath_prepend(path.parent)
        try:
            runpy.run_path(str(path), run_name="__main__")
        finally:
            torch.set_num_threads(1)
        return self.capsys.readouterr().out

    def python(self, program: str, where: str) -> None:
        exec(compile(program, where, "exec"), {"__name__": "__main__"})
        self.capsys.readouterr()


def environment() -> dict[str, str]:
    """The same for every terminal and place."""
    tools = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": tools, "COLUMNS": "100", "LINES": "50", "NO_COLOR": "1", "PYTHONPATH": f"{ROOT}/src"}


def by_one_process(command: str) -> str:
    """What each process runs, after torchrun's own parser has seen its options."""
    words = shlex.split(command)
    if words[0] != "torchrun":
        return command
    options = get_args_parser().parse_args(words[1:])
    assert options.module, f"{command}: fewer is started as a module: torchrun … -m fewer …"
    return shlex.join([options.training_script, *options.training_script_args])


def check_options(command: str) -> None:
    """The command line understands it, without doing it."""
    group = typer.main.get_command(app)
    with group.make_context("fewer", shlex.split(command)[1:]) as context:
        verb, found, rest = group.resolve_command(context, [*context._protected_args, *context.args])  # type: ignore[attr-defined]
        assert found is not None
        found.make_context(verb, rest, parent=context).close()


@functools.cache
def options_of(verb: str) -> set[str]:
    """The options in a command's help, such as --beam."""
    command = typer.main.get_command(app).commands[verb]  # type: ignore[attr-defined]
    given = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    return {name for name in given if name.startswith("-")} | {"--help", "-h"}
