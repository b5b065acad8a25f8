"""`fewer tune` from the outside, on a tiny recogniser of tones."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fewer.cli.main import app
from fewer.cli.tune import constraints
from fewer.decoding.encoding import BATCH
from fewer.errors import FewerError
from fewer.ilm.config import IlmConfig
from fewer.ilm.estimate import estimate_ilm
from fewer.search.nbest import read_nbest
from fewer.tuning.surface import Surface
from tests.recognisers.tiny import write_manifest


@pytest.fixture(scope="module")
def tones(tones: Path) -> Path:
    """The corpus and its recogniser, with internal LMs and an n-gram."""
    folder = tones
    for method in ("zero", "seq_avg", "lodr"):
        config = IlmConfig.model_validate({"method": method})
        estimate_ilm(folder / "aed", config, folder / method, folder / "train.jsonl", folder / "dev.jsonl")
    run("ngram", folder / "train.txt", folder / "lm.arpa", "--order", 2, "--tokenizer", folder)
    return folder


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def tune(tones: Path, out: Path, *more: object) -> str:
    return run("tune", tones / "aed", tones / "dev.jsonl", out, "--lm", tones / "lm.arpa", "--beam", 4, *more)


def test_every_method_is_tuned_in_one_call_and_shares_only_its_own_decodes(tones: Path, tmp_path: Path) -> None:
    ilms = [part for name in ("zero", "seq_avg", "lodr") for part in ("--ilm", tones / name)]
    told = tune(tones, tmp_path, *ilms, "--length", "fixed")
    assert [line.split(":")[0] for line in told.splitlines()] == ["sf", "zero", "seq_avg", "lodr"]
    for name in ("sf", "zero", "seq_avg", "lodr"):
        value = json.loads((tmp_path / name / "tune.json").read_text())
        assert value["decodes"] <= 6
        assert value["tuned_on"]["name"] == "dev"
        assert value["result"]["utterances"] == 6
        surface = Surface.load(tmp_path / name / "surface.npz")
        assert surface.names == (("lm",) if name == "sf" else ("lm", "ilm"))
        assert set(surface.errors.shape) == {151}


def test_the_end_label_may_be_scored_by_a_term_that_only_some_methods_have(tones: Path, tmp_path: Path) -> None:
    told = tune(tones, tmp_path, "--ilm", tones / "zero", "--budget", 1, "--end-by", "aed", "--end-by", "ilm")
    assert [line.split(":")[0] for line in told.splitlines()] == ["sf", "zero"]
    with pytest.raises(FewerError, match="the end label cannot be scored by 'ctc'; the terms are aed, lm, ilm"):
        tune(tones, tmp_path, "--ilm", tones / "zero", "--end-by", "ctc")


def test_what_cannot_be_tuned_is_refused_before_anything_is_encoded(
    tones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fewer.recognisers.aed.AedRecogniser.encode", lambda *_: pytest.fail("it encodes"))
    with pytest.raises(FewerError, match="two methods have the same name: sf, zero, zero; rename the folder"):
        tune(tones, tmp_path, "--ilm", tones / "zero", "--ilm", tones / "zero")
    with pytest.raises(FewerError, match="'ilm' is constrained, but no method has it"):
        tune(tones, tmp_path, "--fix", "ilm=0.2")


def test_a_segment_in_which_nothing_is_said_counts_insertions(tones: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (tones / "dev.jsonl").read_text().splitlines()]
    lines[0]["supervisions"][0]["text"] = ""
    dev = tmp_path / "dev.jsonl"
    dev.write_text("".join(json.dumps(line) + "\n" for line in lines))
    told = run("tune", tones / "aed", dev, tmp_path / "out", "--beam", 4, "--budget", 1)
    assert told.startswith("none: ")
    assert json.loads((tmp_path / "out" / "none" / "tune.json").read_text())["result"]["ins"] > 0


def test_processes_that_divide_the_searches_find_the_same_scales(
    tones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fewer.decoding.encoding.BATCH", BATCH.model_copy(update={"max_sequences": 2}))
    options = ("--ilm", tones / "zero", "--budget", 2)
    told = [
        tune(tones, tmp_path / engine, *options, "--engine", engine).replace(engine, "")
        for engine in ("local", "processes:2")
    ]
    assert told[0] == told[1]


@pytest.mark.parametrize("name", ["zero", "seq_avg", "lodr"])
def test_a_shared_decode_has_the_scores_that_the_methods_own_search_gives(
    tones: Path, tmp_path: Path, name: str
) -> None:
    tune(tones, tmp_path / "shared", "--ilm", tones / name, "--budget", 2)
    tune(tones, tmp_path / "alone", "--ilm", tones / name, "--budget", 2, "--no-sf")
    files = sorted(path.name for path in (tmp_path / "alone" / name / "decodes").glob("aed*"))
    assert len(files) == 2
    for file in files:
        shared, alone = (list(read_nbest(tmp_path / way / name / "decodes" / file)) for way in ("shared", "alone"))
        for ours, theirs in zip(shared, alone, strict=True):
            assert [h.tokens for h in ours.hypotheses] == [h.tokens for h in theirs.hypotheses]
            for a, b in zip(ours.hypotheses, theirs.hypotheses, strict=True):
                assert a.scores == pytest.approx(b.scores, abs=1e-4)


def test_constraints_of_the_command_line_hold(tones: Path, tmp_path: Path) -> None:
    more = ["--ilm", tones / "zero", "--length", "reward", "--tie", "ilm=0.5*lm", "--range", "lm=0.1:0.3"]
    tune(tones, tmp_path, *more, "--budget", 3)
    value = json.loads((tmp_path / "zero" / "tune.json").read_text())
    for trial in value["trials"]:
        assert 0.1 <= trial["parameters"]["lm"] <= 0.3
        assert trial["parameters"]["ilm"] == pytest.approx(0.5 * trial["parameters"]["lm"])
        assert trial["parameters"]["exponent"] == 0.0


def test_started_again_it_goes_on_and_another_beam_is_noticed(tones: Path, tmp_path: Path) -> None:
    first = tune(tones, tmp_path, "--budget", 2)
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "sf" / "decodes").iterdir()}
    assert tune(tones, tmp_path, "--budget", 2) == first
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "sf" / "decodes").iterdir()} == times
    with pytest.raises(FewerError, match="other models, options or utterances"):
        tune(tones, tmp_path, "--budget", 2, "--beam", 5)


def test_constraints_are_read() -> None:
    read = constraints(["lm=0.4"], ["ilm=0.8*lm", "ctc=lm"], ["reward=-1:2.5"])
    assert read == {
        "fixed": {"lm": 0.4},
        "tied": {"ilm": (0.8, "lm"), "ctc": (1.0, "lm")},
        "ranges": {"reward": (-1.0, 2.5)},
    }


@pytest.mark.parametrize(
    ("fix", "tie", "limit", "message"),
    [
        (["lm"], [], [], r"--fix lm: write it as lm=0\.4"),
        (["lm=much"], [], [], "'much' is not a number"),
        ([], ["ilm=x*lm"], [], "'x' is not a number"),
        ([], [], ["ilm=0.3"], "write it as ilm=0:0.6"),
    ],
)
def test_what_cannot_be_read_is_shown_how_to_write(
    fix: list[str], tie: list[str], limit: list[str], message: str
) -> None:
    with pytest.raises(FewerError, match=message):
        constraints(fix, tie, limit)


@pytest.mark.parametrize(
    ("more", "exponent"), [((), 1.5), (("--length", "fixed"), 1.0), (("--fix", "exponent=0.5"), 0.5)]
)
def test_whisper_is_tuned_where_its_defaults_say(
    tiny: Path, tmp_path: Path, more: tuple[str, ...], exponent: float
) -> None:
    dev = write_manifest(tmp_path / "dev.jsonl", ["the cat", "a hat"], seed=1)
    run("ngram", tmp_path / "dev.jsonl", tmp_path / "lm.arpa", "--order", 2, "--tokenizer", tiny)
    run("ilm", tiny, tmp_path / "zero", "--method", "zero_encoder")
    models = ("--lm", tmp_path / "lm.arpa", "--ilm", tmp_path / "zero", "--end-by", "aed", "--beam", 2, "--budget", 3)
    run("tune", tiny, dev, tmp_path / "out", *models, *more)
    sf, zero = (json.loads((tmp_path / "out" / name / "tune.json").read_text()) for name in ("sf", "zero"))
    assert {trial["parameters"]["exponent"] for trial in sf["trials"] + zero["trials"]} == {exponent}
    assert [trial["parameters"]["lm"] for trial in sf["trials"]][:2] == pytest.approx([0.0, 0.13], abs=0.01)
    tried = [(trial["parameters"]["lm"], trial["parameters"]["ilm"]) for trial in zero["trials"]]
    assert tried == [(0.0, 0.0), pytest.approx((0.13, 0.0), abs=0.01), pytest.approx((0.3, 0.3), abs=0.01)]
