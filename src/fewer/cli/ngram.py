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
) -> None:
    """Estimate an n-gram language model (modified Kneser-Ney) over a recogniser's own labels.

    fewer ngram domain.txt books.txt.gz lm.arpa --tokenizer model --prune "0 0 1" --mix heldout.txt
    """
    import contextlib
    import tempfile
    import time

    from fewer.data.token_store import read_text, store_tokens
    from fewer.data.tokenizers import load_tokenizer
    from fewer.evaluation.perplexity import Perplexity
    from fewer.files import check_output
    from fewer.store.ngram_files import check_name, save_ngram
    from fewer.training.ngram_text import NGramConfig, ngram_of_texts, stream_log_probs

    began = time.monotonic()
    check_name(out)
    check_output(out)
    config = NGramConfig(order=order, prune=_numbers(prune), case=case, allow_unknown=allow_unknown)
    labels = load_tokenizer(tokenizer / "tokenizer.json" if tokenizer.is_dir() else tokenizer)
    with contextlib.ExitStack() as stack:
        folder = cache or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fewer-ngram-")))
        made = ngram_of_texts(text, labels, config, folder, mix)
        save_ngram(out, made.model, labels.labels)
        counts = ", ".join(f"{count:,} {n}-grams" for n, count in enumerate(made.model.counts(), start=1))
        print(f"{out}: {counts}; from {made.labels:,} labels in {time.monotonic() - began:.1f} s")
        for path in [mix, *(heldout or [])] if mix else heldout or []:
            store = store_tokens([path], labels, folder, case, allow_unknown)
            words = sum(len(line.split()) for line in read_text(path, case))
            own = float(stream_log_probs(made.model, store.labels).double().sum())
            parts = [(f"{part.path} (weight {part.weight:.4f})", part.log_prob) for part in made.parts if path == mix]
            for name, log_prob in [*parts, (str(out), own)]:
                found = Perplexity.of(log_prob, len(store.labels), words, len(store))
                print(f"{path}: perplexity {found.per_label:.2f} per label, {found.per_word:.2f} per word: {name}")


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in text.replace(",", " ").split())
    except ValueError:
        raise FewerError(f"--prune {text!r}: give whole numbers, such as '0 0 1 2'") from None
