import gzip
import lzma
import os
import pickle
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer.data import lines as lines_module
from fewer.data import token_store
from fewer.data.lines import read_lines
from fewer.data.text import SentenceBatches, SentenceConfig
from fewer.data.token_store import TokenStore, read_text, store_tokens
from fewer.data.tokenizers import train_characters, train_words
from fewer.errors import FewerError
from tests.data.manifests import cut, write_manifest
from tests.training.processes import run_in_two_processes, run_killed

LINES = ["THE FIRST LINE", "", "ÜBER ALL", "  THE LAST  LINE "]
COMPRESS = {"plain": bytes, "gz": gzip.compress, "xz": lzma.compress}


def write(path, lines, how="plain"):
    path.write_bytes(COMPRESS[how]("".join(line + "\n" for line in lines).encode()))
    return path


@pytest.mark.parametrize("how", COMPRESS)
@pytest.mark.parametrize("name", ["text", "text.gz"])  # the first bytes tell, not the name
def test_lines_of_plain_and_compressed_files_are_the_same(tmp_path, how, name):
    assert list(read_lines(write(tmp_path / name, LINES, how))) == LINES


def test_line_ends_of_all_systems_and_a_byte_order_mark_are_removed(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"\xef\xbb\xbfONE\r\nTWO\x0b\xc2\x85STILL TWO\nTHREE")
    assert list(read_lines(path)) == ["ONE", "TWO\x0b\x85STILL TWO", "THREE"]


@pytest.mark.parametrize("how", COMPRESS)
def test_bytes_that_are_not_utf8_name_file_and_line(tmp_path, how):
    path = tmp_path / "text"
    path.write_bytes(COMPRESS[how](b"fine\nna\xefve\n"))
    with pytest.raises(FewerError, match=rf"{path}, line 2: not UTF-8 text \(byte 3 of the line is 0xef\)"):
        list(read_lines(path))


@pytest.mark.parametrize("how", ["gz", "xz"])
def test_a_truncated_compressed_file_is_an_error(tmp_path, how):
    path = tmp_path / "text"
    content = COMPRESS[how](np.random.default_rng(0).bytes(20_000).hex().encode() * 2)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(FewerError, match=rf"{path}, after line \d+: compressed data is damaged or cut off"):
        list(read_lines(path))


def test_missing_files_and_endless_lines_are_errors(tmp_path, monkeypatch):
    with pytest.raises(FewerError, match=r"cannot read .*none: No such file"):
        list(read_lines(tmp_path / "none"))
    monkeypatch.setattr(lines_module, "LONGEST_LINE", 100)
    with pytest.raises(FewerError, match="line 2: longer than 100 bytes"):
        list(read_lines(write(tmp_path / "text", ["short", "x" * 200])))


def test_text_can_be_transcripts_and_changes_case(tmp_path):
    manifest = write_manifest(tmp_path / "train.jsonl", [cut("u1", "One Two"), cut("u2", "Three")])
    assert list(read_text(manifest)) == ["One Two", "Three"]
    assert list(read_text(manifest, "upper")) == ["ONE TWO", "THREE"]
    assert list(read_text(write(tmp_path / "text", LINES), "lower"))[2] == "über all"


CHARACTERS = train_characters(LINES)


@given(
    lines=st.lists(st.text("ABC ", max_size=12), min_size=1, max_size=30).filter(lambda ls: any(s.strip() for s in ls)),
    block=st.integers(1, 7),
)
@settings(max_examples=40, deadline=None)
def test_a_store_gives_back_every_sentence_that_is_not_empty(tmp_path_factory, lines, block):
    folder = tmp_path_factory.mktemp("store")
    tokenizer = train_characters(["ABC"])
    half = len(lines) // 2
    files = [write(folder / "a", lines[:half]), write(folder / "b", lines[half:], "xz")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_store, "BLOCK", block)
        store = store_tokens(files, tokenizer, folder)
    expected = [[*tokenizer.encode(line), 0] for line in lines if line.strip()]
    assert [store[index].tolist() for index in range(len(store))] == expected
    assert store.labels.tolist() == [id for sentence in expected for id in sentence]
    items = np.arange(len(store))[::-1]
    assert store.lengths(items).tolist() == [len(sentence) for sentence in expected[::-1]]
    assert sorted(p.name for p in store.folder.iterdir()) == ["ends", "labels", "store.json"]


