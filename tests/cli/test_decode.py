"""fewer decode from the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from fewer.decoding.encoding import BATCH
from fewer.ilm.config import IlmConfig
from fewer.ilm.estimate import estimate_ilm
from fewer.locks import exclusive
from fewer.search.beam import beam_search
from fewer.search.nbest import read_header, read_nbest
from tests.cli.running import Fewer


@pytest.fixture(scope="module")
def ilm(tones: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ilm") / "zero"
    estimate_ilm(tones / "aed", IlmConfig(method="zero"), folder)
    return folder


def test_every_term_is_written_with_the_scale_that_it_was_multiplied_by(
    fewer: Fewer, tones: Path, ilm: Path, tmp_path: Path
) -> None:
    options = ["--lm", tones / "lm", "--lm-scale", 0.4, "--ilm", ilm, "--ilm-scale", 0.3, "--ctc-scale", 0.2]
    options += ["--beam", 4, "--length-exponent", 0.5, "--reward", 0.1]
    code, out, _ = fewer("decode", tones / "aed", tones / "dev.jsonl", tmp_path / "n.jsonl", *options)
    assert (code, out) == (0, f"{tmp_path / 'n.jsonl'}: 6 utterances\n")
    header = read_header(tmp_path / "n.jsonl")
    assert header.scales == {"aed": 1.0, "lm": 0.4, "ilm": -0.3, "ctc": 0.2}  # the internal LM is subtracted
    assert (header.length.exponent, header.length.reward) == (0.5, 0.1)
    for nbest in read_nbest(tmp_path / "n.jsonl"):
        assert len(nbest.hypotheses) == 4
        for hypothesis in nbest.hypotheses:
            assert set(hypothesis.scores) == {"aed", "lm", "ilm", "ctc"}
            assert hypothesis.rescored(header.scales, header.length) == pytest.approx(hypothesis.score, abs=1e-4)


def test_only_the_best_are_written_and_none_is_longer_than_allowed(fewer: Fewer, tones: Path, tmp_path: Path) -> None:
    arguments = ("decode", tones / "aed", tones / "dev.jsonl")
    assert fewer(*arguments, tmp_path / "all.jsonl", "--beam", 5, "--max-length", 2)[0] == 0
    assert fewer(*arguments, tmp_path / "two.jsonl", "--beam", 5, "--max-length", 2, "--n-best", 2)[0] == 0
    for whole, two in zip(read_nbest(tmp_path / "all.jsonl"), read_nbest(tmp_path / "two.jsonl"), strict=True):
        assert two.hypotheses == whole.hypotheses[:2]
        assert all(hypothesis.length <= 2 for hypothesis in whole.hypotheses)


def test_processes_that_share_a_set_write_what_one_writes(
    fewer: Fewer, tones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fewer.decoding.encoding.BATCH", BATCH.model_copy(update={"max_sequences": 2}))
    arguments = ("decode", tones / "aed", tones / "train.jsonl")
    for number, engine in enumerate(("local", "processes:2")):
        assert fewer(*arguments, tmp_path / f"{number}.jsonl", "--engine", engine)[0] == 0
    assert (tmp_path / "0.jsonl").read_bytes() == (tmp_path / "1.jsonl").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.jsonl", "1.jsonl"]


def test_parts_of_a_slurm_array_are_merged_when_all_are_there(
    fewer: Fewer, tones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fewer.decoding.encoding.BATCH", BATCH.model_copy(update={"max_sequences": 2}))
    arguments = ("decode", tones / "aed", tones / "train.jsonl")
    assert fewer(*arguments, tmp_path / "whole.jsonl")[0] == 0
    out = tmp_path / "parts.jsonl"
    code, _, told = fewer("merge", out)
    assert code == 1
    assert "there are no shards to merge" in told
    assert fewer(*arguments, out, "--shard", "2/3")[0] == 0
    code, _, told = fewer(*arguments, out, "--shard", "1/3", "--beam", 3)
    assert code == 1
    assert "holds shards of a decode with other models, options or utterances" in told
    assert fewer(*arguments, out, "--shard", "3/3", "--engine", "processes:2")[0] == 0
    code, _, told = fewer("merge", out)
    assert code == 1
    assert "shards are missing (numbers 0, 3, " in told
    assert not out.exists()
    assert fewer(*arguments, out, "--shard", "1/3")[0] == 0
    assert fewer("merge", out)[0] == 0
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts.jsonl", "whole.jsonl"]


@pytest.mark.parametrize("shard", ["3", "0/2", "3/2", "a/b"])
def test_a_shard_that_is_none(fewer: Fewer, tones: Path, tmp_path: Path, shard: str) -> None:
    code, _, told = fewer("decode", tones / "aed", tones / "dev.jsonl", tmp_path / "n.jsonl", "--shard", shard)
    assert code == 1
    assert f"--shard {shard}: write i/n, such as 3/8" in told


def test_a_decode_that_was_stopped_goes_on_with_the_shards_that_are_not_done(
    fewer: Fewer, tones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fewer.decoding.encoding.BATCH", BATCH.model_copy(update={"max_sequences": 2}))
    arguments = ("decode", tones / "aed", tones / "train.jsonl")
    assert fewer(*arguments, tmp_path / "whole.jsonl")[0] == 0
    searched: list[int] = []
    search = beam_search

    def stopping(*args: Any, **options: Any) -> Any:
        searched.append(1)
        if len(searched) == 3:
            raise KeyboardInterrupt
        return search(*args, **options)

    monkeypatch.setattr("fewer.decoding.decode.beam_search", stopping)
    assert fewer(*arguments, tmp_path / "out.jsonl")[0] != 0
    shards = len(list((tmp_path / ".out.jsonl.parts").glob("0*.jsonl")))
    assert shards == 2
    assert fewer(*arguments, tmp_path / "out.jsonl")[0] == 0
    assert len(searched) == 3 + (len(list(read_nbest(tmp_path / "out.jsonl"))) + 1) // 2 - 2
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_terms_that_do_not_score_the_end_label(fewer: Fewer, tones: Path, tmp_path: Path) -> None:
    arguments = ("decode", tones / "aed", tones / "dev.jsonl")
    options = ("--lm", tones / "lm", "--lm-scale", 0.0)
    assert fewer(*arguments, tmp_path / "both.jsonl", *options)[0] == 0
    assert fewer(*arguments, tmp_path / "aed.jsonl", *options, "--end-by", "aed")[0] == 0
    compared = 0
    for both, aed in zip(read_nbest(tmp_path / "both.jsonl"), read_nbest(tmp_path / "aed.jsonl"), strict=True):
        assert [h.tokens for h in both.hypotheses] == [h.tokens for h in aed.hypotheses]
        for with_end, without in zip(both.hypotheses, aed.hypotheses, strict=True):
            if with_end.ended:
                assert with_end.scores["lm"] < without.scores["lm"]
                compared += 1
            else:
                assert with_end.scores["lm"] == without.scores["lm"]
    assert compared


def test_audio_without_transcripts_is_decoded(fewer: Fewer, tones: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) | {"supervisions": []} for line in (tones / "dev.jsonl").read_text().splitlines()]
    (tmp_path / "audio.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert fewer("decode", tones / "aed", tones / "dev.jsonl", tmp_path / "known.jsonl", "--beam", 2)[0] == 0
    assert fewer("decode", tones / "aed", tmp_path / "audio.jsonl", tmp_path / "unknown.jsonl", "--beam", 2)[0] == 0
    known, unknown = (list(read_nbest(tmp_path / name)) for name in ("known.jsonl", "unknown.jsonl"))
    assert [nbest.hypotheses for nbest in known] == [nbest.hypotheses for nbest in unknown]
    assert all(nbest.ref is None for nbest in unknown)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--end-by", "xyz"], "xyz"),
        (["--beam", 0], "beam is 0"),
        (["--n-best", 0], "n_best is 0"),
        (["--max-length", 0], "max_length is 0"),
        (["--reward", "nan"], "reward"),
        (["--length-exponent", "inf"], "exponent"),
        (["--ctc-scale", "nan"], "'ctc'"),
        (["--lm", "nowhere"], "nowhere"),
        (["--ilm", "nowhere"], "nowhere"),
    ],
)
def test_what_cannot_be_is_named_and_nothing_is_written(
    fewer: Fewer, tones: Path, tmp_path: Path, options: list[object], complaint: str
) -> None:
    code, out, talk = fewer("decode", tones / "aed", tones / "dev.jsonl", tmp_path / "n.jsonl", *options)
    assert (code, out) == (1, "")
    assert talk.startswith("fewer: ")
    assert complaint in talk
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_cannot_be_written_is_refused_before_any_work(fewer: Fewer, tones: Path, tmp_path: Path) -> None:
    (tmp_path / "file.txt").touch()
    for out, complaint in (
        (tmp_path, "is a folder"),
        (tmp_path / "file.txt" / "n.jsonl", "file.txt is not a folder"),
        (Path("/proc/n.jsonl"), "cannot write /proc/n.jsonl"),
    ):
        code, _, talk = fewer("decode", tmp_path / "none", tones / "dev.jsonl", out)
        assert code == 1
        assert complaint in talk
    assert [path.name for path in tmp_path.iterdir()] == ["file.txt"]


def test_a_scale_that_is_no_number_and_an_unknown_option_are_usage_errors(fewer: Fewer, tones: Path) -> None:
    code, _, talk = fewer("decode", tones / "aed", tones / "dev.jsonl", "n.jsonl", "--lm-scale", "much")
    assert code == 2
    assert "--lm-scale" in talk
    assert fewer("decode", tones / "aed", tones / "dev.jsonl", "n.jsonl", "--beem", 3)[0] == 2


def test_a_second_decode_into_the_same_file_is_refused(fewer: Fewer, tones: Path, tmp_path: Path) -> None:
    arguments = ("decode", tones / "aed", tones / "dev.jsonl", tmp_path / "n.jsonl")
    with exclusive(tmp_path, ".n.jsonl.lock"):
        code, _, told = fewer(*arguments)
    assert code == 1
    assert "is in use by" in told
    assert fewer(*arguments)[0] == 0
