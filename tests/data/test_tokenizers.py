import json
import pickle
from collections import Counter
from itertools import pairwise

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer.data.subword_nmt import SubwordNmtTokenizer, read_vocabulary, with_end_first
from fewer.data.tokenizer import Tokenizer
from fewer.data.tokenizers import count_words, load_tokenizer, train_characters, train_sentencepiece, train_words
from fewer.errors import FewerError

LINES = [
    "THE OLD MAN AND THE SEA",
    "SHE SELLS SEA SHELLS BY THE SEA SHORE",
    "  THE SHELLS\tSHE SELLS ARE  SEA SHELLS ",
    "AN OLDER MAN SOLD HER THE SHELLS",
    "ÉTUDES ARE 12 OF THEM",
]
WORDS = sorted({word for line in LINES for word in line.split()})
known_words = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
known_characters = st.text(sorted(set("".join(LINES)) - {"\t"}), max_size=30)


def learn_codes(words, merges):
    """Plain byte-pair encoding on counted words: an independent source of codes in the format of version 0.2."""
    spelled = {(*word[:-1], word[-1] + "</w>"): count for word, count in words.items()}
    codes = []
    for _ in range(merges):
        pairs = Counter()
        for symbols, count in spelled.items():
            for pair in pairwise(symbols):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        codes.append(best)
        spelled = {tuple(apply_merge(symbols, best)): count for symbols, count in spelled.items()}
    return codes


def apply_merge(symbols, pair):
    symbols, position = list(symbols), 0
    while position + 1 < len(symbols):
        if (symbols[position], symbols[position + 1]) == pair:
            symbols[position : position + 2] = ["".join(pair)]
        position += 1
    return symbols


def pieces_by_passes(word, codes):
    """One pass for each merge, in the order in which they were learnt."""
    symbols = [*word[:-1], word[-1] + "</w>"]
    for pair in codes:
        symbols = apply_merge(symbols, pair)
    return [symbol.removesuffix("</w>") if symbol.endswith("</w>") else symbol + "@@" for symbol in symbols]


CODES = learn_codes(count_words(LINES), 30)
CHARACTERS = sorted(set("".join(LINES).replace(" ", "").replace("\t", "")))
PIECES = sorted({piece for word in WORDS for piece in pieces_by_passes(word, CODES)})
ALL_PIECES = sorted({*PIECES, *CHARACTERS, *(c + "@@" for c in CHARACTERS)})


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bpe")
    (folder / "codes").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in CODES))
    (folder / "vocab").write_text("\n".join(["</s>", "<unk>", *ALL_PIECES]))
    return {
        "sentencepiece": train_sentencepiece(LINES, 60),
        "characters": train_characters(LINES),
        "words": train_words(LINES),
        "subword_nmt": SubwordNmtTokenizer.from_files(folder / "codes", folder / "vocab"),
    }


KINDS = ["sentencepiece", "characters", "words", "subword_nmt"]


@pytest.mark.parametrize("kind", KINDS)
@given(text=known_words)
@settings(max_examples=40, deadline=None)
def test_known_words_come_back(tokenizers, kind, text):
    tokenizer = tokenizers[kind]
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert all(0 < id < tokenizer.size for id in ids)
    assert tokenizer.decode([*ids, tokenizer.end, tokenizer.end]) == text


@pytest.mark.parametrize("kind", ["sentencepiece", "characters", "subword_nmt"])
@given(text=known_characters)
@settings(max_examples=60, deadline=None)
def test_known_characters_come_back_with_space_folded(tokenizers, kind, text):
    assert tokenizers[kind].decode(tokenizers[kind].encode(text)) == " ".join(text.split())


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.text(max_size=20))
@settings(max_examples=60, deadline=None)
def test_any_text_gives_labels_of_the_vocabulary_or_an_error_that_shows_the_text(tokenizers, kind, text):
    tokenizer = tokenizers[kind]
    if kind == "characters" and not set(" ".join(text.split())) <= set(tokenizer.labels):
        with pytest.raises(FewerError) as error:
            tokenizer.encode(text)
        assert repr(" ".join(text.split())) in str(error.value)
    else:
        assert all(0 < id < tokenizer.size for id in tokenizer.encode(text))


