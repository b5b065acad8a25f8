"""`fewer import-returnn`: a RETURNN checkpoint of one of the paper's models -> a model folder."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    checkpoint: Annotated[
        Path, typer.Argument(help="The TensorFlow checkpoint without ending, such as net-model/network.200.")
    ],
    config: Annotated[Path, typer.Argument(help="The RETURNN configuration of its training; it is read, not run.")],
    out: Annotated[Path, typer.Argument(help="The model folder to write.")],
    codes: Annotated[Path, typer.Option(help="Merges of subword-nmt, the configuration's bpe_file.")],
    vocabulary: Annotated[Path, typer.Option(help="The labels, the configuration's vocab_file.")],
    mean: Annotated[
        Path | None, typer.Option(help="The features' mean, the configuration's norm_mean (recognisers with MFCCs).")
    ] = None,
    deviation: Annotated[
        Path | None, typer.Option(help="The features' deviation, the configuration's norm_std_dev.")
    ] = None,
) -> None:
    """Import a recogniser or LM of the paper's authors from a RETURNN (TensorFlow) checkpoint.

    The folder can then be decoded with every method: fewer ilm, tune, decode.
    """
    import fewer

    folder = fewer.import_returnn(
        checkpoint, config, out, codes=codes, vocabulary=vocabulary, mean=mean, deviation=deviation
    )
    print(f"{folder}: imported {checkpoint}")
