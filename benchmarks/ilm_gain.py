"""Does a better internal LM give fewer errors? Gain over shallow fusion against perplexity, of all systems measured.

    python benchmarks/ilm_gain.py results/mini-a-ilme.json results/mini-b-end.json … [--picture FILE] [--out FILE]

Each file is one of `benchmarks/results.py`. Of every method that subtracts something and whose perplexity is known, the
relative reduction of shallow fusion's errors is compared with the perplexity per label of what is subtracted, method by
method inside each system: perplexities of different systems have different labels. Prints a table with Spearman's rank
correlation (−1: the lower the perplexity, the larger the gain), which --out also gets, and draws the picture.
"""

import argparse
import json
import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

FEWEST = 4  # methods of a system of which a correlation is told


@dataclass(frozen=True)
class System:
    title: str
    names: list[str]
    perplexities: list[float]
    gains: list[float]  # % of shallow fusion's errors

    def correlation(self) -> tuple[float, float]:
        """Spearman's, and its p value."""
        found = spearmanr(self.perplexities, self.gains)
        return float(found.statistic), float(found.pvalue)


def systems(path: Path) -> list[System]:
    """Of each set of a table. Rows are compared with the shallow fusion that they are tested against."""
    results = json.loads(path.read_text())
    rows = {row["row"]: row for row in results["rows"]}
    found = []
    for name in results["sets"]:
        points = [
            (row["name"], row["ilm_ppl"], 100 * (1 - errors(row, name) / errors(rows[row["baseline"]], name)))
            for row in results["rows"]
            if row["ilm_ppl"] is not None and row["baseline"] in rows and row["ilm_scale"]
        ]
        if len(points) >= FEWEST:
            names, perplexities, gains = (list(column) for column in zip(*points, strict=True))
            title = results["title"] if len(results["sets"]) == 1 else f"{results['title']}, {name}"
            found.append(System(title, names, perplexities, gains))
    return found


def errors(row: dict[str, Any], name: str) -> float:
    return float(row["wer"][name]["wer"])


def table(found: list[System]) -> str:
    lines = [
        "| system | methods | perplexity | gain over shallow fusion | rank correlation | p |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for system in found:
        rho, p = system.correlation()
        low, high = min(system.perplexities), max(system.perplexities)
        worst, best = min(system.gains), max(system.gains)
        lines.append(
            f"| {system.title} | {len(system.names)} | {low:.3g} to {high:.3g} | {worst:.1f} to {best:.1f} % "
            f"| {rho:.2f} | {p:.3f} |"
        )
    ranks = [(_ranks(system.perplexities), _ranks(system.gains)) for system in found]
    pooled = spearmanr(*(np.concatenate(each) for each in zip(*ranks, strict=True)))
    count = sum(len(system.names) for system in found)
    lines.append(f"| ranks inside each system, together | {count} | | | {pooled.statistic:.2f} | {pooled.pvalue:.1g} |")
    return "\n".join(lines) + "\n"


def _ranks(values: list[float]) -> np.ndarray:
    """From 0 to 1."""
    return np.argsort(np.argsort(values)) / (len(values) - 1)


def draw(found: list[System], out: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    columns = min(4, len(found))
    rows = -(-len(found) // columns)
    figure = Figure(figsize=(3.6 * columns, 3.2 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    for number, system in enumerate(found):
        axes = figure.add_subplot(rows, columns, number + 1)
        axes.axhline(0, color="#e2dfd6", linewidth=1)
        axes.scatter(system.perplexities, system.gains, color="#1f7a80", s=22, zorder=3)
        for name, x, y, right in labels(system):
            text = {"xytext": (5 if right else -5, 0), "ha": "left" if right else "right", "va": "center"}
            axes.annotate(name, (x, y), textcoords="offset points", fontsize=6.5, color="#58646a", **text)
        axes.set_xscale("log")
        axes.margins(x=0.35, y=0.12)
        title = textwrap.fill(system.title, 40)
        axes.set_title(f"{title}\nrank correlation {system.correlation()[0]:.2f}", fontsize=8)
        axes.tick_params(labelsize=7, which="both")
        wide = max(system.perplexities) > 30 * min(system.perplexities)
        axes.xaxis.set_major_locator(LogLocator(subs=(1,) if wide else (1, 2, 5)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("perplexity per label of what is subtracted", fontsize=9)
    figure.supylabel("errors fewer than shallow fusion, %", fontsize=9)
    figure.savefig(out, dpi=110)


def labels(system: System) -> Iterator[tuple[str, float, float, bool]]:
    """Each method's name, place, and whether it is written to the right: neighbours take turns."""
    gap = 0.05 * (max(system.gains) - min(system.gains))
    points = sorted(zip(system.gains, system.perplexities, system.names, strict=True))
    last, right = -math.inf, True
    for gain, perplexity, name in points:
        right = not right if gain - last < gap else True
        last = gain
        yield name.partition(", second pass")[0].replace("$", r"\$"), perplexity, gain, right


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--out", type=Path, help="Markdown")
    args = parser.parse_args()
    found = [system for path in args.results for system in systems(path)]
    print(table(found))
    if args.out:
        args.out.write_text(table(found))
    if args.picture:
        draw(found, args.picture)


if __name__ == "__main__":
    main()
