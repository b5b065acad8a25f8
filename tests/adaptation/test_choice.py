"""Trying systems on a dev set."""

from pathlib import Path

from fewer.adaptation.choice import WHISPER, Trials
from fewer.decoding.system import load_recogniser, load_system
from fewer.search.beam import SearchOptions
from fewer.tuning.pool import Metric


def test_the_usual_starts_will_do_where_no_system_has_an_internal_lm(tones: Path, tmp_path: Path) -> None:
    recogniser = load_recogniser(tones / "aed")
    trials = Trials(recogniser, tones / "dev.jsonl", Metric(), SearchOptions(3))
    systems = {"none": load_system(recogniser), "sf": load_system(recogniser, tones / "lm")}
    results = trials.tune(systems, WHISPER.tuning.model_copy(update={"budget": 2}), tmp_path)
    assert [trial.parameters["lm"] for trial in results["sf"].trials] == [0.0, 0.13]
