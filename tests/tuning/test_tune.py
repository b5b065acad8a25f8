"""Tuning reaches what a grid of full decodes reaches, in a handful of decodes, and keeps to its constraints."""

from dataclasses import replace

import pytest

from fewer.errors import FewerError
from fewer.search.nbest import Hypothesis, LengthPolicy, NBest
from fewer.tuning.space import Scales, Space, SpaceOptions
from fewer.tuning.tune import TuneOptions, start_points, tune
from tests.tuning.channel import TERMS, NoisyChannel, benchmark

FIXED = SpaceOptions(length="fixed")


def options(**values: object) -> TuneOptions:
    return TuneOptions.model_validate({"space": FIXED, **values})


@pytest.fixture(scope="module")
def channel() -> NoisyChannel:
    return NoisyChannel(60, words=30, beam=8)


def test_tuning_reaches_a_grid_of_full_decodes_with_six() -> None:
    channel = NoisyChannel(100, words=30, beam=8)
    result = benchmark.compare(channel.decode, TERMS, options(), grid=6)
    assert result["within"], result
    assert result["tuned_decodes"] <= 6
    assert result["grid_decodes"] == 36
    assert channel.decodes == result["tuned_decodes"] + 36
    assert result["tuned_wer"] < result["baseline_wer"] - 5


@pytest.mark.parametrize("length", ["exponent", "reward"])
def test_a_length_parameter_is_tuned_along_with_the_scales(channel: NoisyChannel, length: str) -> None:
    fixed = tune(channel.decode, TERMS, options())
    result = tune(channel.decode, TERMS, options(space={"length": length}))
    assert len(result.trials) <= 6
    assert result.wer <= fixed.wer * 1.1
    assert result.length_curve is not None
    assert result.length_curve.names == (length,)
    assert result.parameters["exponent"] == 0.0 if length == "reward" else result.parameters["reward"] == 0.0


def test_the_result_was_decoded_and_is_what_the_decode_gives(channel: NoisyChannel) -> None:
    result = tune(channel.decode, TERMS, options())
    lists = channel.decode(result.scales)
    assert result.pool.score(lists).wer == result.wer
    assert result.pool.add(lists) == 0
    assert result.scales.terms["ilm"] == -result.parameters["ilm"] < 0
    assert result.surface.names == ("lm", "ilm")
    assert result.surface.errors.shape == (151, 151)
    low, high = result.chosen.result.interval
    assert low < result.wer < high


def test_the_pool_foretells_the_decode_when_tuning_has_converged(channel: NoisyChannel) -> None:
    result = tune(channel.decode, TERMS, options(budget=12))
    assert result.converged
    assert len(result.trials) < 12
    index = tuple(
        int(abs(axis - result.parameters[name]).argmin())
        for name, axis in zip(result.surface.names, result.surface.axes, strict=True)
    )
    assert result.surface.wer[index] == pytest.approx(result.wer, abs=0.3)


def test_the_budget_is_kept(channel: NoisyChannel) -> None:
    for budget in (1, 2, 4):
        before = channel.decodes
        result = tune(channel.decode, TERMS, options(budget=budget))
        assert len(result.trials) == channel.decodes - before <= budget


def decoded_parameters(result) -> list[dict[str, float]]:
    return [trial.parameters for trial in result.trials]


def test_a_fixed_scale_stays_in_every_decode(channel: NoisyChannel) -> None:
    result = tune(channel.decode, TERMS, options(space={"length": "fixed", "fixed": {"lm": 0.3}}))
    assert {parameters["lm"] for parameters in decoded_parameters(result)} == {0.3}
    assert result.surface.names == ("ilm",)
    assert result.wer < result.baseline.wer


def test_a_tied_scale_follows_in_every_decode(channel: NoisyChannel) -> None:
    result = tune(channel.decode, TERMS, options(space={"length": "fixed", "tied": {"ilm": (0.8, "lm")}}))
    assert all(p["ilm"] == pytest.approx(0.8 * p["lm"]) for p in decoded_parameters(result))
    assert result.surface.names == ("lm",)
    assert result.wer < result.baseline.wer


def test_a_range_holds_in_every_decode(channel: NoisyChannel) -> None:
    space = {"length": "fixed", "ranges": {"lm": (0.0, 0.35), "ilm": (0.1, 0.3)}}
    result = tune(channel.decode, TERMS, options(space=space))
    assert all(0 <= p["lm"] <= 0.35 and 0.1 <= p["ilm"] <= 0.3 for p in decoded_parameters(result))


def test_everything_fixed_means_one_decode(channel: NoisyChannel) -> None:
    result = tune(channel.decode, TERMS, options(space={"length": "fixed", "fixed": {"lm": 0.5, "ilm": 0.4}}))
    assert len(result.trials) == 1
    assert result.converged
    assert result.scales == Scales({"aed": 1.0, "lm": 0.5, "ilm": -0.4}, LengthPolicy())


def test_a_recogniser_alone_can_have_its_length_tuned(channel: NoisyChannel) -> None:
    result = tune(channel.decode, ("aed",), options(space={"length": "exponent"}))
    assert result.scales.terms == {"aed": 1.0}
    assert result.surface.errors.shape == ()
    assert result.wer <= result.baseline.wer


