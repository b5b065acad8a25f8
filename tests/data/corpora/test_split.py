"""A set is divided by speakers, none of whom is in two parts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer.data.corpora.split import Split, by_number
from fewer.errors import FewerError


def test_first_speakers_by_number_and_the_others():
    split = Split.parse("dev-clean=tune:2,report")
    assert split == Split("dev-clean", (("tune", 2), ("report", None)))
    assert split.assign({"1272", "84", "174", "3000"}) == {
        "84": "tune",
        "174": "tune",
        "1272": "report",
        "3000": "report",
    }


def test_speakers_beyond_the_last_count_are_in_no_part():
    assert Split.parse("train=a:1,b:1").assign({"1", "2", "3"}) == {"1": "a", "2": "b"}


@settings(deadline=None)
@given(st.sets(st.integers(0, 10**6), min_size=6), st.integers(1, 5))
def test_parts_are_disjoint_complete_and_in_order(numbers, count):
    parts = Split.parse(f"s=a:{count},b").assign({str(number) for number in numbers})
    first = sorted(int(speaker) for speaker, part in parts.items() if part == "a")
    assert len(parts) == len(numbers)
    assert first == sorted(numbers)[:count]


def test_numbers_inside_names_sort_by_value():
    assert sorted(["sw10-B", "sw9-A", "sw10-A", "anna"], key=by_number) == ["anna", "sw9-A", "sw10-A", "sw10-B"]


@pytest.mark.parametrize(
    "text", ["", "dev", "dev=", "=a:1,b", "dev=a,b", "dev=a:0,b", "dev=a:x,b", "dev=a:1,a", "dev=dev:1,b"]
)
def test_mistakes_are_explained(text):
    with pytest.raises(FewerError, match="--split"):
        Split.parse(text)


def test_too_few_speakers():
    with pytest.raises(FewerError, match="dev has 2 speakers, but the parts need at least 3"):
        Split.parse("dev=a:2,b").assign({"1", "2"})
