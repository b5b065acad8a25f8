"""Learning byte-pair encoding, against codes that subword-nmt 0.3.8 (PyPI) learnt from the same texts."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from fewer.data.learn_bpe import joined, learn_merges, learn_subword_nmt
from fewer.errors import FewerError

CASES = json.loads((Path(__file__).parent / "subword_nmt_codes.json").read_text())


def words(lines: list[str]) -> Counter[str]:
    return Counter(word for line in lines for word in line.split())


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_merges_are_those_of_subword_nmt(case) -> None:
    assert [" ".join(merge) for merge in learn_merges(words(case["lines"]), case["merges"])] == case["codes"]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_merges_are_those_of_counting_all_pairs_anew_each_time(case) -> None:
    text = [([*word[:-1], f"{word[-1]}</w>"], count) for word, count in words(case["lines"]).items()]
    for merge in learn_merges(words(case["lines"]), case["merges"]):
        counts: Counter[tuple[str, str]] = Counter()
        for symbols, count in text:
            for pair in pairwise(symbols):
                counts[pair] += count
        assert merge == max(counts, key=lambda pair: (counts[pair], pair))
        text = [(joined(symbols, merge), count) for symbols, count in text]


def test_labels_are_the_pieces_of_the_text_the_frequent_ones_first() -> None:
    tokenizer = learn_subword_nmt(["aab aab ab c", "aab c d"], 2)  # joins a b</w>, then a ab</w>
    assert tokenizer.labels == ["</s>", "<unk>", "aab", "c", "ab", "d"]
    assert tokenizer.decode(tokenizer.encode("ab c aab")) == "ab c aab"
    assert tokenizer.encode("x") == [tokenizer.unknown]


def test_nothing_to_merge() -> None:
    assert learn_merges(Counter("abc"), 5) == []
    assert learn_merges(Counter(["ab", "cd"]), 5) == []  # each pair once only
    with pytest.raises(FewerError, match="no text"):
        learn_subword_nmt(["", " "], 5)
