"""The N-best file is complete or absent, and says where it is damaged."""

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from fewer.errors import FewerError
from fewer.search.nbest import Header, Hypothesis, LengthPolicy, NBest, read_header, read_nbest, write_nbest

HEADER = Header(("aed", "lm"), {"aed": 1.0, "lm": 0.3}, LengthPolicy(0.0, 0.5), {"beam": 4})
LISTS = [
    NBest("u1", (Hypothesis("a b", (3, 4), {"aed": -1.5, "lm": -2.0}, 3, -0.6),), "a b", "s1"),
    NBest("u2", (Hypothesis("", (), {"aed": -0.5, "lm": -1.0}, 1, -0.8, ended=False),)),
]


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "n.jsonl"
    assert write_nbest(path, HEADER, LISTS) == 2
    assert read_header(path) == HEADER
    assert list(read_nbest(path)) == LISTS


def test_nothing_is_left_when_a_score_is_not_finite(tmp_path: Path) -> None:
    bad = NBest("u3", (Hypothesis("x", (1,), {"aed": float("nan"), "lm": 0.0}, 2, 0.0),))
    with pytest.raises(FewerError, match="utterance u3"):
        write_nbest(tmp_path / "n.jsonl", HEADER, [*LISTS, bad])
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "n.jsonl"
    write_nbest(path, HEADER, LISTS)
    path.write_text(path.read_text()[:-20])
    with pytest.raises(FewerError, match="line 3"):
        list(read_nbest(path))


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "n.jsonl"
    path.write_text('{"a": 1}\n')
    with pytest.raises(FewerError, match="header"):
        read_header(path)


@pytest.mark.parametrize("field", ["terms", "scales", "length"])
def test_a_header_that_lacks_a_field_is_named(tmp_path: Path, field: str) -> None:
    path = tmp_path / "n.jsonl"
    write_nbest(path, HEADER, LISTS)
    first, *rest = path.read_text().splitlines(keepends=True)
    header = {name: value for name, value in json.loads(first).items() if name != field}
    path.write_text("".join([json.dumps(header) + "\n", *rest]))
    for read in (read_header, lambda path: list(read_nbest(path))):
        with pytest.raises(FewerError, match=rf"n\.jsonl, line 1: {field}: this field is missing"):
            read(path)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('"id": "u1"', '"id": 7', "line 2: id: Input should be a valid string (found 7)"),
        ('"aed": -1.5', '"aed": "-1.5"', "line 2: nbest.0.scores.aed: Input should be a valid number (found '-1.5')"),
        ('"aed": -1.5', '"aed": [1]', "line 2: nbest.0.scores.aed: Input should be a valid number (found [1])"),
        ('"tokens": [3, 4]', '"tokens": null', "line 2: nbest.0.tokens: Input should be a valid array (found None)"),
        ('"aed": 1.0', '"aed": 1e308', "line 1: scales.aed: Input should be less than or equal to 1000000"),
        ('"scales": {"aed": 1.0, "lm": 0.3}', '"scales": null', "line 1: scales: Input should be an object"),
        ('"exponent": 0.0', '"exponent": 1e9', "line 1: length.exponent: Input should be less than or equal to 100"),
        ('"text": "a b"', '"text": "\\ud800"', "line 2: not valid JSON"),
        ('"text": "a b"', '"text": ' + "[" * 5000, "line 2: not valid JSON"),
    ],
)
def test_a_field_of_another_kind_is_named(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    path = tmp_path / "n.jsonl"
    write_nbest(path, HEADER, LISTS)
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(FewerError, match=re.escape(f"n.jsonl, {complaint}")) as error:
        list(read_nbest(path))
    assert str(error.value).count("\n") < 3


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "n.jsonl"
    write_nbest(path, HEADER, LISTS)
    path.write_bytes(path.read_bytes().replace(b"a b", b"\xff\xfe"))
    with pytest.raises(FewerError, match=r"n\.jsonl, line 2"):
        list(read_nbest(path))


def test_a_compressed_file_is_read_as_it_is(tmp_path: Path) -> None:
    write_nbest(tmp_path / "n.jsonl", HEADER, LISTS)
    (tmp_path / "n.jsonl.gz").write_bytes(gzip.compress((tmp_path / "n.jsonl").read_bytes()))
    assert list(read_nbest(tmp_path / "n.jsonl.gz")) == LISTS


@pytest.mark.parametrize(
    "header", [replace(HEADER, terms=("aed", "lm", "ilm")), replace(HEADER, scales={**HEADER.scales, "ilm": -0.2})]
)
def test_a_score_that_the_header_speaks_of_and_no_hypothesis_has_is_named(tmp_path: Path, header: Header) -> None:
    path, whole = tmp_path / "n.jsonl", replace(LISTS[0].hypotheses[0], scores={"aed": 0.0, "lm": 0.0, "ilm": 0.0})
    write_nbest(path, header, [replace(LISTS[0], hypotheses=(whole,)), LISTS[1]])
    with pytest.raises(FewerError, match=r"n\.jsonl, line 3: the hypothesis '' has no score of the term 'ilm'"):
        list(read_nbest(path))
