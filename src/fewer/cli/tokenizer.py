"""`fewer tokenizer`: make a tokenizer from text, or from the files of subword-nmt."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from fewer.errors import FewerError


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
    from fewer.data.learn_bpe import learn_subword_nmt
    from fewer.data.subword_nmt import SubwordNmtTokenizer
    from fewer.data.token_store import read_text
    from fewer.data.tokenizers import Tokenizer, train_characters, train_sentencepiece, train_words
    from fewer.progress import progress

    if merges is not None and kind != "subword_nmt":
        raise FewerError(f"--merges has no meaning for --kind {kind}; it is for --kind subword_nmt")
    if size is not None and kind in ("characters", "subword_nmt"):
        raise FewerError(f"--size has no meaning for --kind {kind}: the text or the vocabulary says how many labels")
    lines = progress((line for path in text for line in read_text(path, case)), "reading text")
    tokenizer: Tokenizer
    if kind == "subword_nmt" and merges is not None:
        tokenizer = learn_subword_nmt(lines, merges)
    elif kind == "subword_nmt":
        if len(text) != 2:
            raise FewerError(
                "--kind subword_nmt needs two files, the codes and the vocabulary, then the one to write; "
                "to learn from text, give --merges"
            )
        tokenizer = SubwordNmtTokenizer.from_files(*text)
    elif kind == "bpe":
        tokenizer = train_sentencepiece(lines, size or 500, exact=not at_most)
    elif kind == "characters":
        tokenizer = train_characters(lines)
    else:
        tokenizer = train_words(lines, size, min_count)
    tokenizer.save(out)
    print(f"{out}: {tokenizer.size} labels")
