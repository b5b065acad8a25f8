import gzip
import json
import os
import pickle
import re
import stat
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer.data import manifest_index
from fewer.data.corpora.given import kind_of_set
from fewer.data.manifest import Manifest, is_manifest, read_transcripts
from fewer.data.manifest_index import RECORD
from fewer.errors import FewerError
from tests.data.manifests import cut, write_manifest


def changed(id, **fields):
    return {**cut(id).to_dict(), **fields}


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(str.strip)


@given(
    utterances=st.lists(st.tuples(texts, st.floats(0.1, 30)), min_size=1, max_size=12),
    suffix=st.sampled_from([".jsonl", ".jsonl.gz"]),
)
@settings(max_examples=30, deadline=None)
def test_every_cut_comes_back_in_any_order(tmp_path_factory, utterances, suffix):
    path = tmp_path_factory.mktemp("manifest") / f"train{suffix}"
    cuts = [cut(f"utt-{i}", text, duration) for i, (text, duration) in enumerate(utterances)]
    manifest = Manifest(write_manifest(path, cuts))
    assert len(manifest) == len(cuts)
    for index in reversed(range(len(cuts))):
        assert manifest[index] == cuts[index]
        assert manifest.id(index) == cuts[index].id
    assert list(manifest.ids()) == [cut.id for cut in cuts]
    assert list(manifest.texts()) == [text for text, _ in utterances]
    assert list(read_transcripts(path)) == [text for text, _ in utterances]
    np.testing.assert_array_equal(manifest.durations, np.array([cut.duration for cut in cuts], np.float32))
    np.testing.assert_array_equal(manifest.text_chars, [len(text) for text, _ in utterances])


def test_index_takes_24_bytes_for_an_utterance_and_is_mapped_not_read(tmp_path):
    manifest = Manifest(write_manifest(tmp_path / "a.jsonl", [cut(f"u{i}") for i in range(50)]))
    assert manifest_index.RECORD.itemsize == 24
    assert isinstance(manifest._records, np.memmap)
    assert manifest.durations.dtype == np.float32
    assert manifest.text_chars.dtype == np.int32


def test_index_is_used_again_until_the_manifest_changes(tmp_path):
    path = write_manifest(tmp_path / "a.jsonl", [cut("u1"), cut("u2")])
    Manifest(path)
    index = tmp_path / ".a.jsonl.index"
    made = index.stat().st_mtime_ns
    Manifest(path)
    assert index.stat().st_mtime_ns == made
    write_manifest(path, [cut("u1"), cut("u3")])
    os.utime(path, ns=(made + 10**9, made + 10**9))
    assert list(Manifest(path).ids()) == ["u1", "u3"]
    with open(path, "a") as stream:
        stream.write(json.dumps(cut("u4").to_dict()) + "\n")
    assert list(Manifest(path).ids()) == ["u1", "u3", "u4"]


@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_a_damaged_index_is_made_again(tmp_path, damage):
    path = write_manifest(tmp_path / "a.jsonl", [cut("u1"), cut("u2")])
    Manifest(path)
    index = tmp_path / ".a.jsonl.index"
    index.write_bytes(index.read_bytes()[10:] if damage is None else damage)
    assert list(Manifest(path).ids()) == ["u1", "u2"]


def test_index_goes_to_the_cache_if_the_folder_cannot_be_written(tmp_path, monkeypatch):
    folder = tmp_path / "corpus"
    folder.mkdir()
    path = write_manifest(folder / "a.jsonl", [cut("u1")])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(manifest_index.os, "access", lambda place, mode: place != folder)
    assert Manifest(path).id(0) == "u1"
    assert [p.name for p in folder.iterdir()] == ["a.jsonl"]
    assert list((tmp_path / "cache").rglob(".a.jsonl.index"))
    monkeypatch.setattr(manifest_index.os, "access", lambda place, mode: False)
    assert Manifest(path).id(0) == "u1"
    os.utime(path, ns=(1, 1))
    with pytest.raises(FewerError, match="index cannot be written"):
        Manifest(path)


