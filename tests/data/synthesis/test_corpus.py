import json
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
import soundfile

from fewer.data.audio import load_audio
from fewer.data.manifest import Manifest
from fewer.data.synthesis import corpus
from fewer.data.synthesis.corpus import babble_of, make_corpus, render
from fewer.data.synthesis.script import SPOKEN, DemoCorpusConfig, plan, text_of
from fewer.errors import FewerError

TINY = DemoCorpusConfig(train=12, source_dev=3, source_test=3, target_dev=3, target_test=4, target_text=30)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "corpus"
    make_corpus(folder, TINY)
    return folder


def contents(folder):
    """Every file by its path inside the folder, without the folder's own name in the manifests."""
    return {
        str(path.relative_to(folder)): path.read_bytes().replace(str(folder).encode(), b"")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def recordings(folder):
    return list(folder.glob("audio/*/*.flac"))


def run(folder, config, *lines, **options):
    """Make a corpus in another process, after some lines of Python."""
    code = "\n".join(
        [
            "import os, signal, sys",
            "signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs start with it ignored",
            *lines,
            "from fewer.data.synthesis.corpus import make_corpus",
            "from fewer.data.synthesis.script import DemoCorpusConfig",
            "from fewer.errors import FewerError",
            "try:",
            f"    make_corpus({str(folder)!r}, DemoCorpusConfig.model_validate_json({config.model_dump_json()!r}))",
            "except FewerError as error:",
            "    sys.exit(f'FewerError: {error}')",
        ]
    )
    return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, **options)


SECONDS = 600  # until a process that hangs is given up
ENDS = {  # how a process ends itself, and with Ctrl-C those that it started
    signal.SIGINT: "os.killpg(0, signal.SIGINT)",
    signal.SIGKILL: "os.kill(os.getpid(), signal.SIGKILL)",
}
AFTER_EIGHT = """
from fewer.data.synthesis import corpus
class Bar(corpus.Bar):
    def advance(self, *arguments):
        super().advance(*arguments)
        if self.done == 8:
            {}
corpus.Bar = Bar
"""


def test_manifests_hold_what_was_said_and_by_whom(made):
    for part in SPOKEN:
        cuts = list(Manifest(made / f"{part}.jsonl"))
        utterances = plan(part, TINY)
        assert [cut.id for cut in cuts] == [utterance.id for utterance in utterances]
        for cut, utterance in zip(cuts, utterances, strict=True):
            (supervision,) = cut.supervisions
            assert supervision.text == utterance.text
            assert supervision.speaker == utterance.voice.name
            assert cut.custom["snr"] == utterance.scene.snr
            assert cut.custom["noise"] == utterance.scene.noise
            assert len(load_audio(cut, TINY.sample_rate)) == cut.num_samples == cut.recording.num_samples


def test_a_recording_is_what_its_utterance_says_sample_by_sample(made):
    babble = babble_of(TINY)
    for utterance in plan("target-test", TINY):
        samples, rate = soundfile.read(corpus.audio_path(made, "target-test", utterance), dtype="int16")
        assert rate == TINY.sample_rate
        np.testing.assert_array_equal(samples, render(utterance, babble, TINY.sample_rate))


def test_texts_hold_one_sentence_a_line(made):
    assert (made / "source-text.txt").read_text().splitlines() == [cut.text for cut in plan("train", TINY)]
    assert (made / "target-text.txt").read_text().splitlines() == text_of("target-text", TINY)


def test_making_it_again_touches_nothing(made):
    before = {path: path.stat().st_mtime_ns for path in made.rglob("*")}
    make_corpus(made, TINY)
    assert {path: path.stat().st_mtime_ns for path in made.rglob("*")} == before


def test_a_missing_or_damaged_recording_is_made_again(made):
    whole = contents(made)
    first, second = sorted(recordings(made))[:2]
    first.unlink()
    second.write_bytes(b"")
    make_corpus(made, TINY, workers=1)
    assert contents(made) == whole


def test_a_moved_corpus_gets_manifests_of_its_new_place(made, tmp_path):
    moved = tmp_path / "moved"
    subprocess.run(["cp", "-r", str(made), str(moved)], check=True)
    make_corpus(moved, TINY)
    assert json.loads((moved / "train.jsonl").read_text().splitlines()[0])["recording"]["sources"][0][
        "source"
    ].startswith(str(moved))


def test_a_folder_with_another_corpus_is_refused(made):
    whole = contents(made)
    with pytest.raises(FewerError, match=r"made with other settings.*corpus\.json.*delete the folder"):
        make_corpus(made, DemoCorpusConfig(**{**TINY.model_dump(), "seed": 2}))
    assert contents(made) == whole


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_or_killed_it_goes_on_to_the_same_corpus(tmp_path, end):
    config = DemoCorpusConfig(train=200, source_dev=2, source_test=2, target_dev=2, target_test=2, target_text=30)
    process = run(tmp_path / "a", config, AFTER_EIGHT.format(ENDS[end]), start_new_session=True)
    process.communicate(timeout=SECONDS)  # the synthesising processes, which hold its standard error, end as well
    assert process.returncode == -end
    before = {path: path.stat().st_mtime_ns for path in recordings(tmp_path / "a")}
    assert 8 <= len(before) < 200
    make_corpus(tmp_path / "a", config)
    after = {path: path.stat().st_mtime_ns for path in recordings(tmp_path / "a")}
    assert len(after) == 208
    assert before.items() <= after.items()
    utterance = plan("train", config)[0]
    samples, _ = soundfile.read(corpus.audio_path(tmp_path / "a", "train", utterance), dtype="int16")
    np.testing.assert_array_equal(samples, render(utterance, babble_of(config), config.sample_rate))
    if end == signal.SIGINT:
        assert not list((tmp_path / "a").rglob(".*.tmp*"))


def test_when_no_more_can_be_written_the_message_says_so_and_nothing_is_half_written(tmp_path):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))"
    process = run(tmp_path / "a", TINY, limit)
    _, message = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert "FewerError: cannot write" in message
    assert "is the disk full or read-only?" in message
    assert all(soundfile.info(path).frames > 0 for path in recordings(tmp_path / "a"))
    assert not list((tmp_path / "a").rglob(".*.tmp*"))


def test_too_little_room_on_the_disk_is_said_before_the_work_begins(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda folder: shutil._ntuple_diskusage(10**6, 10**6 - 1000, 1000))
    with pytest.raises(FewerError, match=r"need about \d+ MB, but .* has 0 MB left"):
        make_corpus(tmp_path / "a", TINY)
    assert not recordings(tmp_path / "a")


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FewerError, match=r"cannot make the folder .*file/corpus"):
        make_corpus(tmp_path / "file" / "corpus", TINY)


def test_missing_voices_are_said_before_the_work_begins(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "espeakng_loader", None)
    with pytest.raises(FewerError, match="pip install"):
        make_corpus(tmp_path / "a", TINY)
    assert not (tmp_path / "a").exists()  # or another configuration would be refused there later


def test_a_killed_synthesising_process_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "_record_one", _die)
    with pytest.raises(FewerError, match=r"was killed.*run the same command again"):
        make_corpus(tmp_path / "a", TINY)


def _die(job):
    os.kill(os.getpid(), signal.SIGKILL)
