"""Trying systems on a dev set."""

from pathlib import Path

from fewer.adaptation.choice import Trials
from fewer.decoding.system import load_system
from fewer.recognisers.loader import load_recogniser
from fewer.recognisers.whisper.recogniser import DEFAULTS
from fewer.search.beam import SearchOptions
from fewer.tuning.pool import Metric
from fewer.tuning.tune import TuneOptions


def test_the_usual_starts_will_do_where_no_system_has_an_internal_lm(tones: Path, tmp_path: Path) -> None:
    recogniser = load_recogniser(tones / "aed")
    trials = Trials(recogniser, tones / "dev.jsonl", Metric(), SearchOptions(3), tmp_path / "encodings")
    systems = {"none": load_system(recogniser), "sf": load_system(recogniser, tones / "lm")}
    results = trials.tune(systems, TuneOptions(**{**DEFAULTS.tuning, "budget": 2}), tmp_path)
    assert [trial.parameters["lm"] for trial in results["sf"].trials] == [0.0, 0.13]