def test_the_first_decode_has_no_lm_and_no_ilm() -> None:
    assert start_points(Space(TERMS, FIXED))[0] == ({"lm": 0.0, "ilm": 0.0}, False)


def test_first_decodes_can_be_given() -> None:
    space = Space(TERMS, SpaceOptions(length="reward"))
    given = [{}, {"lm": 0.081, "reward": 0.7}, {"lm": 0.15, "ilm": 0.15}, {"lm": 0.08, "reward": 0.7}]
    assert start_points(space, given) == [
        ({"lm": 0.0, "ilm": 0.0, "reward": 0.0}, False),
        ({"lm": 0.08, "ilm": 0.0, "reward": 0.7}, True),
        ({"lm": 0.15, "ilm": 0.15, "reward": 0.0}, False),
    ]
    with pytest.raises(FewerError, match="start at 'lmm': there is no such parameter; there are aed, lm, ilm, reward"):
        start_points(space, [{}, {"lmm": 0.5}])


def flat_decode(scales: Scales) -> list[NBest]:
    """Four utterances; the LM is no help and no harm, whatever its scale."""
    lists = []
    for number in range(4):
        hypothesis = Hypothesis("a b", (1, 2), {"aed": -1.0, "lm": -2.0}, 3, 0.0)
        worse = Hypothesis("a", (1,), {"aed": -3.0, "lm": -4.0}, 2, 0.0)
        ranked = [replace(h, score=h.rescored(scales.terms, scales.length)) for h in (hypothesis, worse)]
        lists.append(NBest(f"u{number}", tuple(sorted(ranked, key=lambda h: -h.score)), "a c"))
    return lists


def test_a_flat_surface_ends_at_once_and_gives_its_centre() -> None:
    result = tune(flat_decode, ("aed", "lm"), options())
    assert result.converged
    assert len(result.trials) <= 4
    assert set(result.surface.wer.tolist()) == {50.0}
    assert result.parameters["lm"] == 0.75


def test_no_harm_keeps_the_baseline_when_nothing_is_gained() -> None:
    result = tune(flat_decode, ("aed", "lm"), options(no_harm=True))
    assert result.kept_baseline
    assert result.parameters["lm"] == 0.0
    assert result.improved == 0.0


def test_no_harm_lets_a_clear_gain_pass(channel: NoisyChannel) -> None:
    result = tune(channel.decode, TERMS, options(no_harm=True))
    assert not result.kept_baseline
    assert result.improved > 0.99
    assert result.wer < result.baseline.wer


def test_no_harm_compares_with_no_lm_and_no_ilm_wherever_tuning_starts(channel: NoisyChannel) -> None:
    for start in ({"lm": 0.4}, ({"lm": 0.4}, {})):
        result = tune(flat_decode, ("aed", "lm"), options(no_harm=True, start=start))
        assert [trial.parameters["lm"] for trial in result.trials[:2]] == [0.0, 0.4]
        assert result.kept_baseline
        assert result.parameters["lm"] == 0.0
    result = tune(channel.decode, TERMS, options(no_harm=True, start={"lm": 0.4, "ilm": 0.3}))
    assert not result.kept_baseline
    assert (result.baseline.parameters["lm"], result.baseline.parameters["ilm"]) == (0.0, 0.0)


def test_a_decode_that_ignores_its_scales_is_found_out(channel: NoisyChannel) -> None:
    def deaf(scales: Scales) -> list[NBest]:
        return channel.decode(Scales({"aed": 1.0, "lm": 0.1, "ilm": 0.0}))

    with pytest.raises(FewerError, match=r"utterance-\d+.*does not use the scales"):
        tune(deaf, TERMS, options())


def test_a_decode_without_a_term_is_found_out(channel: NoisyChannel) -> None:
    def forgetful(scales: Scales) -> list[NBest]:
        return channel.decode(Scales({"aed": 1.0, "lm": scales.terms["lm"]}))

    with pytest.raises(FewerError, match=r"utterance-\d+.*no score of the term 'ilm'"):
        tune(forgetful, TERMS, options())


def test_utterances_that_never_end_are_counted() -> None:
    def endless(scales: Scales) -> list[NBest]:
        return [
            replace(nbest, hypotheses=tuple(replace(h, ended=False) for h in nbest.hypotheses))
            for nbest in flat_decode(scales)
        ]

    assert tune(endless, ("aed", "lm"), options()).trials[0].unended == 4


def test_tuning_begins_where_it_is_told_to(channel: NoisyChannel) -> None:
    result = tune(channel.decode, TERMS, options(budget=2, start={"lm": 0.31}))
    first = result.trials[0].parameters
    assert (first["lm"], first["ilm"]) == (0.31, 0.0)
    assert len(result.trials) == 2


def test_a_start_that_is_given_the_length_parameter_of_another_is_decoded_once() -> None:
    space = {"length": "exponent", "exponent_range": (0.0, 1.0), "length_step": 0.5}
    result = tune(flat_decode, ("aed", "lm"), options(space=space, start=({"exponent": 0.5}, {}), budget=2))
    assert [(tried["lm"], tried["exponent"]) for tried in decoded_parameters(result)] == [(0.0, 0.5), (0.75, 0.5)]
