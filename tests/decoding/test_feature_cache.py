"""Features that are kept on disk are computed by the workers, too."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from fewer.compute.engines import started
from fewer.compute.engines.forked import Processes
from fewer.data.cache import FeatureCache
from fewer.decoding.decode import decode
from fewer.decoding.system import load_system
from fewer.search.beam import SearchOptions
from fewer.store.model_folder import CONFIG
from tests.training.processes import run_in_two_processes

OPTIONS = SearchOptions(beam=2)


@pytest.fixture
def model(tones: Path, tmp_path: Path) -> Path:
    """A recogniser that keeps features."""
    shutil.copytree(tones / "aed", tmp_path / "aed")
    values = yaml.safe_load((tmp_path / "aed" / CONFIG).read_text())
    values["features"] |= {"cache": {"folder": str(tmp_path / "features"), "dtype": "float32"}}
    (tmp_path / "aed" / CONFIG).write_text(yaml.safe_dump(values))
    return tmp_path / "aed"


def test_workers_compute_them(model: Path, tones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fewer.data.cache.SHARD", 2)
    decode(load_system(tones / "aed"), tones / "dev.jsonl", tmp_path / "one.jsonl", {}, OPTIONS)
    write_shard = FeatureCache.write_shard

    def noted(*arguments: Any) -> None:
        (tmp_path / f"by-{os.getpid()}").touch()
        write_shard(*arguments)

    monkeypatch.setattr(FeatureCache, "write_shard", noted)
    decode(load_system(model, cached=True), tones / "dev.jsonl", tmp_path / "two.jsonl", {}, OPTIONS, Processes(2))
    workers = {path.name for path in tmp_path.glob("by-*")}
    assert workers
    assert f"by-{os.getpid()}" not in workers
    assert len(list((tmp_path / "features").rglob("1-*.safetensors"))) > 1
    one, two = ((tmp_path / name).read_text().splitlines()[1:] for name in ("one.jsonl", "two.jsonl"))
    assert one == two


def test_processes_of_torchrun_share_them(model: Path, tones: Path, tmp_path: Path) -> None:
    run_in_two_processes(_decode, str(model), str(tones / "dev.jsonl"), str(tmp_path / "two.jsonl"))
    decode(load_system(tones / "aed"), tones / "dev.jsonl", tmp_path / "one.jsonl", {}, OPTIONS)
    one, two = ((tmp_path / name).read_text().splitlines()[1:] for name in ("one.jsonl", "two.jsonl"))
    assert one == two


def _decode(model: str, manifest: str, out: str) -> None:
    with started("torchrun") as engine:
        decode(load_system(model, cached=True), manifest, out, {}, OPTIONS, engine)