@pytest.mark.parametrize("kind", KINDS)
def test_words_are_found_by_marks_on_labels(tokenizers, kind):
    tokenizer = tokenizers[kind]
    text = "SHE SOLD OLDER SHORE"
    ids = tokenizer.encode(text)
    starts = sum(tokenizer.word_start(id) for id in ids[1:]) + 1
    ends = sum(tokenizer.word_end(id) for id in ids[:-1]) + 1
    assert max(starts, ends) == 4
    assert not tokenizer.word_start(tokenizer.end)
    assert not tokenizer.word_end(tokenizer.end)


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_tokenizer_is_the_same_tokenizer(tokenizers, kind, tmp_path):
    tokenizer: Tokenizer = tokenizers[kind]
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = load_tokenizer(tmp_path / "tokenizer.json")
    assert type(loaded) is type(tokenizer)
    assert loaded.fingerprint == tokenizer.fingerprint
    assert (loaded.labels, loaded.size, loaded.unknown) == (tokenizer.labels, len(tokenizer.labels), tokenizer.unknown)
    assert loaded.labels[loaded.end] == "</s>"
    for copy in (loaded, pickle.loads(pickle.dumps(tokenizer))):
        assert copy.encode(LINES[1]) == tokenizer.encode(LINES[1])


def test_fingerprints_tell_tokenizers_apart(tokenizers):
    assert len({tokenizer.fingerprint for tokenizer in tokenizers.values()}) == 4
    assert train_sentencepiece(LINES, 61).fingerprint != tokenizers["sentencepiece"].fingerprint


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("id", [-1, 10**6])
def test_a_label_outside_the_vocabulary_cannot_be_decoded(tokenizers, kind, id):
    with pytest.raises(FewerError, match=f"label {id} is outside the vocabulary of {tokenizers[kind].size}"):
        tokenizers[kind].decode([1, id])


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("[]", "`kind` must be one of"),
        ('{"kind": "pickle", "version": 1}', "`kind` must be one of"),
        ('{"kind": "characters", "version": 2, "labels": ["</s>"]}', "version 2"),
        ('{"kind": "characters", "version": 1}', "'labels' is missing"),
        ('{"kind": "characters", "version": 1, "labels": ["a"]}', "first label must be </s>"),
        ('{"kind": "characters", "version": 1, "labels": ["</s>", "a", "a"]}', "'a' is there twice"),
        ('{"kind": "characters", "version": 1, "labels": 3}', "not a usable characters tokenizer"),
        ('{"kind": "words", "version": 1, "labels": ["</s>", "a"]}', "<unk> is missing"),
        ('{"kind": "sentencepiece", "version": 1, "model": "!"}', "not a usable sentencepiece tokenizer"),
        ('{"kind": "sentencepiece", "version": 1, "model": "AAAA"}', "not a usable sentencepiece tokenizer"),
        (
            '{"kind": "subword_nmt", "version": 1, "labels": ["</s>"], "merges": [1], "mark_joined": true}',
            "not a usable",
        ),
        ("{", "not valid JSON"),
    ],
)
def test_a_damaged_or_foreign_file_is_refused(tmp_path, value, complaint):
    path = tmp_path / "tokenizer.json"
    path.write_text(value)
    with pytest.raises(FewerError, match=complaint) as error:
        load_tokenizer(path)
    assert str(path) in str(error.value)


def test_sentencepiece_model_with_another_end_label_is_refused(tmp_path, tokenizers):
    import base64
    import io

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, vocab_size=50, model_type="bpe", minloglevel=2
    )
    path = tmp_path / "tokenizer.json"
    encoded = base64.b64encode(model.getvalue()).decode()
    path.write_text(json.dumps({"kind": "sentencepiece", "version": 1, "model": encoded}))
    with pytest.raises(FewerError, match="end label 0"):
        load_tokenizer(path)


