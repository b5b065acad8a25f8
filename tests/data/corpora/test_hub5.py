"""Test sets that are scored by an STM: Hub5'00, Hub5'01 and RT-03S."""

import pytest

from fewer.data.corpora.prepare import PrepareOptions, prepare
from fewer.errors import FewerError
from tests.data.corpora.builders import hub5e00, hub5e01, pitch, read_cuts, rt03, texts, write_lines


def test_hub5e00(tmp_path):
    hub5e00(tmp_path)
    summary = prepare("hub5e00", tmp_path, tmp_path / "out")[0]
    assert (summary.name, summary.utterances, len(summary.speakers)) == ("hub5e00", 5, 4)
    assert texts(tmp_path / "out/hub5e00.jsonl") == {
        "en_4156-A_000000-000100": "he is a police officer i-",
        "en_4156-A_000100-000200": "",  # scored, although nothing has to be recognised
        "en_4156-B_000100-000200": "um-hum you know",
        "sw_4390-A_000000-000100": "uh-huh the t v",
        "sw_4390-B_000050-000150": "right",
    }
    cuts = read_cuts(tmp_path / "out/hub5e00.jsonl")
    assert [round(pitch(cut), -1) for cut in cuts] == [300, 400, 900, 600, 1200]
    assert [cut.supervisions[0].custom["subset"] for cut in cuts] == [*["callhome"] * 3, *["switchboard"] * 2]
    assert cuts[0].supervisions[0].custom["stm_labels"] == "O,en,F,en-F"
    assert cuts[2].supervisions[0].speaker == "en_4156-B"


def test_stm_and_glm_lie_beside_the_manifest(tmp_path):
    corpus = hub5e00(tmp_path)
    prepare("hub5e00", tmp_path, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["hub5e00.glm", "hub5e00.jsonl", "hub5e00.stm"]
    original = corpus / "LDC2002T43/reference"
    assert (tmp_path / "out/hub5e00.glm").read_text() == (original / "en20000405_hub5.glm").read_text()
    stm = (tmp_path / "out/hub5e00.stm").read_text().splitlines()
    assert len(stm) == 8
    assert stm[4].endswith("IGNORE_TIME_SEGMENT_IN_SCORING")
    assert not any(slip in line for line in stm for slip in ("((", "ASIDE"))


def test_hub5e00_in_two_places(tmp_path):
    hub5e00(tmp_path)
    options = PrepareOptions(transcripts=tmp_path / "LDC2002T43")
    assert prepare("hub5e00", tmp_path / "LDC2002S09", tmp_path / "out", options)[0].utterances == 5
    with pytest.raises(FewerError, match=r"no reference hub5e00.english.000405.stm .* LDC2002T43"):
        prepare("hub5e00", tmp_path / "LDC2002S09", tmp_path / "out")


def test_hub5e01(tmp_path):
    disc, nist = hub5e01(tmp_path)
    prepare("hub5e01", disc, tmp_path / "out", PrepareOptions(transcripts=nist))
    assert texts(tmp_path / "out/hub5e01.jsonl") == {
        "sw4653-A_000000-000100": "yeah who else monkeys",
        "sw4653-B_000100-000200": "no",
    }
    assert [round(pitch(cut), -1) for cut in read_cuts(tmp_path / "out/hub5e01.jsonl")] == [300, 700]
    assert (tmp_path / "out/hub5e01.stm").exists()
    assert (tmp_path / "out/hub5e01.glm").exists()
    with pytest.raises(FewerError, match="LDC2002S13 does not hold it: get it from NIST"):
        prepare("hub5e01", disc, tmp_path / "other")


@pytest.mark.parametrize("from_above", [False, True])
def test_rt03(tmp_path, from_above):
    corpus = rt03(tmp_path)
    prepare("rt03", tmp_path if from_above else corpus, tmp_path / "out")
    assert texts(tmp_path / "out/rt03.jsonl") == {
        "fsh_60262-A_000000-000100": "hello this is t v",
        "fsh_60262-B_000100-000200": "um-hum",
        "sw_45097-A_000000-000100": "right",
    }
    cuts = read_cuts(tmp_path / "out/rt03.jsonl")
    assert [round(pitch(cut), -1) for cut in cuts] == [300, 800, 500]
    assert [cut.supervisions[0].custom["subset"] for cut in cuts] == ["fisher", "fisher", "switchboard"]
    stm = (tmp_path / "out/rt03.stm").read_text().splitlines()
    assert [line.split()[:2] for line in stm[1:]] == [
        ["fsh_60262", "A"],
        ["fsh_60262", "B"],
        ["sw_45097", "A"],
        ["sw_45097", "B"],
    ]
    assert (tmp_path / "out/rt03.glm").read_text() == ";; rules\n"


STM = "LDC2002T43/reference/hub5e00.english.000405.stm"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda c: (c / "LDC2002S09/hub5e_00/english/sw_4390.sph").unlink(),
            "000405.stm, line 7: there is no audio sw_4390",
        ),
        (lambda c: write_lines(c / STM, "sw_4390 A s 0 1 <O> A"), "en_4156.sph: has no segment in .*000405.stm"),
        (lambda c: write_lines(c / STM, *["en_4156 A s 0 1 <O> A"] * 2), "line 2: utterance .* is there twice"),
        (lambda c: write_lines(c / STM, "en_4156 A s 1 1 <O> A"), "line 1: .* has no length"),
        (lambda c: write_lines(c / STM, "en_4156 A s 1 99 <O> A"), "line 1: .* its recording ends at 3.000 s"),
        (lambda c: write_lines(c / STM, "en_4156 A s -1 1 <O> A"), "line 1: .* begins before its recording"),
    ],
)
def test_bad_input(tmp_path, damage, message):
    hub5e00(tmp_path)
    damage(tmp_path)
    with pytest.raises(FewerError, match=message):
        prepare("hub5e00", tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
