"""Ray on this machine with two processes."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def test_ray_does_what_one_process_does() -> None:
    pytest.importorskip("ray")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", HERE / "ray_cases.py"]
    ended = subprocess.run(command, cwd=HERE.parents[2], capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stdout[-6000:]
