"""Kaldi data directories, and speechocean762, which comes as two of them."""

import numpy as np
import pytest
from lhotse.kaldi import load_kaldi_data_dir

from fewer.data.audio import load_audio
from fewer.data.corpora.kaldi import parse_audio
from fewer.data.corpora.pipes import Piped
from fewer.data.corpora.prepare import PrepareOptions, prepare
from fewer.errors import FewerError
from tests.data.corpora.builders import kaldi, pitch, read_cuts, speechocean762, texts, write_audio, write_lines


def test_segments_of_telephone_sides(tmp_path):
    data = kaldi(tmp_path)
    prepare("kaldi", data / "train", tmp_path / "out")
    assert texts(tmp_path / "out/train.jsonl") == {
        "sw02001-A_000000-000100": "hi there",
        "sw02001-A_000100-000200": "okay",
        "sw02001-B_000100-000200": "well yeah",
    }
    cuts = read_cuts(tmp_path / "out/train.jsonl")
    assert [round(pitch(cut), -1) for cut in cuts] == [300, 500, 900]
    assert [(cut.channel, cut.recording.id, cut.end) for cut in cuts] == [
        (0, "sw02001-A", 1.0),
        (0, "sw02001-A", 2.0),
        (1, "sw02001-B", 2.0),
    ]
    assert [cut.supervisions[0].gender for cut in cuts] == ["f", "f", "m"]
    assert {source.type for cut in cuts for source in cut.recording.sources} == {"file"}


def test_every_data_directory_of_a_recipe(tmp_path):
    data = kaldi(tmp_path)
    summaries = prepare("kaldi", data, tmp_path / "out")
    assert [(one.name, one.utterances) for one in summaries] == [("dev", 2), ("train", 3)]
    assert texts(tmp_path / "out/dev.jsonl") == {"utt1": "Hello", "utt2": "Good bye"}
    assert [round(pitch(cut), -1) for cut in read_cuts(tmp_path / "out/dev.jsonl")] == [440, 550]


def test_agrees_with_lhotse(tmp_path, monkeypatch):
    data = kaldi(tmp_path)
    prepare("kaldi", data / "dev", tmp_path / "out")
    monkeypatch.chdir(data / "dev")
    recordings, supervisions, _ = load_kaldi_data_dir(data / "dev", sampling_rate=16000)
    cuts = {cut.id: cut for cut in read_cuts(tmp_path / "out/dev.jsonl")}
    for segment in supervisions:
        ours = cuts[segment.id].supervisions[0]
        assert (ours.text, ours.speaker, ours.duration) == (segment.text, segment.speaker, segment.duration)
        assert cuts[segment.id].recording.num_samples == recordings[segment.recording_id].num_samples


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("sph2pipe -f wav -p -c 1 /a/b.sph |", Piped("/a/b.sph", channel=0)),
        ("sph2pipe -f wav -p -c 2 /a/b.sph|", Piped("/a/b.sph", channel=1)),
        ("/opt/kaldi/tools/sph2pipe_v2.5/sph2pipe -c 2 -p -f wav /a/b.sph |", Piped("/a/b.sph", channel=1)),
        ("sph2pipe -f wav -p /a/b.sph |", Piped("/a/b.sph")),
        ("cat /a/b.wav |", Piped("/a/b.wav")),
        ("flac -c -d -s /a/b.flac |", Piped("/a/b.flac")),
        ("flac -cds '/a/b c.flac' 2>/dev/null |", Piped("/a/b c.flac")),
        ("flac --decode --stdout --silent /a/b.flac |", Piped("/a/b.flac")),
        ("sox /a/b.wav -t wav - |", Piped("/a/b.wav")),
        ("sox -t mp3 /a/b.mp3 -r 16k -c 1 -b 16 -e signed-integer -t wav - |", Piped("/a/b.mp3", None, True, 16000)),
        ("sox -c 1 -t wavpcm -e signed-integer /a/b.wav -t wavpcm - |", Piped("/a/b.wav")),
        ("sox -G /a/b.wav -t wav -r 8000 - remix 2 |", Piped("/a/b.wav", 1, False, 8000)),
        ("sox /a/b.flac -t wav - channels 1 rate -h 16000 |", Piped("/a/b.flac", None, True, 16000)),
        ("ffmpeg -i /a/b.mp3 -f wav -ar 16000 -ab 16 -ac 1 - |", Piped("/a/b.mp3", None, True, 16000)),
        ("ffmpeg -v 8 -i /a/b.m4a -f wav -acodec pcm_s16le -|", Piped("/a/b.m4a")),
        ("ffmpeg -nostdin -loglevel quiet -i /a/b.opus -ac 1 -f wav pipe:1 |", Piped("/a/b.opus", mixed=True)),
        ("ffmpeg -i /a/b.wav -map_channel 0.0.1 -f wav - 2> /dev/null |", Piped("/a/b.wav", channel=1)),
        ("sph2pipe -f wav -p -c 1 /a/b.sph | sox -t wav - -r 16000 -t wav - |", Piped("/a/b.sph", 0, False, 16000)),
        ("flac -c -d -s /a/b.flac | sox -t wav - -t wav -c 1 - |", Piped("/a/b.flac", mixed=True)),
        ("/a/b.wav", Piped("/a/b.wav")),
    ],
)
def test_the_usual_commands_are_understood(value, meant):
    assert parse_audio(value) == meant