@pytest.mark.parametrize(("size", "dtype"), [(1 << 16, "<u2"), ((1 << 16) + 1, "<u4")])
def test_labels_are_stored_as_small_as_they_may_be(tmp_path, size, dtype):
    class Large:
        unknown, end, fingerprint = None, 0, str(size)

        def encode(self, text):
            return [int(word) for word in text.split()]

    Large.size = size
    store = store_tokens([write(tmp_path / "text", [f"1 {size - 1}"])], Large(), tmp_path)
    assert store.labels.dtype == np.dtype(dtype)
    assert store[0].tolist() == [1, size - 1, 0]


def test_a_store_is_made_once_for_the_same_files_tokenizer_and_case(tmp_path):
    path = write(tmp_path / "text", LINES)
    stores = [store_tokens([path], CHARACTERS, tmp_path).folder for _ in range(2)]
    assert stores[0] == stores[1]
    other = [store_tokens([path], train_words(LINES), tmp_path, allow_unknown=True).folder]
    other.append(store_tokens([path], CHARACTERS, tmp_path, case="upper").folder)
    elsewhere = write(tmp_path / "elsewhere", LINES)
    os.utime(elsewhere, ns=(1, 1))
    assert store_tokens([elsewhere], CHARACTERS, tmp_path).folder == stores[0]
    other.append(store_tokens([write(path, LINES[1:])], CHARACTERS, tmp_path).folder)
    assert len({stores[0], *other}) == 4


