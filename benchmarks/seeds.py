"""Mean and spread over seeds: the same table from recognisers that were trained with other seeds.

    python benchmarks/seeds.py results/mini-b-end.json runs/mini-b-2/results.json runs/mini-b-3/results.json

Files are of `benchmarks/results.py` or of run folders. Of every row that all of them have, prints the word error rate
of each seed, mean and standard deviation (of a sample), and the same of the relative gain over the shallow fusion of
the same seed. The last line is JSON.
"""

import argparse
import json
import statistics
from pathlib import Path
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+")
    runs = [json.loads(path.read_text()) for path in parser.parse_args().results]
    found = {name: over_seeds(runs, name) for name in runs[0]["sets"]}
    for name, rows in found.items():
        print(table(name, [run["seed"] for run in runs], rows))
    print(json.dumps({"seeds": [run["seed"] for run in runs], "sets": found}))


def over_seeds(runs: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Of each row that all runs have: word error rates, and gains over the shallow fusion it is compared with, in %."""
    of_runs = [{row["row"]: row for row in run["rows"]} for run in runs]
    rows = []
    for key, row in of_runs[0].items():
        if not all(key in other for other in of_runs):
            continue
        wers = [other[key]["wer"][name]["wer"] for other in of_runs]
        base = row["baseline"]
        gains = None
        if base in of_runs[0] and base != key:
            pairs = zip(wers, (other[base]["wer"][name]["wer"] for other in of_runs), strict=True)
            gains = summary([100 * (1 - wer / of_sf) for wer, of_sf in pairs])
        rows.append({"row": key, "name": row["name"], "wer": summary(wers), "gain": gains})
    return rows


def summary(values: list[float]) -> dict[str, Any]:
    spread = statistics.stdev(values) if len(values) > 1 else None
    return {"values": values, "mean": statistics.fmean(values), "sd": spread}


def table(name: str, seeds: list[int], rows: list[dict[str, Any]]) -> str:
    """Markdown."""
    head = ["method", *(f"seed {seed}" for seed in seeds), "mean ± sd", "gain over shallow fusion, mean ± sd"]
    lines = [f"WER in %, {name}\n", f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
    for row in rows:
        each = [f"{wer:.2f}" for wer in row["wer"]["values"]]
        gain = "–" if row["gain"] is None else f"{told(row['gain'])} %"
        lines.append(f"| {' | '.join([row['name'], *each, told(row['wer']), gain])} |")
    return "\n".join(lines) + "\n"


def told(of: dict[str, Any]) -> str:
    return f"{of['mean']:.2f}" + ("" if of["sd"] is None else f" ± {of['sd']:.2f}")


if __name__ == "__main__":
    main()