def test_bpe_from_counted_words_is_bpe_from_the_text(tokenizers):
    """sentencepiece reading the whole text, sentence by sentence, learns the same pieces."""
    import io

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join(line.split()) for line in LINES]),
        model_writer=model, vocab_size=60, model_type="bpe", eos_id=0, unk_id=1, bos_id=-1, pad_id=-1,
        character_coverage=1.0, normalization_rule_name="identity", split_by_unicode_script=False,
        split_by_number=False, minloglevel=2,
    )  # fmt: skip
    whole = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    assert tokenizers["sentencepiece"].labels == [whole.id_to_piece(id) for id in range(60)]


def test_bpe_training_does_not_depend_on_the_order_of_lines(tokenizers):
    assert train_sentencepiece(reversed(LINES), 60).fingerprint == tokenizers["sentencepiece"].fingerprint


def test_bpe_has_end_label_0_and_unknown_label_1_and_no_other_special_label(tokenizers):
    tokenizer = tokenizers["sentencepiece"]
    assert tokenizer.labels[:2] == ["</s>", "<unk>"]
    assert not {"<s>", "<pad>"} & set(tokenizer.labels)
    assert tokenizer.unknown == 1
    assert 1 in tokenizer.encode("SHE ≠ HER")
    assert 1 in tokenizer.encode("A▁B")  # not the blank that sentencepiece would take it for


def test_bpe_sizes_that_the_text_cannot_give_are_refused_with_the_possible_ones():
    characters = len(set("".join(LINES).replace(" ", "").replace("\t", "")))
    with pytest.raises(FewerError, match=f"too few.* are {characters + 3}"):
        train_sentencepiece(LINES, characters + 2)
    assert train_sentencepiece(LINES, characters + 3).size == characters + 3
    with pytest.raises(FewerError, match="at most") as error:
        train_sentencepiece(LINES, 5000)
    largest = train_sentencepiece(LINES, 5000, exact=False).size
    assert f"at most {largest};" in str(error.value)
    with pytest.raises(FewerError, match="no words"):
        train_sentencepiece(["", "  "], 100)


def test_words_are_the_most_frequent_ones(tokenizers):
    tokenizer = train_words(["b a", "b c", "b c a", "d </s>"], size=4)
    assert tokenizer.labels == ["</s>", "<unk>", "b", "a"]
    assert tokenizer.encode("d b </s> a") == [1, 2, 1, 3]
    assert train_words(["b a", "b c", "b c a"], min_count=3).labels == ["</s>", "<unk>", "b"]


def test_counting_words_forgets_rare_ones_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr("fewer.data.tokenizers.MOST_WORDS", 10)
    lines = [f"often word{number}" for number in range(100)]
    counts = count_words(lines)
    assert counts["often"] == 100
    assert len(counts) <= 11


@given(word=st.sampled_from(WORDS) | st.text(CHARACTERS, min_size=1, max_size=12))
@settings(max_examples=150, deadline=None)
def test_subword_nmt_merges_like_one_pass_for_each_learnt_merge(tokenizers, word):
    tokenizer = tokenizers["subword_nmt"]
    pieces = pieces_by_passes(word, CODES)
    if set(pieces) <= set(ALL_PIECES):
        assert tokenizer.spelled(tokenizer.encode(word)) == pieces


def test_subword_nmt_by_hand(tmp_path):
    """The merges l+o, lo+w, e+r</w>: "lower" is low@@ er, "low" keeps its last letter apart (w</w> is not w)."""
    codes = write(tmp_path, "codes", "#version: 0.2\nl o\nlo w\ne r</w>\n")
    vocabulary = write(tmp_path, "vocab", "</s>\n<unk>\nlow@@\nlo@@\ner\nw\ns@@\n")
    tokenizer = SubwordNmtTokenizer.from_files(codes, vocabulary)
    assert tokenizer.spelled(tokenizer.encode("lower low")) == ["low@@", "er", "lo@@", "w"]
    assert tokenizer.spelled(tokenizer.encode("slower x")) == ["s@@", "low@@", "er", "<unk>"]
    assert tokenizer.decode(tokenizer.encode("lower low slower")) == "lower low slower"


