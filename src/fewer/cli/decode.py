"""fewer decode: a set's N-best lists."""

from pathlib import Path
from typing import Annotated

import typer

from fewer.cli import options


def command(
    model: Annotated[
        str,
        typer.Argument(
            help="The recogniser: a folder of `fewer train`, one of transformers, or a bundle of `fewer adapt`."
        ),
    ],
    manifest: Annotated[Path, typer.Argument(help=f"The utterances: {options.SET}.")],
    out: Annotated[Path, typer.Argument(help="The N-best file (.jsonl) to write.")],
    lm: options.Lm = None,
    lm_scale: options.LmScale = None,
    ilm: options.Ilm = None,
    ilm_scale: options.IlmScale = None,
    words: options.Words = None,
    words_scale: options.WordsScale = None,
    ctc_scale: Annotated[float, typer.Option(help="Weight of the CTC prefix score; 0: not computed.")] = 0.0,
    beam: options.Beam = None,
    length_exponent: options.LengthExponent = None,
    reward: options.Reward = None,
    n_best: Annotated[int | None, typer.Option(help="Hypotheses to write; all of the beam if not given.")] = None,
    max_length: options.MaxLength = None,
    end_by: options.EndBy = None,
    base: options.Base = None,
    language: options.Language = None,
    task: options.Task = "transcribe",
    engine: options.Engine = "local",
    shard: Annotated[
        str | None, typer.Option(help="i/n: decode only the i-th of n parts; `fewer merge OUT` puts them together.")
    ] = None,
    device: options.Device = "auto",
    precision: options.Precision = "auto",
) -> None:
    """Decode a set: N-best lists with every term's own score.

    A bundle has its own models, scales, beam and length policy; options given here override them.
    The file is complete or absent, and the same, bit for bit, with any --engine. Shards that are done lie beside it
    until all are: stopped or killed, the same command goes on where it was.
    """
    import fewer
    from fewer.compute.world import joined

    with joined(device) as world:
        lists = fewer.decode(
            model,
            manifest,
            out,
            lm=lm,
            lm_scale=lm_scale,
            ilm=ilm,
            ilm_scale=ilm_scale,
            words=words,
            words_scale=words_scale,
            ctc_scale=ctc_scale,
            beam=beam,
            length_exponent=length_exponent,
            reward=reward,
            n_best=n_best,
            max_length=max_length,
            end_by=end_by,
            base=base,
            language=language,
            task=task,
            engine=engine,
            shard=shard,
            device=device,
            precision=precision,
        )
        if world.first:
            print(f"{out}: {len(lists)} utterances" + (f" of part {shard}" if shard else ""))
