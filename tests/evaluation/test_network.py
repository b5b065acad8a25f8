"""Alignment by sclite's rules."""

import random
from pathlib import Path

import pytest

from fewer.errors import FewerError
from fewer.evaluation.network import align, items, parse
from tests.evaluation import sctk


def kinds(ref: str, hyp: str, hubscr: bool = False, characters: bool = False) -> str:
    edits = align(parse(ref, hubscr, characters), parse(hyp, hubscr, characters))
    return "".join(edit.kind for edit in edits)


def test_one_insertion_and_one_deletion_are_cheaper_than_two_substitutions() -> None:
    assert kinds("a b c d", "a c x d") == "=D=I="


def test_letter_case_does_not_count() -> None:
    assert kinds("She had", "she HAD") == "=="


@pytest.mark.parametrize(
    ("ref", "hyp", "expected"),
    [
        ("a { um / uh } b", "a uh b", "==="),
        ("a {um/uh} b", "a um b", "==="),
        ("a { um / uh / @ } b", "a b", "=="),
        ("a { one two / three } b", "a three b", "==="),
        ("a { x / { y / z } w } b", "a z w b", "===="),
        ("a b", "a { x / y z } b", "=I="),
        ("a { going to / gonna } b", "a gonna x b", "==I="),
        ("and/or b", "and/or b", "=="),
        ("", "a", "I"),
        ("a", "", "D"),
        ("", "", ""),
    ],
)
def test_alternatives(ref: str, hyp: str, expected: str) -> None:
    assert kinds(ref, hyp) == expected


@pytest.mark.parametrize(
    ("ref", "hyp", "plain", "hubscr"),
    [
        ("a (uh) b", "a b", "=D=", "==="),
        ("a b", "a (uh) b", "=I=", "==="),
        ("a (uh) b", "a uh b", "=S=", "==="),
        ("a (uh) b", "a um b", "=S=", "=S="),
        ("a wor- b", "a word b", "=S=", "==="),
        ("a word b", "a -ord b", "=S=", "==="),
        ("a wor- b", "a wood b", "=S=", "=S="),
        ("a (wor-) b", "a b", "=D=", "==="),
    ],
)
def test_optional_words_and_fragments_are_hubscrs(ref: str, hyp: str, plain: str, hubscr: str) -> None:
    assert kinds(ref, hyp) == plain
    assert kinds(ref, hyp, hubscr=True) == hubscr


def test_characters_are_those_of_words_without_spaces() -> None:
    assert kinds("ab c", "abc", characters=True) == "==="
    assert kinds("(ab) c", "c", hubscr=True, characters=True) == "==="


def test_positions_number_the_items_of_the_reference() -> None:
    edits = align(parse("a { b c / d } e"), parse("a b x c e y"))
    assert [(edit.kind, edit.position) for edit in edits] == [
        ("=", 0),
        ("=", 1),
        ("I", 1),
        ("=", 1),
        ("=", 2),
        ("I", 3),
    ]


@pytest.mark.parametrize("text", ["a { b / c", "a } b", "a { b / } c", "{ / a }"])
def test_broken_alternatives_are_an_error(text: str) -> None:
    with pytest.raises(FewerError, match="transcript"):
        parse(text)


def random_word(rng: random.Random, hubscr: bool) -> str:
    odd = ["(uh)", "(um)", "a-", "ab-", "-c", "(ab-)"] if hubscr else []
    return rng.choice(["a", "b", "c", "d", "ab", "abc", "bc", *odd])


def random_text(rng: random.Random, hubscr: bool, alternatives: float) -> str:
    items = []
    for _ in range(rng.randint(1, 14)):
        if rng.random() < alternatives:
            parts = [" ".join(random_word(rng, hubscr) for _ in range(rng.randint(1, 3))) for _ in range(2)]
            items.append("{ " + " / ".join([*parts, "@"][rng.randint(0, 1) :]) + " }")
        else:
            items.append(random_word(rng, hubscr))
    return " ".join(items)


@sctk.needs("sclite")
@pytest.mark.parametrize(("hubscr", "alternatives"), [(False, 0.0), (True, 0.0), (False, 0.2), (True, 0.2)])
def test_sclite_counts_the_same(tmp_path: Path, hubscr: bool, alternatives: float) -> None:
    rng = random.Random(1)
    pairs = [(random_text(rng, hubscr, alternatives), random_text(rng, hubscr, 0.0)) for _ in range(500)]
    for name, side in (("ref", 0), ("hyp", 1)):
        (tmp_path / f"{name}.trn").write_text("".join(f"{p[side]} (s_{i})\n" for i, p in enumerate(pairs)))
    flags = ["-F", "-D"] if hubscr else []
    trn: list[str | Path] = ["-r", tmp_path / "ref.trn", "trn", "-h", tmp_path / "hyp.trn", "trn", "-i", "rm"]
    theirs = sctk.sclite_counts(*trn, *flags)
    assert len(theirs) == len(pairs)
    ours = [kinds(ref, hyp, hubscr) for ref, hyp in pairs]
    differing = [
        (pair, found, counts)
        for pair, found, (_, counts) in zip(pairs, ours, theirs, strict=True)
        if tuple(found.count(kind) for kind in "=SDI") != counts
    ]
    assert len(differing) <= (2 if alternatives else 0)  # alternatives of equal cost may be told apart otherwise


@sctk.needs("sclite")
def test_sclite_counts_the_same_characters(tmp_path: Path) -> None:
    rng = random.Random(7)
    texts = [[" ".join(random_word(rng, False) for _ in range(rng.randint(1, 8))) for _ in range(200)] for _ in "rh"]
    for name, lines in zip(("ref", "hyp"), texts, strict=True):
        (tmp_path / f"{name}.trn").write_text("".join(f"{line} (s_{i})\n" for i, line in enumerate(lines)))
    trn: list[str | Path] = ["-r", tmp_path / "ref.trn", "trn", "-h", tmp_path / "hyp.trn", "trn", "-i", "rm"]
    theirs = [counts for _, counts in sctk.sclite_counts(*trn, "-c")]
    ours = [kinds(ref, hyp, characters=True) for ref, hyp in zip(*texts, strict=True)]
    assert [tuple(found.count(kind) for kind in "=SDI") for found in ours] == theirs


@pytest.mark.parametrize("text", ["", "and/or b", "i {can not/cannot} (uh) go", "a { b { c / d } / @ } e { f / g }"])
def test_items_are_those_that_positions_count(text: str) -> None:
    found = items(text)
    assert len(found) == parse(text).items
    for place, item in enumerate(found):
        words = {arc.word for arc in parse(item).arcs[1:]}
        assert words == {arc.word for arc in parse(text).arcs[1:] if arc.position == place}
