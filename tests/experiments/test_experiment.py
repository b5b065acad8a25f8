"""An experiment from audio to table on a corpus of tones, and its parts."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from fewer.compute.engines import started
from fewer.compute.engines.forked import Processes
from fewer.config import parse_config
from fewer.data.batches import UtteranceConfig
from fewer.data.manifest import Manifest
from fewer.decoding.decode import decode, search_set
from fewer.decoding.encoding import encode_set
from fewer.decoding.perplexity import measure
from fewer.decoding.rescore import rescore
from fewer.decoding.system import load_system
from fewer.errors import FewerError
from fewer.experiments.config import ExperimentConfig
from fewer.experiments.experiment import Experiment
from fewer.experiments.results import baseline
from fewer.files import LOCK, read_json
from fewer.locks import exclusive
from fewer.report.results import results_of
from fewer.report.tables import markdown
from fewer.search.beam import SearchOptions
from fewer.search.nbest import LengthPolicy, read_header, read_nbest
from fewer.store.lms import load_lm_and_tokenizer
from tests.training.processes import run_in_two_processes
from tests.training.tones import aed_values, lm_values

ROWS = ["none", "sf", "dr", "zero", "enc_avg", "seq_avg", "mini_lstm", "lodr"]


def experiment_values(folder: Path) -> dict[str, Any]:
    lm = {"kind": "lstm_lm", "embedding": 4, "size": 8}
    aed, lm_train = aed_values(folder), lm_values(folder, lm)
    for values in (aed, lm_train):
        del values["tokenizer"]
    return {
        "title": "Tones",
        "tokenizer": {"path": str(folder / "tokenizer.json")},
        "recognisers": {"aed": {"train": aed}},
        "lms": {"lm": {"train": lm_train}},
        "train": str(folder / "train.jsonl"),
        "dev": str(folder / "dev.jsonl"),
        "tune": str(folder / "dev.jsonl"),
        "sets": {"dev": str(folder / "dev.jsonl"), "train": str(folder / "train.jsonl")},
        "rows": [{"method": method} for method in ROWS],
        "ilm": {"all": {"units": 4, "passes": 1, "batch": 40}},
        "beam": 3,
        "tuning": {"budget": 3, "space": {"step": 0.1, "length_step": 0.25}},
        "lm_text": [str(folder / "train.txt")],
    }


@pytest.fixture(scope="module")
def run(tones: Path) -> Path:
    config = parse_config(ExperimentConfig, experiment_values(tones), "tones")
    Experiment(config, tones / "run").run()
    return tones / "run"


def test_a_run_that_was_killed_in_its_first_write_goes_on(tones: Path, tmp_path: Path) -> None:
    (tmp_path / ".experiment.json.tmp4711").write_text("{")
    (tmp_path / LOCK).write_text("")
    values = experiment_values(tones) | {"tokenizer": {"path": str(tmp_path / "none.json")}}  # so that it ends soon
    with pytest.raises(FewerError, match=r"none\.json"):
        Experiment(parse_config(ExperimentConfig, values, "tones"), tmp_path).run()
    assert (tmp_path / "experiment.json").exists()


def test_two_runs_in_one_folder_exclude_each_other(tones: Path, tmp_path: Path) -> None:
    config = parse_config(ExperimentConfig, experiment_values(tones), "tones")
    with exclusive(tmp_path), pytest.raises(FewerError, match="is in use by"):
        Experiment(config, tmp_path).run()


def test_the_results_have_a_row_for_each_method_in_order(run: Path) -> None:
    results = json.loads((run / "results.json").read_text())
    assert [row["method"] for row in results["rows"]] == ROWS
    for row in results["rows"]:
        assert set(row["wer"]) == {"dev", "train"}
        assert row["wer"]["dev"]["low"] <= row["wer"]["dev"]["wer"] <= row["wer"]["dev"]["high"]
        assert row["decodes"] <= 3
        assert (row["ilm_ppl"] is None) == (row["method"] in ("none", "sf"))
        assert (row["wer"]["dev"]["p_vs_sf"] is None) == (row["method"] == "sf")
        assert (run / "pools" / f"{row['method']}.jsonl").exists()
        told = read_header(run / "decodes" / "dev" / f"{row['method']}.jsonl").info
        assert told.get("lm") == (None if row["method"] == "none" else "models/lm")  # wherever the run folder is
    assert results["tuned_on"] == "dev"
    assert results["warnings"] == []  # its sentences are too short to be looked for


@pytest.mark.parametrize(("option", "other"), [("sub_epochs", 6), ("final", "last")])
def test_a_shared_model_whose_training_ended_elsewhere_is_refused(
    tones: Path, tmp_path: Path, option: str, other: Any
) -> None:
    values = experiment_values(tones) | {"models": str(tones)}
    assert Experiment(parse_config(ExperimentConfig, values, "tones"), tmp_path).recogniser("aed") == tones / "aed"
    values["recognisers"]["aed"]["train"][option] = other
    experiment = Experiment(parse_config(ExperimentConfig, values, "tones"), tmp_path)
    with pytest.raises(FewerError, match=rf"aed was trained with another configuration(.|\n)*{option}: .* there"):
        experiment.recogniser("aed")


@pytest.mark.parametrize("engine", ["local", "processes:2"])
def test_a_finished_experiment_is_not_done_twice_nor_by_other_processes(run: Path, tones: Path, engine: str) -> None:
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*.safetensors")}
    decodes = {path: path.stat().st_mtime_ns for path in (run / "decodes").rglob("*.jsonl")}
    results = json.loads((run / "results.json").read_text())
    (run / "models" / "lm" / LOCK).write_text("")  # of a process that was killed when all was written
    values = experiment_values(tones) | {"processes": 2, "engine": engine}
    again = Experiment(parse_config(ExperimentConfig, values, "tones"), run).run()
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*.safetensors")} == before
    assert {path: path.stat().st_mtime_ns for path in (run / "decodes").rglob("*.jsonl")} == decodes
    assert again["rows"] == results["rows"]
    assert not (run / "models" / "lm" / LOCK).exists()


def test_rows_are_decoded_side_by_side_and_give_the_same_lists(
    run: Path, tones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(run, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "decodes")
    jobs: list[int] = []
    map_shards = Processes.map

    def counted(self: Processes, work: Any, shards: Any, *arguments: Any) -> Any:
        jobs.append(len(shards))
        return map_shards(self, work, shards, *arguments)

    monkeypatch.setattr(Processes, "map", counted)
    values = experiment_values(tones) | {"engine": "processes:2"}
    Experiment(parse_config(ExperimentConfig, values, "tones"), tmp_path / "run").run()
    assert len(jobs) == 1
    assert jobs[0] >= 2 * len(ROWS)  # all rows on both sets
    paths = [path.relative_to(run) for path in (run / "decodes").rglob("*") if path.is_file()]
    assert len(paths) == 2 * len(ROWS)
    for path in paths:
        assert (tmp_path / "run" / path).read_bytes() == (run / path).read_bytes()
    assert len([path for path in (tmp_path / "run" / "decodes").rglob("*") if path.is_file()]) == len(paths)


def test_lists_of_a_model_that_was_trained_anew_are_not_taken_for_its_own(
    run: Path, tones: Path, tmp_path: Path
) -> None:
    """Neither those of tuning, which are refused, nor those of the sets."""
    shutil.copytree(run, tmp_path / "run")
    values = experiment_values(tones)
    values["rows"] = [row for row in values["rows"] if row["method"] in ("none", "sf")]
    config = parse_config(ExperimentConfig, values, "tones")
    (tmp_path / "run" / "experiment.json").write_text(config.model_dump_json())
    weights = tmp_path / "run" / "models" / "aed" / "model.safetensors"
    tensors = load_file(weights)
    first = sorted(tensors)[0]
    save_file(tensors | {first: tensors[first] + 0.1}, weights)
    with pytest.raises(FewerError, match="is a decode with other models"):
        Experiment(config, tmp_path / "run").run()
    shutil.rmtree(tmp_path / "run" / "tuning")
    before = {path: path.read_bytes() for path in (tmp_path / "run" / "decodes").rglob("none.jsonl")}
    Experiment(config, tmp_path / "run").run()
    assert before
    for path, content in before.items():
        assert path.read_bytes() != content


def test_an_internal_lm_whose_perplexity_was_not_finished_is_taken_up_again(
    run: Path, tones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object, **__: object) -> dict[str, Any]:
        raise KeyboardInterrupt

    values = experiment_values(tones) | {"recognisers": {"aed": {"folder": str(run / "models" / "aed")}}}
    experiment = Experiment(parse_config(ExperimentConfig, values, "tones"), tmp_path / "run")
    rows = [row for row in experiment.config.rows if row.method in ("dr", "enc_avg", "mini_lstm")]
    with monkeypatch.context() as patched:
        patched.setattr("fewer.ilm.estimate.ilm_perplexity", killed)
        for row in rows:
            with pytest.raises(KeyboardInterrupt):
                experiment.ilm(row)
    for row in rows:
        found, whole = (read_json(ilm / "ilm.json") for ilm in (experiment.ilm(row), run / "ilm" / "aed" / row.method))
        assert found["perplexity"] == whole["perplexity"]


@pytest.mark.parametrize("tuning", [{"start": {"lmm": 0.5}}, {"space": {"ranges": {"lmm": [0, 1]}}}])
def test_tuning_of_a_scale_that_no_row_can_have_is_an_error(tones: Path, tuning: dict[str, Any]) -> None:
    values = experiment_values(tones)
    with pytest.raises(FewerError, match=r"tuning: 'lmm' is .*, but there are only aed, lm, ilm"):
        parse_config(ExperimentConfig, values | {"tuning": tuning}, "tones")
    values["rows"][3]["tuning"] = tuning
    with pytest.raises(FewerError, match="row zero: tuning: 'lmm' is "):
        parse_config(ExperimentConfig, values, "tones")


def test_another_configuration_in_the_same_folder_is_noticed(run: Path, tones: Path) -> None:
    values = experiment_values(tones) | {"beam": 4}
    with pytest.raises(FewerError, match="beam differ"):
        Experiment(parse_config(ExperimentConfig, values, "tones"), run).run()


def test_n_best_lists_come_in_the_manifests_order_with_every_terms_score(run: Path, tones: Path) -> None:
    lists = list(read_nbest(run / "decodes" / "train" / "mini_lstm.jsonl"))
    manifest = Manifest(tones / "train.jsonl")
    assert [nbest.id for nbest in lists] == list(manifest.ids())
    assert [nbest.ref for nbest in lists] == list(manifest.texts())
    header = read_header(run / "decodes" / "train" / "mini_lstm.jsonl")
    assert set(header.terms) == {"aed", "lm", "ilm"}
    for nbest in lists:
        for hypothesis in nbest.hypotheses:
            assert hypothesis.rescored(header.scales, header.length) == pytest.approx(hypothesis.score, abs=1e-4)


def test_decoding_in_other_batches_gives_the_same_lists(
    run: Path, tones: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = load_system(run / "models" / "aed", run / "models" / "lm", run / "ilm" / "aed" / "mini_lstm")
    scales, options = {"lm": 0.5, "ilm": -0.3}, SearchOptions(beam=3)
    manifest = Manifest(tones / "dev.jsonl")
    together = dict(search_set(system, encode_set(system, manifest), scales, options))
    monkeypatch.setattr("fewer.decoding.encoding.BATCH", UtteranceConfig(max_sequences=1))
    singles = dict(search_set(system, encode_set(system, manifest), scales, options))
    assert sorted(together) == sorted(singles) == list(range(len(manifest)))
    for index, nbest in together.items():
        assert [h.tokens for h in nbest.hypotheses] == [h.tokens for h in singles[index].hypotheses]
        for one, other in zip(nbest.hypotheses, singles[index].hypotheses, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-5)


def test_processes_that_divide_a_search_find_the_same_lists(
    run: Path, tones: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = load_system(run / "models" / "aed", run / "models" / "lm", run / "ilm" / "aed" / "mini_lstm")
    scales, options = {"lm": 0.5, "ilm": -0.3}, SearchOptions(beam=3)
    monkeypatch.setattr("fewer.decoding.encoding.BATCH", UtteranceConfig(max_sequences=1))
    batches = encode_set(system, Manifest(tones / "dev.jsonl"))
    assert len(batches) >= 3
    alone = sorted(search_set(system, batches, scales, options))
    assert alone == sorted(search_set(system, batches, scales, options, engine=Processes(2)))


def _decode_share(model: str, manifest: str, out: str) -> None:
    with started("torchrun") as engine:
        decode(load_system(model), manifest, out, {}, SearchOptions(beam=2), engine)


def test_two_processes_share_the_utterances_and_merge(run: Path, tones: Path, tmp_path: Path) -> None:
    model, manifest = str(run / "models" / "aed"), str(tones / "dev.jsonl")
    decode(load_system(model), manifest, tmp_path / "alone.jsonl", {}, SearchOptions(beam=2))
    run_in_two_processes(_decode_share, model, manifest, str(tmp_path / "both.jsonl"))
    assert (tmp_path / "alone.jsonl").read_bytes() == (tmp_path / "both.jsonl").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone.jsonl", "both.jsonl"]


def test_ctc_is_one_more_term(run: Path, tones: Path, tmp_path: Path) -> None:
    system = load_system(run / "models" / "aed", ctc=True)
    options = SearchOptions(beam=2, length=LengthPolicy(0.0, 0.5))
    decode(system, tones / "dev.jsonl", tmp_path / "n.jsonl", {"ctc": 0.3}, options)
    assert read_header(tmp_path / "n.jsonl").terms == ("aed", "ctc")


def test_rescoring_adds_a_term_that_equals_the_lms_own_score(run: Path, tmp_path: Path) -> None:
    lm, tokenizer = load_lm_and_tokenizer(run / "models" / "lm")
    source = run / "decodes" / "dev" / "sf.jsonl"
    assert rescore(source, tmp_path / "out.jsonl", lm, tokenizer, "again", 0.7) == 6
    header = read_header(tmp_path / "out.jsonl")
    for nbest in read_nbest(tmp_path / "out.jsonl"):
        scores = [hypothesis.score for hypothesis in nbest.hypotheses]
        assert scores == sorted(scores, reverse=True)
        for hypothesis in nbest.hypotheses:
            if hypothesis.ended:
                assert hypothesis.scores["again"] == pytest.approx(hypothesis.scores["lm"], abs=1e-4)
            assert hypothesis.score == pytest.approx(hypothesis.rescored(header.scales, header.length))


def test_perplexity_of_lms_and_internal_lms(run: Path, tones: Path) -> None:
    of_lm = measure(run / "models" / "lm", tones / "dev.txt")
    assert of_lm["sentences"] == 6
    assert 1 < of_lm["ppl_label"] < 10
    stored = json.loads((run / "ilm" / "aed" / "mini_lstm" / "ilm.json").read_text())["perplexity"]["dev"]
    again = measure(run / "ilm" / "aed" / "mini_lstm", tones / "dev.jsonl", run / "models" / "aed")
    assert again["ppl_label"] == pytest.approx(stored["ppl_label"], rel=1e-6)
    with pytest.raises(FewerError, match="--model"):
        measure(run / "ilm" / "aed" / "mini_lstm", tones / "dev.jsonl")


def test_an_lm_with_another_tokenizer_is_refused(run: Path, tones: Path, tmp_path: Path) -> None:
    from fewer.data.tokenizers import train_characters
    from fewer.training.configs import parse_train_config
    from fewer.training.run import train_model

    train_characters(["abcde"]).save(tmp_path / "tokenizer.json")
    values = lm_values(tones, {"kind": "lstm_lm", "embedding": 4, "size": 8}) | {"sub_epochs": 1}
    values["tokenizer"] = str(tmp_path / "tokenizer.json")
    train_model(parse_train_config(values, "lm"), tmp_path / "lm")
    with pytest.raises(FewerError, match="another tokenizer"):
        load_system(run / "models" / "aed", tmp_path / "lm")


def test_audio_without_transcripts_is_decoded(run: Path, tones: Path, tmp_path: Path) -> None:
    line = json.loads((tones / "dev.jsonl").read_text().splitlines()[0]) | {"supervisions": []}
    (tmp_path / "bare.jsonl").write_text(json.dumps(line) + "\n")
    decode(load_system(run / "models" / "aed"), tmp_path / "bare.jsonl", tmp_path / "n.jsonl", {})
    (nbest,) = read_nbest(tmp_path / "n.jsonl")
    assert nbest.ref is None
    assert nbest.hypotheses


def test_some_term_scores_the_end_label(run: Path) -> None:
    with pytest.raises(FewerError, match="is to be scored by lm, but the terms are aed"):
        load_system(run / "models" / "aed", end_scored_by=["lm"]).scorers()
    load_system(run / "models" / "aed", end_scored_by=["lm", "aed"]).scorers()


def test_the_recogniser_alone_may_score_the_end_label(run: Path, tones: Path, tmp_path: Path) -> None:
    values = experiment_values(tones) | {"rows": [{"method": "none"}, {"method": "sf"}, {"method": "zero"}]}
    values |= {"recognisers": {"aed": {"folder": str(run / "models" / "aed")}}}
    values |= {"lms": {"lm": {"path": str(run / "models" / "lm")}}, "sets": {"dev": values["tune"]}}
    values["tuning"] |= {"space": {"fixed": {"lm": 0.5, "ilm": 0.25}, "length": "fixed"}}
    found = {}
    for by in (None, ["aed"], ["aed", "lm"]):
        folder = tmp_path / "-".join(by or ["all"])
        experiment = Experiment(parse_config(ExperimentConfig, values | {"end_scored_by": by}, "tones"), folder)
        results = experiment.run()
        lists = list(read_nbest(folder / "decodes" / "dev" / "zero.jsonl"))
        found[folder.name] = {(nbest.id, h.tokens): h.scores for nbest in lists for h in nbest.hypotheses if h.ended}
        assert results["end_scored_by"] == by
        assert ("scored by the recogniser" in markdown(results_of(results))) == (by is not None)
    common = set.intersection(*map(set, found.values()))
    assert common
    for key in common:
        every, alone, both = (found[name][key] for name in ("all", "aed", "aed-lm"))
        assert every["aed"] == pytest.approx(alone["aed"], abs=1e-4)
        assert every["lm"] == pytest.approx(both["lm"], abs=1e-4)
        assert alone["ilm"] == pytest.approx(both["ilm"], abs=1e-4)
        assert every["lm"] < alone["lm"]  # without the end label's
        assert every["ilm"] < alone["ilm"]


def test_tuning_chooses_what_scores_the_end_label(run: Path, tones: Path, tmp_path: Path) -> None:
    values = experiment_values(tones) | {"rows": [{"method": "none"}, {"method": "sf"}], "end_scored_by": "tuned"}
    values |= {"recognisers": {"aed": {"folder": str(run / "models" / "aed")}}}
    values |= {"lms": {"lm": {"path": str(run / "models" / "lm")}}, "sets": {"dev": values["tune"]}}
    values["tuning"] |= {"space": {"fixed": {"lm": 0.5}, "length": "fixed"}, "confidence": 0.001}
    experiment = Experiment(parse_config(ExperimentConfig, values, "tones"), tmp_path / "run")
    results = experiment.run()
    tuned = json.loads((tmp_path / "run" / "tuning" / "sf" / "tune.json").read_text())
    chosen = "aed" if tuned["end_by"] else "all"
    assert tuned["ends"].keys() == {"aed"}
    assert chosen == ("aed" if tuned["ends"]["aed"] < tuned["trials"][0]["wer"] else "all")
    (row,) = (row for row in results["rows"] if row["method"] == "sf")
    assert row["end_scored_by"] == tuned["end_by"]
    assert row["wer"]["dev"]["wer"] == pytest.approx(tuned["result"]["wer"])  # the set is decoded as it was tuned
    decodes = sorted((tmp_path / "run" / "decodes").rglob("*.jsonl"))
    before = [path.stat().st_mtime_ns for path in decodes]
    Experiment(parse_config(ExperimentConfig, values, "tones"), tmp_path / "run").run()  # knows what is there
    assert [path.stat().st_mtime_ns for path in decodes] == before


def test_a_scale_that_is_no_number_leaves_no_file(run: Path, tmp_path: Path) -> None:
    lm, tokenizer = load_lm_and_tokenizer(run / "models" / "lm")
    with pytest.raises(FewerError, match="the scale is nan"):
        rescore(run / "decodes" / "dev" / "sf.jsonl", tmp_path / "out.jsonl", lm, tokenizer, "again", float("nan"))
    assert not list(tmp_path.iterdir())


def test_audio_too_short_for_features_is_named_and_nothing_is_left(run: Path, tones: Path, tmp_path: Path) -> None:
    line = json.loads((tones / "dev.jsonl").read_text().splitlines()[0])
    line |= {"id": "blip", "duration": 0.005}
    line["supervisions"][0] |= {"duration": 0.005}
    (tmp_path / "short.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(FewerError, match="blip"):
        decode(load_system(run / "models" / "aed"), tmp_path / "short.jsonl", tmp_path / "n.jsonl", {})
    assert not (tmp_path / "n.jsonl").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".n.jsonl")]


def test_rows_are_compared_with_shallow_fusion_of_their_own_recogniser_and_lm() -> None:
    rows = [
        {"method": "sf", "name": "sf"},
        {"method": "sf", "name": "sf_small", "recogniser": "small"},
        {"method": "sf", "name": "sf_other", "lm": "other"},
        {"method": "none", "name": "none_small", "recogniser": "small"},
        {"method": "zero", "name": "zero_small", "recogniser": "small"},
        {"method": "zero", "name": "zero_other", "lm": "other"},
        {"method": "zero", "name": "zero_small_other", "recogniser": "small", "lm": "other"},
        {"method": "train_w_lm", "name": "with_lm", "recogniser": "with_lm"},
        {"method": "none", "name": "none_with_lm", "recogniser": "with_lm"},
    ]
    values = {"title": "x", "train": "t", "dev": "d", "tune": "d", "sets": {"d": "d"}, "rows": rows}
    values |= {"recognisers": {name: {"folder": name} for name in ("aed", "small", "with_lm")}}
    values |= {"lms": {name: {"path": "lm"} for name in ("lm", "other")}}
    config = parse_config(ExperimentConfig, values, "x")
    found = [base.key if (base := baseline(config, row)) else None for row in config.rows]
    assert found == [None, None, None, "sf_small", "sf_small", "sf_other", "sf_small", "sf", None]