BAD_LINES = [
    ("{oops", "line 2: not valid JSON"),
    ("", "line 2: not valid JSON"),
    ("[1]", "line 2: not a lhotse MonoCut or MultiCut (found list)"),
    ({"id": "u2", "type": "MixedCut"}, "line 2: u2: not a lhotse MonoCut or MultiCut (found MixedCut)"),
    (cut("u2", text=""), "line 2: u2: the transcript is empty"),
    (cut("u2", text=" \t"), "line 2: u2: the transcript is empty"),
    (changed("u2", duration=0), "line 2: u2: duration: Input should be greater than 0 (found 0)"),
    (changed("u2", duration=-1.5), "line 2: u2: duration: Input should be greater than 0 (found -1.5)"),
    (changed("u2", duration=None), "line 2: u2: duration: Input should be a valid number (found None)"),
    (changed("u2", duration=float("nan")), "line 2: u2: duration: Input should be a finite number (found nan)"),
    (changed("u2", supervisions=[]), "line 2: u2: 0 supervisions instead of one"),
    (changed("u2", supervisions=[{"text": "A"}, {"text": "B"}]), "line 2: u2: 2 supervisions instead of one"),
    (changed("u2", supervisions=["A"]), "line 2: u2: supervisions.0: Input should be an object (found 'A')"),
    (
        changed("u2", supervisions=[{"text": 12}]),
        "line 2: u2: supervisions.0.text: Input should be a valid string (found 12)",
    ),
    (changed("", duration=1), "line 2: id: String should have at least 1 character (found '')"),
    (cut("u1"), "line 2: u1: the id was used before, in line 1"),
]


@pytest.mark.parametrize(("line", "complaint"), BAD_LINES)
def test_a_bad_line_is_named_or_skipped_when_asked(tmp_path, line, complaint, caplog):
    path = write_manifest(tmp_path / "a.jsonl", [cut("u1", subset="x"), line, cut("u3")])
    with pytest.raises(FewerError, match=re.escape(complaint)) as error:
        Manifest(path)
    assert str(path) in str(error.value)
    assert "a training leaves them out with --set data.skip_bad=true" in str(error.value)
    manifest = Manifest(path, skip_bad=True)
    assert complaint in caplog.text.replace("\n", " ").replace("  ", " ")
    assert [bad.line for bad in manifest.skipped] == [2]
    assert list(manifest.ids()) == ["u1", "u3"]
    assert manifest[1] == cut("u3")


def test_many_duplicates_are_counted_and_the_first_of_each_kept(tmp_path):
    path = write_manifest(tmp_path / "a.jsonl", [cut(f"u{i % 7}", text=f"LINE {i}") for i in range(30)])
    with pytest.raises(FewerError, match=r"a.jsonl, line 8: u0: .* … and 22 more such lines\n"):
        Manifest(path)
    manifest = Manifest(path, skip_bad=True)
    assert list(manifest.texts()) == [f"LINE {i}" for i in range(7)]


def test_audio_without_transcripts_is_fine_when_none_are_needed(tmp_path):
    path = write_manifest(tmp_path / "a.jsonl", [changed("u1", supervisions=[]), cut("u2", text="")])
    manifest = Manifest(path, transcripts=False)
    assert [manifest.id(i) for i in range(2)] == ["u1", "u2"]
    assert manifest.text_chars.tolist() == [0, 0]
    with pytest.raises(FewerError, match=r"line 1: u1: .* … and 1 more such lines"):
        Manifest(path)


def test_missing_empty_and_truncated_manifests_are_refused(tmp_path):
    with pytest.raises(FewerError, match=r"cannot read .*none\.jsonl"):
        Manifest(tmp_path / "none.jsonl")
    with pytest.raises(FewerError, match="has no utterances"):
        Manifest(write_manifest(tmp_path / "empty.jsonl", []))
    whole = write_manifest(tmp_path / "a.jsonl.gz", [cut(f"u{i}") for i in range(20)])
    whole.write_bytes(whole.read_bytes()[:-30])
    with pytest.raises(FewerError, match=r"a\.jsonl\.gz.*damaged or cut off"):
        Manifest(whole)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".empty.jsonl.index", "a.jsonl.gz", "empty.jsonl"]
    plain = write_manifest(tmp_path / "b.jsonl", [cut("u1"), cut("u2")])
    plain.write_bytes(plain.read_bytes()[:-40])
    with pytest.raises(FewerError, match="line 2: not valid JSON"):
        Manifest(plain)


def test_subsets_and_ids_are_found_by_regular_expressions(tmp_path):
    cuts = [cut("19-1", subset="train-clean-100"), cut("20-1", subset="train-other-500"), cut("19-2")]
    cuts.append(cut("21-1", subset="train-clean-360"))
    manifest = Manifest(write_manifest(tmp_path / "a.jsonl", cuts))
    assert manifest.subset_matches("clean").tolist() == [True, False, False, True]
    assert manifest.id_matches("^19-").tolist() == [True, False, True, False]
    with pytest.raises(FewerError, match=r"no subset matches 'dirty'.*train-clean-100, train-other-500"):
        manifest.subset_matches("dirty")
    with pytest.raises(FewerError, match=r"'\(' is not a regular expression"):
        manifest.id_matches("(")


def test_a_manifest_survives_pickling_and_is_not_carried_along(tmp_path):
    manifest = Manifest(write_manifest(tmp_path / "a.jsonl", [cut(f"u{i}") for i in range(1000)]))
    frozen = pickle.dumps(manifest)
    assert len(frozen) < 2000
    assert pickle.loads(frozen)[500] == cut("u500")


