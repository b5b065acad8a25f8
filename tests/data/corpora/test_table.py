"""Tables of audio files and transcripts, as people and other tools write them."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from fewer.data.audio import load_audio
from fewer.data.corpora.columns import Columns
from fewer.data.corpora.prepare import PrepareOptions, prepare
from fewer.errors import FewerError
from tests.data.corpora.builders import pitch, read_cuts, texts, write_audio, write_lines


def tones(folder: Path) -> None:
    write_audio(folder / "clips/one.wav", [(0.5, 400)])
    write_audio(folder / "clips/two.flac", [(0.5, 600)], rate=44100)


def prepared(path: Path) -> dict[str, str]:
    prepare("table", path, path.parent / "out")
    name = path.name.removesuffix(".gz").rpartition(".")[0]
    return texts(path.parent / f"out/{name}.jsonl")


def test_common_voice(tmp_path, caplog):
    caplog.set_level("INFO", "fewer")
    tones(tmp_path)
    path = write_lines(
        tmp_path / "dev.tsv",
        "client_id\tpath\tsentence\tup_votes",
        'anna\tone.wav\t"Hello," she said, "you."\t2',
        'ben\ttwo.flac\t"He said ""no"""\t2',
    )
    assert prepared(path) == {"one": '"Hello," she said, "you."', "two": 'He said "no"'}
    cuts = read_cuts(tmp_path / "out/dev.jsonl")
    assert [cut.supervisions[0].speaker for cut in cuts] == ["anna", "ben"]
    assert [round(pitch(cut), -1) for cut in cuts] == [400, 600]
    assert load_audio(cuts[1], 16000).shape == (8000,)
    assert "audio from column 'path', text from column 'sentence', speaker from column 'client_id'" in caplog.text


def test_a_spreadsheets_csv_with_commas_line_breaks_and_segments(tmp_path):
    write_audio(tmp_path / "call.wav", [(1, 300), (1, 500)])
    path = tmp_path / "dev.csv"
    path.write_bytes(
        '\ufeffFile Name;Transcript;Start;End\r\ncall.wav;"well; yes\r\nthen";0;1.0\r\ncall.wav;no;1.0;2\r\n'.encode()
    )
    assert prepared(path) == {"call": "well; yes then", "call-4": "no"}
    assert [round(pitch(cut), -1) for cut in read_cuts(tmp_path / "out/dev.jsonl")] == [300, 500]


def test_nemo(tmp_path):
    write_audio(tmp_path / "call.wav", [(1, 300), (1, 500)])
    rows = [
        {"audio_filepath": "call.wav", "offset": 0, "duration": 1.0, "text": "yes", "speaker": 7},
        {"audio_filepath": str(tmp_path / "call.wav"), "offset": 1.0, "duration": 1.0, "text": "no", "speaker": None},
    ]
    path = write_lines(tmp_path / "dev.json", *map(json.dumps, rows))
    assert prepared(path) == {"call": "yes", "call-2": "no"}
    cuts = read_cuts(tmp_path / "out/dev.jsonl")
    assert [round(pitch(cut), -1) for cut in cuts] == [300, 500]
    assert [cut.supervisions[0].speaker for cut in cuts] == ["7", None]


def test_two_columns_without_a_header(tmp_path):
    write_audio(tmp_path / "wavs/LJ001.wav", [(0.5, 400)])
    assert prepared(write_lines(tmp_path / "metadata.csv", "LJ001|Printing, in the only sense")) == {
        "LJ001": "Printing, in the only sense"
    }


def test_several_channels_are_averaged_unless_one_is_named(tmp_path):
    both = write_audio(tmp_path / "call.wav", [(0.5, 400)], [(0.5, 900)])
    prepared(write_lines(tmp_path / "mixed.csv", "audio,text", "call.wav,hello"))
    (cut,) = read_cuts(tmp_path / "out/mixed.jsonl")
    samples = soundfile.read(both)[0]
    np.testing.assert_allclose(load_audio(cut, 16000).numpy(), samples.mean(axis=1), atol=1e-6)
    prepared(write_lines(tmp_path / "second.csv", "audio,text,channel", "call.wav,hello,1"))
    (cut,) = read_cuts(tmp_path / "out/second.jsonl")
    assert round(pitch(cut), -1) == 900


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ["name,words,x", "a,b,c"],
            "has no column of audio files: its columns are 'name', 'words', 'x'; rename one to",
        ),
        (["path,lang", "one.wav,en"], "no column of transcripts: its columns are 'path', 'lang'; rename one to 'text'"),
        (["hello there"], "line 1: a table has columns, separated by tabs or commas; found 'hello there'"),
        ([""], "is empty; a table has a line for each utterance"),
        (["path,text", "one.wav,a,b"], "line 2: the line has 3 fields, but the table 2 columns"),
        (["path,text", "one.wav,"], "line 2: the transcript is empty"),
        (["path,text", ",hello"], "line 2: column 'path' names no audio file"),
        (["path,text", "three.wav,hello"], "three.wav: there is no such audio file"),
        (["path,text,start", "one.wav,hello,soon"], "line 2: start is 'soon', which is not a number of seconds"),
        (["path,text,channel", "one.wav,hello,left"], "line 2: channel is 'left', which is not a channel's number"),
        (["path,text,channel", "one.wav,hello,1"], "needs channel 2 of a file that has 1"),
        (["path,text,start,end", "one.wav,hello,0,500"], "goes from 0.0 to 500.0 s, but its recording ends at 0.500"),
        (["path,text", 'one.wav,"hello'], "line 2: unexpected end of data; is a quotation mark missing?"),
        (['{"audio": "one.wav", "text": "a"}', '{"audio": '], "line 2: not valid JSON"),
        (['[{"audio": "one.wav"}]'], "is a JSON list; write one JSON object per line"),
        (["one.wav,hello,en"], "has 3 columns and no header; write a first line with names, such as audio and text"),
        (["id,path,text", "a,one.wav,x", "a,two.flac,y"], "line 3: utterance a is there twice"),
    ],
)
def test_bad_tables(tmp_path, lines, message):
    tones(tmp_path)
    path = write_lines(tmp_path / "dev.csv", *lines)
    with pytest.raises(FewerError, match=message.replace("?", "[?]").replace("[{", r"\[{")):
        prepared(path)
    assert not (tmp_path / "out/dev.jsonl").exists()


def test_bad_rows_can_be_left_out(tmp_path):
    tones(tmp_path)
    path = write_lines(tmp_path / "dev.csv", "path,text", "one.wav,hello", "three.wav,x", "two.flac,")
    (summary,) = prepare("table", path, tmp_path / "out", PrepareOptions(skip_bad=True))
    assert (summary.utterances, summary.skipped) == (1, 2)


def test_the_table_is_not_overwritten(tmp_path):
    tones(tmp_path)
    path = write_lines(tmp_path / "dev.jsonl", '{"audio_filepath": "one.wav", "text": "a"}')
    with pytest.raises(FewerError, match=r"would overwrite .*dev.jsonl; give another folder as OUT"):
        prepare("table", path, tmp_path)


def test_of_two_columns_with_one_meaning_the_more_exact_name_is_taken():
    columns = Columns.guess(["Sentence", "TEXT", "file", "audio path"], "table")
    assert (columns.audio, columns.text) == ("audio path", "TEXT")
    assert str(columns) == "audio from column 'audio path', text from column 'TEXT'; no column for speaker"
