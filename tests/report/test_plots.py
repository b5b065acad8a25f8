from pathlib import Path

import pytest

from fewer.errors import FewerError
from fewer.report.plots import plot_table, write_plots
from fewer.report.results import read_results
from tests.report.runs import make_hostile_run, make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("run"), {"dev": 10, "test": 8}, ("none", "sf", "zero", "dr"), step=0.25)


def test_pictures_of_table_and_surfaces_say_what_they_show(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import matplotlib

    monkeypatch.setitem(matplotlib.rcParams, "svg.fonttype", "none")  # letters as letters, to be read here
    table, surfaces = (path.read_text() for path in write_plots(run, tmp_path, "svg"))
    for row in read_results(run).rows:
        assert row.name in table
        assert f"{row.wer['test'].wer:.2f}" in table
    assert "dev † (tuned on)" in table
    assert "WER % on dev" in surfaces
    assert "Density ratio" in surfaces
    assert "Shallow fusion" not in surfaces  # one scale is no surface


def test_the_same_run_gives_the_same_pictures(run: Path, tmp_path: Path) -> None:
    first, second = (write_plots(run, tmp_path / name, "svg") for name in ("a", "b"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_texts_are_not_taken_for_formulas_and_missing_surfaces_are_no_error(tmp_path: Path) -> None:
    assert [path.name for path in write_plots(make_hostile_run(tmp_path / "run"), tmp_path)] == ["table.png"]


def test_other_kinds_of_files_are_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(FewerError, match=r"\.png, \.svg or \.pdf"):
        plot_table(read_results(run), tmp_path / "table.bmp")
    assert not list(tmp_path.iterdir())
