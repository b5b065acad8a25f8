"""A few hundred mutated files of all kinds: each is read, or refused by an error that names it. `python -m tests.fuzz
--inputs 10000` runs more."""

import pytest

from tests.fuzz.generated import run_generated
from tests.fuzz.kind import Kind
from tests.fuzz.kinds import kinds
from tests.fuzz.run import run_kind

INPUTS = 400


@pytest.mark.parametrize("kind", list(kinds()), ids=lambda kind: kind.name)
def test_no_file_leads_to_a_traceback_or_a_hang(kind: Kind) -> None:
    shares = sum(other.share for other in kinds())
    tally = run_kind(kind, max(2, round(INPUTS * kind.share / shares)), seed=7)
    assert not tally.bad, tally.examples
    assert tally.inputs == tally.read + tally.errors


def test_no_generated_file_leads_to_a_traceback() -> None:
    tally = run_generated(60, 7)
    assert not tally.bad, tally.examples
    assert tally.errors > tally.read > 0
