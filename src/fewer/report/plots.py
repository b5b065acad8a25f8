"""Pictures of a run for READMEs and slides: the table as dots with intervals, and the WER surfaces.

    write_plots("runs/demo", "pictures")     # table.png, surfaces.png; suffix="svg" for vectors

Texts from data are drawn as they are, never as formulas.
"""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fewer.errors import FewerError
from fewer.files import atomic_write, read_json
from fewer.report.grid import TUNED, make_grid, mark, number
from fewer.report.results import Results, Row, read_results
from fewer.tuning.surface import Surface

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = ("#083b4c", "#0d5867", "#1f7a80", "#4b9d97", "#83bdae", "#b3d6c5", "#d6e6d8", "#eaefe3", "#f4f3ec")  # low to high
DARK, MUTED, LINE, CHOSEN = "#1b2326", "#58646a", "#e2dfd6", "#ff7a45"
Tuned: TypeAlias = tuple[str, Surface, dict[str, float]]  # name, WER over two scales, the tuned point
DOTS = 160  # per inch, of PNG files
NAME = 48  # characters of a row's name at most


def write_plots(run: str | Path, folder: str | Path, suffix: str = "png") -> list[Path]:
    """Draw a run's table and, where scales were tuned, its surfaces; returns the files."""
    results = read_results(run)
    files = [plot_table(results, Path(folder) / f"table.{suffix}")]
    if surfaces := tuned_surfaces(Path(run), results):
        files.append(plot_surfaces(surfaces, Path(folder) / f"surfaces.{suffix}", results.tuned_on or ""))
    return files


def tuned_surfaces(run: Path, results: Results) -> list[Tuned]:
    """The rows' surfaces over two scales, where there are."""
    found = []
    for row in results.ordered:
        folder = run / "tuning" / row.key
        if (folder / "surface.npz").exists() and (folder / "tune.json").exists():
            surface = Surface.load(folder / "surface.npz")
            if len(surface.names) == 2:
                found.append((row.name, surface, read_json(folder / "tune.json")["parameters"]))
    return found


def plot_surfaces(surfaces: list[Tuned], out: str | Path, set_name: str = "") -> Path:
    """One picture for each method, all in the same colours, the tuned point ringed."""
    from matplotlib.colors import BoundaryNorm, ListedColormap
    from matplotlib.ticker import MultipleLocator

    columns = min(4, len(surfaces))
    rows = -(-len(surfaces) // columns)
    figure = _figure(2.5 * columns + 0.9, 2.7 * rows + 0.3)
    levels = _levels([surface.wer for _, surface, _ in surfaces])
    colours = ListedColormap(INK[: len(levels) - 1]).with_extremes(over=INK[-1])
    norm = BoundaryNorm(levels, colours.N)
    axes = np.asarray(figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True))
    picture: Any = None
    for axis, (name, surface, chosen) in zip(axes.flat, surfaces, strict=False):
        x, y = surface.axes
        picture = axis.contourf(x, y, surface.wer.T, levels, cmap=colours, norm=norm, extend="max")
        first, second = surface.names
        axis.plot(chosen[first], chosen[second], "o", ms=10, mfc="none", mec=CHOSEN, mew=2.2, clip_on=False)
        axis.set_title(f"{_short(name)}: {surface.wer.min():.2f} %", fontsize=9, color=DARK, parse_math=False)
        axis.set_aspect("equal")
        axis.xaxis.set_major_locator(MultipleLocator(0.5))
        axis.yaxis.set_major_locator(MultipleLocator(0.5))
        _quiet(axis)
    for axis in axes.flat[len(surfaces) :]:
        axis.set_visible(False)
    for axis in axes[-1]:
        axis.set_xlabel("λ1 (LM)", fontsize=9)
    for axis in axes[:, 0]:
        axis.set_ylabel("λ2 (ILM)", fontsize=9)
    bar = figure.colorbar(picture, ax=axes, shrink=0.8, pad=0.02)
    bar.set_label(f"WER % on {set_name}" if set_name else "WER %", fontsize=9, parse_math=False)
    bar.ax.tick_params(labelsize=8)
    return _save(figure, out)


