import itertools
from collections import Counter
from functools import cache

import numpy as np
import pytest

from fewer.config import parse_config
from fewer.data.synthesis.domains import dictation, domain
from fewer.data.synthesis.script import (
    APART,
    HELD_OUT,
    SHARES,
    SPOKEN,
    DemoCorpusConfig,
    part_of,
    plan,
    sentences,
    text_of,
)
from fewer.errors import FewerError
from fewer.evaluation.guards import text_overlap

# Words that sound alike, or nearly so: first the one that the source domain prefers, then the target's.
HOMOPHONES = [
    ("for", "four"),
    ("to", "two"),
    ("see", "sea"),
    ("buy", "by"),
    ("know", "no"),
    ("meet", "meat"),
    ("would", "wood"),
    ("place", "plaice"),
    ("fare", "fair"),
    ("sale", "sail"),
    ("piece", "peace"),
    ("hire", "higher"),
    ("boy", "buoy"),
    ("son", "sun"),
    ("not", "knots"),
    ("wait", "weight"),
    ("whether", "weather"),
    ("won", "one"),
    ("ate", "eight"),
    ("read", "red"),
    ("knew", "new"),
    ("bored", "board"),
]


@cache
def text(part):
    return text_of(part, DemoCorpusConfig())


def words(sentences):
    return Counter(word for sentence in sentences for word in sentence.split())


def n_grams(sentences, n):
    padded = (["", *sentence.split(), ""] for sentence in sentences)
    return Counter(tuple(line[i : i + n]) for line in padded for i in range(len(line) - n + 1))


def test_parts_have_their_sizes_and_share_no_sentence():
    config = DemoCorpusConfig()
    assert {part: len(text(part)) for part in SHARES} == {
        part: getattr(config, part.replace("-", "_")) for part in SHARES
    }
    for one, other in itertools.combinations(SHARES, 2):
        assert not set(text(one)) & set(text(other)), (one, other)


def test_no_sentence_of_a_dev_or_test_set_stands_inside_one_of_another_part_or_the_other_way_round():
    for held in HELD_OUT:
        spoken = [sentence for sentence in text(held) if len(sentence.split()) >= APART]
        for part in SHARES.keys() - {held}:
            lines = "\n".join(f" {sentence} " for sentence in set(text(part)))
            assert not [sentence for sentence in spoken if f" {sentence} " in lines], (held, part)
            if part not in HELD_OUT:
                assert not text_overlap({sentence: sentence for sentence in spoken}, text(part)).count
                longer = {sentence for sentence in text(part) if len(sentence.split()) >= APART}
                assert not [s for s in spoken for piece in inner(s) if piece in longer], (part, held)


def inner(sentence):
    """What stands inside a sentence."""
    line = sentence.split()
    return {" ".join(line[start:end]) for start in range(len(line)) for end in range(start + 1, len(line) + 1)}


def test_no_part_of_one_corpus_shares_a_sentence_with_another_part_of_any_corpus():
    other = DemoCorpusConfig(seed=2, train=2000, target_text=20_000)
    assert not set(text_of("train", other)) & set(text("source-test"))
    assert not set(text_of("target-text", other)) & set(text("target-test"))


def test_dev_and_test_sentences_are_all_different():
    for part in ("source-dev", "source-test", "target-dev", "target-test"):
        assert len(set(text(part))) == len(text(part))


@pytest.mark.parametrize("name", ["source", "target"])
def test_a_domain_has_more_than_50_000_sentences(name):
    drawn = itertools.islice(domain(name).sentences(np.random.default_rng(0)), 100_000)
    times = Counter(Counter(sentence for sentence in drawn if 4 <= len(sentence.split()) <= 14).values())
    # Chao's lower bound on the number of species, from how many were seen once and how many twice.
    assert times.total() + times[1] ** 2 / (2 * times[2]) > 50_000


def test_sentences_are_lower_case_words_of_the_wanted_number():
    for part in SHARES:
        for sentence in text(part):
            assert (4 if part.startswith("target") else 1) <= len(sentence.split()) <= 14
            assert all(word.isalpha() and word.isascii() and word.islower() for word in sentence.split())


def test_the_same_seed_gives_the_same_script():
    small = DemoCorpusConfig(train=40)
    assert plan("train", small) == plan("train", small) != plan("train", DemoCorpusConfig(train=40, seed=2))


