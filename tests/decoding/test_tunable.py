"""What a decode depends on, for the reuse of those that are there."""

from pathlib import Path

import pytest

from fewer.decoding.identity import identity
from fewer.decoding.system import load_system
from fewer.decoding.tunable import other_ends
from fewer.ilm.config import IlmConfig
from fewer.ilm.estimate import estimate_ilm
from fewer.ilm.registry import VARIABLE
from fewer.search.beam import SearchOptions

MODULE = """
from fewer.ilm.method import IlmMethod
from fewer.models.context import ZeroContext

METHOD = IlmMethod("mine", context=lambda config, recogniser: ZeroContext(recogniser.sizes.context))
"""


def marks(tones: Path, ilm: Path, config: IlmConfig, perplexity: bool = False) -> str:
    """The identity with an internal LM, estimated into a folder."""
    estimate_ilm(tones / "aed", config, ilm, tones / "train.jsonl", tones / "dev.jsonl" if perplexity else None)
    return identity(load_system(tones / "aed", ilm=ilm), SearchOptions(4), tones / "dev.jsonl")


def test_an_internal_lm_with_other_options_and_the_same_numbers_is_another(tones: Path, tmp_path: Path) -> None:
    configs = [
        IlmConfig(method="enc_avg"),
        IlmConfig(method="enc_avg", special_first=False),
        IlmConfig(method="seq_avg"),
        IlmConfig(method="seq_avg_all"),
    ]
    assert len({marks(tones, tmp_path / "ilm", config) for config in configs}) == len(configs)


def test_what_was_measured_of_an_internal_lm_does_not_count(tones: Path, tmp_path: Path) -> None:
    config = IlmConfig(method="zero")
    again = config.model_copy(update={"encodings": tmp_path / "encodings"})
    assert marks(tones, tmp_path / "one", config, perplexity=True) == marks(tones, tmp_path / "other", again)


def test_an_estimator_of_ones_own_is_known_by_its_code(
    tones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = set()
    for name, program in (("one", MODULE), ("other", f"{MODULE}# changed"), ("same", MODULE)):
        (tmp_path / f"{name}.py").write_text(program)
        monkeypatch.setenv(VARIABLE, str(tmp_path / f"{name}.py"))
        found.add(marks(tones, tmp_path / "ilm", IlmConfig(method="mine")))
    assert len(found) == 2


def test_the_end_label_has_rules_for_the_terms_that_are_there() -> None:
    assert other_ends(["aed"], ["aed"]) == []
    assert other_ends(["aed", "lm"], ["aed", "lm"]) == [("aed",)]
    assert other_ends(["aed", "ilm", "lm"], ["aed"]) == [("aed", "lm"), ("aed", "ilm", "lm")]
    every = ["aed", "lm", "ilm", "ctc"]
    assert other_ends(every, every) == [("aed", "ctc"), ("aed", "lm", "ctc")]
