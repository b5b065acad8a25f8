"""Error counts and rates."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer.errors import FewerError
from fewer.evaluation.alignment import align, show
from fewer.evaluation.wer import Errors, compare, count, score, word_errors

texts = st.lists(st.sampled_from("abcd"), max_size=8).map(" ".join)


def fewest_errors(ref: list[str], hyp: list[str]) -> int:
    """Levenshtein's distance by its definition."""
    if not ref or not hyp:
        return len(ref) + len(hyp)
    return min(
        fewest_errors(ref[1:], hyp[1:]) + (ref[0] != hyp[0]),
        fewest_errors(ref[1:], hyp) + 1,
        fewest_errors(ref, hyp[1:]) + 1,
    )


def test_each_kind_of_error_is_counted() -> None:
    errors = word_errors("the cat sat on the mat", "the cat sit on mat today")
    assert errors == Errors(sub=1, deletions=1, ins=1, words=6, sentences=1, sentence_errors=1)
    assert errors.total == 3
    assert errors.wer == 50.0


def test_characters_count_the_spaces_between_words() -> None:
    assert word_errors("ab  cd", "abcd", characters=True) == Errors(
        deletions=1, words=5, sentences=1, sentence_errors=1
    )


def test_errors_add_up() -> None:
    total = sum((word_errors("a b", "a"), word_errors("c", "c"), word_errors("", "x")), Errors())
    assert total == Errors(sub=0, deletions=1, ins=1, words=3, sentences=3, sentence_errors=2)
    assert total.wer == pytest.approx(200 / 3)
    assert total.ser == pytest.approx(200 / 3)


def test_without_words_a_rate_is_zero_or_infinite() -> None:
    assert Errors().wer == 0.0
    assert word_errors("", "a").wer == math.inf


@given(st.lists(st.sampled_from("abc"), max_size=5), st.lists(st.sampled_from("abc"), max_size=5))
@settings(deadline=None, max_examples=100)
def test_the_errors_are_the_fewest_possible(ref: list[str], hyp: list[str]) -> None:
    assert word_errors(" ".join(ref), " ".join(hyp)).total == fewest_errors(ref, hyp)


@given(texts, texts)
@settings(deadline=None, max_examples=100)
def test_exchanging_reference_and_hypothesis_keeps_the_number_of_errors(ref: str, hyp: str) -> None:
    there, back = word_errors(ref, hyp), word_errors(hyp, ref)
    assert there.total == back.total
    assert there.deletions - there.ins == len(ref.split()) - len(hyp.split()) == back.ins - back.deletions


@pytest.mark.parametrize("rules", ["plain", "sclite", "hubscr"])
@given(ref=texts, hyp=texts)
@settings(deadline=None, max_examples=100)
def test_an_alignment_spells_both_texts_and_sclite_never_finds_fewer_errors(ref: str, hyp: str, rules: str) -> None:
    edits = align(ref, hyp, rules)  # type: ignore[arg-type]
    assert [edit.ref for edit in edits if edit.ref is not None] == ref.split()
    assert [edit.hyp for edit in edits if edit.hyp is not None] == hyp.split()
    for edit in edits:
        assert (edit.kind == "=") == (edit.ref == edit.hyp)
        assert (edit.kind == "I") == (edit.ref is None)
        assert (edit.kind == "D") == (edit.hyp is None)
    assert [edit.position for edit in edits if edit.ref is not None] == list(range(len(ref.split())))
    if rules == "plain":
        assert count(edits) == word_errors(ref, hyp)
    else:
        assert count(edits).total >= word_errors(ref, hyp).total


def test_rules_have_names() -> None:
    with pytest.raises(FewerError, match="plain, sclite, hubscr"):
        align("a", "a", "nist")  # type: ignore[arg-type]


def test_aligned_texts_stand_below_each_other() -> None:
    lines = show(align("the cat sat", "the big cat sit"))
    assert lines == ("the *** cat SAT", "the BIG cat SIT", "    I       S")


REFS = {"a-1": "one two three", "a-2": "four five", "b-1": "six", "b-2": "seven eight nine ten"}
HYPS = {"a-1": "one two three", "a-2": "four x five", "b-1": "", "b-2": "seven ate nine ten"}
SPEAKERS = {"a-1": "a", "a-2": "a", "b-1": "b", "b-2": "b"}


