"""fewer from Python: values come back, nothing is printed."""

import inspect
import os
import pydoc
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

import fewer
from fewer.api.results import Transcription
from fewer.data.stream import AudioStream
from fewer.experiments import demo as demo_module
from fewer.files import read_json
from fewer.search.nbest import read_header
from fewer.transcription.transcript import Segment, Transcript
from tests.data.sounds import noise
from tests.recognisers.tiny import make_whisper
from tests.training.tones import lm_values, write_yaml

FUNCTIONS = [name for name in fewer.__all__ if inspect.isfunction(getattr(fewer, name))]
untyped: Any = fewer


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> fewer.Model:
    """Hears one second at once."""
    return fewer.load(make_whisper(tmp_path_factory.mktemp("whisper"), sharpness=0.25), beam=2)


@pytest.fixture(scope="module")
def call(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve seconds at 16 kHz, as 16 bits."""
    path = tmp_path_factory.mktemp("call") / "call.wav"
    soundfile.write(path, noise(12), 16000, subtype="PCM_16")
    return path


def test_importing_fewer_is_light_and_changes_nothing() -> None:
    program = """
import os, sys
before = dict(os.environ)
import fewer
heavy = {"torch", "transformers", "numpy", "lhotse", "rich", "typer", "pydantic"} & set(sys.modules)
assert not heavy, heavy
assert dict(os.environ) == before
assert {"load", "transcribe", "FusionProcessor"} <= set(dir(fewer))
assert fewer.wer("a b", "a") == 50 and fewer.score and "torch" not in sys.modules
import fewer.ilm.methods, fewer.report.paper
from fewer import estimate_ilm, transcribe, tune, train
assert "ONEDNN_MAX_CPU_ISA" not in os.environ
"""
    environment = {name: value for name, value in os.environ.items() if name != "ONEDNN_MAX_CPU_ISA"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_name_is_there_and_packages_are_packages() -> None:
    assert {"adapt", "decode", "demo", "ngram", "perplexity", "prepare", "rescore", "run", "score"} < set(FUNCTIONS)
    for name in fewer.__all__:
        assert getattr(fewer, name) is not None
        assert name in dir(fewer)
    for module in (fewer.ilm, fewer.report):  # type: ignore[attr-defined]
        assert type(module) is ModuleType
        assert not callable(module)
    with pytest.raises(AttributeError, match="no attribute 'undo'"):
        untyped.undo  # noqa: B018


@pytest.mark.parametrize("name", FUNCTIONS)
def test_help_is_for_people(name: str) -> None:
    function = getattr(fewer, name)
    text = pydoc.render_doc(function, renderer=pydoc.plaintext)
    assert "Annotated" not in text
    assert "typer" not in text
    signature = inspect.signature(function)
    assert signature.return_annotation is not inspect.Signature.empty
    doc = inspect.getdoc(function)
    assert doc
    assert 20 < len(doc.splitlines()[0]) <= 120
    for parameter in signature.parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty
        assert parameter.kind is not inspect.Parameter.VAR_KEYWORD
        assert len(signature.parameters) == 1 or parameter.name in doc, f"fewer.{name}: {parameter.name}"


def test_from_a_tokenizer_to_a_score_without_a_word(
    tones: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    made = fewer.tokenizer(str(tones / "train.txt"), tmp_path / "tokenizer.json", kind="characters")
    assert made.size > 3
    values = lm_values(tones, {"kind": "lstm_lm", "embedding": 4, "size": 8})
    config = write_yaml(tmp_path / "lm.yaml", values)
    assert fewer.train(config, tmp_path / "lm", change="sub_epochs=1") == tmp_path / "lm"
    two = fewer.ngram([tones / "train.txt"], tmp_path / "two.arpa", tokenizer=tones, order=2, heldout=tones / "dev.txt")
    assert len(two.counts) == 2
    assert [one.perplexity.sentences for one in two.held_out] == [6]
    data: Any = {"train": tones / "train.jsonl", "dev": tones / "dev.jsonl"}
    facts = fewer.estimate_ilm(tones / "aed", tmp_path / "ilm", "seq_avg", **data)
    assert facts["perplexity"]["dev"]["ppl_label"] > 1

    lists = tmp_path / "dev.nbest.jsonl"
    options: Any = {"lm": tmp_path / "two.arpa", "lm_scale": 0.4, "ilm": str(tmp_path / "ilm"), "beam": 3}
    written = fewer.decode(tones / "aed", str(tones / "dev.jsonl"), lists, **options)
    assert written.header.scales == {"aed": 1.0, "lm": 0.4, "ilm": -0.2}  # what is not given is as in the shell
    in_memory = fewer.decode(tones / "aed", tones / "dev.jsonl", **options)
    assert (len(written), written.path, in_memory.path) == (6, lists, None)
    assert list(written) == list(in_memory) == list(written)

    again = fewer.rescore(lists, tmp_path / "lm", tmp_path / "again.jsonl", scale=0.1)
    assert again.header == read_header(tmp_path / "again.jsonl")
    assert again.header.terms == ("aed", "ilm", "lm", "rescore")
    found = fewer.score(lists, against=tmp_path / "again.jsonl", cer=True)
    assert found.wer == found.to_json()["wer"] == pytest.approx(found.result.wer)
    assert found.against is not None
    assert found.comparison is not None
    numbers = fewer.perplexity(tmp_path / "lm", tones / "dev.txt")
    assert numbers[str(tones / "dev.txt")]["sentences"] == 6
    dev, out = tones / "dev.jsonl", tmp_path / "tune"
    results = fewer.tune(tones / "aed", dev, out, lm=tones / "lm", fixed={"lm": 0.2}, budget=1, beam=2)
    assert results["sf"].parameters["lm"] == 0.2
    bundle = fewer.adapt(tones / "aed", tmp_path / "bundle", text=tones / "train.txt", order=2, dev=dev, method="sf")
    assert bundle.method == read_json(tmp_path / "bundle" / "bundle.json")["method"]
    assert fewer.load(tmp_path / "bundle").transcribe(tones / "audio" / "dev-0.wav").text
    assert capfd.readouterr() == ("", "")


def test_a_file_and_its_samples_are_transcribed_alike(whisper: fewer.Model, call: Path) -> None:
    from_file = whisper.transcribe(call, search=0.4)
    samples, _ = soundfile.read(call, dtype="float32")
    whole, _ = soundfile.read(call, dtype="int16")
    expected = from_file.to_json() | {"file": "audio"}
    assert len(from_file.segments) >= 3
    for array in (samples, samples.astype(np.float64), whole, torch.from_numpy(samples)):
        assert whisper.transcribe(array, search=0.4).to_json() == expected


def test_other_rates_are_converted_as_those_of_files(whisper: fewer.Model, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", samples := noise(3).astype(np.float32), 44100, subtype="FLOAT")
    from_file = whisper.transcribe(tmp_path / "a.wav", search=0.4)
    from_array = whisper.transcribe(samples, sampling_rate=44100, search=0.4)
    assert from_array.to_json() == from_file.to_json() | {"file": "audio"}
    assert from_array.duration == pytest.approx(3 * 16000 / 44100, abs=0.01)


def test_what_is_no_audio_is_refused_at_once(whisper: fewer.Model, tmp_path: Path) -> None:
    for audio, complaint in (
        (np.zeros((2, 100)), "give one channel"),
        ([0.1, 0.2], "audio is a float"),
        (np.array([np.nan]), "not finite"),
        (tmp_path / "missing.wav", "there is no such file"),
    ):
        with pytest.raises(fewer.FewerError, match=complaint):
            whisper.transcribe(audio)  # type: ignore[call-overload]


def test_segments_come_before_the_file_is_read_to_its_end(
    whisper: fewer.Model, call: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, blocks = AudioStream._read, []

    def counted(stream: AudioStream, size: int) -> Any:
        for block in read(stream, size):
            blocks.append(len(block))
            yield block

    monkeypatch.setattr(AudioStream, "_read", counted)
    result = whisper.transcribe(call, search=0.4)
    assert blocks == []  # nothing is done before it is asked for
    first = next(iter(result))
    assert first.text
    assert sum(blocks) < 6 * 16000
    assert result.segments[0] is first
    assert sum(blocks) == 12 * 16000
    assert [word for segment in result for word in segment.words] == result.words
    assert "\n".join(segment.text for segment in result) == result.text == str(result)
    assert sum(blocks) == 12 * 16000  # what was recognised is kept


def test_words_have_times_and_confidences(whisper: fewer.Model, call: Path) -> None:
    result = whisper.transcribe(call, search=0.4)
    assert result.problems == []
    for segment in result:
        assert segment.confidence is not None
        confidences = [word.confidence or 0.0 for word in segment.words]
        assert all(0 < confidence <= 1 for confidence in confidences)
        assert all(segment.start <= word.start <= word.end <= segment.end for word in segment.words)
        if len(segment.words) == 1 and segment.hypothesis is not None:  # the end's probability is not the word's
            labels = segment.hypothesis.label_scores["aed"][:-1]
            assert confidences[0] == pytest.approx(np.exp(np.mean(labels)))
    assert whisper.transcribe(call, search=0.4, confidences=False).words[0].confidence is None


def test_a_list_has_a_result_for_each(whisper: fewer.Model, call: Path, tmp_path: Path) -> None:
    results = whisper.transcribe([call, tmp_path / "missing.wav", noise(0.9)], search=0.4)
    assert len(results) == 3
    assert [result.file for result in results] == [str(call), str(tmp_path / "missing.wav"), "audio 2"]
    assert results[0].text == whisper.transcribe(call, search=0.4).text
    later_first = whisper.transcribe([call, call], search=0.4)
    assert later_first[1].text == later_first[0].text == results[0].text
    assert [len(result.problems) for result in results] == [0, 1, 0]
    assert results[-1].duration == pytest.approx(0.9)
    with pytest.raises(IndexError):
        results[3]


def test_a_transcription_that_failed_does_not_pass_for_a_whole_one() -> None:
    transcript = Transcript("call.wav")

    def failing() -> Any:
        transcript.segments.append(Segment(0.0, 1.0))
        yield transcript.segments[-1]
        raise fewer.FewerError("a score is not a number")

    result = Transcription(transcript, failing())
    for _ in range(2):
        with pytest.raises(fewer.FewerError, match="not a number"):
            result.text  # noqa: B018


def test_a_text_is_scored_as_the_search_scores_it(tones: Path) -> None:
    model = fewer.load(tones / "aed", lm=tones / "lm", lm_scale=0.4, beam=3)
    lists = {nbest.id: nbest for nbest in model.decode(tones / "dev.jsonl")}
    best = lists["dev-0"].hypotheses[0]
    found = model.log_probs(best.text, tones / "audio" / "dev-0.wav")
    assert found.scores == pytest.approx(best.scores, abs=1e-3)
    assert found.total == pytest.approx(best.scores["aed"] + 0.4 * best.scores["lm"], abs=1e-3)
    assert (found.score, found.tokens) == (pytest.approx(best.score, abs=1e-3), best.length)
    with pytest.raises(fewer.FewerError, match="give one of at most 30 s"):
        model.log_probs("a", np.zeros(31 * 16000))


def test_a_model_tells_what_it_is(tones: Path) -> None:
    model = fewer.load(tones / "aed", lm=tones / "lm", lm_scale=0.4)
    assert model.scales == {"aed": 1.0, "lm": 0.4}
    assert repr(model) == f"<fewer.Model {tones / 'aed'}, +0.4 × lm {tones / 'lm'}>"


def test_word_error_rates_are_in_percent() -> None:
    rate = fewer.wer("hello world", "hello duck")
    assert rate == float(rate) == 50.0
    assert repr(rate) == "50.00 % (1 sub, 0 del, 0 ins of 2)"
    assert fewer.wer(["a b", "c"], ["a", "c d"]).errors.total == 2
    assert fewer.wer("Hello, world!", "hello world", normalise="basic") == 0
    assert fewer.wer("abcd", "abcx", characters=True) == 25
    with pytest.raises(fewer.FewerError, match="2 references, but 1 hypotheses"):
        fewer.wer(["a", "b"], "a")


def test_the_demo_gives_the_threads_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_module, "_demo", lambda *_: {"threads": torch.get_num_threads()})
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert fewer.demo(tmp_path) == {"threads": 1}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_errors_are_exceptions(tones: Path, tmp_path: Path) -> None:
    with pytest.raises(fewer.FewerError, match="nowhere"):
        fewer.decode(tmp_path / "nowhere", tones / "dev.jsonl", tmp_path / "n.jsonl")
    with pytest.raises(TypeError, match="beem"):
        untyped.decode(str(tones / "aed"), tones / "dev.jsonl", tmp_path / "n.jsonl", beem=3)
    with pytest.raises(fewer.FewerError, match=r"did you mean tiny\.en"):
        fewer.load("tiny-en")
    for call, complaint in (
        (lambda: untyped.tokenizer(tones / "train.txt", tmp_path / "t.json", kind="letters"), "kind is 'letters'"),
        (lambda: untyped.prepare("librispeech", tmp_path, tmp_path / "out", case="low"), "case is 'low'; it must be"),
        (lambda: fewer.prepare("librispeech", tmp_path / "no", tmp_path / "out", case="lower"), "there is no folder"),
        (
            lambda: fewer.load(tones / "aed", device="toaster"),
            "device: 'toaster' is not a device; write auto, cpu, cuda",
        ),
        (lambda: fewer.write_report(tmp_path), "has no results"),
    ):
        with pytest.raises(fewer.FewerError, match=complaint):
            call()
