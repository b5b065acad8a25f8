"""fewer tune: scales and length parameter from a dev set."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fewer.cli import options
from fewer.errors import FewerError

if TYPE_CHECKING:
    from fewer.tuning.tune import TuneResult


def command(
    model: Annotated[str, typer.Argument(help="The recogniser: a folder of `fewer train`, or one of transformers.")],
    manifest: Annotated[Path, typer.Argument(help=f"The dev set: {options.SET}.")],
    out: Annotated[Path, typer.Argument(help="Folder for results, WER surfaces, pools and decodes of each method.")],
    lm: options.Lm = None,
    ilm: Annotated[
        list[Path] | None, typer.Option(help="Internal LM: a folder of `fewer ilm`; repeat to tune several methods.")
    ] = None,
    sf: Annotated[bool, typer.Option(help="Also tune without an internal LM (shallow fusion).")] = True,
    ctc: Annotated[bool, typer.Option("--ctc", help="Also tune the weight of the CTC prefix score.")] = False,
    length: Annotated[
        Literal["exponent", "reward", "fixed"] | None,
        typer.Option(
            help="The length parameter that every method tunes; fixed: score per label, none tuned. Default: exponent; "
            "for Whisper length^1.5, none tuned."
        ),
    ] = None,
    fix: Annotated[list[str] | None, typer.Option(help="Keep a parameter: lm=0.4. Repeat.")] = None,
    tie: Annotated[list[str] | None, typer.Option(help="Tie a scale to another: ilm=0.8*lm. Repeat.")] = None,
    limit: Annotated[
        list[str] | None, typer.Option("--range", help="Lowest and highest value: ilm=0:0.6. Repeat.")
    ] = None,
    budget: Annotated[int, typer.Option(min=1, help="Decodes of each method, before other end rules are tried.")] = 6,
    no_harm: Annotated[
        bool, typer.Option("--no-harm", help="Keep scales of 0 unless the dev set improves significantly.")
    ] = False,
    beam: options.Beam = None,
    max_length: options.MaxLength = None,
    end_by: Annotated[
        list[str] | None,
        typer.Option(help="Terms that score the end label (aed, lm, ilm, ctc); repeat. Default: what is best."),
    ] = None,
    language: options.Language = None,
    task: options.Task = "transcribe",
    normalise: Annotated[
        str | None,
        typer.Option(help="As in `fewer score`. Default: none; for a Whisper english, or basic in other languages."),
    ] = None,
    rules: Annotated[
        Literal["plain", "sclite", "hubscr"] | None,
        typer.Option(help="How errors are counted, as in `fewer score`. Default: hubscr with a glm, else plain."),
    ] = None,
    engine: options.Engine = "local",
    device: options.Device = "auto",
    precision: options.Precision = "auto",
) -> None:
    """Find λ1, λ2 and the length parameter with the fewest word errors, in a handful of decodes.

    Every method has its own pool and the same budget. OUT/<method>/tune.json holds the scales, surface.npz the WER of
    every point of the grid. Started again, the same command goes on with the decodes that are there.
    """
    import fewer

    results = fewer.tune(
        model,
        manifest,
        out,
        lm=lm,
        ilm=ilm,
        sf=sf,
        ctc=ctc,
        length=length,
        **constraints(fix or [], tie or [], limit or []),
        budget=budget,
        no_harm=no_harm,
        beam=beam,
        max_length=max_length,
        end_by=end_by,
        language=language,
        task=task,
        normalise=normalise,
        rules=rules,
        engine=engine,
        device=device,
        precision=precision,
    )
    for name, result in results.items():
        print(_line(name, result))


def constraints(fix: list[str], tie: list[str], limit: list[str]) -> dict[str, Any]:
    """What the options of the command line say: lm=0.4, ilm=0.8*lm, ilm=0:0.6."""
    values: dict[str, Any] = {"fixed": {}, "tied": {}, "ranges": {}}
    for text in fix:
        name, value = _parts(text, "--fix", "lm=0.4")
        values["fixed"][name] = _number(value, f"--fix {text}", "lm=0.4")
    for text in tie:
        name, value = _parts(text, "--tie", "ilm=0.8*lm")
        ratio, _, other = value.rpartition("*")
        values["tied"][name] = (_number(ratio or "1", f"--tie {text}", "ilm=0.8*lm"), other.strip())
    for text in limit:
        name, value = _parts(text, "--range", "ilm=0:0.6")
        ends = value.split(":")
        if len(ends) != 2:
            raise FewerError(f"--range {text}: write it as ilm=0:0.6")
        values["ranges"][name] = tuple(_number(end, f"--range {text}", "ilm=0:0.6") for end in ends)
    return values


def _parts(text: str, option: str, example: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise FewerError(f"{option} {text}: write it as {example}")
    return name.strip(), value.strip()


def _number(text: str, where: str, example: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise FewerError(f"{where}: '{text}' is not a number; write it as {example}") from None


def _line(name: str, result: "TuneResult") -> str:
    low, high = result.chosen.result.interval
    where = ", ".join(f"{key} {value:g}" for key, value in result.parameters.items() if key != "aed")
    where += f", end scored by {', '.join(result.end_by)}" if result.end_by else ""
    notes = "" if result.converged else "; not converged: give it a larger --budget"
    notes += "; no significant gain, baseline kept" if result.kept_baseline else ""
    return (
        f"{name}: {where}: WER {result.wer:.2f} % ({low:.2f} to {high:.2f}; baseline {result.baseline.wer:.2f})"
        f" after {len(result.trials)} decodes{notes}"
    )
