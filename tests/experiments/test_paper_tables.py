"""The paper's tables by `fewer run`: what the recipes say, and each of them run in small on miniature corpora."""

import csv
import json
from pathlib import Path

import pytest

from fewer.errors import FewerError
from fewer.experiments.config import ExperimentConfig, LmSource, ModelSource
from fewer.experiments.layers import TABLES as FOLDER
from fewer.experiments.layers import find, load_experiment, names
from fewer.experiments.run import run_experiment
from fewer.ilm.config import IlmConfig
from fewer.report.paper import paper_table
from fewer.training import cost
from tests.cli.running import Fewer
from tests.experiments.miniatures import small_experiment, write_corpora

TABLES = ["swb-lstm-ilme", "libri-lstm-ilme", "cross-lstm", "swb-small-dec", "libri-small-dec", "swb-ff-dec"]
TABLES += ["libri-ff-dec"]
ABLATIONS = ["swb-ablation-first", "libri-ablation-first", "swb-ablation-history", "libri-ablation-history"]
ABLATIONS += ["swb-decoder-like", "libri-decoder-like"]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("corpora")
    write_corpora(root)
    return root


def test_all_experiments_are_known() -> None:
    assert [name for name in names(FOLDER) if not name.startswith(("mini-", "whisper-"))] == sorted(
        [*TABLES, *ABLATIONS]
    )


@pytest.mark.parametrize("name", TABLES)
def test_rows_are_the_papers_in_its_order(name: str) -> None:
    config = load_experiment(name)
    assert config.paper is not None
    printed = paper_table(config.paper)
    assert [row.key for row in config.rows] == list(printed.rows)
    columns = [printed.column_of(set_name) for set_name in config.sets]
    assert None not in columns
    wanted = [column for column in printed.columns if column in columns]
    assert columns == wanted  # in the paper's order


def test_the_two_recipes_of_table_4_fill_its_columns() -> None:
    printed = paper_table("swb-small-dec")
    sets = [name for recipe in ("swb-small-dec", "libri-small-dec") for name in load_experiment(recipe).sets]
    assert [printed.column_of(name) for name in sets] == ["Hub5'00", "dev-clean", "dev-other"]


@pytest.mark.parametrize("name", [*TABLES, *ABLATIONS])
def test_scales_are_tuned_as_in_the_paper(name: str) -> None:
    config = load_experiment(name)
    beam, tune = (32, "dev-other") if name.startswith("libri") else (12, "hub5e00")
    assert (config.beam, Path(config.tune).stem) == ((12, "dev") if name == "cross-lstm" else (beam, tune))
    assert (config.tuning.space.length, config.tuning.space.step) == ("fixed", 0.01)
    assert config.normaliser.startswith("glm:") == name.startswith("swb")
    assert set(config.references) == (set(config.sets) if name.startswith("swb") else set())


@pytest.mark.parametrize("name", [*TABLES, *ABLATIONS])
def test_mini_lstms_are_trained_as_published(name: str) -> None:
    options = load_experiment(name).ilm["mini_lstm"]
    config = IlmConfig.model_validate({"method": "mini_lstm", **options})
    swb = name.startswith("swb")
    assert (config.sub_epochs, config.parts, config.l2) == ((10, 6, 1e-4) if swb else (8, 20, 1e-4))
    assert config.newbob is not None
    assert (config.newbob.decay, config.newbob.window, config.newbob.hold) == ((0.7, 6, 3) if swb else (0.9, 20, 3))


def test_train_with_lm_has_a_recogniser_of_its_own_that_knows_the_lm() -> None:
    config = load_experiment("libri-lstm-ilme")
    row = next(row for row in config.rows if row.method == "train_w_lm")
    source = config.recognisers[config.recogniser_of(row)]
    assert source.train is not None
    assert source.train["external_lm"]["model"] == config.lm_of(row) == "libri-transformer-lm"


def test_tables_share_their_models() -> None:
    """One name is one model, whatever table trains it first."""
    seen: dict[str, object] = {}
    for name in [*TABLES, *ABLATIONS]:
        config = load_experiment(name)
        assert config.models == Path("models")
        sources: dict[str, ModelSource | LmSource] = {**config.recognisers, **config.lms}
        for key, source in sources.items():
            assert seen.setdefault(key, source.train) == source.train
    assert "libri-lstm" in load_experiment("cross-lstm").recognisers


def test_fewer_train_does_not_offer_experiments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FewerError, match="neither a file nor a recipe") as caught:
        find("swb-ff-dec")
    assert not any(name in str(caught.value).split("there are:")[1] for name in TABLES)
    with pytest.raises(FewerError, match="there are: cross-lstm, libri-ablation-first"):
        load_experiment("swb-lstm")


