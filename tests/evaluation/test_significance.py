"""The bootstrap and the matched-pairs test."""

import itertools
import math
import random
import re
from pathlib import Path

import kaldialign
import numpy as np
import pytest

from fewer.evaluation import significance
from fewer.evaluation.alignment import align
from fewer.evaluation.network import Edit
from fewer.evaluation.significance import bootstrap, chance, interval, matched_pairs, segments, two_sided
from fewer.evaluation.wer import score
from tests.evaluation import sctk


def test_draws_are_those_of_a_plain_loop() -> None:
    rng = np.random.default_rng(3)
    errors, words, units = rng.integers(0, 5, 40), rng.integers(1, 9, 40), rng.integers(0, 7, 40)
    units[:7] = range(7)
    rates = bootstrap(errors, words, units, replications=50, seed=11)
    drawn = np.random.default_rng(11).integers(0, 7, size=(50, 7))
    for rate, units_drawn in zip(rates, drawn, strict=True):
        chosen = [utterance for unit in units_drawn for utterance in range(40) if units[utterance] == unit]
        assert rate == pytest.approx(sum(errors[chosen]) / sum(words[chosen]))


def test_pieces_of_memory_do_not_change_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    errors, words, units = np.arange(10), np.arange(10) + 3, np.arange(10)
    at_once = bootstrap(errors, words, units, 100, 5)
    monkeypatch.setattr("fewer.evaluation.significance.CHUNK", 70)
    np.testing.assert_array_equal(bootstrap(errors, words, units, 100, 5), at_once)


def test_systems_share_their_draws() -> None:
    errors = np.array([[1, 0, 2, 0], [2, 1, 3, 1]])
    words = np.array([[4, 4, 4, 4], [4, 4, 4, 4]])
    first, second = bootstrap(errors, words, np.arange(4), 200, 0)
    np.testing.assert_allclose(second - first, 0.25)


def test_the_distribution_is_that_of_all_possible_draws() -> None:
    errors, words = np.array([0, 1, 4]), np.array([5, 5, 5])
    every = [errors[list(draw)].sum() / 15 for draw in itertools.product(range(3), repeat=3)]
    rates = bootstrap(errors, words, np.arange(3), 20_000, 1)
    assert rates.mean() == pytest.approx(np.mean(every), abs=0.004)
    assert rates.std() == pytest.approx(np.std(every), abs=0.004)
    assert interval(rates) == tuple(np.quantile(every, [0.025, 0.975], method="inverted_cdf"))


def test_kaldialign_finds_about_the_same_interval() -> None:
    rng = random.Random(0)
    refs = [[rng.choice("abcdefg") for _ in range(rng.randint(5, 20))] for _ in range(150)]
    hyps = [[rng.choice("abcdefg") if rng.random() < 0.15 else word for word in ref] for ref in refs]
    theirs = kaldialign.bootstrap_wer_ci(refs, hyps, replications=10_000)
    ids = [str(i) for i in range(150)]
    ours = score(dict(zip(ids, map(" ".join, refs), strict=True)), dict(zip(ids, map(" ".join, hyps), strict=True)))
    assert ours.wer == pytest.approx(100 * theirs["wer"], abs=0.05)
    assert ours.low == pytest.approx(100 * theirs["ci95min"], abs=0.2)
    assert ours.high == pytest.approx(100 * theirs["ci95max"], abs=0.2)


def test_draws_without_words_say_nothing() -> None:
    rates = bootstrap(np.array([1, 1]), np.array([0, 4]), np.arange(2), 100, 0)
    assert np.isnan(rates).any()
    assert not np.isinf(rates).any()
    low, high = interval(rates)
    assert 0.25 <= low <= high <= 0.5


def test_p_is_twice_the_smaller_tail() -> None:
    differences = np.array([-1.0] * 95 + [1.0] * 5)
    assert two_sided(differences) == pytest.approx(2 * 6 / 101)
    assert two_sided(np.zeros(100)) == 1.0
    assert two_sided(np.full(99, -1.0)) == pytest.approx(0.02)
    assert two_sided(np.full(9999, -1.0), 0.25) == 0.5


def test_a_few_units_can_tell_no_more_than_a_sign_test() -> None:
    errors = np.array([[1, 0, 3, 2, 5], [2, 1, 3, 2, 4]])
    assert chance(errors, np.arange(5)) == 0.5**3
    assert chance(errors, np.array([0, 0, 1, 1, 0])) == 0.5
    assert chance(errors[[0, 0]], np.arange(5)) == 1.0


def test_two_correct_words_end_a_segment() -> None:
    ref = "a b c d e f g h i"
    first = align(ref, "a X c Y e f g h i")  # errors at b and d, one correct word between
    second = align(ref, "a b c d e f Z h i")  # an error at g after two correct words
    assert segments(first, second) == [(2, 0), (0, 1)]
    assert segments(first, second, good=1) == [(1, 0), (1, 0), (0, 1)]
    assert segments(first, second, good=3) == [(2, 1)]


def test_insertions_stand_between_words() -> None:
    ref = "a b c d"
    inserted, right = align(ref, "a b x c d"), align(ref, ref)
    assert segments(inserted, right) == [(1, 0)]
    assert segments(inserted, align(ref, "X b c d")) == [(1, 1)]  # one correct word, b, between X and x
    assert segments(align(ref, "a b c d y z"), align(ref, "X b c d")) == [(0, 1), (2, 0)]
    assert segments(right, right) == []


