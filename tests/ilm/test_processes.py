"""Internal LMs that two processes estimate together."""

from pathlib import Path

import pytest
import torch

from fewer.compute.world import joined
from fewer.ilm.config import IlmConfig
from fewer.ilm.estimate import estimate_ilm
from fewer.ilm.folder import load_ilm
from fewer.recognisers.loader import load_recogniser
from fewer.training.configs import parse_train_config
from fewer.training.run import train_model
from tests.training.processes import run_in_two_processes
from tests.training.tones import aed_values, write_tones

AVERAGES = ("enc_avg", "ctx_avg")
SEPARATE = ("dr", "decoder_like")
OWN = {"method": "lodr", "own_transcripts": True}


@pytest.fixture(scope="module")
def tones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recogniser and what one process and two make of it: folders one/METHOD and two/METHOD."""
    folder = tmp_path_factory.mktemp("tones")
    write_tones(folder)
    train_model(parse_train_config(aed_values(folder), "aed.yaml"), folder / "aed")
    estimate_all(folder, folder / "one")
    run_in_two_processes(estimate_all_together, folder, folder / "two")
    return folder


def estimate_all_together(tones: Path, out: Path) -> None:
    with joined("cpu"):
        estimate_all(tones, out)


def estimate_all(tones: Path, out: Path) -> None:
    for method in (*AVERAGES, *SEPARATE):
        config = IlmConfig.model_validate({"method": method, "passes": 2, "batch": 40, "learning_rate": 0.01})
        estimate_ilm(tones / "aed", config, out / method, tones / "train.jsonl", tones / "dev.jsonl")
    estimate_ilm(tones / "aed", IlmConfig.model_validate(OWN), out / "own", tones / "train.jsonl", tones / "dev.jsonl")


@pytest.mark.parametrize("method", AVERAGES)
def test_two_processes_find_the_same_average_as_one(tones: Path, method: str) -> None:
    recogniser = load_recogniser(tones / "aed")
    vectors = []
    for name in ("one", "two"):
        context = load_ilm(tones / name / method, recogniser).context
        assert context is not None
        vectors.append(context.state_dict()["vector"])
    assert vectors[0].abs().max() > 1e-3
    assert torch.equal(vectors[1], vectors[0])


@pytest.mark.parametrize("method", SEPARATE)
def test_two_processes_train_a_separate_lm(tones: Path, method: str) -> None:
    recogniser = load_recogniser(tones / "aed")
    labels = torch.tensor([[1, 2, 3, 0], [4, 4, 0, 0]])
    facts = {}
    for name in ("one", "two"):
        ilm = load_ilm(tones / name / method, recogniser)
        assert ilm.language_model(recogniser).log_probs(labels).isfinite().all()
        facts[name] = ilm.facts["perplexity"]["dev"]["ppl_label"]
    assert facts["two"] == pytest.approx(facts["one"], rel=0.05)  # dropout differs


def test_two_processes_transcribe_as_one_does(tones: Path) -> None:
    """Each a part of the utterances; the manifest of transcripts is whole and in order."""
    one, two = (sorted((tones / name / "own" / "own").rglob("*.jsonl")) for name in ("one", "two"))
    assert [path.name for path in one] == [path.name for path in two]
    assert sorted(path.name for path in one) == ["dev.jsonl", "train.jsonl"]
    for first, second in zip(one, two, strict=True):
        assert first.read_text() == second.read_text()
        assert len(first.read_text().splitlines()) > 1
