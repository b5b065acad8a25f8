"""fewer adapt from the command line, and decoding with what it made."""

import json
from pathlib import Path

from fewer.cli.adapt import outcome
from fewer.search.nbest import read_header, read_nbest
from tests.cli.running import Fewer


def test_a_bundle_is_made_and_decoded_with(fewer: Fewer, tones: Path, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("ab\t2\n")
    bundle, nbest = tmp_path / "bundle", tmp_path / "n.jsonl"
    options = ("--text", tones / "train.txt", "--words", tmp_path / "words.txt", "--order", 2, "--beam", 3)
    code, out, _ = fewer("adapt", tones / "aed", bundle, *options)
    assert code == 0
    assert "method zero: lm 0.3, ilm -0.2, words 1, reward 0 (the usual scales; give --dev to choose them)" in out
    assert out.splitlines()[-1] == (
        f"{bundle}: adds the language model, subtracts the internal one, rewards hotwords, with the usual scales; "
        "its gain was not measured (give --dev to measure it)"
    )
    assert json.loads((bundle / "bundle.json").read_text())["format"] == "fewer-bundle/2"
    assert fewer("decode", bundle, tones / "dev.jsonl", nbest)[0] == 0
    header = read_header(nbest)
    assert header.scales == {"aed": 1.0, "lm": 0.3, "ilm": -0.2, "words": 1.0}
    assert header.info["beam"] == 3
    assert header.info["model"] == str(bundle)
    assert len(list(read_nbest(nbest))) == 6
    changed = ("--lm-scale", 0.1, "--beam", 2, "--reward", 0.5)
    assert fewer("decode", bundle, tones / "dev.jsonl", tmp_path / "m.jsonl", *changed)[0] == 0
    header = read_header(tmp_path / "m.jsonl")
    assert (header.scales["lm"], header.length.reward, header.info["beam"]) == (0.1, 0.5, 2)
    (tmp_path / "others.txt").write_text("ba\n")
    others = ("--lm", tones / "lm", "--words", tmp_path / "others.txt", "--words-scale", 0.5, "--end-by", "aed")
    assert fewer("decode", bundle, tones / "dev.jsonl", tmp_path / "o.jsonl", *others)[0] == 0
    header = read_header(tmp_path / "o.jsonl")
    assert header.scales == {"aed": 1.0, "lm": 0.3, "ilm": -0.2, "words": 0.5}
    assert [header.info[term] for term in ("lm", "ilm", "words")] == [
        str(tones / "lm"), str(bundle / "ilm"), str(tmp_path / "others.txt")
    ]  # fmt: skip
    code, _, told = fewer("decode", bundle, tones / "dev.jsonl", tmp_path / "p.jsonl", "--language", "de")
    assert (code, "was made for language None, task transcribe: adapt the model anew" in told) == (1, True)


def test_with_a_dev_set_every_method_is_told(fewer: Fewer, tones: Path, tmp_path: Path) -> None:
    options = ("--text", tones / "train.txt", "--order", 2, "--beam", 3, "--budget", 2, "--method", "sf")
    sets = ("--dev", tones / "dev.jsonl", "--general", tones / "dev.jsonl")
    code, out, _ = fewer("adapt", tones / "aed", tmp_path / "bundle", *options, *sets)
    assert code == 0
    lines = out.splitlines()
    assert [line.split(": WER")[0] for line in lines[:3]] == ["dev, none", "dev, sf", "dev"]
    assert lines[3].startswith("method ")
    facts = json.loads((tmp_path / "bundle" / "bundle.json").read_text())
    assert lines[-1] == f"{tmp_path / 'bundle'}: {outcome(facts)}"


def facts(method: str, scales: dict[str, float], **dev: object) -> dict[str, object]:
    results = {"none": {"wer": 6.31}, "sf": {"wer": 5.84}}
    found = {"set": "dev", "plain": {"wer": 6.34}, "methods": results, **dev}
    return {"dev": found, "method": method, "scales": scales, "base": {"source": "openai/whisper-tiny.en"}}


def test_the_last_line_says_what_the_bundle_will_do() -> None:
    assert outcome(facts("none", {"lm": 0.0})) == "adds nothing: behaves as plain whisper-tiny.en (dev WER 6.3 %)"
    assert outcome(facts("sf", {"lm": 0.3})) == "adds the language model; dev WER 6.3 → 5.8 %"
    words = facts("none", {"lm": 0.0, "words": 0.5}, words={"wer": 6.0})
    assert outcome(words) == "rewards hotwords; dev WER 6.3 → 6.0 %"
    only_length = facts("none", {"lm": 0.0}, length_tuned=True)
    assert outcome(only_length) == "adds no language model, only a length reward; dev WER 6.3 → 6.3 %"


def test_errors_come_as_one_line(fewer: Fewer, tones: Path, tmp_path: Path) -> None:
    code, _, told = fewer("adapt", tones / "aed", tmp_path / "bundle", "--text", tmp_path / "missing.txt")
    assert code == 1
    assert told == f"fewer: cannot read {tmp_path / 'missing.txt'}: No such file or directory\n"
    code, _, told = fewer("adapt", tones / "aed", tmp_path / "bundle")
    assert (code, "give text of the domain (--text)" in told) == (1, True)
