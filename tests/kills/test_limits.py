"""`limits_cases.py` in a process of its own: it forks, which a process that has trained cannot survive."""

import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).parent / "limits_cases.py"
OPTIONS = ("-q", "-rs", "-p", "no:xdist", "-p", "no:cacheprovider")


@pytest.mark.slow
def test_limits() -> None:
    told = subprocess.run([sys.executable, "-m", "pytest", *OPTIONS, CASES], capture_output=True, text=True)
    print(told.stdout)  # says what was skipped, and why
    assert told.returncode == 0, told.stdout[-3000:] + told.stderr[-1000:]
