"""fewer perplexity: of a language model, or of a recogniser's internal one."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fewer.cli import options


def command(
    lm: Annotated[str, typer.Argument(help="A folder of `fewer train`, an n-gram file, or a folder of `fewer ilm`.")],
    text: Annotated[list[Path], typer.Argument(help="Text files (plain, gz, xz) or manifests.")],
    model: Annotated[
        str | None, typer.Option(help="The recogniser: of an internal LM, or whose tokenizer an n-gram file uses.")
    ] = None,
    case: Annotated[
        Literal["none", "lower", "upper", "librispeech"], typer.Option(help="Spelling of the text.")
    ] = "none",
    json: Annotated[Path | None, typer.Option(help="Write the numbers to this file as well.")] = None,
    engine: options.Engine = "local",
    device: options.Device = "auto",
    precision: options.Precision = "auto",
) -> None:
    """Print the perplexity per label and per word."""
    import fewer
    from fewer.compute.engines import started
    from fewer.files import check_output, write_json

    if json is not None:
        check_output(json)
    results: dict[str, dict[str, Any]] = {}
    with started(engine, device) as workers:
        for path in text:
            results |= fewer.perplexity(
                lm, path, model=model, case=case, engine=workers, device=device, precision=precision
            )
            result = results[str(path)]
            if workers.first:
                print(
                    f"{path}: perplexity {result['ppl_label']:.2f} per label, {result['ppl_word']:.2f} per word "
                    f"({result['sentences']} sentences, {result['words']} words, {result['labels']} labels)"
                )
        if json is not None and workers.first:
            write_json(json, results)
