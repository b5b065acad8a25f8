"""Rows that rank what others have found, in an experiment with a tiny Whisper."""

from pathlib import Path
from typing import Any

import pytest
import torch

from fewer.config import parse_config
from fewer.decoding.second_pass import reranked, second_pass_method, united
from fewer.errors import FewerError
from fewer.experiments.config import ExperimentConfig
from fewer.experiments.experiment import Experiment
from fewer.experiments.layers import load_experiment
from fewer.recognisers.whisper.recogniser import load_whisper
from fewer.search.nbest import Hypothesis, LengthPolicy, NBest, read_header, read_nbest
from fewer.store.ngram_files import save_ngram
from fewer.training.ngram import estimate
from fewer.tuning.methods import tune_all
from fewer.tuning.space import Scales
from fewer.tuning.tune import TuneOptions
from tests.recognisers.tiny import make_whisper, write_manifest

TEXTS: list[str | None] = ["the cat", "a cat in a hat", "in the hat"]
SEARCHED, RANKED = ["none", "sf", "zero"], ["sf_2", "zero_2", "lodr", "seq_avg"]


def values(folder: Path) -> dict[str, Any]:
    again = {"second_pass": ["sf", "zero"]}
    rows = [
        {"method": "none", "tuning": {"budget": 1, "start": {"reward": 0.5}}},
        {"method": "sf"},
        {"method": "zero", "tuning": {"budget": 1, "start": {"lm": 0.2, "ilm": 0.1}}},
        {"method": "sf", "name": "sf_2", **again},
        {"method": "zero", "name": "zero_2", **again},
        {"method": "lodr", "subtract": "bigram", **again},
        {"method": "seq_avg", **again},
    ]
    manifest = str(folder / "dev.jsonl")
    return {
        "title": "Tiny",
        "recognisers": {"whisper": {"folder": str(folder / "whisper")}},
        "lms": {name: {"path": str(folder / f"{name}.safetensors")} for name in ("lm", "bigram")},
        **dict.fromkeys(("train", "dev", "tune"), manifest),
        "sets": {"dev": manifest},
        "rows": rows,
        "beam": 3,
        "encodings": str(folder / "encodings"),
        "tuning": {
            "budget": 2,
            "space": {"length": "reward", "step": 0.1, "length_step": 0.5, "ranges": {"lm": [0, 1], "ilm": [0, 1]}},
        },
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    folder = tmp_path_factory.mktemp("second-pass")
    model = make_whisper(folder / "whisper")
    write_manifest(folder / "dev.jsonl", TEXTS)
    tokenizer = load_whisper(model).tokenizer
    stream = torch.tensor([label for text in TEXTS for label in [*tokenizer.encode(text or ""), tokenizer.end]])
    for name, order in (("lm", 3), ("bigram", 2)):
        ngram = estimate(stream, order, tokenizer.size, tokenizer.end)
        save_ngram(folder / f"{name}.safetensors", ngram, tokenizer.labels)
    experiment = Experiment(parse_config(ExperimentConfig, values(folder), "tiny"), folder / "run")
    experiment.run()
    return experiment


def lists(run: Experiment, row: str) -> list[NBest]:
    return list(read_nbest(run.folder / "decodes" / "dev" / f"{row}.jsonl"))


def tokens(nbest: NBest) -> set[tuple[int, ...]]:
    return {hypothesis.tokens for hypothesis in nbest.hypotheses}


def test_a_second_pass_ranks_exactly_what_the_named_rows_found(run: Experiment) -> None:
    for row in RANKED:
        header = read_header(run.folder / "decodes" / "dev" / f"{row}.jsonl")
        assert header.info["second_pass"] == ["sf", "zero"]
        for found, sf, zero in zip(lists(run, row), lists(run, "sf"), lists(run, "zero"), strict=True):
            assert tokens(found) == tokens(sf) | tokens(zero)
            scores = [hypothesis.score for hypothesis in found.hypotheses]
            assert scores == sorted(scores, reverse=True)
            for hypothesis in found.hypotheses:
                assert set(hypothesis.scores) == {"aed", "lm"} | (set() if row == "sf_2" else {"ilm"})
                assert hypothesis.rescored(header.scales, header.length) == hypothesis.score


def test_rows_that_rank_other_lists_do_not_take_each_others_hypotheses(run: Experiment) -> None:
    (row,) = (row for row in run.config.rows if row.key == "sf_2")
    ranked = {name: united([lists(run, name)]) for name in ("sf", "zero")}
    assert any(tokens(sf) != tokens(zero) for sf, zero in zip(*ranked.values(), strict=True))
    methods = [second_pass_method(name, run.system(row), found, name) for name, found in ranked.items()]
    for name, result in tune_all(methods, TuneOptions(budget=2)).items():
        assert [tokens(nbest) for nbest in result.pool.lists()] == [tokens(nbest) for nbest in ranked[name]]


def test_its_internal_lm_scores_as_in_a_search(run: Experiment) -> None:
    for found, searched in zip(lists(run, "zero_2"), lists(run, "zero"), strict=True):
        expected = {hypothesis.tokens: hypothesis.scores["ilm"] for hypothesis in searched.hypotheses}
        for hypothesis in found.hypotheses:
            if hypothesis.tokens in expected:
                assert hypothesis.scores["ilm"] == pytest.approx(expected[hypothesis.tokens], abs=2e-4)


def test_results_say_which_rows_are_second_passes_and_compare_them_with_their_like(run: Experiment) -> None:
    results = run.run()
    assert [row["row"] for row in results["rows"]] == [*SEARCHED, *RANKED]
    assert [row["second_pass"] for row in results["rows"]] == [[]] * 3 + [["sf", "zero"]] * 4
    assert [row["wer"]["dev"]["p_vs_sf"] is None for row in results["rows"]] == [False, True, *[False] * 5]
    assert [row["baseline"] for row in results["rows"]] == ["sf", None, "sf", "sf", *["sf_2"] * 3]


def test_a_row_may_have_its_own_start_of_tuning(run: Experiment) -> None:
    none, zero = (run.scales(row) for row in run.config.rows if row.key in ("none", "zero"))
    assert none == Scales({"aed": 1.0}, LengthPolicy(0.0, 0.5))
    assert zero == Scales({"aed": 1.0, "ilm": -0.1, "lm": 0.2}, LengthPolicy(0.0, 0.0))


def test_a_second_pass_of_what_is_no_search_is_refused(run: Experiment, tmp_path: Path) -> None:
    wrong = values(tmp_path)
    wrong["rows"][4]["second_pass"] = ["sf_2"]
    with pytest.raises(FewerError, match="row zero_2: second_pass sf_2 is no row that searches"):
        parse_config(ExperimentConfig, wrong, "tiny")
    wrong["rows"][4]["second_pass"] = ["none"]
    with pytest.raises(FewerError, match="second_pass none has another recogniser or LM"):
        parse_config(ExperimentConfig, wrong, "tiny")


@pytest.mark.parametrize(("option", "value"), [("share", 0.5), ("centred", True)])
def test_scores_that_depend_on_other_models_have_no_second_pass(
    run: Experiment, tmp_path: Path, option: str, value: float | bool
) -> None:
    told = f"row sf_2: second_pass scores with each model alone; leave out `{option}`"
    with pytest.raises(FewerError, match=told):
        parse_config(ExperimentConfig, values(tmp_path) | {option: value}, "tiny")


def test_an_experiment_may_centre_and_mix_as_adapt_does(run: Experiment) -> None:
    other = Experiment(run.config.model_copy(update={"share": 0.25, "centred": True}), run.folder)
    for experiment, found in ((run, (False, 0.0)), (other, (True, 0.25))):
        system = experiment.system(next(row for row in experiment.config.rows if row.key == "zero"))
        assert (system.centred, system.share) == found


def test_the_recipes_of_whisper_can_be_read() -> None:
    for name in ("whisper-librispeech", "whisper-speechocean"):
        config = load_experiment(name)
        assert any(row.second_pass for row in config.rows)


def hypothesis(*labels: int, **scores: float) -> Hypothesis:
    return Hypothesis(" ".join(map(str, labels)), labels, scores, len(labels) + 1, 0.0)


def test_lists_are_united_without_the_internal_lms_of_their_searches() -> None:
    one = NBest("a", (hypothesis(1, aed=-1.0, ilm=-3.0), hypothesis(2, aed=-2.0, ilm=-3.0)))
    other = NBest("a", (hypothesis(2, aed=-2.0), hypothesis(3, aed=-3.0)))
    (both,) = united([[one], [other]])
    assert [h.tokens for h in both.hypotheses] == [(1,), (2,), (3,)]
    assert all(set(h.scores) == {"aed"} for h in both.hypotheses)
    with pytest.raises(FewerError, match="different sets"):
        united([[one], [NBest("b", other.hypotheses)]])


def test_ranking_anew_follows_the_scales() -> None:
    found = NBest("a", (hypothesis(1, aed=-1.0, ilm=-1.0), hypothesis(2, 2, aed=-2.0, ilm=-9.0)))
    assert reranked([found], Scales({"aed": 1.0, "ilm": 0.0}, LengthPolicy(0.0)))[0].hypotheses[0].tokens == (1,)
    assert reranked([found], Scales({"aed": 1.0, "ilm": -0.5}, LengthPolicy(0.0)))[0].hypotheses[0].tokens == (2, 2)
