"""The results of a run as they stand in the repository: numbers, a page of text, and a picture if wanted.

    python benchmarks/results.py RUN NAME [--command LINE ...] [--note TEXT ...] [--picture FILE] [--out .]

RUN is a finished run of `fewer run` (of `fewer demo`: DEMO/run). The commands that made it and what else one should
know of it are told as they are given. Writes OUT/results/NAME.json, OUT/results/NAME.md and OUT/FILE.
"""

import argparse
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image

from fewer.files import atomic_write, read_json, write_json
from fewer.report.plots import plot_surfaces, plot_table, tuned_surfaces
from fewer.report.results import results_of
from fewer.report.tables import markdown

NUMBERS = ("wer", "low", "high", "sub", "del", "ins", "words", "utterances", "p_vs_sf")
FACTS = (
    "method",
    "row",
    "name",
    "second_pass",
    "baseline",
    "lm_scale",
    "ilm_scale",
    "end_scored_by",
    "length",
    "decodes",
    "tune_wer",
    "ilm_ppl",
    "ilm_ppl_set",
)
KEPT = ("title", "seed", "tuned_on", "end_scored_by", "sets", "versions", "seconds", "warnings")


def kept(results: dict[str, Any]) -> dict[str, Any]:
    """What of results.json says what was found, without the places where it lies."""
    rows = [
        {key: row[key] for key in FACTS}
        | {"wer": {name: {key: value[key] for key in NUMBERS} for name, value in row["wer"].items()}}
        for row in results["rows"]
    ]
    return {key: results.get(key) for key in KEPT} | {"rows": rows}


def page(results: dict[str, Any], commands: list[str], notes: list[str], shown: str | None) -> str:
    """The table with what one needs to make it again."""
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    stages = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in results["seconds"].items())
    table = markdown(results_of(results)).partition("\n\n")[2]
    lines = [
        f"# {results['title']}",
        "",
        *(f"    {command}" for command in commands),
        *([""] if commands else []),
        f"Seed {results['seed']}; {versions}.",
        f"Time by stage: {stages}.",
        "",
        *(f"- {note}" for note in notes),
        *([""] if notes else []),
        table.rstrip(),
        *(["", f"![The table, and how the word error rate depends on the scales](../{shown})"] if shown else []),
    ]
    return "\n".join(lines) + "\n"


def picture(run: Path, results: dict[str, Any], out: Path) -> None:
    """The table above, the surfaces of all methods below."""
    typed = results_of(results)
    with TemporaryDirectory() as folder:
        files = [plot_table(typed, Path(folder) / "table.png")]
        files.append(plot_surfaces(tuned_surfaces(run, typed), Path(folder) / "surfaces.png", typed.tuned_on or ""))
        parts = [Image.open(file).convert("RGB") for file in files]
    width = max(part.width for part in parts)
    parts = [part.resize((width, part.height * width // part.width), Image.Resampling.LANCZOS) for part in parts]
    whole = Image.new("RGB", (width, sum(part.height for part in parts)), "white")
    top = 0
    for part in parts:
        whole.paste(part, (0, top))
        top += part.height
    content = BytesIO()
    whole.quantize(128).save(content, "PNG", optimize=True)
    with atomic_write(out, "wb") as stream:
        stream.write(content.getvalue())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("name")
    parser.add_argument("--command", action="append", default=[])
    parser.add_argument("--note", action="append", default=[])
    parser.add_argument("--picture")
    parser.add_argument("--out", type=Path, default=Path())
    options = parser.parse_args()
    results = kept(read_json(options.run / "results.json"))
    write_json(options.out / "results" / f"{options.name}.json", results)
    with atomic_write(options.out / "results" / f"{options.name}.md") as stream:
        stream.write(page(results, options.command, options.note, options.picture))
    if options.picture:
        picture(options.run, results, options.out / options.picture)


if __name__ == "__main__":
    main()