def plot_table(results: Results, out: str | Path) -> Path:
    """The rows as dots with their intervals, one panel for each set, shallow fusion as a dashed line."""
    grid = make_grid(results)
    rows = [line.row for line in grid.lines]
    longest = max(len(_short(row.name, NAME)) for row in rows)
    width = max(2.3, 1.2 + 0.082 * longest)  # inches
    figure = _figure(0.3 + width + 2.7 * len(results.sets), 1.3 + 0.34 * len(rows))
    ratios = [width] + [2.7] * len(results.sets)
    names, *panels = figure.subplots(1, len(ratios), width_ratios=ratios, squeeze=False)[0]
    names.set_axis_off()
    first = 1 - 0.5 / width  # where λ1 ends
    for place, (title, align) in {0.0: ("Method", "left"), first: ("λ1", "right"), 1.0: ("λ2", "right")}.items():
        names.text(place, -1, title, ha=align, va="center", fontsize=9, color=MUTED)
    for height, row in enumerate(rows):
        names.text(0, height, _short(row.name, NAME), ha="left", va="center", fontsize=10, color=DARK, parse_math=False)
        for place, scale in ((first, row.lm_scale), (1.0, row.ilm_scale)):
            names.text(place, height, number(scale), ha="right", va="center", fontsize=9, color=MUTED)
    for axis, set_name in zip(panels, results.sets, strict=True):
        _panel(axis, results, rows, set_name)
    for axis in (names, *panels):
        axis.set_ylim(len(rows) - 0.4, -1.5)
    notes = [note for note in grid.notes if note.startswith((TUNED, "*", "↑"))]
    notes += [f"Warning: {warning}" for warning in grid.warnings]
    if notes:
        figure.supxlabel(
            "\n".join(_short(note, 140) for note in notes),
            x=0.01,
            ha="left",
            fontsize=7.5,
            color=MUTED,
            parse_math=False,
        )
    title = textwrap.fill(_short(results.title, 140), int(figure.get_figwidth() / 0.11))
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold", color=DARK, parse_math=False)
    return _save(figure, out)


def _panel(axis: "Axes", results: Results, rows: list[Row], set_name: str) -> None:
    """One set's rates and intervals, row by row."""
    for height, row in enumerate(rows):
        base = results.baseline(row) or (row if row.method == "sf" else None)
        if base is not None and set_name in base.wer:
            axis.plot(2 * [base.wer[set_name].wer], [height - 0.5, height + 0.5], color=MUTED, lw=0.8, ls=(0, (3, 3)))
        score = row.wer.get(set_name)
        if score is None:
            continue
        best = round(score.wer, 2) == results.best(set_name)
        if score.low is not None and score.high is not None:
            axis.plot([score.low, score.high], [height, height], color=MUTED, lw=1.2, solid_capstyle="round")
        axis.plot(score.wer, height, "o", ms=6 if best else 5, color=INK[1] if best else INK[3])
        text = f"{score.wer:.2f}{mark(results, row, set_name)}"
        weight = "bold" if best else "normal"
        axis.annotate(
            text, (1, height), xycoords=("axes fraction", "data"), xytext=(4, 0), textcoords="offset points",
            va="center", fontsize=9, fontweight=weight, color=DARK, parse_math=False,
        )  # fmt: skip
    tuned = results.tuned(set_name)
    title = _short(set_name) + (f" {TUNED} (tuned on)" if tuned else "")
    axis.set_title(title, fontsize=10, color=DARK, style="italic" if tuned else "normal", parse_math=False)
    axis.set_facecolor("#f3f1ea" if tuned else "white")
    axis.set_xlabel("WER %", fontsize=8, color=MUTED)
    axis.set_yticks([])
    _quiet(axis)


def _levels(rates: list[Any]) -> list[float]:
    """Round steps from the lowest rate up to what most of the grid stays below."""
    low = min(float(rate.min()) for rate in rates)
    high = min(float(np.quantile(np.concatenate([rate.ravel() for rate in rates]), 0.75)), 1.7 * low)
    rough = max(high - low, 0.4) / (len(INK) - 1)
    power = 10.0 ** np.floor(np.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    start = np.floor(low / step + 1e-9) * step
    return [float(start + step * i) for i in range(len(INK))]


def _short(text: str, width: int = 30) -> str:
    """No longer than fits."""
    return text if len(text) <= width else text[: width - 1] + "…"


def _quiet(axis: "Axes") -> None:
    axis.tick_params(labelsize=8, colors=MUTED, length=2)
    for spine in axis.spines.values():
        spine.set_color(LINE)


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def _save(figure: "Figure", out: str | Path) -> Path:
    """Write PNG, SVG or PDF by the file's suffix; the same data give the same file."""
    import matplotlib

    out = Path(out)
    kind = out.suffix[1:].lower()
    if kind not in ("png", "svg", "pdf"):
        raise FewerError(f"{out}: pictures are written as .png, .svg or .pdf")
    metadata = {"png": None, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axis in figure.axes:  # the layout's solver differs from run to run in the last digits, which name clip paths
        x, y, width, height = (round(value, 6) for value in axis.get_position().bounds)
        axis.set_position((x, y, width, height))
    with atomic_write(out, "wb") as stream, matplotlib.rc_context({"svg.hashsalt": "fewer"}):
        figure.savefig(stream, format=kind, dpi=DOTS, metadata=metadata)
    return out
