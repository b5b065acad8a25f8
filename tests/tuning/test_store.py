"""A killed tuning run goes on where it was, and its folder tells everything that later steps need."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fewer.errors import FewerError
from fewer.evaluation.guards import UtteranceSet
from fewer.search.nbest import LengthPolicy, NBest, read_header
from fewer.tuning.methods import Method, tune_all
from fewer.tuning.pool import Pool
from fewer.tuning.space import Scales, SpaceOptions
from fewer.tuning.store import SavedDecodes, load_scales, save_result
from fewer.tuning.surface import Surface
from fewer.tuning.tune import TuneOptions, TuneResult, tune
from tests.tuning.channel import TERMS, NoisyChannel

OPTIONS = TuneOptions(space=SpaceOptions(length="exponent", step=0.05, length_step=0.25), tolerance=0.0)


class Killed(Exception):
    pass


def killed_after(count: int, decode: Callable[[Scales], list[NBest]]) -> Callable[[Scales], list[NBest]]:
    calls = 0

    def limited(scales: Scales) -> list[NBest]:
        nonlocal calls
        calls += 1
        if calls > count:
            raise Killed
        return decode(scales)

    return limited


def kept(decode: Callable[[Scales], list[NBest]], folder: Path, identity: str = "x") -> TuneResult:
    """Tuning whose decodes are kept in a folder."""
    return tune_all([Method("x", TERMS, decode, identity=identity)], OPTIONS, folder=folder)["x"]


def summary(result: TuneResult) -> list[object]:
    return [(trial.scales, trial.predicted, trial.wer, trial.new, trial.pool) for trial in result.trials]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_killed_run_goes_on_to_the_same_result_without_repeating_a_decode(tmp_path: Path, count: int) -> None:
    channel = NoisyChannel(20, words=20, beam=6)
    whole = tune(channel.decode, TERMS, OPTIONS)
    decodes, channel.decodes = channel.decodes, 0
    assert decodes > count
    with pytest.raises(Killed):
        kept(killed_after(count, channel.decode), tmp_path)
    resumed = kept(channel.decode, tmp_path)
    assert channel.decodes == decodes
    assert summary(resumed) == summary(whole)
    assert resumed.scales == whole.scales
    np.testing.assert_array_equal(resumed.surface.errors, whole.surface.errors)


def test_decodes_of_another_system_are_not_taken(tmp_path: Path) -> None:
    channel = NoisyChannel(4, words=20, beam=4)
    kept(channel.decode, tmp_path, "one system")
    with pytest.raises(FewerError, match="other models, options or utterances"):
        kept(channel.decode, tmp_path, "another system")


def test_scales_that_differ_by_less_than_a_file_name_shows_are_decoded(tmp_path: Path) -> None:
    channel = NoisyChannel(4, words=20, beam=4)
    saved = SavedDecodes(tmp_path, "x")
    for lm, known in ((0.3, False), (0.3 + 1e-9, False), (0.3 + 1e-9, True)):
        scales = Scales({"aed": 1.0, "lm": lm, "ilm": -0.1})
        assert (saved.load(scales) is not None) == known
        saved.save(scales, channel.decode(scales))


@pytest.fixture(scope="module")
def tuned() -> TuneResult:
    return tune(NoisyChannel(20, words=20, beam=6).decode, TERMS, OPTIONS)


def test_the_folder_holds_scales_surface_pool_and_history(tmp_path: Path, tuned: TuneResult) -> None:
    save_result(tmp_path, tuned, OPTIONS, "mini_lstm", "dev")
    value = json.loads((tmp_path / "tune.json").read_text())
    assert value["method"] == "mini_lstm"
    assert value["parameters"] == tuned.parameters
    assert value["parameters"]["ilm"] == -value["scales"]["ilm"] > 0
    assert value["decodes"] == len(value["trials"]) == len(tuned.trials)
    assert value["trials"][0]["predicted_wer"] is None
    assert value["trials"][-1]["pool"] == value["pool"] == len(tuned.pool)
    assert value["result"]["low"] < value["result"]["wer"] < value["result"]["high"]
    assert value["result"]["wer"] == min(trial["wer"] for trial in value["trials"])
    pool = Pool.load(tmp_path / "pool.jsonl")
    assert len(pool) == len(tuned.pool)
    header = read_header(tmp_path / "pool.jsonl")
    assert (header.scales, header.length) == (tuned.scales.terms, tuned.scales.length)
    surface = Surface.load(tmp_path / "surface.npz")
    np.testing.assert_array_equal(surface.errors, tuned.surface.errors)
    assert surface.names == ("lm", "ilm")
    assert surface.at == {"exponent": tuned.parameters["exponent"]}
    assert Surface.load(tmp_path / "length.npz").names == ("exponent",)


def test_scales_come_back_with_the_set_they_were_tuned_on(tmp_path: Path, tuned: TuneResult) -> None:
    save_result(tmp_path, tuned, OPTIONS, "zero", "dev")
    scales, tuned_on = load_scales(tmp_path / "tune.json")
    assert scales == tuned.scales
    assert tuned_on == UtteranceSet.of("dev", tuned.pool.ids)


def test_a_file_that_is_no_tuning_result_is_named(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"format": "something"}')
    with pytest.raises(FewerError, match=r"other\.json is not a tune\.json"):
        load_scales(tmp_path / "other.json")
    (tmp_path / "half.json").write_text('{"format": "fewer-tune/1", "scales": {"lm": 0.3}}')
    with pytest.raises(FewerError, match=r"half\.json.*length"):
        load_scales(tmp_path / "half.json")


def test_length_policy_is_part_of_a_decodes_name(tmp_path: Path) -> None:
    saved = SavedDecodes(tmp_path, "x")
    terms = {"aed": 1.0, "lm": 0.25, "ilm": -0.1}
    names = {saved.path(Scales(terms, LengthPolicy(e, r))).name for e in (0.0, 1.0) for r in (0.0, 0.5)}
    assert len(names) == 4
    assert "aed1_lm0.25_ilm-0.1_exponent1_reward0.jsonl" in names
