"""fewer rescore: N-best lists with another language model."""

from pathlib import Path
from typing import Annotated

import typer

from fewer.cli import options


def command(
    nbest: Annotated[Path, typer.Argument(help="N-best file of `fewer decode`.")],
    lm: Annotated[str, typer.Argument(help="Any LM: a folder of `fewer train`, an n-gram file, or hf:NAME.")],
    out: Annotated[Path, typer.Argument(help="N-best file to write.")],
    scale: Annotated[float, typer.Option(help="Weight of the LM; negative for one that is to be subtracted.")] = 0.3,
    term: Annotated[str, typer.Option(help="Name of the new term.")] = "rescore",
    model: Annotated[Path | None, typer.Option(help="Model folder whose tokenizer an n-gram file uses.")] = None,
    device: options.Device = "auto",
) -> None:
    """Add a language model's score to N-best lists and rank them anew."""
    import fewer

    lists = fewer.rescore(nbest, lm, out, scale=scale, term=term, model=model, device=device)
    print(f"{out}: {len(lists)} utterances")
