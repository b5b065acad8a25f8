"""A run's table as Markdown, LaTeX, CSV and JSON, and on a terminal.

    write_tables(results, folder)     # table.md, table.tex, table.csv, table.json
    print_table(results)

Rows stand in the paper's order. Every form marks the set that was tuned on and ends with the run's warnings.
"""

import csv
import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fewer.files import atomic_write
from fewer.report.grid import TUNED, Cell, Grid, Head, make_grid, mark, paper_row
from fewer.report.paper import paper_table
from fewer.report.results import Results, results_of

Intervals = Literal["beside", "below", "none"]  # of the rates on a terminal

WIDE = 10_000  # columns, for measuring a table as wide as it likes
LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}"}
LATEX |= {">": r"\textgreater{}", "λ": r"$\lambda$", "†": r"$^\dagger$", "–": "--", "↑": r"$\uparrow$"}
LATEX |= {sign: f"\\{sign}" for sign in "&%$#_{}"}


def write_tables(
    results: Results | Mapping[str, Any], folder: str | Path, paper: str | None = None, stem: str = "table"
) -> list[Path]:
    """Write the table in its four forms; `paper` names the paper's table to print beside. Returns the files."""
    results = results_of(results)
    forms = {
        "md": markdown(results, paper),
        "tex": latex(results, paper),
        "csv": comma_separated(results, paper),
        "json": json.dumps(table_json(results, paper), indent=1, ensure_ascii=False) + "\n",
    }
    files = []
    for suffix, text in forms.items():
        files.append(Path(folder) / f"{stem}.{suffix}")
        with atomic_write(files[-1]) as stream:
            stream.write(text)
    return files


def print_table(results: Results | Mapping[str, Any], paper: str | None = None, console: Console | None = None) -> None:
    """Show the table on the terminal (standard output)."""
    grid = make_grid(results_of(results), paper)
    console = console or Console(highlight=False)
    wide = console.options.update(max_width=WIDE)
    tables = [terminal_table(grid, intervals) for intervals in ("beside", "below", "none")]
    fitting = (table for table in tables if console.measure(table, options=wide).maximum <= console.width)
    console.print(next(fitting, tables[-1]))
    for note in grid.notes:
        console.print(Text(note, style="dim"))
    for warning in grid.warnings:
        console.print(Text(f"Warning: {warning}", style="yellow"))


def markdown(results: Results, paper: str | None = None) -> str:
    """For READMEs and pull requests."""
    grid = make_grid(results, paper)

    def row(cells: list[str]) -> str:
        return f"| {' | '.join(cells)} |"

    lines = [f"### {_markdown_escape(grid.title)}", ""]
    lines.append(row([_markdown_head(head) for head in grid.heads]))
    lines.append(row(["---" if head.kind == "name" else "---:" for head in grid.heads]))
    for line in grid.lines:
        lines.append(row([_markdown_cell(c, head) for c, head in zip(line.cells, grid.heads, strict=True)]))
    lines.append("")
    lines += [f"- {_markdown_escape(note)}" for note in grid.notes]
    lines += [f"- **Warning:** {_markdown_escape(warning)}" for warning in grid.warnings]
    return "\n".join(lines) + "\n"


def _markdown_head(head: Head) -> str:
    return _markdown_escape(head.title) + (f" (tuned on) {TUNED}" if head.tuned else "")


def _markdown_cell(cell: Cell, head: Head) -> str:
    text = _markdown_escape(cell.text)
    text = f"**{text}**" if cell.best else text
    text += _markdown_escape(cell.mark)
    return f"{text} [{cell.interval}]" if cell.interval else text


def _markdown_escape(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(text.split()))


def latex(results: Results, paper: str | None = None) -> str:
    """A table environment that needs no package."""
    grid = make_grid(results, paper)
    columns = "".join("l" if head.kind == "name" else "r" for head in grid.heads)
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{_latex_escape(grid.title)}}}"]
    lines += [rf"\begin{{tabular}}{{{columns}}}", r"\hline"]
    lines.append(" & ".join(_latex_head(head) for head in grid.heads) + r" \\ \hline")
    for starts, line in grid.groups():
        lines += [r"\hline"] if starts else []
        lines.append(" & ".join(_latex_cell(cell) for cell in line.cells) + r" \\")
    lines += [r"\hline", r"\end{tabular}", ""]
    lines += [rf"{{\footnotesize {_latex_escape(note)}\par}}" for note in grid.notes]
    lines += [rf"{{\footnotesize \textbf{{Warning:}} {_latex_escape(text)}\par}}" for text in grid.warnings]
    lines.append(r"\end{table}")
    return "\n".join(lines) + "\n"


def _latex_head(head: Head) -> str:
    if head.kind == "paper":
        return r"\textit{paper}"
    return _latex_escape(head.title) + (r" (tuned on)$^\dagger$" if head.tuned else "")