def test_indices_outside_are_errors(tmp_path):
    manifest = Manifest(write_manifest(tmp_path / "a.jsonl", [cut("u1")]))
    for index in (1, -1):
        with pytest.raises(IndexError):
            manifest[index]


def test_a_manifest_that_changes_under_our_hands_is_noticed(tmp_path):
    path = write_manifest(tmp_path / "a.jsonl", [cut("u1"), cut("u2")])
    manifest = Manifest(path)
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(FewerError, match="has changed while it was in use"):
        manifest[1]


def test_a_cut_that_lhotse_cannot_read_is_named(tmp_path):
    manifest = Manifest(write_manifest(tmp_path / "a.jsonl", [changed("u1", surprise=1)]))
    with pytest.raises(FewerError, match="utterance u1 is not a lhotse cut"):
        manifest[0]


def with_recording(**fields):
    value = cut("u1").to_dict()
    return {**value, "recording": {**value["recording"], **fields}}


def source(kind, place):
    return with_recording(sources=[{"type": kind, "channels": [0], "source": place}])


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (source("command", "touch PWNED"), "audio of type 'command' is not read, because it may run commands"),
        (source("shar", ""), "recording.sources.0.source: String should have at least 1 character"),
        (source("memory", "UklGRg=="), "audio of type 'memory' is not read"),
        (source("url", "pipe:touch PWNED"), "a URL must begin with http://, https://, s3://, gs://"),
        (source("url", "PIPE:touch PWNED"), "a URL must begin with"),
        (source("url", "file:///etc/passwd"), "a URL must begin with"),
        (with_recording(transforms=[{"name": "ReverbWithImpulseResponse", "kwargs": {}}]), "transforms.0.name"),
        (with_recording(sampling_rate="16000"), "recording.sampling_rate: Input should be a valid integer"),
        (with_recording(sampling_rate=2147483647), "recording.sampling_rate: Input should be less than"),
        (with_recording(duration=1e308), "recording.duration: Input should be less than"),
        (with_recording(sources=[]), "recording.sources: List should have at least 1 item"),
        (changed("u1", start=[1]), "start: Input should be a valid number (found [1])"),
        (changed("u1", channel="0"), "channel"),
        ("[" * 100_000, "not valid JSON"),
        (changed("\ud800"), "not valid JSON"),
    ],
)
def test_what_a_line_must_not_say_is_refused_by_name(tmp_path, line, complaint):
    path = write_manifest(tmp_path / "a.jsonl", [line])
    with pytest.raises(FewerError, match=re.escape(complaint)) as error:
        Manifest(path)
    assert len(str(error.value)) < 600


def test_audio_at_a_url_may_be_named(tmp_path):
    assert len(Manifest(write_manifest(tmp_path / "a.jsonl", [source("url", "https://example.org/a.wav")]))) == 1


def test_transcripts_of_a_bad_manifest_name_the_line(tmp_path):
    path = write_manifest(tmp_path / "a.jsonl", [cut("u1"), cut("u2", text="")])
    with pytest.raises(FewerError, match=r"a\.jsonl, line 2: the transcript is empty"):
        list(read_transcripts(path))
    assert is_manifest(path)
    assert is_manifest("x.jsonl.gz")
    assert not is_manifest("x.txt.gz")


def test_index_is_readable_like_other_files(tmp_path):
    path = write_manifest(tmp_path / "a.jsonl", [cut("u1")])
    Manifest(path)
    assert stat.S_IMODE((tmp_path / ".a.jsonl.index").stat().st_mode) == stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("old", "new"),
    [(b'"count": 2', b'"count": 2.5'), (b'"bad_count": 0', b'"bad_count": 9'), (b'"bad": []', b'"bad": 1')],
)
def test_an_index_of_a_stranger_is_not_trusted(tmp_path, old, new):
    path = write_manifest(tmp_path / "a.jsonl", [cut("u1"), cut("u2")])
    Manifest(path)
    index = tmp_path / ".a.jsonl.index"
    content, size = index.read_bytes(), len(index.read_bytes()) - 8 - 2 * RECORD.itemsize
    assert old in content
    index.write_bytes(content[:-8].replace(old, new) + (size + len(new) - len(old)).to_bytes(8, "little"))
    assert list(Manifest(path).ids()) == ["u1", "u2"]
    index.write_bytes(content[:-8] + b"\xff" * 8)
    assert list(Manifest(path).ids()) == ["u1", "u2"]


def test_a_file_without_any_cut_is_given_up_soon(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n" * 30_000_000))
    began = time.monotonic()
    with pytest.raises(FewerError, match=r"a\.jsonl\.gz, line 1: .*none of the first 20,000 lines can be used"):
        Manifest(path)
    with pytest.raises(FewerError, match=r"a\.jsonl\.gz"):
        kind_of_set(path)
    assert time.monotonic() - began < 10