def by_state_machine(first: tuple[Edit, ...], second: tuple[Edit, ...], items: int, good: int) -> list[tuple[int, int]]:
    """Walk both alignments word by word, as NIST describes the test."""
    wrong = [[0] * (2 * items + 1) for _ in range(2)]
    for system, edits in enumerate((first, second)):
        for edit in edits:
            wrong[system][2 * edit.position + (edit.kind != "I")] += edit.kind != "="
    found, current, right = [], [0, 0], good
    for slot in range(2 * items + 1):
        here = [wrong[0][slot], wrong[1][slot]]
        if any(here):
            if right >= good and any(current):
                found.append((current[0], current[1]))
                current = [0, 0]
            current = [current[0] + here[0], current[1] + here[1]]
            right = 0
        elif slot % 2:
            right += 1
    return [*found, (current[0], current[1])] if any(current) else found


@pytest.mark.parametrize("good", [1, 2, 3])
def test_segments_are_those_of_a_walk_over_the_words(good: int) -> None:
    rng = random.Random(good)
    for _ in range(300):
        ref = [rng.choice("abc") for _ in range(rng.randint(1, 12))]
        first, second = (
            align(" ".join(ref), " ".join(rng.choice("abc") if rng.random() < 0.3 else word for word in ref))
            for _ in range(2)
        )
        assert segments(first, second, good) == by_state_machine(first, second, len(ref), good)


def test_matched_pairs_by_hand() -> None:
    # Differences of the four segments: 1, 1, 0, 2. Mean 1, variance 2/3, z = 1 / sqrt(2/3 / 4) = sqrt(6).
    ref = "a b c d"
    first = [align(ref, hyp) for hyp in ("X b c d", "a X c d", "a b X d", "X Y c d")]
    second = [align(ref, hyp) for hyp in (ref, ref, "a b c X", ref)]
    result = matched_pairs(first, second)
    assert (result.segments, result.mean) == (4, 1.0)
    assert result.z == pytest.approx(math.sqrt(6))
    assert result.p == pytest.approx(2 * (1 - 0.5 * (1 + math.erf(math.sqrt(6) / math.sqrt(2)))))


def test_without_variance_the_sign_test_decides() -> None:
    ref = "a b c d"
    right, wrong = align(ref, ref), align(ref, "X b c d")
    assert matched_pairs([right] * 3, [right] * 3).p == 1.0
    assert matched_pairs([wrong] * 5, [right] * 5).p == pytest.approx(2 / 2**5)
    assert matched_pairs([wrong], [right]).p == 1.0


def noisy(rng: random.Random, words: list[str], rate: float) -> str:
    done = []
    for word in words:
        kind = rng.random() / rate
        if kind < 1:
            continue
        done += [rng.choice("abcdefgh")] if kind < 2 else [word, rng.choice("abcdefgh")] if kind < 3 else [word]
    return " ".join([*done, "zz"])


@sctk.needs("sclite", "sc_stats")
def test_sc_stats_finds_the_same_segments_and_z(tmp_path: Path) -> None:
    rng = random.Random(5)
    words = [[rng.choice("abcdefgh") for _ in range(rng.randint(3, 25))] for _ in range(300)]
    # The last word is always right: sc_stats overlooks what the second system inserts after the end.
    texts = {
        "ref": [" ".join([*w, "zz"]) for w in words],
        "one": [noisy(rng, w, 0.04) for w in words],
        "two": [noisy(rng, w, 0.06) for w in words],
    }
    for name, lines in texts.items():
        (tmp_path / f"{name}.trn").write_text("".join(f"{line} (s_{i})\n" for i, line in enumerate(lines)))
    sgml = ""
    for name in ("one", "two"):
        trn: list[str | Path] = [
            "-r",
            tmp_path / "ref.trn",
            "trn",
            "-h",
            tmp_path / f"{name}.trn",
            "trn",
            name,
            "-i",
            "rm",
        ]
        sgml += sctk.run("sclite", *trn, "-o", "sgml", "stdout")
    sctk.run("sc_stats", "-p", "-t", "mapsswe", "-v", "-n", "out", text=sgml, cwd=tmp_path)
    report = (tmp_path / "out.stats.mapsswe").read_text()
    theirs = re.search(r"# segs: (\d+).*mean: *(\S+)\).*Z Stat: *(\S+)\)", report)
    assert theirs is not None
    aligned = {
        name: [align(ref, hyp, "sclite") for ref, hyp in zip(texts["ref"], texts[name], strict=True)]
        for name in ("one", "two")
    }
    ours = matched_pairs(aligned["one"], aligned["two"])
    assert (ours.segments, f"{ours.mean:.3f}", f"{ours.z:.3f}") == (int(theirs[1]), theirs[2], theirs[3])


def test_many_units_are_drawn_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    words = rng.integers(0, 12, size=(1, 3000)).repeat(2, axis=0)
    errors = rng.binomial(words, [[0.1], [0.2]])
    units = np.arange(3000)
    exact = bootstrap(errors, words, units, 4000)
    monkeypatch.setattr(significance, "MANY", 100)
    found = bootstrap(errors, words, units, 4000)
    assert found.shape == exact.shape == (2, 4000)
    np.testing.assert_allclose(found.mean(1), exact.mean(1), rtol=0.005)
    np.testing.assert_allclose(found.std(1), exact.std(1), rtol=0.06)
    assert np.corrcoef(found)[0, 1] == pytest.approx(np.corrcoef(exact)[0, 1], abs=0.05)  # they share their draws
    assert bootstrap(errors[0], words[0], units, 50).shape == (50,)
