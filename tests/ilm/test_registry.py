"""A new built-in method is one module: everything else finds it in the registry."""

from pathlib import Path

import pytest

from fewer.config import parse_config
from fewer.experiments.config import ExperimentConfig
from fewer.experiments.experiment import Experiment
from fewer.ilm import methods
from fewer.ilm.registry import all_methods
from fewer.report.results import results_of
from fewer.report.tables import markdown
from fewer.search.nbest import read_header
from tests.cli.running import Fewer

MODULE = """
import torch

from fewer.ilm.method import IlmMethod
from fewer.models.context import ConstantContext

METHOD = IlmMethod(
    "ones",
    "Internal LM: a context of ones.",
    symbol="Ones",
    order=(3, 9),
    context=lambda config, recogniser: ConstantContext(torch.ones(recogniser.sizes.context)),
)
"""


@pytest.fixture
def _ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module among those of the package."""
    (tmp_path / "methods").mkdir()
    (tmp_path / "methods" / "ones.py").write_text(MODULE)
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(tmp_path / "methods")])


def test_every_method_says_what_it_is() -> None:
    found = all_methods()
    assert len(found) >= 15
    assert {"zero_encoder", "seq_avg_all"} <= set(found)
    for name, method in found.items():
        assert method.name == name
        assert method.symbol
        assert method.description.endswith(".")
    orders = [method.order for method in found.values()]
    assert orders == sorted(set(orders))


@pytest.mark.usefixtures("_ones")
@pytest.mark.parametrize("verb", ["ilm", "adapt"])
def test_it_is_in_the_help(verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = Fewer(monkeypatch, capsys)(verb, "--help")
    assert code == 0
    assert "ones: Internal LM: a context of ones." in out
    for name in ("zero_encoder", "seq_avg_all", "mini_lstm"):
        assert f"{name}: {all_methods()[name].description.split(';')[0]}"[:60] in out


@pytest.mark.usefixtures("_ones")
def test_it_is_estimated_searched_with_and_in_the_table(tones: Path, tmp_path: Path) -> None:
    manifest = str(tones / "dev.jsonl")
    values = {
        "title": "One more",
        "recognisers": {"aed": {"folder": str(tones / "aed")}},
        "lms": {"lm": {"path": str(tones / "lm")}},
        **dict.fromkeys(("train", "dev", "tune"), manifest),
        "sets": {"dev": manifest},
        "rows": [{"method": method} for method in ("decoder_like", "ones", "zero", "sf")],
        "ilm": {"all": {"passes": 1, "batch": 40}},
        "beam": 3,
        "tuning": {"budget": 2},
    }
    run = tmp_path / "run"
    results = Experiment(parse_config(ExperimentConfig, values, "table"), run).run()
    table = markdown(results_of(results))
    places = [table.index(f"| {symbol} |") for symbol in ("Shallow fusion", "zero", "Ones", "Decoder-like LM")]
    assert places == sorted(places)
    assert read_header(run / "decodes" / "dev" / "ones.jsonl").terms == ("aed", "ilm", "lm")


def test_the_page_has_every_method_as_the_registry_has_it() -> None:
    page = (Path(__file__).parents[2] / "docs" / "estimator.md").read_text(encoding="utf-8")
    for method in all_methods().values():
        needs = ", ".join(method.needs) or "nothing"
        assert f"| `{method.name}` | {method.symbol} | {needs} | {method.description} |\n" in page
