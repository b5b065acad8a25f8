"""Methods are tuned with equal effort, and no pool holds what only another method's search has found."""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewer.compute.engines.engine import Engine, Job, Local, Work
from fewer.compute.engines.forked import Processes
from fewer.errors import FewerError
from fewer.search.nbest import NBest, read_header
from fewer.tuning.methods import Method, tune_all
from fewer.tuning.space import Scales, SpaceOptions
from fewer.tuning.store import chosen_decode, read_tuned
from fewer.tuning.tune import TuneOptions, tune
from tests.tuning.channel import TERMS, NoisyChannel

OPTIONS = TuneOptions(space=SpaceOptions(length="exponent", step=0.05, length_step=0.25))


class Recorded:
    """A channel as a method, with a record of the scales it was decoded at and how often it rescored."""

    def __init__(self, name: str, channel: NoisyChannel, terms: tuple[str, ...], rescores: bool = True):
        self.channel, self.decoded, self.rescored = channel, [], 0
        self.method = Method(name, terms, self.decode, self.rescore if rescores else None, identity=name)

    def decode(self, scales: Scales) -> list[NBest]:
        self.decoded.append(scales)
        return self.channel.decode(scales)

    def rescore(self, lists: list[NBest]) -> list[NBest]:
        assert all("ilm" not in h.scores for nbest in lists for h in nbest.hypotheses)
        self.rescored += 1
        return self.channel.rescore(lists)


def recorded(rescores: bool = True) -> list[Recorded]:
    channel = NoisyChannel(25, words=20, beam=6)
    return [
        Recorded("sf", channel, ("aed", "lm"), rescores),
        Recorded("zero", channel.with_ilm(1.5, seed=1), TERMS, rescores),
        Recorded("mini_lstm", channel.with_ilm(0.2, seed=2), TERMS, rescores),
    ]


SHARDS = 3


class Searching(Work):
    """A channel's decode in shards."""

    def __init__(self, channel: NoisyChannel):
        self.channel = channel

    def __call__(self, shard: int, scales: Scales) -> list[tuple[int, NBest]]:
        return list(enumerate(self.channel.decode(scales)))[shard::SHARDS]


def in_shards(each: Recorded) -> Method:
    work = Searching(each.channel)

    def decode(scales: Scales) -> Job:
        each.decoded.append(scales)
        return Job(work, range(SHARDS), (scales,))

    return replace(each.method, decode=decode)


class Counting(Local):
    """Counts the shards that it is given at once."""

    def __init__(self) -> None:
        self.shards: list[int] = []

    def map(self, work: Work, shards: Sequence[int], *arguments: Any) -> Iterator[tuple[int, Any]]:
        self.shards.append(len(shards))
        return super().map(work, shards, *arguments)


def found(lists: list[NBest]) -> set[tuple[str, tuple[int, ...]]]:
    return {(nbest.id, hypothesis.tokens) for nbest in lists for hypothesis in nbest.hypotheses}


def test_sharing_decodes_changes_no_result() -> None:
    sharing, apart = recorded(), recorded(rescores=False)
    shared = tune_all([each.method for each in sharing], OPTIONS)
    alone = {each.method.name: tune(each.decode, each.method.terms, OPTIONS) for each in apart}
    assert list(shared) == ["sf", "zero", "mini_lstm"]
    for name, result in shared.items():
        assert result.scales == alone[name].scales
        assert [trial.wer for trial in result.trials] == [trial.wer for trial in alone[name].trials]
        assert [trial.pool for trial in result.trials] == [trial.pool for trial in alone[name].trials]
        assert result.pool.arrays().scores == pytest.approx(alone[name].pool.arrays().scores)


def test_methods_are_searched_side_by_side() -> None:
    methods, engine = recorded(), Counting()
    results = tune_all([in_shards(each) for each in methods], OPTIONS, engine=engine)
    assert engine.shards[:3] == [SHARDS, SHARDS, 3 * SHARDS]  # the first two are one search for all
    assert sum(engine.shards) == SHARDS * sum(len(each.decoded) for each in methods)
    assert len(engine.shards) == max(len(result.trials) for result in results.values())


