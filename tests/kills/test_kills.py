"""Two kills of each command; `python -m tests.kills` makes more, also of slow ones."""

import signal
from pathlib import Path

import pytest

from tests.kills.commands import COMMANDS, make_world
from tests.kills.tool import Command, kills


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_world(tmp_path_factory.mktemp("kills") / "world")


QUICK = [command for command in COMMANDS if not command.slow]


@pytest.mark.slow
@pytest.mark.parametrize("command", QUICK, ids=lambda command: command.name)
def test_a_killed_command_run_again_leaves_what_it_would_have_left(
    command: Command, world: Path, tmp_path: Path
) -> None:
    assert kills(command, world, tmp_path / "kills", times=2) == []


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_command_stops_cleanly(how: signal.Signals, world: Path, tmp_path: Path) -> None:
    (command,) = (command for command in COMMANDS if command.name == "transcribe")
    assert kills(command, world, tmp_path / "kills", times=2, how=how) == []
