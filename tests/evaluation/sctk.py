"""NIST's own tools, where they are installed: on the path, where Debian's package sctk puts them, or in $SCTK_BIN."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDERS = [os.environ.get("SCTK_BIN", ""), "/usr/lib/sctk/bin", "/usr/local/bin"]


def find(tool: str) -> str | None:
    return shutil.which(tool) or next((path for f in FOLDERS if (path := shutil.which(tool, path=f))), None)


def needs(*tools: str) -> pytest.MarkDecorator:
    absent = [tool for tool in tools if find(tool) is None]
    return pytest.mark.skipif(bool(absent), reason=f"not installed: {', '.join(absent)} (Debian: sctk)")


def run(tool: str, *arguments: str | Path, text: str | None = None, cwd: Path | None = None) -> str:
    path = find(tool)
    assert path is not None
    environment = {**os.environ, "PATH": f"{Path(path).parent}{os.pathsep}{os.environ['PATH']}"}
    command = [path, *map(str, arguments)]
    return subprocess.run(command, input=text, capture_output=True, text=True, cwd=cwd, env=environment).stdout


def sclite_counts(*arguments: str | Path) -> list[tuple[str, tuple[int, int, int, int]]]:
    """(utterance, (correct, substituted, deleted, inserted)) as sclite's alignment report gives them."""
    report = run("sclite", *arguments, "-o", "pra", "stdout")
    found = re.findall(
        r"^id: \((.*)\)\n(?:[A-Z]\w+: .*\n)*?Scores: \(#C #S #D #I\) (\d+) (\d+) (\d+) (\d+)", report, re.M
    )
    return [(name, (int(c), int(s), int(d), int(i))) for name, c, s, d, i in found]
