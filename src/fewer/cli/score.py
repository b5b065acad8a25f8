"""`fewer score`: word error rates with intervals, significance and alignments."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from fewer.cli import options


def command(
    hypotheses: Annotated[
        Path, typer.Argument(help="N-best file (.jsonl), .trn, .ctm, or Kaldi's text file.", metavar="HYP")
    ],
    ref: Annotated[
        Path | None,
        typer.Option(
            help="References: .trn, .stm, Kaldi's text, or a set as in `fewer decode`. Default: the N-best file's."
        ),
    ] = None,
    against: Annotated[Path | None, typer.Option(help="Another system's hypotheses to compare with.")] = None,
    normalise: options.Normalise = "none",
    rules: Annotated[
        Literal["plain", "sclite", "hubscr"] | None,
        typer.Option(
            help="plain: fewest errors; sclite: NIST's costs and { a / b }; hubscr: also (optional) words and "
            "fragments-. Default: hubscr with a glm, sclite for .trn and .stm references, else plain."
        ),
    ] = None,
    cer: Annotated[bool, typer.Option("--cer", help="Also give the character error rate.")] = False,
    oracle: Annotated[
        bool, typer.Option("--oracle", help="Also give the WER of the best hypothesis in each N-best list.")
    ] = False,
    per_speaker: Annotated[bool, typer.Option("--per-speaker", help="Also list every speaker.")] = False,
    alignments: Annotated[Path | None, typer.Option(help="Write the aligned texts to this file.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the numbers to this file.")] = None,
    missing: Annotated[
        Literal["error", "deletions"], typer.Option(help="What a reference without hypothesis is.")
    ] = "error",
    lm_scale: Annotated[float | None, typer.Option(help="Rank the N-best lists anew with this λ1.")] = None,
    ilm_scale: Annotated[float | None, typer.Option(help="… and this λ2 (positive: it is subtracted).")] = None,
    scales: Annotated[
        str | None, typer.Option(help="Scales of any terms as they are multiplied: lm=0.4,ilm=-0.2.")
    ] = None,
    exponent: Annotated[float | None, typer.Option(help="Rank by score / length^exponent.")] = None,
    reward: Annotated[float | None, typer.Option(help="Rank with this added for each label.")] = None,
    segments: Annotated[
        Path | None,
        typer.Option(help="For .stm references: the manifest that was decoded, over whose cuts words are laid evenly."),
    ] = None,
    speakers: Annotated[Path | None, typer.Option(help="Kaldi's utt2spk file.")] = None,
    draw: Annotated[
        Literal["auto", "speaker", "utterance"],
        typer.Option(help="What the bootstrap draws. auto: speakers if five or more are known, else utterances."),
    ] = "auto",
    seed: Annotated[int, typer.Option(min=0, help="Of the bootstrap.")] = 0,
    write_ref: Annotated[Path | None, typer.Option(help="Write the references as scored (.trn, .stm).")] = None,
    write_hyp: Annotated[Path | None, typer.Option(help="Write the hypotheses as scored (.trn, .ctm).")] = None,
) -> None:
    """Word error rate with substitutions, deletions, insertions, a bootstrap interval and significance."""
    from rich.console import Console

    import fewer
    from fewer.evaluation import printing
    from fewer.evaluation.transcripts import parse_scales, write_hypotheses, write_references
    from fewer.files import write_json

    found = fewer.score(
        hypotheses,
        ref,
        against=against,
        normalise=normalise,
        rules=rules,
        cer=cer,
        oracle=oracle,
        missing=missing,
        lm_scale=lm_scale,
        ilm_scale=ilm_scale,
        scales=parse_scales(scales) if scales else None,
        exponent=exponent,
        reward=reward,
        segments=segments,
        speakers=speakers,
        draw=draw,
        seed=seed,
    )
    report = found.to_json(per_speaker)
    first, *others = printing.short_names([hypotheses] if against is None else [hypotheses, against])
    first += found.system.removeprefix(str(hypotheses))  # how it was ranked
    console = Console(highlight=False, soft_wrap=True)
    rates = {first: found.rates}
    if found.oracle is not None:
        rates[f"{first}, oracle"] = [found.oracle]
    lines = [printing.interval_note(found.result)]
    if found.against is not None and found.comparison is not None:
        rates[others[0]] = found.against.rates
        lines += printing.comparison_lines(first, others[0], found.comparison)
    console.print(printing.result_table(rates))
    for line in lines:
        console.print(line, markup=False)
    if per_speaker:
        console.print(printing.speaker_table(found.result.by_speaker()))
    if alignments is not None:
        printing.write_alignments(alignments, found.result)
    if write_ref is not None:
        write_references(write_ref, found.pairs)
    if write_hyp is not None:
        write_hypotheses(write_hyp, found.pairs)
    if json is not None:
        write_json(json, report)
