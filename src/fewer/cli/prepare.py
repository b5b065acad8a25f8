"""`fewer prepare`: a corpus on disk -> manifests."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fewer.data.corpora import CORPORA
from fewer.data.corpora.texts import Case

if TYPE_CHECKING:
    from fewer.data.corpora.prepare import SetSummary

KINDS = "  ".join(f"{name}: {corpus.what}." for name, corpus in CORPORA.items())


def command(
    corpus: Annotated[str, typer.Argument(help=KINDS)],
    src: Annotated[Path, typer.Argument(help="The corpus's folder, as it is distributed; a table's file; a dataset.")],
    out: Annotated[
        Path | None,
        typer.Argument(
            help="Folder for the manifests. Default for table, folder and shar: the one that SRC is in.",
            show_default=False,
        ),
    ] = None,
    sets: Annotated[list[str] | None, typer.Option("--set", help="Only this set (repeatable).")] = None,
    splits: Annotated[
        list[str] | None,
        typer.Option(
            "--split",
            help="Also write parts of a set, divided by speaker: SET=PART:SPEAKERS,PART, such as "
            "dev-clean=tune:20,report for the first 20 speakers (sorted) and the others (repeatable).",
        ),
    ] = None,
    transcripts: Annotated[Path | None, typer.Option(help="Folder of the transcripts, if they are not in SRC.")] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="List entries that cannot be used and leave them out; else an error.")
    ] = False,
    resample: Annotated[
        int | None,
        typer.Option(min=1000, help="Give every utterance this sampling rate in Hz; rates may be mixed then."),
    ] = None,
    case: Annotated[Case, typer.Option(help="Letters of the transcripts.")] = Case.KEEP,
    text: Annotated[bool, typer.Option("--text", help="Also write the transcripts as plain text, <set>.txt.")] = False,
) -> None:
    """Turn a corpus, or recordings of your own, into manifests: OUT/<set>.jsonl, one utterance per line.

    fewer prepare table dev.csv

    Nothing is written if anything is wrong.
    """
    import fewer

    show(
        fewer.prepare(
            corpus,
            src,
            out,
            sets=sets,
            splits=splits,
            transcripts=transcripts,
            skip_bad=skip_bad,
            resample=resample,
            case=case.value,
            text=text,
        )
    )


def show(summaries: "list[SetSummary]") -> None:
    """Print a table of what was written to standard output."""
    from rich.console import Console
    from rich.table import Table

    from fewer.data.corpora.cuts import OVERSHOOT
    from fewer.progress import say

    table = Table("set", box=None, pad_edge=False)
    for column in ("utterances", "hours", "speakers", "words"):
        table.add_column(column, justify="right")
    for one in summaries:
        hours = f"{one.seconds / 3600:.2f}" if one.seconds else "–"
        table.add_row(one.name, f"{one.utterances}", hours, f"{len(one.speakers) or '–'}", f"{one.words}")
    Console(highlight=False).print(table)
    for one in summaries:
        if one.wordless:
            say(f"{one.name}: left out {one.wordless} segments without words")
        if one.shortened:
            say(f"{one.name}: shortened {one.shortened} segments that ended up to {OVERSHOOT} s after their recording")
