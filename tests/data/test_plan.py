from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer.config import parse_config
from fewer.data.plan import PlanConfig, make_plan, mixed, permuted
from fewer.errors import FewerError

all_lengths = st.lists(st.integers(1, 60), min_size=1, max_size=80).map(np.array)
configs = st.builds(
    PlanConfig,
    max_size=st.integers(60, 300),
    max_sequences=st.integers(1, 10),
    accumulate=st.integers(1, 3),
    sub_epochs=st.just(1),
    order=st.sampled_from(["bins", "random", "sorted", "corpus"]),
    bin_size=st.integers(1, 30),
    shuffle_batches=st.booleans(),
)


def plan_of(config, lengths, sub_epoch=1, seed=1):
    return make_plan(config, seed, sub_epoch, len(lengths), lambda items: lengths[items])


def seen(plan):
    return [item for group in plan for batch in group for item in batch.tolist()]


@given(config=configs, lengths=all_lengths, parts=st.integers(1, 6), seed=st.integers(0, 5), epoch=st.integers(0, 3))
@settings(max_examples=150, deadline=None)
def test_the_sub_epochs_of_an_epoch_see_everything_exactly_once(config, lengths, parts, seed, epoch):
    config = config.model_copy(update={"sub_epochs": min(parts, len(lengths))})
    numbers = range(epoch * config.sub_epochs + 1, (epoch + 1) * config.sub_epochs + 1)
    shares = [seen(plan_of(config, lengths, number, seed)) for number in numbers]
    assert sorted(item for share in shares for item in share) == list(range(len(lengths)))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(config=configs, lengths=all_lengths, seed=st.integers(0, 5))
@settings(max_examples=150, deadline=None)
def test_no_batch_is_too_large_and_none_could_take_the_next_sequence(config, lengths, seed):
    plan = plan_of(config, lengths, seed=seed)
    batches = [batch for group in plan for batch in group]
    for batch in batches:
        assert 1 <= len(batch) <= config.max_sequences
        assert len(batch) * lengths[batch].max() <= config.max_size
    if not config.shuffle_batches:
        for batch, following in pairwise(batches):
            larger = [*lengths[batch], lengths[following[0]]]
            assert len(larger) > config.max_sequences or len(larger) * max(larger) > config.max_size
    assert [len(group) for group in plan][:-1] == [config.accumulate] * (len(plan) - 1)
    assert len(batches) == plan.batches


