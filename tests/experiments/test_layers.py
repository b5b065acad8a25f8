"""Reading YAML in layers: files, recipes, and what is laid over what."""

from pathlib import Path

import pytest

from fewer.errors import FewerError
from fewer.experiments.layers import load_train_config
from fewer.training.configs import parse_train_config
from tests.training.tones import aed_values, write_tones, write_yaml


@pytest.fixture(scope="module")
def tones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tones")
    write_tones(folder, train=4, dev=2)
    return folder


def test_a_file_laid_over_another_changes_only_what_it_says(tones: Path, tmp_path: Path) -> None:
    write_yaml(tmp_path / "base.yaml", aed_values(tones))
    write_yaml(tmp_path / "small.yaml", {"base": "base.yaml", "model": {"decoder": {"size": 4}}})
    config = load_train_config(tmp_path / "small.yaml", ["schedule.peak=0.5", "data.batches.accumulate=3"])
    expected = aed_values(tones)
    expected["model"]["decoder"]["size"] = 4
    expected["schedule"]["peak"] = 0.5
    expected["data"]["batches"]["accumulate"] = 3
    assert config == parse_train_config(expected, "x")


def test_files_that_build_on_each_other_in_a_circle(tmp_path: Path) -> None:
    write_yaml(tmp_path / "a.yaml", {"base": "b.yaml"})
    write_yaml(tmp_path / "b.yaml", {"base": "a.yaml"})
    with pytest.raises(FewerError, match="in a circle"):
        load_train_config(tmp_path / "a.yaml")


def test_a_name_that_is_neither_file_nor_recipe() -> None:
    with pytest.raises(FewerError, match="neither a file nor a recipe; there are: libri-"):
        load_train_config("no-such-recipe")
