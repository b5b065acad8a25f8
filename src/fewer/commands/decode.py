"""fewer decode: a set's N-best lists."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    model: Annotated[
        str, typer.Argument(help="The recogniser: a folder of `fewer train`, a Whisper, or a bundle of `fewer adapt`.")
    ],
    manifest: Annotated[Path, typer.Argument(help="The utterances, as `fewer prepare` writes them.")],
    out: Annotated[Path, typer.Argument(help="The N-best file (.jsonl) to write.")],
    lm: Annotated[str | None, typer.Option(help="LM: a folder of `fewer train`, an n-gram file, or hf:NAME.")] = None,
    lm_scale: Annotated[float | None, typer.Option(help="λ1, the weight of the LM; 0.3 if not given.")] = None,
    ilm: Annotated[Path | None, typer.Option(help="Internal language model: a folder of `fewer ilm`.")] = None,
    ilm_scale: Annotated[float | None, typer.Option(help="λ2, of what is subtracted; 0.2 if not given.")] = None,
    words: Annotated[Path | None, typer.Option(help="Names and terms to reward: lines `term`, tab, weight.")] = None,
    words_scale: Annotated[
        float | None, typer.Option(help="What their weights are multiplied by; 1 if not given.")
    ] = None,
    ctc_scale: Annotated[float, typer.Option(help="Weight of the CTC prefix score; 0: not computed.")] = 0.0,
    beam: Annotated[int | None, typer.Option(help="Hypotheses kept for each utterance; 12 if not given.")] = None,
    length_exponent: Annotated[
        float | None, typer.Option(help="Scores are divided by length to this power; 0: not; 1 if not given.")
    ] = None,
    reward: Annotated[float | None, typer.Option(help="Added to the score for every label; 0 if not given.")] = None,
    n_best: Annotated[int | None, typer.Option(help="Hypotheses to write; all of the beam if not given.")] = None,
    max_length: Annotated[int | None, typer.Option(help="Labels at the most; encoder frames if not given.")] = None,
    end_by: Annotated[
        list[str] | None, typer.Option(help="Terms that score the end label (aed, lm, ilm, ctc); repeat; all if none.")
    ] = None,
    base: Annotated[str | None, typer.Option(help="Where the model of a bundle is, if not where it was.")] = None,
) -> None:
    """Decode a set: N-best lists with every term's own score.

    A bundle has its own models, scales, beam and length policy; what is given here goes before them.
    Under torchrun, the processes share the utterances. The file is complete or absent.
    """
    from fewer.adapters.bundle import is_bundle, load_bundle
    from fewer.errors import FewerError
    from fewer.recipes.decode import decode
    from fewer.recipes.system import load_system
    from fewer.search.beam import SearchOptions
    from fewer.search.nbest import LengthPolicy
    from fewer.training.world import joined

    with joined("cpu") as world:
        if is_bundle(model):
            if lm or ilm or words or ctc_scale or end_by:
                raise FewerError(f"{model} is a bundle, which has its own models and policy: give scales at the most")
            bundle = load_bundle(model, base)
            system, usual, scales = bundle.system, bundle.options, bundle.scales
        elif base is not None:
            raise FewerError(f"{model} is not a bundle of `fewer adapt`, so it has no base model to be given")
        else:
            system = load_system(model, lm, ilm, ctc_scale != 0, end_by, words, cached=True)
            usual = SearchOptions()
            scales = {"lm": 0.3} if lm else {}
            scales |= {"ilm": -0.2} if ilm else {}
            scales |= {"words": 1.0} if words else {}
            scales |= {"ctc": ctc_scale} if ctc_scale else {}
        given = {"lm": lm_scale, "ilm": None if ilm_scale is None else -ilm_scale, "words": words_scale}
        scales |= {term: scale for term, scale in given.items() if scale is not None and term in scales}
        length = LengthPolicy(
            usual.length.exponent if length_exponent is None else length_exponent,
            usual.length.reward if reward is None else reward,
        )
        options = SearchOptions(usual.beam if beam is None else beam, length, n_best, max_length)
        count = decode(system, manifest, out, scales, options, world)
        if world.first:
            print(f"{out}: {count} utterances")