@given(config=configs, lengths=all_lengths, world=st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_a_step_is_the_same_utterances_for_any_number_of_processes(config, lengths, world):
    plan = plan_of(config, lengths)
    for step in range(len(plan)):
        whole = plan.group(step)
        shares = [plan.group(step, rank, world) for rank in range(world)]
        assert {len(share) for share in shares} == {len(whole)}
        for number, batch in enumerate(whole):
            parts = [share[number] for share in shares]
            assert sorted(np.concatenate(parts)) == sorted(batch)
            assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_plan_depends_on_options_seed_and_sub_epoch_only():
    lengths = np.random.default_rng(0).integers(1, 50, 200)
    config = PlanConfig(max_size=100, sub_epochs=4, bin_size=20)
    orders = {}
    for seed in (1, 2):
        for sub_epoch in (5, 1, 2):
            np.random.seed(sub_epoch)
            first, again = (plan_of(config, lengths, sub_epoch, seed) for _ in range(2))
            assert seen(first) == seen(again)
            np.testing.assert_array_equal(first.starts, again.starts)
            orders[seed, sub_epoch] = tuple(seen(first))
    assert len(set(orders.values())) == 6
    assert set(orders[1, 1]) != set(orders[1, 5])  # another epoch, another partition


def test_bins_are_sorted_up_and_down_by_turns():
    lengths = np.random.default_rng(0).integers(1, 50, 95)
    order = lengths[seen(plan_of(PlanConfig(max_size=100, bin_size=30), lengths))]
    bins = [order[first : first + 30] for first in range(0, 95, 30)]
    for number, bin in enumerate(bins):
        assert bin.tolist() == sorted(bin, reverse=number % 2 == 1)


def test_sorted_and_corpus_order_hold_within_a_share():
    lengths = np.array([5, 3, 9, 1, 7, 2])
    assert seen(plan_of(PlanConfig(order="sorted", sub_epochs=2), lengths, 1)) == [0, 4, 2]
    assert seen(plan_of(PlanConfig(order="corpus", sub_epochs=2), lengths, 2)) == [1, 3, 5]


def test_resuming_at_a_step_is_slicing():
    plan = plan_of(PlanConfig(max_size=100, accumulate=2), np.full(60, 10))
    assert len(plan) == 3
    rest = [plan[step] for step in range(1, len(plan))]
    assert [b.tolist() for g in rest for b in g] == [b.tolist() for g in list(plan)[1:] for b in g]
    with pytest.raises(IndexError):
        plan[3]


def test_limits_change_with_the_sub_epoch():
    config = PlanConfig(max_size=50, max_size_from={1: 200, 3: 100})
    sizes = [max(len(b) for g in plan_of(config, np.full(60, 10), n) for b in g) for n in (1, 2, 3, 4)]
    assert sizes == [20, 20, 10, 10]
    assert PlanConfig(max_size=50, max_size_from={3: 100}).max_size_at(2) == 50


def test_a_sequence_longer_than_a_batch_is_an_error_or_left_out():
    lengths = np.array([10, 200, 30])
    with pytest.raises(FewerError, match="200 is longer than a batch may be"):
        plan_of(PlanConfig(max_size=100), lengths)
    assert sorted(seen(plan_of(PlanConfig(max_size=100, skip_long=True), lengths))) == [0, 2]


def test_a_sub_epoch_without_data_is_an_error():
    with pytest.raises(FewerError, match="sub-epoch 1 has no data: 2 sequences in 5 parts"):
        plan_of(PlanConfig(sub_epochs=5), np.array([1, 1]), 1)
    with pytest.raises(ValueError, match="counted from 1"):
        plan_of(PlanConfig(), np.array([1]), 0)


def test_unknown_or_impossible_options_name_the_field():
    with pytest.raises(FewerError, match=r"train\.yaml: unknown key 'max_sice'; did you mean 'max_size'"):
        parse_config(PlanConfig, {"max_sice": 3}, "train.yaml")
    with pytest.raises(FewerError, match="accumulate"):
        parse_config(PlanConfig, {"accumulate": 0}, "train.yaml")


@given(count=st.integers(1, 3000), key=st.tuples(st.integers(0, 9), st.integers(0, 9)), data=st.data())
@settings(max_examples=80, deadline=None)
def test_permuted_is_a_permutation_that_can_be_asked_in_parts(count, key, data):
    whole = permuted(np.arange(count), count, key)
    assert sorted(whole.tolist()) == list(range(count))
    first = data.draw(st.integers(0, count))
    np.testing.assert_array_equal(permuted(np.arange(first, count), count, key), whole[first:])


def test_permutations_look_random():
    """Over many seeds every number is equally often in the first tenth, and neighbours do not stay together."""
    count, seeds = 100, 2000
    firsts = np.zeros(count)
    together = 0
    for seed in range(seeds):
        chosen = permuted(np.arange(10), count, (seed, 0))
        firsts[chosen] += 1
        together += int((np.abs(np.diff(chosen)) == 1).sum())
    expected = seeds * 0.1
    chi_square = float(((firsts - expected) ** 2 / (expected * 0.9)).sum())
    assert 50 < chi_square < 160  # 99 degrees of freedom
    assert together / seeds == pytest.approx(9 * 2 / count, rel=0.15)


def test_mixed_numbers_are_uniform_and_depend_on_the_key():
    numbers = np.arange(30_000)
    counts = np.bincount((mixed(numbers, np.uint64(7)) % np.uint64(3)).astype(int))
    assert counts == pytest.approx([10_000] * 3, rel=0.03)
    assert (mixed(numbers, np.uint64(7)) != mixed(numbers, np.uint64(8))).mean() > 0.99