def test_the_channel_and_rate_of_a_command(tmp_path):
    data, call = tmp_path / "data", tmp_path / "call.wav"
    write_audio(call, [(0.5, 400)], [(0.5, 900)], rate=44100)
    commands = ["sox {} -t wav -r 16k - remix 2 |", "ffmpeg -i {} -f wav -ar 16000 -ac 1 - |"]
    write_lines(data / "wav.scp", *(f"{id} {command.format(call)}" for id, command in enumerate(commands)))
    write_lines(data / "text", "0 right", "1 both")
    write_lines(data / "utt2spk", "0 a", "1 a")
    prepare("kaldi", data, tmp_path / "out")
    right, both = read_cuts(tmp_path / "out/data.jsonl")
    assert [cut.sampling_rate for cut in (right, both)] == [16000, 16000]
    assert round(pitch(right), -1) == 900
    samples = load_audio(both, 16000).numpy()
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    strength = {hertz: spectrum[hertz // 2] for hertz in (400, 900, 1300)}  # 2 Hz for each bin
    assert strength[400] == pytest.approx(strength[900], rel=0.01)
    assert strength[400] > 100 * strength[1300]


def test_without_transcripts_if_none_are_needed(tmp_path):
    data = kaldi(tmp_path)
    for name in ("text", "utt2spk"):
        (data / "dev" / name).unlink()
    prepare("kaldi", data / "dev", tmp_path / "out", PrepareOptions(transcribed=False))
    assert texts(tmp_path / "out/dev.jsonl") == {"utt1": None, "utt2": None}


@pytest.mark.parametrize(
    "value",
    [
        "flac -d -s /a/b.flac |",
        "flac -c -d --skip=100 /a/b.flac |",
        "cat /a/b.wav /a/c.wav |",
        "wav-copy scp:/a/b.scp - |",
        "wav-reverberate --shift-output=true /a/b.wav - |",
        "sox /a/b.wav -t wav - speed 0.9 |",
        "sox --vol 1.3 -t wav /a/b.wav -t wav - |",
        "sox -t raw -r 8000 /a/b.raw -t wav - |",
        "sox /a/b.wav /a/c.wav |",
        "sox /a/b.wav -t wav - remix 1 2 |",
        "sox -t wav - -t wav - |",
        "sox /a/b.wav -r 8k -t wav - | sox -t wav - -r 16k -t wav - |",
        "ffmpeg -ss 1 -i /a/b.mp3 -f wav - |",
        "ffmpeg -i /a/b.mp3 -f mp3 - |",
        "ffmpeg -i /a/b.mp3 -ac 2 -f wav - |",
        "ffmpeg -i https://a/b.mp3 -f wav - |",
        "ffmpeg -i /a/b.mp3 -f wav |",
        "ffmpeg -i /a/b.mp3 -af loudnorm -f wav - |",
        "sox '/a/b.wav -t wav - |",
        "sph2pipe -f wav -p -c 1 /a/$(touch owned).sph |",
        "sph2pipe -f wav -p -c 1 /a/b.sph; touch owned |",
        "sph2pipe -f wav -p -c 1 /a/b.sph | touch owned |",
        "touch owned; sph2pipe -f wav -p -c 1 /a/b.sph |",
        "sph2pipe -f wav -p -c 3 /a/b.sph |",
        "sph2pipe -f wav -p -t 1:2 /a/b.sph |",
        "sph2pipe -p |",
        "touch owned |",
        "|",
    ],
)
def test_other_commands_are_refused_and_never_run(tmp_path, monkeypatch, value):
    data = kaldi(tmp_path)
    monkeypatch.chdir(tmp_path)
    write_lines(data / "dev/wav.scp", f"utt1 {value}", "utt2 /x.wav")
    with pytest.raises(
        FewerError, match=r"wav.scp, line 1: the command .* is not run, and not understood; put the path"
    ):
        prepare("kaldi", data / "dev", tmp_path / "out")
    assert not list(tmp_path.rglob("owned*"))


@pytest.mark.parametrize(
    ("file", "lines", "message"),
    [
        ("dev/text", ["utt1 Hello"], "dev/wav.scp, line 2: utterance utt2 has audio but no line in .*dev/text"),
        ("dev/text", ["utt1 Hello", "utt2"], "dev/text, line 2: utterance utt2 has no words"),
        ("dev/text", ["utt1 a", "utt2 b", "utt3 c"], "dev/text, line 3: utterance utt3 has no speaker in .*utt2spk"),
        ("dev/text", ["utt1 a", "utt1 b"], "dev/text, line 2: utt1 is there twice; the first is in .*dev/text, line 1"),
        ("dev/utt2spk", ["utt1 anna"], "dev/text, line 2: utterance utt2 has no speaker"),
        ("dev/utt2spk", ["utt1 anna", "utt2"], "dev/text, line 2: utterance utt2 has no speaker"),
        ("dev/wav.scp", ["utt1 wav/utt1.wav"], "dev/text, line 2: utterance utt2 has no audio: utt2 is not in"),
        ("dev/wav.scp", ["utt1 wav/x.wav", "utt2 y"], "dev/wav/x.wav: there is no such audio file .*utterance utt1"),
        ("dev/wav.scp", ["utt1 raw.ark:17", "utt2 y"], "wav.scp, line 1: audio inside a Kaldi archive"),
        (
            "train/segments",
            ["sw02001-A_000000-000100 sw02001-A 0.0"],
            "segments, line 1: expected `utterance recording",
        ),
        ("train/segments", ["sw02001-A_000000-000100 sw02009-A 0 1"], "segments, line 1: .* sw02009-A is not in"),
        ("train/segments", ["sw02001-A_000000-000100 sw02001-A 1 1"], "segments, line 1: .* has no length"),
        (
            "train/segments",
            ["sw02001-A_000000-000100 sw02001-A 1 8"],
            "segments, line 1: .* its recording ends at 2.000",
        ),
        (
            "train/segments",
            ["sw02001-A_000000-000100 sw02001-A 5 -1"],
            "segments, line 1: .* its recording ends at 2.000",
        ),
    ],
)
def test_bad_input(tmp_path, file, lines, message):
    data = kaldi(tmp_path)
    write_lines(data / file, *lines)
    with pytest.raises(FewerError, match=message):
        prepare("kaldi", data, tmp_path / "out", PrepareOptions(sets=(file.split("/")[0],)))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["text", "utt2spk"])
def test_incomplete_data_directory(tmp_path, name):
    data = kaldi(tmp_path)
    (data / "dev" / name).unlink()
    with pytest.raises(FewerError, match=f"dev has no file '{name}'"):
        prepare("kaldi", data, tmp_path / "out")


def test_speechocean762_as_on_openslr(tmp_path):
    corpus = speechocean762(tmp_path)
    summaries = prepare("speechocean762", corpus, tmp_path / "out")
    assert [(one.name, one.utterances, len(one.speakers)) for one in summaries] == [("test", 1, 1), ("train", 2, 2)]
    cuts = read_cuts(tmp_path / "out/train.jsonl")
    assert [(cut.id, cut.supervisions[0].speaker, cut.supervisions[0].text) for cut in cuts] == [
        ("000010011", "0001", "WE CALL IT BEAR"),
        ("000050003", "0005", "MARK IS GOING TO SEE ELEPHANT"),
    ]
    assert [round(pitch(cut), -1) for cut in cuts] == [400, 500]
    assert cuts[0].supervisions[0].gender == "m"


def test_speechocean762_with_audio_in_one_folder_and_one_split(tmp_path):
    corpus = tmp_path / "speechocean762"
    write_audio(corpus / "wav/000010011.flac", [(0.5, 400)])
    write_lines(corpus / "train/wav.scp", "000010011 wav/000010011.flac")
    write_lines(corpus / "train/text", "000010011\tWE CALL IT BEAR")
    write_lines(corpus / "train/utt2spk", "000010011 0001")
    prepare("speechocean762", tmp_path, tmp_path / "out")
    assert texts(tmp_path / "out/train.jsonl") == {"000010011": "WE CALL IT BEAR"}
