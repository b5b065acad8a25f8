"""Long commands on a full or read-only disk, with little memory, and twice at once: a clear error, and what is written
when they run again is what an undisturbed run writes."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.kills.commands import COMMANDS, make_world
from tests.kills.limits import (
    Ended,
    can_mount,
    finish,
    forked,
    on_full_disk,
    on_read_only_disk,
    twice_at_once,
    with_little_memory,
)
from tests.kills.tool import Command, contents, difference

QUICK = [command for command in COMMANDS if not command.slow]
LONG = pytest.mark.parametrize("command", QUICK, ids=lambda command: command.name)
pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Threads do not survive a fork."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_world(tmp_path_factory.mktemp("limits") / "world")


@pytest.fixture(scope="module")
def whole(world: Path) -> dict[str, tuple[dict[str, str], int]]:
    """What each command writes undisturbed, and how many bytes that are."""
    found = {}
    for command in QUICK:
        folder = emptied(world.parent / "in")
        (ended,) = forked(lambda command=command, folder=folder: [finish(command, world, folder / "out")])  # type: ignore[misc]
        assert ended.code == 0, ended.said
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        found[command.name] = (ended.left, size)
    return found


@pytest.fixture
def folder(world: Path) -> Path:
    """The same one for all: the demo's manifests tell where it is."""
    return emptied(world.parent / "in")


def emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def message(ended: Ended) -> str:
    """What a command that failed told last: one error, no traceback."""
    assert ended.code == 1, ended.said
    assert "Traceback" not in ended.said
    last = ended.said.strip().splitlines()[-1]
    assert last.startswith("fewer: ")
    return last


@LONG
def test_a_full_or_read_only_disk_is_told_and_harms_nothing(
    command: Command, world: Path, whole: dict[str, tuple[dict[str, str], int]], folder: Path, tmp_path: Path
) -> None:
    if not can_mount(folder):
        pytest.skip("no file system can be mounted here")
    expected, size = whole[command.name]
    full, again = on_full_disk(command, world, folder, f"{size // 2}")
    if "MB left" not in message(full):  # as the demo says before it begins
        assert f"cannot write {folder}" in message(full)
        assert "No space left on device" in message(full)
    assert again.code == 0, again.said
    assert difference(expected, again.left) is None
    (tmp_path / "other").mkdir()
    fixed = message(on_read_only_disk(command, world, tmp_path / "other"))
    assert f"cannot write {tmp_path / 'other'}" in fixed
    assert "Read-only file system" in fixed


@LONG
def test_too_little_memory_is_told_and_harms_nothing(
    command: Command, world: Path, whole: dict[str, tuple[dict[str, str], int]], folder: Path
) -> None:
    short, again = with_little_memory(command, world, folder, 4 << 20)
    assert any(words in message(short) for words in ("out of memory", "too little memory")), short.said
    assert again.code == 0, again.said
    assert difference(whole[command.name][0], again.left) is None


@LONG
def test_of_two_commands_at_once_one_is_refused_or_both_write_the_same(
    command: Command, world: Path, whole: dict[str, tuple[dict[str, str], int]], folder: Path
) -> None:
    ended = sorted(twice_at_once(command, world, folder), key=lambda one: one.code)
    assert ended[0].code == 0, ended[0].said
    if ended[1].code:
        refused = ("is in use by process", "is being made by another process", "is there already")
        assert any(words in message(ended[1]) for words in refused)
    assert difference(whole[command.name][0], contents(folder)) is None
