"""Runs commands where a disk is full or read-only, where memory is short, or where the same command runs already.

Commands run in forks of this process, which has everything imported, each with a file system of its own for what it
writes: a tmpfs in a new user namespace, as an ordinary user may have it.
"""

import ctypes
import multiprocessing
import os
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from fewer.cli.main import main
from tests.kills.tool import Command, contents

NEW_USER, NEW_MOUNTS = 0x10000000, 0x00020000
READ_ONLY, REMOUNT = 1, 32
PLENTY = "100m"


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it left."""

    code: int
    said: str  # on standard error
    left: dict[str, str]


def finish(command: Command, world: Path, out: Path) -> Ended:
    """Run it in this process, which is a fork; its messages go to a file beside the folder."""
    said = out.parent.parent / f"said-{os.getpid()}"
    sys.stdout, sys.stderr = open(os.devnull, "w"), open(said, "w", buffering=1)  # noqa: SIM115 (a fork's own)
    os.dup2(sys.stderr.fileno(), 2)
    if command.prepare is not None:
        command.prepare()
    sys.argv = ["fewer", *map(str, command.arguments(world, out))]
    code = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    sys.stderr.flush()
    return Ended(code, said.read_text(), contents(out.parent))


def forked(work: Callable[[], list[Ended]]) -> list[Ended]:
    """What a fork of this process returns."""
    (found,) = all_forked([work])
    return found


def all_forked(works: list[Callable[[], list[Ended]]]) -> list[list[Ended]]:
    """What forks return that run at the same time; one that dies has ended with its signal."""
    context, children = multiprocessing.get_context("fork"), []
    for work in works:
        end, far_end = context.Pipe(duplex=False)
        child = context.Process(target=_send, args=(work, far_end))
        child.start()
        far_end.close()
        children.append((child, end))
    results: list[list[Ended]] = []
    for child, end in children:
        try:
            results.append(end.recv())
        except EOFError:
            results.append([])
        child.join()
        if not results[-1]:
            results[-1] = [Ended(child.exitcode or 70, "it died", {})]
    return results


def _send(work: Callable[[], list[Ended]], far_end: Connection) -> None:
    try:
        far_end.send(work())
    finally:
        os._exit(0)


def mount(folder: Path, size: str, flags: int = 0) -> None:
    """A file system of so many bytes at a folder, or of another size if there is one."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", bytes(folder), b"tmpfs", flags, f"size={size},mode=755".encode()):
        raise OSError(ctypes.get_errno(), "mount")


def apart() -> None:
    """Let this process mount what no other one sees."""
    libc, user, group = ctypes.CDLL(None, use_errno=True), os.getuid(), os.getgid()
    if libc.unshare(NEW_USER | NEW_MOUNTS):
        raise OSError(ctypes.get_errno(), "unshare")
    for name, text in (("uid_map", f"0 {user} 1"), ("setgroups", "deny"), ("gid_map", f"0 {group} 1")):
        Path("/proc/self", name).write_text(text)


def can_mount(folder: Path) -> bool:
    """Whether this machine lets its users do that."""

    def attempt() -> list[Ended]:
        apart()
        mount(folder, "64k")
        return [Ended(0, "", {})]

    return forked(attempt)[0].code == 0


def on_full_disk(command: Command, world: Path, folder: Path, size: str) -> list[Ended]:
    """Run it on a disk of so many bytes, and then again on a larger one."""

    def work() -> list[Ended]:
        apart()
        mount(folder, size)
        full = finish(command, world, folder / "out")
        mount(folder, PLENTY, REMOUNT)
        return [full, finish(command, world, folder / "out")]

    return forked(work)


def on_read_only_disk(command: Command, world: Path, folder: Path) -> Ended:
    def work() -> list[Ended]:
        apart()
        mount(folder, PLENTY, READ_ONLY)
        return [finish(command, world, folder / "out")]

    return forked(work)[0]


def with_little_memory(command: Command, world: Path, folder: Path, room: int) -> list[Ended]:
    """Run it with so many bytes more than the process has, and then again without a limit."""

    def work() -> list[Ended]:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + room, resource.RLIM_INFINITY))
        short = finish(command, world, folder / "out")
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        return [short, finish(command, world, folder / "out")]

    return forked(work)


def twice_at_once(command: Command, world: Path, folder: Path) -> list[Ended]:
    """Run the same command in two processes."""
    return [one[0] for one in all_forked(2 * [lambda: [finish(command, world, folder / "out")]])]
