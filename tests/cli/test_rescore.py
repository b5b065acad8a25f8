"""fewer rescore from the command line."""

from pathlib import Path

import pytest

from fewer.search.nbest import read_header, read_nbest
from tests.cli.running import Fewer


@pytest.fixture
def decoded(fewer: Fewer, tones: Path, tmp_path: Path) -> Path:
    path = tmp_path / "decoded.jsonl"
    options = ("--lm", tones / "lm", "--lm-scale", 0.0, "--beam", 4)
    assert fewer("decode", tones / "aed", tones / "dev.jsonl", path, *options)[0] == 0
    return path


def test_the_new_term_is_the_lms_score_and_lists_are_ranked_anew(
    fewer: Fewer, tones: Path, decoded: Path, tmp_path: Path
) -> None:
    path = tmp_path / "again.jsonl"
    code, out, _ = fewer("rescore", decoded, tones / "lm", path, "--scale", 3.0, "--term", "again")
    assert (code, out) == (0, f"{path}: 6 utterances\n")
    header = read_header(path)
    assert header.terms == ("aed", "lm", "again")
    assert header.scales == {"aed": 1.0, "lm": 0.0, "again": 3.0}
    compared = 0
    for before, after in zip(read_nbest(decoded), read_nbest(path), strict=True):
        assert {h.tokens for h in before.hypotheses} == {h.tokens for h in after.hypotheses}
        scores = [hypothesis.score for hypothesis in after.hypotheses]
        assert scores == sorted(scores, reverse=True)
        for hypothesis in after.hypotheses:
            assert hypothesis.score == pytest.approx(hypothesis.rescored(header.scales, header.length), abs=1e-5)
            if hypothesis.ended:
                assert hypothesis.scores["again"] == pytest.approx(hypothesis.scores["lm"], abs=1e-4)
                compared += 1
    assert compared


@pytest.mark.parametrize(
    ("options", "complaint"),
    [(["--scale", "nan"], "nan"), (["--scale", "inf"], "inf"), (["--term", "lm"], "lm")],
)
def test_what_cannot_be_is_named_and_nothing_is_written(
    fewer: Fewer, tones: Path, decoded: Path, tmp_path: Path, options: list[str], complaint: str
) -> None:
    code, out, talk = fewer("rescore", decoded, tones / "lm", tmp_path / "out.jsonl", *options)
    assert (code, out) == (1, "")
    assert talk.startswith("fewer: ")
    assert complaint in talk
    assert not (tmp_path / "out.jsonl").exists()


def test_missing_files_are_named(fewer: Fewer, tones: Path, decoded: Path, tmp_path: Path) -> None:
    code, _, talk = fewer("rescore", tmp_path / "nothing.jsonl", tones / "lm", tmp_path / "out.jsonl")
    assert code == 1
    assert "nothing.jsonl" in talk
    code, _, talk = fewer("rescore", decoded, tmp_path / "nowhere", tmp_path / "out.jsonl")
    assert code == 1
    assert "nowhere" in talk
