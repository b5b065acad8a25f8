"""Methods of the user's own: the examples of docs/estimator.md, and what may go wrong."""

import re
from pathlib import Path

import pytest
import torch

from fewer.config import parse_config
from fewer.data.manifest import Manifest
from fewer.errors import FewerError
from fewer.experiments.config import Row
from fewer.ilm.config import IlmConfig
from fewer.ilm.estimate import estimate_ilm
from fewer.ilm.folder import load_ilm
from fewer.ilm.registry import VARIABLE
from fewer.models.encoded import Encoded
from fewer.recognisers.loader import load_recogniser
from tests.recognisers.tiny import make_whisper, write_manifest

PAGE = Path(__file__).parents[2] / "docs" / "estimator.md"
METHODS = ("fading_bag", "position_mean")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's modules, named by the user."""
    programs = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    files = [tmp_path / f"{method}.py" for method in METHODS]
    for file, program in zip(files, programs, strict=True):
        file.write_text(program, encoding="utf-8")
    monkeypatch.setenv(VARIABLE, ",".join(map(str, files)))


def config(method: str) -> IlmConfig:
    return parse_config(IlmConfig, {"method": method, "passes": 2, "batch": 40, "learning_rate": 0.03}, "fewer ilm")


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("method", METHODS)
def test_the_examples_are_estimated_and_step_as_they_are_trained(tones: Path, tmp_path: Path, method: str) -> None:
    out = tmp_path / "ilm"
    facts = estimate_ilm(tones / "aed", config(method), out, tones / "train.jsonl", tones / "dev.jsonl")
    assert 1 < facts["perplexity"]["dev"]["ppl_label"] < 20
    recogniser = load_recogniser(tones / "aed")
    ilm = load_ilm(out, recogniser)
    assert ilm.context is not None
    assert all(value.abs().sum() > 0 for value in ilm.context.state_dict().values())
    labels = torch.tensor([[2, 5, 3, 3, 0]])
    expected = ilm.language_model(recogniser).log_probs(labels)[0]
    scorer, states = recogniser.scorer({"ilm": ilm.context}), recogniser.sizes.encoder
    memory, state = scorer.start(Encoded(torch.randn(1, 4, states), torch.tensor([4])))
    for i, read in enumerate([-1, *labels[0, :-1].tolist()]):
        scores, state = scorer.step(memory, state, torch.tensor([read]))
        torch.testing.assert_close(scores[1, 0], expected[i], atol=1e-5, rtol=1e-5)


def test_position_means_are_those_of_the_attention(tones: Path, tmp_path: Path, own: None) -> None:
    for method in ("position_mean", "ctx_avg"):
        estimate_ilm(tones / "aed", config(method), tmp_path / method, tones / "train.jsonl")
    recogniser = load_recogniser(tones / "aed")
    by_position, overall = (load_ilm(tmp_path / method, recogniser).context for method in ("position_mean", "ctx_avg"))
    assert by_position is not None
    assert overall is not None
    counts = torch.zeros(20, 1)
    for text in Manifest(tones / "train.jsonl").texts():
        counts[: len(recogniser.tokenizer.encode(text)) + 1] += 1
    mean = (by_position.means * counts).sum(0) / counts.sum()
    torch.testing.assert_close(mean, overall.vector, atol=1e-5, rtol=1e-4)


@pytest.mark.usefixtures("own")
def test_a_trained_context_fits_whisper_and_one_that_does_not_support_it_is_refused(tmp_path: Path) -> None:
    whisper = make_whisper(tmp_path / "whisper")
    write_manifest(tmp_path / "set.jsonl", ["the cat", "a cat in a hat"], seed=1)
    data = tmp_path / "set.jsonl", tmp_path / "set.jsonl"
    facts = estimate_ilm(whisper, config("fading_bag"), tmp_path / "bag", *data)
    assert facts["perplexity"]["set"]["ppl_label"] > 1
    with pytest.raises(FewerError, match="position_mean counts labels"):
        estimate_ilm(whisper, config("position_mean"), tmp_path / "mean", *data)


@pytest.mark.usefixtures("own")
def test_a_changed_module_does_not_go_on_with_old_work(
    tones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tones / "train.jsonl", tones / "dev.jsonl"
    estimate_ilm(tones / "aed", config("fading_bag"), tmp_path / "ilm", *data)
    changed = tmp_path / "changed.py"
    changed.write_text((tmp_path / "fading_bag.py").read_text().replace("decay=0.7", "decay=0.1"))
    monkeypatch.setenv(VARIABLE, str(changed))
    with pytest.raises(FewerError, match="another folder"):
        estimate_ilm(tones / "aed", config("fading_bag"), tmp_path / "ilm", *data)


def test_a_folder_or_recipe_never_loads_a_module(
    tones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: None
) -> None:
    estimate_ilm(tones / "aed", config("position_mean"), tmp_path / "ilm", tones / "train.jsonl")
    assert Row(method="position_mean").label == "position_mean"
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(FewerError, match=r"no method position_mean.*FEWER_ESTIMATORS"):
        load_ilm(tmp_path / "ilm", load_recogniser(tones / "aed"))
    with pytest.raises(ValueError, match=r"no method position_mean: they are none, sf, .*FEWER_ESTIMATORS"):
        Row(method="position_mean")


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("data", "complaint"), [(["train"], "give a manifest with --dev"), ([], "give its manifest with --train")]
)
def test_what_is_missing_is_asked_for(tones: Path, tmp_path: Path, data: list[str], complaint: str) -> None:
    given = {name: tones / f"{name}.jsonl" for name in data}
    with pytest.raises(FewerError, match=complaint):
        estimate_ilm(tones / "aed", config("fading_bag"), tmp_path / "ilm", **given)


@pytest.mark.parametrize(
    ("program", "complaint"),
    [
        ("x =", r"mine\.py cannot be loaded: SyntaxError"),
        ("x = 1", "needs METHOD"),
        ("METHOD = 'zero'", "needs METHOD"),
        ("from fewer.ilm.method import IlmMethod\nMETHOD = IlmMethod('zero')", "'zero' is built in"),
    ],
)
def test_modules_that_cannot_be_used_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, complaint: str
) -> None:
    (tmp_path / "mine.py").write_text(program)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "mine.py"))
    with pytest.raises(FewerError, match=complaint):
        parse_config(IlmConfig, {"method": "own"}, "fewer ilm")


def test_two_modules_with_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [tmp_path / f"{name}.py" for name in ("one", "other")]
    for file in files:
        file.write_text("from fewer.ilm.method import IlmMethod\nMETHOD = IlmMethod('a')")
    monkeypatch.setenv(VARIABLE, ",".join(map(str, files)))
    with pytest.raises(FewerError, match=r"other\.py has a second method 'a'"):
        parse_config(IlmConfig, {"method": "a"}, "fewer ilm")


def test_a_module_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "no_such_module")
    with pytest.raises(FewerError, match="no_such_module cannot be loaded: ModuleNotFoundError"):
        parse_config(IlmConfig, {"method": "own"}, "fewer ilm")