def test_subword_nmt_splits_what_the_vocabulary_lacks(tmp_path):
    codes = write(tmp_path, "codes", "#version: 0.2\nl o\nlo w\ne r</w>\nlow er</w>\n")
    vocabulary = write(tmp_path, "vocab", "lo@@\nw@@\ner\n")
    tokenizer = SubwordNmtTokenizer.from_files(codes, vocabulary)
    assert tokenizer.spelled(tokenizer.encode("lower")) == ["lo@@", "w@@", "er"]
    with pytest.raises(FewerError, match="'x' is not in the vocabulary, which has no unknown label; it is in word 'x'"):
        tokenizer.encode("lower x")


@pytest.mark.parametrize("header", ["", "#version: 0.1\n"])
def test_subword_nmt_codes_of_version_01_have_a_symbol_at_the_end_of_words(tmp_path, header):
    codes = write(tmp_path, "codes", f"{header}l o\nlo w\nlow </w>\ne r\n")
    vocabulary = write(tmp_path, "vocab", "low\nlow@@\ne@@\nr\nx\n")
    tokenizer = SubwordNmtTokenizer.from_files(codes, vocabulary)
    assert tokenizer.spelled(tokenizer.encode("low lower x")) == ["low", "low@@", "e@@", "r", "x"]
    vocabulary = write(tmp_path, "vocab2", "lo@@\nw\n")
    tokenizer = SubwordNmtTokenizer.from_files(codes, vocabulary)
    assert tokenizer.spelled(tokenizer.encode("low")) == ["lo@@", "w"]


@pytest.mark.parametrize(
    "content",
    [
        "{'<s>': 0, '</s>': 0, '<unk>': 1,\n 'b@@': 3, \"it's\": 2}\n",  # RETURNN
        '{"</s>": 0, "<unk>": 1, "it\'s": 2, "b@@": 3}',
        '["</s>", "<unk>", "it\'s", "b@@"]',
        "it's 2\n</s> 0\n<unk> 1\nb@@ 3\n",
        "</s>\n<unk>\nit's\nb@@\n",
        "</s>\r\n<unk>\r\nit's\r\nb@@\r\n",
        "<unk> 900\nit's 20\nb@@ 3\n",  # subword-nmt: frequencies, no end label
        "{'<unk>': 0, \"it's\": 1, 'b@@': 2, '</s>': 3}",  # the end label elsewhere
        "['</s>', '<unk>', \"it's\", 'b@@']",
    ],
)
def test_vocabulary_files_of_all_kinds_give_the_same_labels(tmp_path, content):
    path = write(tmp_path, "vocab", content)
    assert with_end_first(read_vocabulary(path)) == ["</s>", "<unk>", "it's", "b@@"]


def test_a_plain_vocabulary_may_begin_with_a_bracket(tmp_path):
    path = write(tmp_path, "vocab", "[NOISE]\n{\na\n")
    assert read_vocabulary(path) == {"[NOISE]": 0, "{": 1, "a": 2}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "no labels"),
        ("a\nb 3\n", "line 2"),
        ("a b c\n", "line 1"),
        ("a\nb\na\n", "line 3: label 'a' was there before"),
        ("{'a': 0, 'b': 2}", "no label 1"),
        ("__import__('os')\nexit(1) now\n", "line 2"),
    ],
)
def test_a_damaged_vocabulary_is_refused(tmp_path, content, complaint):
    path = write(tmp_path, "vocab", content)
    with pytest.raises(FewerError, match=complaint) as error:
        read_vocabulary(path)
    assert str(path) in str(error.value)


def test_two_labels_with_one_id_are_refused(tmp_path):
    with pytest.raises(FewerError, match="same id"):
        with_end_first({"</s>": 0, "a": 1, "b": 1})
    with pytest.raises(FewerError, match="same id"):
        with_end_first({"</s>": 0, "a": 0, "b": 1})


@pytest.mark.parametrize(
    ("content", "complaint"), [("#version: 0.3\na b\n", "version '0.3'"), ("#version: 0.2\na b c\n", "line 2")]
)
def test_damaged_codes_are_refused(tmp_path, content, complaint):
    with pytest.raises(FewerError, match=complaint):
        SubwordNmtTokenizer.from_files(write(tmp_path, "codes", content), write(tmp_path, "vocab", "a\n"))


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content.encode())
    return path