def test_some_sentences_are_much_more_frequent_than_others():
    for part in ("train", "target-text"):
        counts = words(text(part))
        top = sum(count for _, count in counts.most_common(50))
        assert 0.4 < top / counts.total() < 0.8
        repeated = Counter(text(part))
        assert 0.05 < 1 - len(repeated) / repeated.total() < 0.5


def test_every_word_of_both_domains_was_heard_in_training():
    heard = words(text("train"))
    assert min(heard[word] for word in domain("source").vocabulary() | domain("target").vocabulary()) > 20


def test_answers_and_notes_join_any_words_of_both_domains():
    drawn = list(itertools.islice(dictation().sentences(np.random.default_rng(0)), 20_000))
    assert dictation().vocabulary() == domain("source").vocabulary() | domain("target").vocabulary()
    counts = words(drawn)
    assert max(counts.values()) < 2 * min(counts.values())
    assert {len(sentence.split()) for sentence in drawn} == set(range(1, 9))


def test_dictation_has_its_share_of_the_source_and_none_of_the_target():
    whole, half = (text_of("train", DemoCorpusConfig(train=400, dictated=share)) for share in (0.0, 0.5))
    assert set(words(whole)) <= domain("source").vocabulary()
    foreign = [sentence for sentence in half if not set(sentence.split()) <= domain("source").vocabulary()]
    assert 0.2 < len(foreign) / len(half) < 0.5
    assert set(words(text("target-test"))) <= domain("target").vocabulary()


def test_the_domains_order_their_words_differently():
    said = text_of("train", DemoCorpusConfig(dictated=0))
    for n, most in ((2, 0.45), (3, 0.08), (4, 0.015)):
        source, target = n_grams(said, n), n_grams(text("target-test"), n)
        assert sum(count for gram, count in target.items() if gram in source) / target.total() < most


def test_the_domains_prefer_different_ones_of_words_that_sound_alike():
    source, target = words(text("train")), words(text("target-text"))
    for ours, theirs in HOMOPHONES:
        in_source = source[theirs] / (source[ours] + source[theirs])
        in_target = target[theirs] / (target[ours] + target[theirs])
        assert in_target > in_source + 0.05, (ours, theirs, in_source, in_target)
    alike = sum(target[word] for pair in HOMOPHONES for word in pair)
    assert alike / target.total() > 0.12


def test_voices_of_dev_and_test_are_unseen_in_training_and_differ():
    config = DemoCorpusConfig(train=400)
    tracts = {part: {utterance.voice.variant for utterance in plan(part, config)} for part in SPOKEN}
    assert not tracts["train"] & (tracts["source-dev"] | tracts["target-dev"])
    assert not tracts["train"] & (tracts["source-test"] | tracts["target-test"])
    assert not (tracts["source-dev"] | tracts["target-dev"]) & (tracts["source-test"] | tracts["target-test"])
    assert len({utterance.voice for utterance in plan("train", config)}) > 40


def test_delivery_and_scene_vary_within_their_ranges():
    config = DemoCorpusConfig(train=400)
    utterances = plan("train", config)
    for name in ("rate", "pitch", "range"):
        low, high = getattr(config, name)
        values = [getattr(utterance.delivery, name) for utterance in utterances]
        assert low <= min(values) < low + 3
        assert high - 3 < max(values) <= high
    assert {utterance.scene.noise for utterance in utterances} == set(config.train_room.noises)
    assert len({utterance.delivery.seed for utterance in utterances}) == 400


def test_sentences_fall_to_the_parts_by_their_shares():
    counts = Counter(map(part_of, itertools.islice(domain("source").sentences(np.random.default_rng(1)), 20_000)))
    total = counts.total()
    assert {part: round(100 * count / total) for part, count in counts.items()} == pytest.approx(SHARES, abs=2)


def test_lengths_that_no_sentence_has_are_an_error_not_an_endless_search():
    with pytest.raises(FewerError, match="hardly any sentence has 40 to 50 words"):
        next(sentences("target-text", DemoCorpusConfig(words=(40, 50))))


def test_a_wrong_setting_is_named():
    with pytest.raises(FewerError, match=r"demo\.yaml: train: "):
        parse_config(DemoCorpusConfig, {"train": 0}, "demo.yaml")
    with pytest.raises(FewerError, match=r"unknown key 'trane'; did you mean 'train'"):
        parse_config(DemoCorpusConfig, {"trane": 10}, "demo.yaml")