@pytest.mark.parametrize("engine", [Local(), Processes(2)])
def test_any_engine_tunes_to_the_same_result(engine: Engine) -> None:
    expected = tune_all([each.method for each in recorded()], OPTIONS)
    results = tune_all([in_shards(each) for each in recorded()], OPTIONS, engine=engine)
    for name, result in results.items():
        assert [trial.scales for trial in result.trials] == [trial.scales for trial in expected[name].trials]
        assert [trial.wer for trial in result.trials] == [trial.wer for trial in expected[name].trials]
        np.testing.assert_array_equal(result.pool.arrays().scores, expected[name].pool.arrays().scores)


def test_only_decodes_without_a_methods_own_term_are_shared_and_they_count_in_the_budget() -> None:
    methods = recorded()
    results = tune_all([each.method for each in methods], OPTIONS)
    for each in methods:
        result = results[each.method.name]
        assert len(result.trials) == len(each.decoded) + each.rescored <= OPTIONS.budget
    for each in methods[1:]:
        assert each.rescored >= 1
        assert all(scales.terms["ilm"] != 0.0 for scales in each.decoded)


def test_a_pool_holds_only_what_the_methods_own_search_finds() -> None:
    methods = recorded()
    results = tune_all([each.method for each in methods], OPTIONS)
    for each in methods:
        result = results[each.method.name]
        own = set().union(*(found(each.channel.decode(trial.scales)) for trial in result.trials))
        assert found(list(result.pool.lists())) == own


def test_every_method_has_the_same_budget_and_the_same_length_parameter() -> None:
    results = tune_all([each.method for each in recorded()], OPTIONS)
    for result in results.values():
        assert result.length_curve is not None
        assert result.length_curve.names == ("exponent",)
        assert len(result.trials) <= OPTIONS.budget
    assert results["sf"].surface.names == ("lm",)
    assert results["zero"].surface.names == ("lm", "ilm")
    assert results["mini_lstm"].wer <= results["sf"].wer


def test_methods_without_the_same_terms_share_what_they_can() -> None:
    channel = NoisyChannel(15, words=20, beam=5)
    plain, fusion = Recorded("none", channel, ("aed",), False), Recorded("sf", channel, ("aed", "lm"), False)
    results = tune_all([fusion.method, plain.method], OPTIONS)
    assert len(plain.decoded) == len(results["none"].trials) - 1  # the first decode is shallow fusion's, without LM
    assert results["none"].baseline.wer == results["sf"].baseline.wer


def test_constraints_hold_for_the_methods_that_have_the_scale() -> None:
    space = OPTIONS.space.model_copy(update={"tied": {"ilm": (0.5, "lm")}, "fixed": {"exponent": 1.0}})
    results = tune_all([each.method for each in recorded()], OPTIONS.model_copy(update={"space": space}))
    assert "ilm" not in results["sf"].parameters
    for name in ("zero", "mini_lstm"):
        parameters = results[name].parameters
        assert parameters["ilm"] == pytest.approx(0.5 * parameters["lm"])
    assert {result.parameters["exponent"] for result in results.values()} == {1.0}


def test_a_constraint_that_no_method_has_is_an_error() -> None:
    space = OPTIONS.space.model_copy(update={"fixed": {"ctc": 0.3}})
    with pytest.raises(FewerError, match="'ctc' is constrained, but no method has it"):
        tune_all([each.method for each in recorded()], OPTIONS.model_copy(update={"space": space}))


def test_starts_are_for_the_methods_that_have_the_scales() -> None:
    starts = ({"lm": 0.3}, {"lm": 0.4, "ilm": 0.2})
    methods = recorded()
    results = tune_all([each.method for each in methods], OPTIONS.model_copy(update={"start": starts, "budget": 2}))
    first = {name: [trial.parameters for trial in result.trials] for name, result in results.items()}
    assert first["sf"][0]["lm"] == 0.3
    assert [(tried["lm"], tried["ilm"]) for tried in first["zero"]] == [(0.3, 0.0), (0.4, 0.2)]
    only_ilm = OPTIONS.model_copy(update={"start": starts[1], "budget": 1})
    assert tune_all([each.method for each in methods], only_ilm)["sf"].parameters["lm"] == 0.0


