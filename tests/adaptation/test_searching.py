"""What a user says about a search, and what cannot be meant."""

from pathlib import Path

import pytest

from fewer.adaptation.searching import Models, Options, load_search
from fewer.errors import FewerError


def test_scales_are_the_usual_ones_or_those_that_are_given(tones: Path) -> None:
    assert load_search(Models(tones / "aed"), Options()).scales == {}
    assert load_search(Models(tones / "aed", lm=tones / "lm"), Options()).scales == {"lm": 0.3}
    given = Options(lm_scale=0.1, ilm_scale=0.0)
    assert load_search(Models(tones / "aed", lm=tones / "lm"), given).scales == {"lm": 0.1}


@pytest.mark.parametrize("term", ["lm", "ilm", "words"])
def test_a_scale_of_what_is_not_there_is_refused(tones: Path, term: str) -> None:
    with pytest.raises(FewerError, match=f"--{term}-scale is given, but nothing that it applies to: add --{term}"):
        load_search(Models(tones / "aed"), Options(**{f"{term}_scale": 0.5}))
