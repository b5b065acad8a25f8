"""fewer run: a full experiment."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def command(
    recipe: Annotated[str, typer.Argument(help="A YAML file of an experiment, or the name of a recipe.")],
    folder: Annotated[Path, typer.Argument(help="The run folder; a run that is there goes on.")],
    change: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change the configuration, such as beam=32.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done, with costs and all missing files.")
    ] = False,
    gpu: Annotated[
        str, typer.Option(help="GPU to tell costs for in a dry run: A100, H100, V100, RTX-4090, …")
    ] = "A100",
    engine: Annotated[
        str | None, typer.Option(help="Who estimates and searches: local, processes:N, ray or ray:ADDRESS.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Where models train and search: auto, cpu, cuda, cuda:1 or mps.")
    ] = None,
    precision: Annotated[
        Literal["auto", "float32", "bfloat16", "float16", "int8"] | None,
        typer.Option(help="Of encoders in estimation and search, as in `fewer decode`; float32 if not given."),
    ] = None,
) -> None:
    """Run an experiment: train, estimate internal LMs, tune, decode, score, and write its table.

    Stopped at any moment, the same command goes on where it was.
    """
    import fewer
    from fewer.experiments.layers import load_experiment
    from fewer.experiments.run import describe
    from fewer.report.tables import print_table
    from fewer.training.gpus import find_gpu

    config = load_experiment(recipe, change or [])
    if dry_run:
        print(describe(config, find_gpu(gpu)))
        return
    print_table(
        fewer.run(recipe, folder, change=change, engine=engine, device=device, precision=precision), config.paper
    )
