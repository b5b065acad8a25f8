"""Whisper's tokens: the same labels from any file, and text that cannot say special things."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken

from fewer.data.spelling import fold_space
from fewer.data.tokenizers import load_tokenizer
from fewer.data.whisper_tokens import WhisperTokenizer
from fewer.errors import FewerError
from fewer.models.word_ngram import Piece
from fewer.store.word_ngram import WordStyle, label_pieces
from tests.recognisers.tiny import byte_pairs, make_whisper


def some_tokenizer(timestamps: int = 4, leading_space: bool = True) -> WhisperTokenizer:
    tokens = byte_pairs()
    specials = ["<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>"]
    tokens.add_special_tokens([AddedToken(special, special=True) for special in specials])
    return WhisperTokenizer(tokens, tokens.get_vocab_size() + timestamps, leading_space)


TOKENIZER = some_tokenizer()


@given(st.text())
def test_every_text_comes_back(text: str) -> None:
    ids = TOKENIZER.encode(text)
    assert all(id < TOKENIZER.end for id in ids)
    assert TOKENIZER.decode([*ids, TOKENIZER.end]) == fold_space(text.encode(errors="replace").decode()).strip()


def test_a_transcript_begins_with_a_blank() -> None:
    assert [TOKENIZER.labels[id] for id in TOKENIZER.encode("the cat")] == ["Ġthe", "Ġcat"]
    assert TOKENIZER.encode("  ") == []
    without = some_tokenizer(leading_space=False)
    assert [without.labels[id] for id in without.encode("the cat")] == ["t", "he", "Ġcat"]
    assert without.fingerprint != TOKENIZER.fingerprint


def test_text_cannot_say_that_it_ends_and_specials_write_nothing() -> None:
    ids = TOKENIZER.encode("a <|endoftext|> b")
    assert TOKENIZER.end not in ids
    assert TOKENIZER.decode(ids) == "a <|endoftext|> b"
    special = TOKENIZER.labels.index("<|startoftranscript|>")
    assert TOKENIZER.decode([special, *TOKENIZER.encode("cat"), TOKENIZER.size - 1]) == "cat"
    with pytest.raises(FewerError, match="outside the vocabulary"):
        TOKENIZER.decode([TOKENIZER.size])


def test_words_begin_with_a_blank() -> None:
    starts = [TOKENIZER.labels[id] for id in range(TOKENIZER.size) if TOKENIZER.word_start(id)]
    assert starts == ["Ġ", "Ġt", "Ġthe", "Ġa", "Ġc", "Ġcat"]
    pieces = label_pieces(TOKENIZER, WordStyle())
    assert pieces[TOKENIZER.labels.index("Ġcat")] == Piece(b"cat", starts=True)
    assert pieces[-1] == Piece(b"")


def test_a_model_has_timestamps_that_a_tokenizers_file_may_lack() -> None:
    assert TOKENIZER.labels[-5:] == ["<|notimestamps|>", "<|0.00|>", "<|0.02|>", "<|0.04|>", "<|0.06|>"]
    tokens = byte_pairs()
    specials = ["<|endoftext|>", "<|startoftranscript|>", *TOKENIZER.labels[-5:]]
    tokens.add_special_tokens([AddedToken(special, special=True) for special in specials])
    listed = WhisperTokenizer(tokens, tokens.get_vocab_size())
    assert listed.labels == TOKENIZER.labels
    assert listed.fingerprint == TOKENIZER.fingerprint


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    TOKENIZER.save(tmp_path / "tokenizer.json")
    loaded = load_tokenizer(tmp_path / "tokenizer.json")
    assert loaded.fingerprint == TOKENIZER.fingerprint
    assert (loaded.labels, loaded.end) == (TOKENIZER.labels, TOKENIZER.end)
    assert loaded.encode("the cats in hats <|endoftext|>") == TOKENIZER.encode("the cats in hats <|endoftext|>")


def test_the_file_of_a_models_folder_is_read_as_it_is(tmp_path: Path) -> None:
    folder = make_whisper(tmp_path / "whisper")
    found = load_tokenizer(folder / "tokenizer.json")
    assert found.size == json.loads((folder / "config.json").read_text())["vocab_size"]
    assert found.labels[found.end] == "<|endoftext|>"
    file, whole = folder / "tokenizer.json", (folder / "tokenizer.json").read_text()
    file.write_text("{}")
    with pytest.raises(
        FewerError,
        match=r"tokenizer from .*whisper/tokenizer.json: Exception.*was it downloaded whole",
    ):
        WhisperTokenizer.from_pretrained(folder, found.size)
    file.write_text(whole)
    config = folder / "config.json"
    config.unlink()
    with pytest.raises(FewerError, match=r"config\.json is not beside it"):
        load_tokenizer(folder / "tokenizer.json")


def test_other_tokenizers_and_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not Whisper's tokenizer"):
        WhisperTokenizer(byte_pairs(), 1000)
    with pytest.raises(ValueError, match="but the model 10"):
        WhisperTokenizer(TOKENIZER.tokens, 10)
    value = {"kind": "whisper", "version": 1, **TOKENIZER.to_json(), "tokens": {"model": "?"}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(value))
    with pytest.raises(FewerError, match="not a usable whisper tokenizer: tokens"):
        load_tokenizer(tmp_path / "tokenizer.json")
