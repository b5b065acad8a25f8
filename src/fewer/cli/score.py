"""`fewer score`: word error rates with intervals, significance and alignments."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fewer.cli import options
from fewer.errors import FewerError

if TYPE_CHECKING:
    from fewer.evaluation.alignment import Rules
    from fewer.evaluation.transcripts import Pairs, Ranking
    from fewer.evaluation.wer import Result


def command(
    hypotheses: Annotated[
        Path, typer.Argument(help="N-best file (.jsonl), .trn, .ctm, or Kaldi's text file.", metavar="HYP")
    ],
    ref: Annotated[
        Path | None,
        typer.Option(help="References: manifest (.jsonl), .trn, .stm or Kaldi's text. Default: the N-best file's own."),
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
) -> dict[str, Any]:
    """Word error rate with substitutions, deletions, insertions, a bootstrap interval and significance."""
    from dataclasses import asdict

    from rich.console import Console

    from fewer.evaluation import printing
    from fewer.evaluation.normalise import load_normaliser
    from fewer.evaluation.transcripts import load_pairs, write_hypotheses, write_references
    from fewer.evaluation.wer import compare, score
    from fewer.files import write_json

    normaliser = load_normaliser(normalise)
    if normalise == "english":
        _say_spellings()
    ranking = _ranking(lm_scale, ilm_scale, scales, exponent, reward)
    if against == hypotheses and ranking is None:
        raise FewerError(f"{against} cannot be compared with itself, unless it is ranked by other scales")

    def load(path: Path, ranking: "Ranking | None") -> "Pairs":
        return load_pairs(path, ref, normaliser=normaliser, segments=segments, speakers=speakers, ranking=ranking)

    pairs = load(hypotheses, ranking)
    _say_empty(pairs)
    if normalise == "none":
        _say_style(pairs)
    chosen: Rules = rules or ("hubscr" if normaliser.glm else "sclite" if pairs.nist else "plain")

    def rates(pairs: "Pairs") -> "list[Result]":
        return [
            score(
                pairs.refs, pairs.hyps, pairs.speakers,
                rules=chosen, characters=characters, missing=missing, unit=draw, seed=seed,
            )
            for characters in ([False, True] if cer else [False])
        ]  # fmt: skip

    by = f" ({ranking})" if ranking else ""
    short = printing.short_names([hypotheses] if against is None else [hypotheses, against])
    results = {short[0] + by: rates(pairs)}
    first, *characters = results[short[0] + by]
    report: dict[str, Any] = {"system": f"{hypotheses}{by}", "normaliser": normalise, **first.to_json()}
    if cer:
        report["cer"] = characters[0].to_json()
    lines: list[str] = []
    if against is not None:
        results[short[1]] = rates(load(against, None))
        comparison = compare(first, results[short[1]][0])
        report["against"] = {"system": str(against), "result": results[short[1]][0].to_json()}
        report["against"]["comparison"] = comparison.to_json()
        lines = printing.comparison_lines(short[0] + by, short[1], comparison)

    console = Console(highlight=False, soft_wrap=True)
    console.print(printing.result_table(results))
    for line in (printing.interval_note(first), *lines):
        console.print(line, markup=False)
    if per_speaker:
        report["speakers"] = {
            speaker: asdict(errors) | {"wer": errors.wer} for speaker, errors in first.by_speaker().items()
        }
        console.print(printing.speaker_table(first.by_speaker()))
    if alignments is not None:
        printing.write_alignments(alignments, first)
    if write_ref is not None:
        write_references(write_ref, pairs)
    if write_hyp is not None:
        write_hypotheses(write_hyp, pairs)
    if json is not None:
        write_json(json, report)
    return report


def _ranking(
    lm_scale: float | None, ilm_scale: float | None, scales: str | None, exponent: float | None, reward: float | None
) -> "Ranking | None":
    """What the options change of an N-best file's ranking; None if nothing."""
    from fewer.evaluation.transcripts import Ranking, parse_scales
    from fewer.search.fusion import signed

    changed = parse_scales(scales) if scales else {}
    given = {term: value for term, value in (("lm", lm_scale), ("ilm", ilm_scale)) if value is not None}
    for term in given:
        if term in changed:
            raise FewerError(f"--{term}-scale and --scales {term}=… say the same thing; give one of them")
    changed |= signed(given)
    if not changed and exponent is None and reward is None:
        return None
    return Ranking(changed, exponent, reward)


def _say_spellings() -> None:
    from fewer.progress import say

    say(
        "english without Whisper's table of spellings: British and American forms count as different words; "
        "english:PATH/normalizer.json (it comes with every Whisper model) joins them"
    )


def _say_empty(pairs: "Pairs") -> None:
    from fewer.evaluation.wer import listed
    from fewer.progress import say

    empty = [utterance for utterance, text in pairs.refs.items() if not text]
    if empty and len(empty) < len(pairs.refs):
        say(f"{len(empty)} references are empty, so that all words there count as inserted: {listed(empty)}")


def _say_style(pairs: "Pairs") -> None:
    """Of hypotheses that are written in another way than the references."""
    from fewer.evaluation.normalise import basic
    from fewer.progress import say

    both = [(text, pairs.hyps[id]) for id, text in pairs.refs.items() if id in pairs.hyps]
    other = [text for text, hyp in both if text != hyp and basic(text) == basic(hyp)]
    if len(other) > 0.05 * len(pairs.refs):
        say(
            f"{len(other)} of {len(pairs.refs)} utterances differ from their references in case and punctuation alone, "
            "which counts as errors; --normalise english (or basic) counts words"
        )
