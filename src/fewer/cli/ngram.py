"""`fewer ngram`: estimate a token n-gram language model of text."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from fewer.errors import FewerError


def command(
    text: Annotated[
        list[Path],
        typer.Argument(help="Text files (plain, gzip, xz) or manifests (.jsonl); with --mix, n-gram models too."),
    ],
    out: Annotated[
        Path, typer.Argument(help="The model to write: .arpa, .arpa.gz, or .safetensors, which is small and fast.")
    ],
    tokenizer: Annotated[
        Path, typer.Option(help="The tokenizer.json of the recogniser, or the folder of the model that has it.")
    ],
    order: Annotated[int, typer.Option(help="Length of the longest n-grams.", min=1)] = 4,
    prune: Annotated[
        str,
        typer.Option(help="Drop n-grams that occur at most so often: a number for each length, such as '0 0 1 2'."),
    ] = "0",
    mix: Annotated[
        Path | None,
        typer.Option(help="Held-out text: make one model of each TEXT and mix them with the weights that fit it best."),
    ] = None,
    heldout: Annotated[list[Path] | None, typer.Option(help="Print the perplexity of this text (repeatable).")] = None,
    case: Annotated[
        Literal["none", "upper", "lower", "librispeech"],
        typer.Option(help="Spelling of all text; librispeech: capitals, MISTER for Mr., no lines with digits."),
    ] = "none",
    allow_unknown: Annotated[
        bool, typer.Option("--allow-unknown", help="Take what the vocabulary lacks as the unknown label.")
    ] = False,
    cache: Annotated[
        Path | None, typer.Option(help="Folder to keep tokenised text in, for the next time; else it is not kept.")
    ] = None,
    memory: Annotated[
        str | None, typer.Option(help="Memory at most, such as 4G: sorts in files, and writes the same .safetensors.")
    ] = None,
) -> None:
    """Estimate an n-gram language model (modified Kneser-Ney) over a recogniser's own labels.

    fewer ngram domain.txt books.txt.gz lm.arpa --tokenizer model --prune "0 0 1" --mix heldout.txt
    """
    import fewer

    made = fewer.ngram(
        text,
        out,
        tokenizer=tokenizer,
        order=order,
        prune=_numbers(prune),
        mix=mix,
        heldout=heldout,
        case=case,
        allow_unknown=allow_unknown,
        cache=cache,
        memory=memory,
    )
    counts = ", ".join(f"{count:,} {n}-grams" for n, count in enumerate(made.counts, start=1))
    print(f"{out}: {counts}; from {made.labels:,} labels in {made.seconds:.1f} s")
    print(f"{made.bytes_per_ngram:.1f} bytes for each n-gram")
    for one in made.held_out:
        label, word = one.perplexity.per_label, one.perplexity.per_word
        print(f"{one.text}: perplexity {label:.2f} per label, {word:.2f} per word: {one.model}")


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in text.replace(",", " ").split())
    except ValueError:
        raise FewerError(f"--prune {text!r}: give whole numbers, such as '0 0 1 2'") from None