def _latex_cell(cell: Cell) -> str:
    text = rf"\textbf{{{_latex_escape(cell.text)}}}" if cell.best else _latex_escape(cell.text)
    if cell.mark:
        text += rf"$^{{{cell.mark}}}$" if cell.mark[0] == "*" else r"$^{\uparrow}$"
    return text + (rf" {{\scriptsize [{_latex_escape(cell.interval)}]}}" if cell.interval else "")


def _latex_escape(text: str) -> str:
    """Plain text as LaTeX; λ1 and expectations such as E_D[h] become formulas."""
    formula = re.compile(r"(λ\d|E_\w\[\w\])")
    return "".join(
        _latex_formula(part) if formula.fullmatch(part) else "".join(LATEX.get(sign, sign) for sign in part)
        for part in formula.split(" ".join(text.split()))
    )


def _latex_formula(text: str) -> str:
    if text[0] == "λ":
        return rf"$\lambda_{text[1]}$"
    domain = r"\mathcal{D}" if text[2] == "D" else text[2]
    return rf"$\mathrm{{E}}_{{{domain}}}[{text[4]}]$"


def comma_separated(results: Results, paper: str | None = None) -> str:
    """For spreadsheets and scripts: one row for each row, numbers unrounded; notes and warnings as # lines below."""
    table = table_json(results, paper)
    heads = ["row", "method", "name", "lm_scale", "ilm_scale", "length_exponent", "length_reward"]
    marks = {name: f"{name} (tuned on)" if results.tuned(name) else name for name in results.sets}
    fields = ("wer", "low", "high", "p_vs_sf")
    heads += [f"{marks[name]} {field}" for name in results.sets for field in fields]
    heads += ["ilm_ppl", "ilm_ppl_set"]
    beside = paper or results.paper
    printed = paper_table(beside).columns[1:] if beside else ()
    heads += [f"paper {column}" for column in printed]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(heads)
    for row in table["rows"]:
        values = [row[name] for name in heads[:5]] + [row["length"]["exponent"], row["length"]["reward"]]
        values += [row["wer"].get(name, {}).get(field) for name in results.sets for field in fields]
        values += [row["ilm_ppl"], row["ilm_ppl_set"], *(row["paper"].get(column) for column in printed)]
        writer.writerow(values)
    for text in (*table["notes"], *(f"Warning: {warning}" for warning in table["warnings"])):
        writer.writerow([f"# {text}"])
    return stream.getvalue()


def table_json(results: Results, paper: str | None = None) -> dict[str, Any]:
    """The table for programs."""
    grid = make_grid(results, paper)
    name = paper or results.paper
    printed = paper_table(name) if name else None
    rows = []
    for row in results.ordered:
        scores = {
            set_name: {
                **score.model_dump(by_alias=True, exclude={"utterances_fingerprint"}),
                "mark": mark(results, row, set_name),
                "tuned_on": results.tuned(set_name),
            }
            for set_name, score in row.wer.items()
        }
        rows.append(
            {
                **row.model_dump(exclude={"wer", "row"}),
                "row": row.key,
                "wer": scores,
                "paper": printed.rows.get(paper_row(results, row, printed), {}) if printed else {},
            }
        )
    return {
        "title": results.title,
        "sets": results.sets,
        "tuned_on": results.tuned_on,
        "tuned_sets": [name for name in results.sets if results.tuned(name)],
        "paper": printed.key if printed else None,
        "rows": rows,
        "notes": grid.notes,
        "warnings": grid.warnings,
    }


def terminal_table(grid: Grid, intervals: Intervals = "beside") -> Table:
    """The table for a terminal; if it has little room, in heads of two lines. Texts are never taken as markup."""
    table = Table(title=Text(grid.title), title_justify="left", pad_edge=False, box=None, header_style="bold")
    for head in grid.heads:
        words = head.title if intervals == "beside" else head.title.replace(" ", "\n")
        words = words.replace("-", "-\n") if intervals == "none" else words
        title = Text(words + (f" {TUNED}\n(tuned on)" if head.tuned else ""))
        style = "dim" if head.kind == "paper" else "italic" if head.tuned else ""
        table.add_column(title, justify="left" if head.kind == "name" else "right", style=style, no_wrap=True)
    for starts, line in grid.groups():
        if starts:
            table.add_row()
        table.add_row(*(_terminal_cell(cell, intervals) for cell in line.cells))
    return table


def _terminal_cell(cell: Cell, intervals: Intervals) -> Text:
    text = Text(cell.text, style="bold" if cell.best else "")
    text.append(cell.mark, style="green" if cell.mark.startswith("*") else "red")
    if cell.interval and intervals != "none":
        text.append(f"\n{cell.interval}" if intervals == "below" else f" [{cell.interval}]", style="dim not bold")
    return text