def test_a_result_has_totals_and_every_utterances_counts() -> None:
    result = score(REFS, HYPS, SPEAKERS)
    assert result.errors == Errors(sub=1, deletions=1, ins=1, words=10, sentences=4, sentence_errors=3)
    assert (result.wer, result.ser) == (30.0, 75.0)
    assert result.counts.tolist() == [[0, 0, 0, 3], [0, 0, 1, 2], [0, 1, 0, 1], [1, 0, 0, 4]]
    assert result.low <= result.wer <= result.high
    by_speaker = result.by_speaker()
    assert by_speaker["a"].wer == 20.0
    assert by_speaker["b"].wer == 40.0
    assert sum(by_speaker.values(), Errors()) == result.errors


def test_the_json_form_has_the_keys_that_tables_read() -> None:
    value = score(REFS, HYPS, SPEAKERS).to_json()
    assert {
        "wer": 30.0,
        "sub": 1,
        "del": 1,
        "ins": 1,
        "words": 10,
        "ser": 75.0,
        "utterances": 4,
    }.items() <= value.items()
    assert value["low"] <= 30.0 <= value["high"]


def test_the_same_seed_gives_the_same_interval() -> None:
    assert score(REFS, HYPS).interval == score(REFS, HYPS).interval


def test_speakers_are_drawn_if_there_are_enough_of_them() -> None:
    refs = {f"{speaker}-{i}": "a b c" for speaker in range(5) for i in range(3)}
    speakers = {utterance: utterance[0] for utterance in refs}
    assert score(refs, refs, speakers).unit == "speaker"
    assert score(refs, refs, speakers, unit="utterance").unit == "utterance"
    assert score(REFS, REFS, SPEAKERS).unit == "utterance"
    assert score(REFS, REFS, SPEAKERS, unit="speaker").units.tolist() == [0, 0, 1, 1]
    del speakers["0-0"]
    assert score(refs, refs, speakers).unit == "utterance"
    with pytest.raises(FewerError, match="not every utterance's speaker"):
        score(refs, refs, speakers, unit="speaker")


def test_unlike_speakers_make_the_interval_wider_than_unlike_utterances_do() -> None:
    refs = {f"{speaker}-{i}": "a b c d" for speaker in range(8) for i in range(20)}
    hyps = {utterance: "a b x y" if utterance[0] in "01" else text for utterance, text in refs.items()}
    speakers = {utterance: utterance[0] for utterance in refs}
    together, apart = score(refs, hyps, speakers), score(refs, hyps, speakers, unit="utterance")
    assert together.wer == apart.wer
    assert together.high - together.low > 2 * (apart.high - apart.low)


def test_missing_hypotheses_are_an_error_or_deletions() -> None:
    hyps = {utterance: text for utterance, text in HYPS.items() if utterance != "b-2"}
    with pytest.raises(FewerError, match="1 of 4 references have no hypothesis: b-2"):
        score(REFS, hyps)
    assert score(REFS, hyps, missing="deletions").errors.deletions == 5


def test_hypotheses_without_reference_are_listed() -> None:
    with pytest.raises(FewerError, match=r"12 hypotheses have no reference: x0, .*x9, … \(2 more\)"):
        score(REFS, HYPS | {f"x{i}": "" for i in range(12)})


def test_no_reference_words_are_an_error() -> None:
    with pytest.raises(FewerError, match="no references"):
        score({}, {})
    with pytest.raises(FewerError, match="all 1 references are empty"):
        score({"a": " "}, {"a": "x"})


def test_an_empty_reference_among_others_is_scored() -> None:
    assert score({"a": "", "b": "x"}, {"a": "y", "b": "x"}).errors == Errors(0, 0, 1, 1, 2, 1)


def test_a_broken_transcript_is_named() -> None:
    with pytest.raises(FewerError, match="utterance u7"):
        score({"u7": "a { b"}, {"u7": "a"}, rules="sclite")


