"""Results for people: a table, the speakers, a comparison, and aligned texts."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.table import Table

from fewer.evaluation.alignment import show
from fewer.evaluation.wer import Comparison, Errors, Result, count
from fewer.files import atomic_write


def result_table(results: Mapping[str, Sequence[Result]]) -> Table:
    """One row for each system and rate (words, and characters where asked for)."""
    table = Table(box=None, pad_edge=False)
    table.add_column("system", overflow="fold")
    for name in ("rate", "%", "95 %", "sub", "del", "ins", "of", "sentences", "wrong %"):
        table.add_column(name, justify="right", no_wrap=True)
    for system, rates in results.items():
        for result in rates:
            errors = result.errors
            table.add_row(
                system,
                "CER" if result.characters else "WER",
                f"{result.wer:.2f}",
                f"{result.low:.2f}–{result.high:.2f}",
                *(f"{number:,}" for number in (errors.sub, errors.deletions, errors.ins, errors.words)),
                f"{errors.sentences:,}",
                f"{result.ser:.1f}",
            )
    return table


def short_names(paths: Sequence[Path]) -> list[str]:
    """What tells files apart: their names, with the folders in which they differ."""
    shared = os.path.commonpath([path.absolute().parent for path in paths])
    return [str(path.absolute().relative_to(shared)) for path in paths]


def speaker_table(speakers: Mapping[str, Errors]) -> Table:
    """One row for each speaker."""
    table = Table(box=None, pad_edge=False)
    table.add_column("speaker", overflow="fold")
    for name in ("WER %", "sub", "del", "ins", "words", "sentences", "wrong %"):
        table.add_column(name, justify="right", no_wrap=True)
    for speaker, errors in speakers.items():
        counts = (errors.sub, errors.deletions, errors.ins, errors.words, errors.sentences)
        table.add_row(speaker, f"{errors.wer:.2f}", *(f"{number:,}" for number in counts), f"{errors.ser:.1f}")
    return table


def interval_note(result: Result) -> str:
    """How the numbers were made."""
    units = len(set(result.units.tolist()))
    rules = {
        "plain": "fewest errors",
        "sclite": "sclite's rules",
        "hubscr": "hubscr's rules (sclite -F -D)",
    }
    return (
        f"aligned by {rules[result.rules]}; 95 % interval: bootstrap over {units} {result.unit}s, "
        f"{result.replications:,} draws"
    )


def comparison_lines(first: str, second: str, comparison: Comparison) -> list[str]:
    """Is the difference more than chance?"""
    if comparison.difference == 0:
        verdict = f"{first} and {second} make equally many errors"
    else:
        word = "fewer" if comparison.difference < 0 else "more"
        verdict = f"{first} makes {abs(comparison.difference):.2f} points {word} errors than {second}"
    pairs = comparison.matched_pairs
    return [
        f"{verdict} (95 %: {comparison.low:+.2f} to {comparison.high:+.2f})",
        f"  paired bootstrap   p = {_p(comparison.p_bootstrap)} "
        f"({first} better in {100 * comparison.better:.1f} % of draws)",
        f"  matched pairs      p = {_p(pairs.p)} (z = {pairs.z:.2f}, {pairs.segments:,} segments)",
    ]


def _p(p: float) -> str:
    return "<0.0001" if p < 0.0001 else f"{p:.4f}"


def alignment_lines(result: Result) -> Iterator[str]:
    """Reference above hypothesis for every utterance; wrong words in capitals, their kind below."""
    for utterance, edits in zip(result.ids, result.alignments, strict=True):
        errors = count(edits)
        yield f"{utterance}  sub {errors.sub}  del {errors.deletions}  ins {errors.ins}  of {errors.words}"
        ref, hyp, kinds = show(edits)
        yield f"REF: {ref}".rstrip()
        yield f"HYP: {hyp}".rstrip()
        yield f"     {kinds}".rstrip()
        yield ""


def write_alignments(path: str | Path, result: Result) -> None:
    with atomic_write(path) as stream:
        for line in alignment_lines(result):
            print(line, file=stream)
