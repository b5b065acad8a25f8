"""python -m tests.kills --kills 20: signals at random moments of long commands; 1 if anything differs afterwards."""

import argparse
import re
import signal
import sys
import tempfile
from pathlib import Path

from tests.kills.commands import COMMANDS, make_world
from tests.kills.tool import kills


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="of each command")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--command", action="append", help="only this one; repeat")
    parser.add_argument("--signal", choices=["KILL", "INT", "TERM"], default="KILL")
    parser.add_argument("--record", type=Path, help="a Markdown file whose table of kills gets the numbers")
    options = parser.parse_args()
    how = signal.Signals[f"SIG{options.signal}"]
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        world = make_world(Path(folder) / "world")
        for command in COMMANDS:
            if options.command and command.name not in options.command:
                continue
            found = kills(command, world, Path(folder) / command.name, options.kills, options.seed, how)
            bad += len(found)
            print(f"{command.name:<12}{options.kills:>4} SIG{options.signal}, {len(found)} differ", flush=True)
            for outcome in found:
                print(f"    killed after {outcome.after:.2f} s: {outcome.problem}")
            if options.record:
                record(options.record, command.name, options.signal, f"{len(found)} of {options.kills}")
    sys.exit(bool(bad))


def record(path: Path, command: str, how: str, result: str) -> None:
    """Put a result into the row of a command in the table | command | SIGKILL | SIGINT | SIGTERM |."""
    before, head, table = path.read_text().partition("| command | SIGKILL |")
    row = re.search(rf"^\| {re.escape(command)} \|.*$", table, re.MULTILINE)
    if row is None:
        raise SystemExit(f"{path} has no row for {command}")
    cells = [cell.strip() for cell in row[0].strip("|").split("|")]
    cells[1 + ("KILL", "INT", "TERM").index(how)] = result
    path.write_text(before + head + table.replace(row[0], f"| {' | '.join(cells)} |", 1))


if __name__ == "__main__":
    main()
