"""fewer ilm: estimate a recogniser's internal language model."""

from pathlib import Path
from typing import Annotated

import typer

from fewer.cli import options


def command(
    model: Annotated[str, typer.Argument(help="The recogniser: a folder of `fewer train`, or one of transformers.")],
    out: Annotated[Path, typer.Argument(help="Folder to write the internal LM to.")],
    method: Annotated[
        str,
        typer.Option(help="One of the methods below, or one of your own (docs/estimator.md)."),
    ] = "mini_lstm",
    train: Annotated[Path | None, typer.Option(help="The recogniser's training set, as in `fewer decode`.")] = None,
    dev: Annotated[Path | None, typer.Option(help="A set for the perplexity and for when to stop.")] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="Another option of the method, such as units=50 or passes=4.")
    ] = None,
    engine: options.Engine = "local",
    device: options.Device = "auto",
    precision: options.Precision = "auto",
) -> None:
    """Estimate a recogniser's internal language model and print its perplexity."""
    import fewer
    from fewer.compute.world import processes

    facts = fewer.estimate_ilm(
        model, out, method, train=train, dev=dev, change=change, engine=engine, device=device, precision=precision
    )
    if processes()[0]:
        return
    for name, perplexity in facts.get("perplexity", {}).items():
        label, word = perplexity["ppl_label"], perplexity["ppl_word"]
        print(f"{method}: perplexity on {name} {label:.1f} per label, {word:.1f} per word")