def test_a_start_at_a_scale_that_no_method_has_is_an_error() -> None:
    methods = [each.method for each in recorded()]
    with pytest.raises(FewerError, match="'lmm' is where tuning is to start, but no method has it"):
        tune_all(methods, OPTIONS.model_copy(update={"start": {"lmm": 0.5}}))
    with pytest.raises(FewerError, match="'lmm' is where tuning is to start, but no method has it"):
        tune_all([methods[0], replace(methods[1], options={"start": ({}, {"lmm": 0.5})})], OPTIONS)


def test_two_methods_of_one_name_are_refused() -> None:
    methods = recorded()
    with pytest.raises(FewerError, match="same name"):
        tune_all([methods[0].method, methods[0].method], OPTIONS)


def test_a_second_run_decodes_nothing_and_gives_the_same(tmp_path: Path) -> None:
    first = tune_all([each.method for each in recorded()], OPTIONS, folder=tmp_path)
    again = recorded()
    second = tune_all([each.method for each in again], OPTIONS, folder=tmp_path)
    assert [each.decoded for each in again] == [[], [], []]
    assert {name: result.scales for name, result in second.items()} == {n: r.scales for n, r in first.items()}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mini_lstm", "sf", "zero"]
    for name in first:
        assert {"tune.json", "surface.npz", "pool.jsonl", "decodes"} <= {p.name for p in (tmp_path / name).iterdir()}


def with_lm_end(channel: NoisyChannel, score: float) -> NoisyChannel:
    """The same recogniser with an LM that says `score` of the end of any sentence."""
    other = copy(channel)
    other.lm = channel.lm.copy()
    other.lm[:, 0] = score
    return other


def with_other_end(usual: float, other: float) -> tuple[Recorded, Recorded, Method]:
    """Shallow fusion with an LM that says `usual` of the end, and the choice of one that says `other`."""
    channel = NoisyChannel(25, words=20, beam=6)
    first = Recorded("sf", with_lm_end(channel, usual), ("aed", "lm"))
    second = Recorded("sf", with_lm_end(channel, other), ("aed", "lm"))
    ends = (replace(second.method, identity="end", end_by=("aed",)),)
    return first, second, replace(first.method, end_by=("aed", "lm"), other_ends=ends)


def test_the_end_label_is_scored_by_others_where_that_is_better(tmp_path: Path) -> None:
    _, second, method = with_other_end(usual=-20.0, other=-2.5)  # the LM keeps the search from ending
    alone = tune_all([replace(method, other_ends=())], OPTIONS)["sf"]
    result = tune_all([method], OPTIONS, folder=tmp_path)["sf"]
    assert result.end_by == ("aed",)
    assert result.wer < alone.wer
    assert result.ends == {"aed": result.wer}
    assert result.baseline.wer == alone.baseline.wer
    assert second.decoded[0].terms == alone.scales.terms  # it begins where the scales were tuned
    assert read_tuned(tmp_path / "sf" / "tune.json").end_by == ("aed",)
    assert read_header(chosen_decode(tmp_path / "sf")).info["identity"] == "end"


def test_otherwise_the_usual_terms_score_it_after_one_decode_more(tmp_path: Path) -> None:
    _, second, method = with_other_end(usual=0.0, other=-20.0)
    alone = tune_all([replace(method, other_ends=())], OPTIONS)["sf"]
    result = tune_all([method], OPTIONS, folder=tmp_path)["sf"]
    assert result.end_by is None
    assert (result.wer, result.scales, len(result.trials)) == (alone.wer, alone.scales, len(alone.trials))
    assert result.ends["aed"] > result.wer
    assert len(second.decoded) == 1
    assert read_header(chosen_decode(tmp_path / "sf")).info["identity"] == "sf"


def test_nobody_else_is_asked_about_the_end_where_nothing_is_fused() -> None:
    _, second, method = with_other_end(usual=0.0, other=0.0)
    space = SpaceOptions(length="fixed", fixed={"lm": 0.0})
    assert tune_all([method], OPTIONS.model_copy(update={"space": space}))["sf"].ends == {}
    assert not second.decoded
