"""fewer decode: a set's N-best lists."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    model: Annotated[str, typer.Argument(help="The recogniser: a folder of `fewer train`, or a Whisper.")],
    manifest: Annotated[Path, typer.Argument(help="The utterances, as `fewer prepare` writes them.")],
    out: Annotated[Path, typer.Argument(help="The N-best file (.jsonl) to write.")],
    lm: Annotated[str | None, typer.Option(help="LM: a folder of `fewer train`, an n-gram file, or hf:NAME.")] = None,
    lm_scale: Annotated[float, typer.Option(help="λ1, the weight of the language model.")] = 0.3,
    ilm: Annotated[Path | None, typer.Option(help="Internal language model: a folder of `fewer ilm`.")] = None,
    ilm_scale: Annotated[float, typer.Option(help="λ2, with which the internal language model is subtracted.")] = 0.2,
    ctc_scale: Annotated[float, typer.Option(help="Weight of the CTC prefix score; 0: not computed.")] = 0.0,
    beam: Annotated[int, typer.Option(help="Hypotheses kept for each utterance.")] = 12,
    length_exponent: Annotated[float, typer.Option(help="Scores are divided by length to this power; 0: not.")] = 1.0,
    reward: Annotated[float, typer.Option(help="Added to the score for every label.")] = 0.0,
    n_best: Annotated[int | None, typer.Option(help="Hypotheses to write; all of the beam if not given.")] = None,
    max_length: Annotated[int | None, typer.Option(help="Labels at the most; encoder frames if not given.")] = None,
    end_by: Annotated[
        list[str] | None, typer.Option(help="Terms that score the end label (aed, lm, ilm, ctc); repeat; all if none.")
    ] = None,
) -> None:
    """Decode a set: N-best lists with every term's own score.

    Under torchrun, the processes share the utterances. The file is complete or absent.
    """
    from fewer.recipes.decode import decode
    from fewer.recipes.system import load_system
    from fewer.search.beam import SearchOptions
    from fewer.search.nbest import LengthPolicy
    from fewer.training.world import joined

    with joined("cpu") as world:
        system = load_system(model, lm, ilm, ctc_scale != 0, end_by)
        scales = {"lm": lm_scale} if lm else {}
        scales |= {"ilm": -ilm_scale} if ilm else {}
        scales |= {"ctc": ctc_scale} if ctc_scale else {}
        options = SearchOptions(beam, LengthPolicy(length_exponent, reward), n_best, max_length)
        count = decode(system, manifest, out, scales, options, world)
        if world.first:
            print(f"{out}: {count} utterances")
