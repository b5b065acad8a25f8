"""Kneser-Ney models against kenlm's lmplz: small odd texts, orders 1 to 5.

lmplz.json was made with lmplz of kenlm 0.3.0 and --discount_fallback: for each order, the discounts that it reports,
and log10 P of test sentences, the first ones of the text, one of its words backwards and one with an unknown word.
"""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from fewer.training import ngram
from fewer.training.ngram import estimate

CASES = json.loads((Path(__file__).parent / "lmplz.json").read_text())
OTHERWISE = {  # lmplz has other discounts there (see fewer.training.ngram), and all else is the same
    ("two letters", 3),  # the last bigram enters the counts of counts with its occurrences
    ("two letters", 4),
    ("two letters", 5),
    ("palindromes", 2),  # D₂ = 0
}


def scores(case: dict[str, Any], order: int) -> list[float]:
    """log10 P of the test sentences. The vocabulary is lmplz's: the end label, the unknown label, the text's words."""
    words = list(dict.fromkeys(word for line in case["lines"] for word in line.split()))
    ids = {word: id for id, word in enumerate(words, start=2)}
    stream = torch.tensor([id for line in case["lines"] for id in [*(ids[word] for word in line.split()), 0]])
    model = estimate(stream, order, len(words) + 2, dtype=torch.double)
    tests = [torch.tensor([[*(ids.get(word, 1) for word in line.split()), 0]]) for line in case["test"]]
    return [float(model.score(test).sum()) / math.log(10) for test in tests]


@pytest.mark.parametrize("order", range(1, 6))
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_probabilities_are_those_of_lmplz(case: dict[str, Any], order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = case["orders"][order - 1]
    used: list[list[float]] = []

    def discounts(counts: torch.Tensor) -> torch.Tensor:
        ours = original(counts)
        used.append(ours[1:].tolist())
        theirs = [0.0, *reference["discounts"][len(used) - 1]]
        return torch.tensor(theirs, dtype=torch.double) if (case["name"], order) in OTHERWISE else ours

    original = ngram.discounts
    monkeypatch.setattr(ngram, "discounts", discounts)
    assert scores(case, order) == pytest.approx(reference["scores"], abs=2e-5)
    same = [ours == pytest.approx(theirs, abs=1e-5) for ours, theirs in zip(used, reference["discounts"], strict=False)]
    assert all(same) != ((case["name"], order) in OTHERWISE)


def test_there_are_fourteen_texts() -> None:
    assert len(CASES) == 14


def test_a_text_without_count_4_keeps_the_third_discount_at_3() -> None:
    case = next(case for case in CASES if case["name"] == "issue")
    assert case["lines"] == ["a b", "b a", "a", "b b a"]
    assert case["orders"][1]["discounts"][1][2] == 3