@pytest.mark.parametrize("name", [*TABLES, *ABLATIONS])
def test_a_dry_run_needs_no_data(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cost, "matmul_speed", lambda device: 1e12)
    code, out, _ = Fewer(monkeypatch, capsys)("run", name, "run", "--dry-run")
    config = load_experiment(name)
    assert code == 0
    assert out.count("floating-point operations") == len(config.recognisers) + len(config.lms)
    assert all(f"\n{model}: " in out for model in (*config.recognisers, *config.lms))
    assert list(tmp_path.iterdir()) == []


def test_a_missing_tokenizer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FewerError, match=r"data/switchboard/tokenizer.json: make it with `fewer tokenizer`"):
        run_experiment(load_experiment("swb-lstm-ilme"), "run")


def run_small(name: str, corpora: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[ExperimentConfig, Path]:
    monkeypatch.chdir(corpora)
    config = small_experiment(name)
    run_experiment(config, Path("runs") / name)
    return config, corpora / "runs" / name


@pytest.mark.parametrize("name", TABLES)
def test_a_table_from_corpora_to_numbers_beside_the_papers(
    name: str, corpora: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, folder = run_small(name, corpora, monkeypatch)
    assert config.paper is not None
    printed = paper_table(config.paper)
    table = json.loads((folder / "table.json").read_text())
    assert [row["row"] for row in table["rows"]] == list(printed.rows)
    tuned = {"cross-lstm": "TLv2-dev"}.get(name, "hub5e00" if name.startswith("swb") else "dev-other")
    assert table["tuned_sets"] == [tuned]
    markdown, latex = (folder / "table.md").read_text(), (folder / "table.tex").read_text()
    lines = (folder / "table.csv").read_text().splitlines()
    rows = list(csv.DictReader(line for line in lines if not line.startswith(("#", '"#'))))
    for row, line in zip(table["rows"], rows, strict=True):
        assert row["row"] == line["row"]
        assert row["paper"] == printed.rows[row["row"]]
        estimated = row["method"] not in ("none", "sf", "train_w_lm")
        assert (row["ilm_ppl"] is not None) == estimated
        assert row["decodes"] <= 3
        assert (folder / "tuning" / row["row"] / "tune.json").exists()
        for set_name in config.sets:
            score, cell = row["wer"][set_name], printed.cell(row["row"], printed.column_of(set_name) or "")
            assert score["low"] <= score["wer"] <= score["high"]
            assert cell is not None
            assert cell in markdown
            assert cell in latex
    assert all((folder / "models" / model / "curves.jsonl").exists() for model in config.recognisers)


def test_an_ablation_has_internal_lms_with_and_without_the_special_first_step(
    corpora: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, folder = run_small("swb-ablation-first", corpora, monkeypatch)
    rows = {row["row"]: row for row in json.loads((folder / "results.json").read_text())["rows"]}
    for method in ("enc_avg", "ctx_avg", "seq_avg"):
        assert rows[method]["ilm_ppl"] != rows[f"{method}_no_first"]["ilm_ppl"]


def test_telephone_sets_are_scored_as_fewer_score_does(
    corpora: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, folder = run_small("swb-lstm-ilme", corpora, monkeypatch)
    results = json.loads((folder / "results.json").read_text())
    wer = next(row["wer"] for row in results["rows"] if row["row"] == "mini_lstm")
    for name in ("hub5e00", "hub5e01", "rt03"):
        options = ["--ref", f"data/hub5/{name}.stm", "--segments", f"data/hub5/{name}.jsonl"]
        options += ["--normalise", "glm:data/hub5/hub5e00.glm", "--json", f"{name}.json"]
        hypotheses = str(folder / "decodes" / name / "mini_lstm.jsonl")
        assert Fewer(monkeypatch, capsys)("score", hypotheses, *options)[0] == 0
        assert json.loads(Path(f"{name}.json").read_text())["wer"] == wer[name]["wer"]
        assert results["references"][name] == f"{name}.stm"
        (warning,) = (text for text in results["warnings"] if f"{name}.stm" in text)
        assert "the sliders of the report page count them against the transcripts of the decoded segments" in warning


def test_a_shared_model_of_another_configuration_is_refused(corpora: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_small("swb-ff-dec", corpora, monkeypatch)
    config = small_experiment("swb-ff-dec")
    with pytest.raises(FewerError, match=r"models/swb-dr-lm was trained with another configuration(.|\n)*seed"):
        run_experiment(config.model_copy(update={"seed": 2, "lms": dict(reversed(config.lms.items()))}), "runs/other")