def test_text_outside_the_vocabulary_names_file_and_line_and_leaves_nothing(tmp_path):
    path = write(tmp_path / "text", ["THE LINE", "", "THE XYLOPHONE"])
    with pytest.raises(FewerError, match=rf"{path}, line 3: character 'X' is not in the vocabulary"):
        store_tokens([path], CHARACTERS, tmp_path)
    words = train_words(LINES)
    with pytest.raises(FewerError, match=rf"{path}, line 3: the vocabulary lacks a part .*'THE XYLOPHONE'"):
        store_tokens([path], words, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["text"]
    store = store_tokens([path], words, tmp_path, allow_unknown=True)
    assert store[1].tolist() == [words.encode("THE")[0], words.unknown, 0]
    assert store.summary.unknown == 1


def test_much_unknown_text_is_reported_with_examples_each_time_it_is_used(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(token_store, "BLOCK", 2)
    words = train_words(LINES)
    known = words.decode([2])
    path = write(
        tmp_path / "text", [f"{known} 's </s>", known, f"{known} x1 </s>", *[f"{known} x{n}" for n in range(9)]]
    )
    for _ in range(2):
        store_tokens([path], words, tmp_path, allow_unknown=True)
        said = " ".join(caplog.messages)
        caplog.clear()
        assert (
            f"{path}: 13 of 37 labels (35.14%) are unknown, the first ones in: 's, </s>, x1, x0, x2, x3, x4, x5;"
            in said
        )
    monkeypatch.undo()
    rare = write(tmp_path / "rare", [*[known] * 999, "</s>"])
    store_tokens([rare], words, tmp_path, allow_unknown=True)
    assert not any("unknown" in message for message in caplog.messages)


def test_files_without_text_are_an_error(tmp_path):
    with pytest.raises(FewerError, match=r"there is no text in .*empty"):
        store_tokens([write(tmp_path / "empty", ["", " "])], CHARACTERS, tmp_path)
    with pytest.raises(FewerError, match=r"cannot read .*none"):
        store_tokens([tmp_path / "none"], CHARACTERS, tmp_path)


def _store_slowly(path, folder):
    """Block by block; so slowly that another process will ask for the same store meanwhile."""
    token_store.BLOCK = 50
    tokenizer = train_characters(["0123456789 LINE"])
    encode = tokenizer.encode

    def slowly(text):
        time.sleep(0.001)
        return encode(text)

    tokenizer.encode = slowly
    store_tokens([path], tokenizer, folder)


def test_tokenising_killed_at_any_moment_goes_on_to_the_same_store(tmp_path, monkeypatch):
    lines = [f"LINE {number}" for number in range(1000)]
    path = write(tmp_path / "text", lines, "gz")
    tokenizer = train_characters(["0123456789 LINE"])
    before = None
    for change in (12, 15):
        run_killed(change, tmp_path / "killed", _store_slowly, path, tmp_path / "killed")
        (file,) = (tmp_path / "killed").glob(".tokens-*.partial/progress.json")
        progress = file.read_text()
        assert progress != before
        before = progress
        assert not list((tmp_path / "killed").glob("tokens-*"))
    encoded = []
    monkeypatch.setattr(
        token_store, "_encode", lambda *arguments, real=token_store._encode: encoded.append(1) or real(*arguments)
    )
    resumed = store_tokens([path], tokenizer, tmp_path / "killed")
    assert 0 < len(encoded) <= 900  # what was done is not done again
    whole = store_tokens([path], tokenizer, tmp_path / "whole")
    for name in ("labels", "ends", "store.json"):
        assert (resumed.folder / name).read_bytes() == (whole.folder / name).read_bytes()


def test_processes_that_want_the_same_store_make_it_once(tmp_path):
    path = write(tmp_path / "text", [f"LINE {number}" for number in range(300)])
    run_in_two_processes(_store_slowly, path, tmp_path / "shared")
    (folder,) = (tmp_path / "shared").iterdir()
    assert len(TokenStore(folder)) == 300


def test_a_damaged_store_is_refused(tmp_path):
    store = store_tokens([write(tmp_path / "text", LINES)], CHARACTERS, tmp_path)
    content = (store.folder / "labels").read_bytes()
    (store.folder / "labels").write_bytes(content[:-2])
    with pytest.raises(FewerError, match=r"labels is missing or damaged: it should have \d+ bytes"):
        TokenStore(store.folder)
    (store.folder / "labels").write_bytes(b"\xff" * len(content))
    with pytest.raises(FewerError, match="labels is missing or damaged: sentence 0 is none"):
        TokenStore(store.folder)[0]
    (store.folder / "ends").write_bytes(bytes(8 * len(store)))
    with pytest.raises(FewerError, match="ends is missing or damaged: sentence 1 is none"):
        TokenStore(store.folder)[1]
    with pytest.raises(FewerError, match="ends is missing or damaged: it does not rise"):
        TokenStore(store.folder).lengths(np.arange(len(store)))
    (store.folder / "store.json").write_text('{"dtype": "<i2"}')
    with pytest.raises(FewerError, match=r"store\.json: dtype: "):
        TokenStore(store.folder)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    rng = np.random.default_rng(0)
    lines = [" ".join(rng.choice(["A", "BB", "CCC"], rng.integers(1, 15))) for _ in range(200)]
    return store_tokens([write(folder / "text", lines)], train_characters(lines), folder)


def test_batches_show_every_sentence_once_within_the_limits(store):
    batches = SentenceBatches(store, SentenceConfig(max_size=200, max_sequences=12, bin_size=40, sub_epochs=3))
    seen = []
    for sub_epoch in (1, 2, 3):
        for group in batches.steps(sub_epoch):
            for batch in group:
                assert batch.labels.numel() <= 200
                assert len(batch) <= 12
                for id, row, length in zip(batch.ids, batch.labels, batch.label_lengths, strict=True):
                    number = int(id.removeprefix("sentence-"))
                    assert row[:length].tolist() == store[number].tolist()
                    assert not row[length - 1 :].any()
                    seen.append(number)
    assert sorted(seen) == list(range(200))


def test_pieces_are_the_whole_text_cut_evenly(store):
    batches = SentenceBatches(store, SentenceConfig(max_size=200, piece=32, order="corpus"))
    text = []
    for group in batches.steps(1):
        for batch in group:
            assert batch.labels.numel() <= 200
            text += [id for row, n in zip(batch.labels, batch.label_lengths, strict=True) for id in row[:n].tolist()]
    assert text == store.labels.tolist()


def test_sentences_longer_than_a_batch_are_an_error_or_left_out(store, caplog):
    lengths = store.lengths(np.arange(200))
    count = int((lengths > 30).sum())
    longest = f"the longest, sentence {lengths.argmax()}, has {lengths.max()}"
    with pytest.raises(FewerError, match=f"{count} of 200 sentences do not fit into a batch of 30 labels; {longest}"):
        SentenceBatches(store, SentenceConfig(max_size=30))
    batches = SentenceBatches(store, SentenceConfig(max_size=30, skip_long=True))
    assert longest in caplog.text
    assert len(batches.plan(1).items) == 200 - count


def test_stores_and_batches_survive_pickling(store):
    batches = pickle.loads(pickle.dumps(SentenceBatches(store, SentenceConfig(max_size=200))))
    assert len(pickle.dumps(batches)) < 2000
    assert batches.store[3].tolist() == store[3].tolist()
    for one, other in zip(batches.steps(1), batches.steps(1, workers=1), strict=True):
        assert [batch.ids for batch in one] == [batch.ids for batch in other]