def test_a_better_system_is_told_from_an_equal_one() -> None:
    rng = np.random.default_rng(0)
    refs = {str(i): " ".join(rng.choice(list("abcdef"), 10)) for i in range(100)}
    good = {i: text.replace("a", "x", 1) for i, text in refs.items()}
    bad = {i: text.replace("a", "x").replace("b", "y") for i, text in refs.items()}
    a, b = score(refs, good), score(refs, bad)
    comparison = compare(a, b)
    assert comparison.difference == pytest.approx(a.wer - b.wer)
    assert comparison.low < comparison.difference < comparison.high < 0
    assert comparison.p_bootstrap < 0.001
    assert comparison.p_matched_pairs < 0.001
    assert comparison.better == 1.0
    back = compare(b, a)
    assert back.difference == -comparison.difference
    assert (back.p_bootstrap, back.p_matched_pairs) == (comparison.p_bootstrap, comparison.p_matched_pairs)
    same = compare(a, score(refs, good))
    assert (same.difference, same.p_bootstrap, same.p_matched_pairs) == (0.0, 1.0, 1.0)


def test_the_order_of_utterances_does_not_matter_to_a_comparison() -> None:
    other = {utterance: text.replace("x", "y") for utterance, text in HYPS.items()} | {"a-1": "one"}
    forward = compare(score(REFS, HYPS), score(REFS, other))
    turned = score(dict(reversed(REFS.items())), other)
    assert compare(score(REFS, HYPS), turned) == forward


def test_only_like_is_compared_with_like() -> None:
    result = score(REFS, HYPS)
    with pytest.raises(FewerError, match="not scored on the same utterances: b-2"):
        compare(result, score(*({k: v for k, v in texts.items() if k != "b-2"} for texts in (REFS, HYPS))))
    with pytest.raises(FewerError, match="different rules"):
        compare(result, score(REFS, HYPS, rules="sclite"))
    with pytest.raises(FewerError, match="another reference"):
        compare(result, score(REFS | {"b-1": "other"}, HYPS))


def test_words_of_the_reference_may_depend_on_the_way_through_its_alternatives() -> None:
    refs = {"1": "a { b c / d } e"}
    results = [score(refs, {"1": hyp}, rules="sclite") for hyp in ("a b c e", "a d e")]
    assert [result.errors.words for result in results] == [4, 3]
    assert compare(*results).difference == 0.0


def test_exhaustive_small_alignments_agree_with_the_definition() -> None:
    words = ["a", "b"]
    for n, m in itertools.product(range(4), range(4)):
        for ref in itertools.product(words, repeat=n):
            for hyp in itertools.product(words, repeat=m):
                assert count(align(" ".join(ref), " ".join(hyp))).total == fewest_errors(list(ref), list(hyp))


@pytest.mark.parametrize("characters", [False, True])
@settings(max_examples=300)
@given(texts, texts)
def test_counts_without_alignments_are_those_of_the_alignments(characters: bool, ref: str, hyp: str) -> None:
    result = score({"1": ref, "2": "a"}, {"1": hyp, "2": "b"}, characters=characters)
    assert count(result.alignments[0]) == word_errors(ref, hyp, characters)
    assert result.errors == count(result.alignments[0]) + count(result.alignments[1])


@pytest.mark.filterwarnings("error")
def test_resampled_sets_without_reference_words_do_not_count_in_a_comparison() -> None:
    refs = {"a": "", "b": "w x y z"}
    first, second = score(refs, {"a": "v", "b": "w x y z"}), score(refs, {"a": "v v", "b": "w x y z"})
    comparison = compare(first, second)
    assert comparison.difference == -25.0
    # Drawn with words: b alone (no difference), or a and b, which is twice as likely.
    assert (comparison.low, comparison.high) == (-25.0, 0.0)
    assert comparison.better == pytest.approx(2 / 3, abs=0.02)


def test_one_utterance_proves_nothing() -> None:
    refs = {"a": "w x y z"}
    comparison = compare(score(refs, {"a": "w x y z"}), score(refs, {"a": "w x y"}))
    assert (comparison.better, comparison.sure, comparison.p_bootstrap) == (1.0, 0.5, 1.0)
    refs = {str(n): "w x y z" for n in range(10)}
    comparison = compare(score(refs, refs), score(refs, dict.fromkeys(refs, "w x y")))
    assert comparison.p_bootstrap == pytest.approx(2 * 0.5**10)
    assert comparison.sure == 1 - 0.5**10
