"""fewer decode: a set's N-best lists."""

from pathlib import Path
from typing import Annotated

import typer

from fewer.cli import options


def command(
    model: Annotated[
        str, typer.Argument(help="The recogniser: a folder of `fewer train`, a Whisper, or a bundle of `fewer adapt`.")
    ],
    manifest: Annotated[Path, typer.Argument(help="The utterances, as `fewer prepare` writes them.")],
    out: Annotated[Path, typer.Argument(help="The N-best file (.jsonl) to write.")],
    lm: options.Lm = None,
    lm_scale: options.LmScale = None,
    ilm: options.Ilm = None,
    ilm_scale: options.IlmScale = None,
    words: options.Words = None,
    words_scale: options.WordsScale = None,
    ctc_scale: Annotated[float, typer.Option(help="Weight of the CTC prefix score; 0: not computed.")] = 0.0,
    beam: Annotated[int | None, typer.Option(help="Hypotheses kept for each utterance; 12 if not given.")] = None,
    length_exponent: options.LengthExponent = None,
    reward: options.Reward = None,
    n_best: Annotated[int | None, typer.Option(help="Hypotheses to write; all of the beam if not given.")] = None,
    max_length: options.MaxLength = None,
    end_by: options.EndBy = None,
    base: options.Base = None,
    language: options.Language = None,
    task: options.Task = "transcribe",
    processes: options.Processes = 1,
) -> None:
    """Decode a set: N-best lists with every term's own score.

    A bundle has its own models, scales, beam and length policy; what is given here goes before them.
    Under torchrun, the processes share the utterances. The file is complete or absent.
    """
    from dataclasses import replace

    from fewer.adaptation.searching import Models, Wishes, load_search
    from fewer.compute.world import joined
    from fewer.decoding.decode import decode
    from fewer.files import check_output

    check_output(out)
    with joined("cpu") as world:
        search = load_search(
            Models(model, lm, ilm, words, ctc_scale, end_by, base, language, task, cached=True),
            Wishes(lm_scale, ilm_scale, words_scale, beam, length_exponent, reward),
        )
        options = replace(search.options, n_best=n_best, max_length=max_length)
        count = decode(search.system, manifest, out, search.scales, options, world, processes)
        if world.first:
            print(f"{out}: {count} utterances")
