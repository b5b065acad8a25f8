"""fewer decode: a set's N-best lists."""

from pathlib import Path
from typing import Annotated, Literal

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
    language: Annotated[str | None, typer.Option(help="What is spoken, for a multilingual Whisper: de.")] = None,
    task: Annotated[
        Literal["transcribe", "translate"], typer.Option(help="What a multilingual Whisper does.")
    ] = "transcribe",
) -> None:
    """Decode a set: N-best lists with every term's own score.

    A bundle has its own models, scales, beam and length policy; what is given here goes before them.
    Under torchrun, the processes share the utterances. The file is complete or absent.
    """
    from dataclasses import replace

    from fewer.recipes.decode import decode
    from fewer.recipes.searching import Models, Wishes, load_search
    from fewer.training.world import joined

    with joined("cpu") as world:
        search = load_search(
            Models(model, lm, ilm, words, ctc_scale, end_by, base, language, task, cached=True),
            Wishes(lm_scale, ilm_scale, words_scale, beam, length_exponent, reward),
        )
        options = replace(search.options, n_best=n_best, max_length=max_length)
        count = decode(search.system, manifest, out, search.scales, options, world)
        if world.first:
            print(f"{out}: {count} utterances")
