"""`fewer tokenizer`: make a tokenizer from text, or from the files of subword-nmt."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def command(
    text: Annotated[
        list[Path],
        typer.Argument(
            help="Text files (plain, gzip, xz) or manifests (.jsonl); "
            "for subword_nmt without --merges, the codes and the vocabulary."
        ),
    ],
    out: Annotated[Path, typer.Argument(help="The tokenizer file to write, such as tokenizer.json.")],
    kind: Annotated[
        Literal["bpe", "characters", "words", "subword_nmt"],
        typer.Option(
            help="bpe: sentencepiece's byte-pair encoding; subword_nmt: learn as subword-nmt does (--merges), "
            "or read its codes and vocabulary."
        ),
    ] = "bpe",
    size: Annotated[
        int | None, typer.Option(help="Labels, the end and the unknown label included (bpe: 500, words: all).", min=3)
    ] = None,
    merges: Annotated[
        int | None, typer.Option(help="Merges to learn (subword_nmt); labels are about as many.", min=1)
    ] = None,
    at_most: Annotated[
        bool, typer.Option("--at-most", help="Fewer labels, if the text does not yield so many, are fine (bpe).")
    ] = False,
    min_count: Annotated[int, typer.Option(help="Words that occur less often are unknown (words).", min=1)] = 1,
    case: Annotated[
        Literal["none", "upper", "lower", "librispeech"],
        typer.Option(help="Spelling of all text; librispeech: capitals, MISTER for Mr., no lines with digits."),
    ] = "none",
) -> None:
    """Make a tokenizer: one JSON file that models are trained with.

    fewer tokenizer train.jsonl lm.txt.gz tokenizer.json --size 500

    fewer tokenizer train.jsonl tokenizer.json --kind subword_nmt --merges 500

    fewer tokenizer codes vocab tokenizer.json --kind subword_nmt
    """
    import fewer

    made = fewer.tokenizer(
        text, out, kind=kind, size=size, merges=merges, at_most=at_most, min_count=min_count, case=case
    )
    print(f"{out}: {made.size} labels")
