"""A few hundred mutated files of all kinds: each is read, or refused by an error that names it. `python -m tests.fuzz
--inputs 10000` runs more."""

import subprocess
import sys

import pytest

from tests.fuzz.generated import run_generated
from tests.fuzz.kind import Kind
from tests.fuzz.kinds import kinds
from tests.fuzz.run import run_kind

INPUTS = 400


@pytest.mark.parametrize("kind", list(kinds()), ids=lambda kind: kind.name)
def test_no_file_leads_to_a_traceback_or_a_hang(kind: Kind) -> None:
    inputs = max(2, round(INPUTS * kind.share / sum(other.share for other in kinds())))
    if kind.name == "training":  # in a process of its own: it forks, which one that has trained cannot survive
        options = ["--kind", kind.name, "--inputs", str(inputs), "--seed", "7"]
        told = subprocess.run([sys.executable, "-m", "tests.fuzz", *options], capture_output=True, text=True)
        assert told.returncode == 0, told.stdout + told.stderr[-2000:]
        return
    tally = run_kind(kind, inputs, seed=7)
    assert not tally.bad, tally.examples
    assert tally.inputs == tally.read + tally.errors


def test_no_generated_file_leads_to_a_traceback() -> None:
    tally = run_generated(60, 7)
    assert not tally.bad, tally.examples
    assert tally.errors > tally.read > 0
