"""References and hypotheses from all kinds of files."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from fewer.errors import FewerError
from fewer.evaluation.formats import read_ctm, read_trn
from fewer.evaluation.normalise import load_normaliser
from fewer.evaluation.transcripts import (
    Ranking,
    best,
    kind_of,
    load_pairs,
    parse_scales,
    read_transcripts,
    write_hypotheses,
    write_references,
)
from fewer.evaluation.wer import score
from fewer.search.nbest import Header, Hypothesis, LengthPolicy, NBest, write_nbest


def hypothesis(text: str, aed: float, lm: float, ilm: float = 0.0, length: int = 2) -> Hypothesis:
    return Hypothesis(text, tuple(range(length - 1)), {"aed": aed, "lm": lm, "ilm": ilm}, length, aed)


LISTS = [
    NBest("s1-1", (hypothesis("acoustic", -1.0, -9.0), hypothesis("likely", -2.0, -1.0)), "likely", "s1"),
    NBest("s1-2", (hypothesis("x y", -1.0, -2.0), hypothesis("x z", -1.0, -2.0)), "x z", "s1"),
]
SCALES = {"aed": 1.0, "lm": 0.1, "ilm": -0.1}


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    write_nbest(tmp_path / "pool.jsonl", Header(("aed", "lm", "ilm"), SCALES), LISTS)
    return tmp_path / "pool.jsonl"


def cut(id: str, text: str | None, speaker: str | None = "ann", **more: Any) -> dict[str, Any]:
    supervision = {"id": id, "recording_id": "f", "start": 0.0, "duration": 2.0, "channel": 0}
    supervision |= {"text": text, "speaker": speaker}
    value = {"id": id, "start": 0.0, "duration": 2.0, "channel": 0, "supervisions": [supervision], "type": "MonoCut"}
    source = {"type": "file", "channels": [0], "source": "f.wav"}
    recording = {"id": "f", "sources": [source], "sampling_rate": 8000, "num_samples": 16000, "duration": 2.0}
    return value | {"recording": recording} | more


def write_manifest(path: Path, *cuts: dict[str, Any]) -> Path:
    text = "".join(json.dumps(value) + "\n" for value in cuts)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def test_files_are_told_by_name_and_first_line(tmp_path: Path, pool: Path) -> None:
    manifest = write_manifest(tmp_path / "a.jsonl.gz", cut("u", "x"))
    assert kind_of(pool) == "nbest"
    assert kind_of(manifest) == "manifest"
    assert [kind_of(name) for name in ("a.trn", "b.STM", "c.d.ctm", "text", "e.txt")] == [
        "trn", "stm", "ctm", "text", "text",
    ]  # fmt: skip


def test_an_nbest_file_gives_its_first_hypotheses_and_its_references(pool: Path) -> None:
    found = read_transcripts(pool)
    assert found.texts == {"s1-1": "acoustic", "s1-2": "x y"}
    assert found.refs == {"s1-1": "likely", "s1-2": "x z"}
    assert found.speakers == {"s1-1": "s1", "s1-2": "s1"}


def test_other_scales_choose_other_hypotheses_and_of_equals_the_first(pool: Path) -> None:
    # acoustic: (-1 - 9 λ) / 2, likely: (-2 - λ) / 2: likely wins from λ = 1/8 on.
    assert read_transcripts(pool, Ranking({"lm": 0.12})).texts == {"s1-1": "acoustic", "s1-2": "x y"}
    assert read_transcripts(pool, Ranking({"lm": 0.13})).texts == {"s1-1": "likely", "s1-2": "x y"}


@pytest.mark.parametrize("lm", [0.0, 0.3, 0.7])
@pytest.mark.parametrize("ilm", [0.0, -0.4])
@pytest.mark.parametrize("policy", [LengthPolicy(), LengthPolicy(0.0, 0.5), LengthPolicy(0.6)])
def test_the_choice_is_that_of_rescored(lm: float, ilm: float, policy: LengthPolicy) -> None:
    options = [hypothesis(f"{i}", -i % 5 - 1.0, -(i * 7) % 11, -(i * 3) % 7, i % 4 + 1) for i in range(12)]
    scales = {"aed": 1.0, "lm": lm, "ilm": ilm}
    scores = [each.rescored(scales, policy) for each in options]
    assert best(NBest("u", tuple(options)), scales, policy) == options[scores.index(max(scores))]


def test_the_length_policy_can_be_changed(tmp_path: Path) -> None:
    lists = [NBest("u", (hypothesis("short", -2.0, 0.0, length=2), hypothesis("long", -2.9, 0.0, length=4)), "long")]
    write_nbest(tmp_path / "a.jsonl", Header(("aed", "lm", "ilm"), SCALES), lists)
    texts = [
        read_transcripts(tmp_path / "a.jsonl", ranking).texts["u"]
        for ranking in (Ranking(), Ranking(exponent=0.0), Ranking(exponent=0.0, reward=0.5))
    ]
    assert texts == ["long", "short", "long"]


def test_a_term_that_the_file_does_not_have_is_an_error(pool: Path, tmp_path: Path) -> None:
    with pytest.raises(FewerError, match="no scores of a term 'ngram'; its terms are aed, lm, ilm"):
        read_transcripts(pool, Ranking({"ngram": 0.5}))
    (tmp_path / "a.trn").write_text("a (1)\n")
    with pytest.raises(FewerError, match="no N-best file"):
        read_transcripts(tmp_path / "a.trn", Ranking({"lm": 0.5}))


def test_an_nbest_file_with_an_utterance_twice_or_empty_is_an_error(tmp_path: Path) -> None:
    header = Header(("aed", "lm", "ilm"), SCALES)
    write_nbest(tmp_path / "twice.jsonl", header, [LISTS[0], LISTS[0]])
    with pytest.raises(FewerError, match="utterance s1-1 is there twice"):
        read_transcripts(tmp_path / "twice.jsonl")
    write_nbest(tmp_path / "empty.jsonl", header, [NBest("u", (), "x")])
    with pytest.raises(FewerError, match="utterance u has no hypotheses"):
        read_transcripts(tmp_path / "empty.jsonl")


@pytest.mark.parametrize("name", ["m.jsonl", "m.jsonl.gz"])
def test_references_from_a_manifest(tmp_path: Path, pool: Path, name: str) -> None:
    manifest = write_manifest(tmp_path / name, cut("s1-1", "Acoustic"), cut("s1-2", "X Y", None))
    pairs = load_pairs(pool, manifest, normaliser=load_normaliser("librispeech"))
    assert pairs.refs == pairs.hyps == {"s1-1": "ACOUSTIC", "s1-2": "X Y"}
    assert pairs.speakers == {"s1-1": "ann", "s1-2": "s1"}
    assert not pairs.nist


def test_a_bad_manifest_is_named_by_line(tmp_path: Path, pool: Path) -> None:
    with pytest.raises(FewerError, match=r"m\.jsonl, line 2: cut b has no transcript"):
        load_pairs(pool, write_manifest(tmp_path / "m.jsonl", cut("a", "x"), cut("b", None)))
    with pytest.raises(FewerError, match=r"m\.jsonl, line 2: utterance a is there twice"):
        load_pairs(pool, write_manifest(tmp_path / "m.jsonl", cut("a", "x"), cut("a", "x")))
    (tmp_path / "m.jsonl").write_text('{"id": 3}\n')
    with pytest.raises(FewerError, match=r"m\.jsonl, line 1: not a lhotse"):
        load_pairs(pool, tmp_path / "m.jsonl")


def test_references_are_needed(tmp_path: Path) -> None:
    (tmp_path / "hyp").write_text("u a\n")
    with pytest.raises(FewerError, match="no references of its own"):
        load_pairs(tmp_path / "hyp")
    lists = [LISTS[0], NBest("u", (hypothesis("a", -1.0, 0.0),))]
    write_nbest(tmp_path / "a.jsonl", Header(("aed", "lm", "ilm"), SCALES), lists)
    with pytest.raises(FewerError, match="1 utterances have no reference: u"):
        load_pairs(tmp_path / "a.jsonl")


def test_a_file_without_references_is_named(tmp_path: Path, pool: Path) -> None:
    (tmp_path / "empty.trn").write_text(";; nothing here\n")
    with pytest.raises(FewerError, match=r"empty\.trn has no references"):
        load_pairs(pool, tmp_path / "empty.trn")


def test_speakers_from_a_file_take_precedence(tmp_path: Path, pool: Path) -> None:
    (tmp_path / "utt2spk").write_text("s1-1 bob\ns1-2 eve\n")
    assert load_pairs(pool, speakers=tmp_path / "utt2spk").speakers == {"s1-1": "bob", "s1-2": "eve"}


STM = """f A ann 0.0 2.0 <O> likely (uh) yes
f A ann 2.0 4.0 x z
f B bob 0.0 2.0 can not
"""


@pytest.fixture
def stm(tmp_path: Path) -> Path:
    (tmp_path / "ref.stm").write_text(STM)
    return tmp_path / "ref.stm"


def test_ctm_words_are_given_to_stm_segments(tmp_path: Path, stm: Path) -> None:
    (tmp_path / "hyp.ctm").write_text("f A 0.1 0.3 likely\nf A 1.8 0.5 x\nf A 2.6 0.5 z\nf B 0.2 0.3 cannot\n")
    pairs = load_pairs(tmp_path / "hyp.ctm", stm)
    assert pairs.nist
    assert pairs.hyps == {"f-A-0001": "likely", "f-A-0002": "x z", "f-B-0001": "cannot"}
    assert pairs.speakers == {"f-A-0001": "ann", "f-A-0002": "ann", "f-B-0001": "bob"}
    assert score(pairs.refs, pairs.hyps, rules="sclite").errors.total == 4


def test_a_glm_maps_the_words_of_a_ctm_one_by_one(tmp_path: Path, stm: Path) -> None:
    (tmp_path / "hyp.ctm").write_text(
        "f A 0.1 0.3 likely\nf A 0.5 0.3 yes\nf A 2.1 0.3 x\nf A 2.6 0.5 z\nf B 0.2 0.3 cannot\n"
    )
    (tmp_path / "x.glm").write_text(
        ";;\n* case_sensitive = 'F'\n;; INPUT_DEPENDENT_APPLICATION = \"ctm\"\n"
        "[CANNOT] => [{CANNOT / CAN NOT}] / [ ] __ [ ]\nX Z => WRONG\n"
    )
    pairs = load_pairs(tmp_path / "hyp.ctm", stm, normaliser=load_normaliser(f"glm:{tmp_path / 'x.glm'}"))
    assert pairs.hyps["f-A-0002"] == "X Z"
    assert pairs.hyps["f-B-0001"] == "{CANNOT / CAN NOT}"
    assert score(pairs.refs, pairs.hyps, rules="hubscr").errors.total == 0
    write_hypotheses(tmp_path / "out.ctm", pairs)
    write_references(tmp_path / "out.stm", pairs)
    again = load_pairs(tmp_path / "out.ctm", tmp_path / "out.stm")
    assert again.refs == pairs.refs
    assert [word.text for word in read_ctm(tmp_path / "out.ctm")][-1] == "{ CANNOT / CAN NOT }"
    assert score(again.refs, again.hyps, rules="hubscr").errors.total == 0


def test_hypotheses_without_times_are_laid_over_the_manifests_cuts(tmp_path: Path, stm: Path) -> None:
    manifest = write_manifest(
        tmp_path / "m.jsonl", cut("u1", "r"), cut("u2", "r", start=2.0), cut("u3", "r", channel=1)
    )
    (tmp_path / "hyp").write_text("u1 likely yes\nu2 x z\nu3\n")
    pairs = load_pairs(tmp_path / "hyp", stm, segments=manifest)
    assert pairs.hyps == {"f-A-0001": "likely yes", "f-A-0002": "x z", "f-B-0001": ""}
    with pytest.raises(FewerError, match=r"has no times .* --segments"):
        load_pairs(tmp_path / "hyp", stm)
    with pytest.raises(FewerError, match="1 utterances are not in it: u3"):
        load_pairs(tmp_path / "hyp", stm, segments=write_manifest(tmp_path / "n.jsonl", cut("u1", "r"), cut("u2", "r")))


def test_channels_that_were_not_decoded_are_missing(tmp_path: Path, stm: Path) -> None:
    (tmp_path / "hyp.ctm").write_text("f A 0.1 0.3 likely\n")
    pairs = load_pairs(tmp_path / "hyp.ctm", stm)
    with pytest.raises(FewerError, match="1 of 3 references have no hypothesis: f-B-0001"):
        score(pairs.refs, pairs.hyps)
    assert score(pairs.refs, pairs.hyps, missing="deletions").errors.deletions == 6


def test_times_and_texts_do_not_mix(tmp_path: Path, stm: Path, pool: Path) -> None:
    (tmp_path / "hyp.ctm").write_text("f A 0.1 0.3 likely\n")
    with pytest.raises(FewerError, match="score ctm hypotheses against an stm"):
        load_pairs(tmp_path / "hyp.ctm", pool)
    with pytest.raises(FewerError, match="segments are for scoring against an stm"):
        load_pairs(pool, segments=stm)


def test_what_was_scored_can_be_written_for_sclite(tmp_path: Path, pool: Path) -> None:
    pairs = load_pairs(pool)
    write_references(tmp_path / "r.trn", pairs)
    write_hypotheses(tmp_path / "h.trn", pairs)
    assert read_trn(tmp_path / "r.trn") == pairs.refs
    assert read_trn(tmp_path / "h.trn") == pairs.hyps
    for write, name in ((write_references, "r.stm"), (write_hypotheses, "h.ctm"), (write_references, "r.txt")):
        with pytest.raises(FewerError, match="cannot write"):
            write(tmp_path / name, pairs)


def test_scales_are_written_as_they_are_multiplied() -> None:
    assert parse_scales("lm=0.4, ilm=-0.2") == {"lm": 0.4, "ilm": -0.2}
    for text in ("lm", "lm=x", "=1", "lm=0.4,,"):
        with pytest.raises(FewerError, match="write them as"):
            parse_scales(text)
