"""Text in the spelling of transcripts."""

from pathlib import Path

import pytest

from fewer.data.spelling import check_case, librispeech_text
from fewer.data.token_store import read_text
from fewer.errors import FewerError


@pytest.mark.parametrize(
    ("printed", "spoken"),
    [
        ('"Well, Mr. Gray," said Mrs. Hall -- "no."', "WELL MISTER GRAY SAID MISSUS HALL NO"),
        ("'Stop!' he cried. 'It's the boys' dog.'", "STOP HE CRIED IT'S THE BOYS' DOG"),
        ("'Tis true, they saw 'em", "'TIS TRUE THEY SAW 'EM"),
        ("It was in 1842.", ""),
        ("MISTER GRAY'S DOG", "MISTER GRAY'S DOG"),
    ],
)
def test_printed_text_becomes_what_librispeech_would_write(printed: str, spoken: str) -> None:
    assert librispeech_text(printed) == spoken
    assert librispeech_text(spoken) == spoken


def test_text_is_read_in_the_spelling_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("Dr. No?\nin 1842\n")
    assert list(read_text(tmp_path / "text.txt", "librispeech")) == ["DOCTOR NO", ""]
    assert list(read_text(tmp_path / "text.txt", "upper")) == ["DR. NO?", "IN 1842"]


def test_an_unknown_spelling_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(FewerError, match="'Upper'; it is one of none, upper, lower, librispeech"):
        check_case("Upper")
