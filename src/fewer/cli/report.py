"""`fewer report`: a run as one page to play with."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    run: Annotated[Path, typer.Argument(help="Folder of a `fewer run` or `fewer demo`.", metavar="RUN")],
    out: Annotated[Path | None, typer.Option(help="Where to write the page. Default: RUN/report.html.")] = None,
    paper: Annotated[
        str | None, typer.Option(help="Table of the paper to print beside: its number or label, such as 2.")
    ] = None,
    tables: Annotated[
        Path | None, typer.Option(help="Also write the table into this folder as Markdown, LaTeX, CSV and JSON.")
    ] = None,
) -> None:
    """Write a run as one HTML file: table, error surfaces, and sliders that rank its N-best lists anew."""
    import fewer
    from fewer.progress import say

    page = fewer.write_report(run, out, paper=paper, tables=tables)
    say(f"{page.stat().st_size / 1e6:.1f} MB; open it in a browser, it needs no server and no network")
    print(page)
