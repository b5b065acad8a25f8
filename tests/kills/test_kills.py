"""Two kills of each command; `python -m tests.kills` makes more."""

from pathlib import Path

import pytest

from tests.kills.commands import COMMANDS, make_world
from tests.kills.tool import Command, kills


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_world(tmp_path_factory.mktemp("kills") / "world")


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_killed_command_run_again_leaves_what_it_would_have_left(
    command: Command, world: Path, tmp_path: Path
) -> None:
    assert kills(command, world, tmp_path / "kills", times=2) == []
