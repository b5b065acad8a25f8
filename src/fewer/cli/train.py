"""fewer train: a recogniser or a language model."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    config: Annotated[str, typer.Argument(help="A YAML file, or the name of a recipe.")],
    out: Annotated[
        Path | None, typer.Argument(help="The run folder; a run that is there goes on. Not needed for a dry run.")
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change the configuration, such as --set schedule.peak=0.001."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print the network, the schedule, steps and an estimate of cost.")
    ] = False,
    gpu: Annotated[
        str, typer.Option(help="GPU to tell costs for in a dry run: A100, H100, V100, RTX-4090, …")
    ] = "A100",
    fall_back: Annotated[
        bool, typer.Option("--fall-back", help="If the last checkpoint is damaged, go on from the one before it.")
    ] = False,
) -> None:
    """Train a recogniser or a language model.

    Killed at any moment, the same command goes on to the same result. Under torchrun, all processes train one model.
    """
    import fewer

    if dry_run:
        from fewer.experiments.cost import frozen_lm
        from fewer.experiments.layers import load_train_config
        from fewer.training.cost import dry_run as describe
        from fewer.training.gpus import find_gpu

        wanted = load_train_config(config, change or [])
        print(describe(wanted, find_gpu(gpu), frozen_lm(wanted)))
        return
    if out is None:
        raise fewer.FewerError("give a folder for the run: fewer train CONFIG OUT (or --dry-run)")
    fewer.train(config, out, change=change, fall_back=fall_back)
