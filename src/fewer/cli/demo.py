"""fewer demo: everything on a small corpus that it makes itself."""

from pathlib import Path
from typing import Annotated

import typer

from fewer.cli import options


def command(
    folder: Annotated[Path, typer.Argument(help="For corpus, models, results and the page.")] = Path("demo"),
    quick: Annotated[bool, typer.Option("--quick", help="In minutes: see it run, not see it work.")] = False,
    seed: Annotated[int, typer.Option(help="The same seed, machine and thread count give the same table.")] = 1,
    device: options.Device = "auto",
) -> None:
    """Show the whole idea: synthesise speech, train, estimate internal LMs, tune, compare, write a page.

    Stopped at any moment, the same command goes on where it was.
    """
    import fewer
    from fewer.report.tables import print_table

    print_table(fewer.demo(folder, quick=quick, seed=seed, device=device))
    print(f"\nOpen {folder.resolve() / 'report.html'} in a browser: move the sliders and watch the words change.")
