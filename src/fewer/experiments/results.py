"""The results of an experiment that has been decoded: its rows with errors and significance, and what to mind."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fewer.data.manifest import Manifest
from fewer.data.token_store import read_text
from fewer.evaluation.guards import UtteranceSet, text_overlap
from fewer.evaluation.transcripts import load_pairs
from fewer.evaluation.wer import Result, compare, score
from fewer.experiments.config import ExperimentConfig, Row
from fewer.files import read_json
from fewer.ilm.folder import FACTS
from fewer.search.nbest import read_nbest
from fewer.training.run import versions

if TYPE_CHECKING:
    from fewer.experiments.experiment import Experiment


def results_of_run(run: "Experiment") -> dict[str, Any]:
    """What results.json holds (see `fewer.report.results`)."""
    config = run.config
    scored = {(row.key, name): _score(run, row, name) for row in config.rows for name in config.sets}
    return {
        "title": config.title,
        "tuned_on": Path(config.tune).stem,
        "tuned_on_fingerprint": UtteranceSet.of("", Manifest(config.tune, transcripts=False).ids()).fingerprint,
        "normaliser": config.normaliser,
        "end_scored_by": list(config.end_scored_by) if isinstance(config.end_scored_by, tuple) else None,
        "sets": list(config.sets),
        "references": {name: config.references[name].name for name in config.sets if name in config.references},
        "rows": [_row(run, row, scored) for row in config.rows],
        "paper": config.paper,
        "warnings": _warnings(config),
        "versions": versions(),
        "seconds": run.seconds,
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "seed": config.seed,
    }


def _row(run: "Experiment", row: Row, scored: dict[tuple[str, str], Result]) -> dict[str, Any]:
    scales, base, alone = run.scales(row), baseline(run.config, row), without_lm(run.config, row)
    tuned = read_json(run.folder / "tuning" / row.key / "tune.json")
    wer = {}
    for name in run.config.sets:
        value = scored[row.key, name].to_json()
        for key, other in (("p_vs_sf", base), ("p_vs_none", alone)):
            value[key] = compare(scored[row.key, name], scored[other.key, name]).p_bootstrap if other else None
        wer[name] = value
    return {
        "method": row.method,
        "row": row.key,
        "name": row.label,
        "recogniser": run.config.recogniser_of(row),
        "second_pass": list(row.second_pass),
        "baseline": base.key if base else None,
        "lm_scale": scales.terms.get("lm", 0.0),
        "ilm_scale": -scales.terms.get("ilm", 0.0) + 0.0,
        "length": asdict(scales.length),
        "decodes": tuned["decodes"],
        "tune_wer": tuned["result"]["wer"],
        "converged": tuned["converged"],
        "end_scored_by": tuned["end_by"],
        "ilm_ppl": _ilm_perplexity(run, row),
        "ilm_ppl_set": Path(run.config.dev).stem,
        "wer": wer,
    }


def baseline(config: ExperimentConfig, row: Row) -> Row | None:
    """Shallow fusion with the same recogniser and LM; if there is none, with one of the two, the recogniser first.

    A row that ranks the lists of others compares with shallow fusion that does so, if there is such a row.
    """
    if row.method == "sf" and not row.second_pass:
        return None
    recogniser, lm = config.recogniser_of(row), config.lm_of(row)

    def likeness(other: Row) -> tuple[bool, bool, bool]:
        same_lm = lm is not None and config.lm_of(other) == lm
        return config.recogniser_of(other) == recogniser, same_lm, other.second_pass == row.second_pass

    others = [other for other in config.rows if other.method == "sf" and other is not row and any(likeness(other)[:2])]
    return max(others, key=likeness, default=None)


def without_lm(config: ExperimentConfig, row: Row) -> Row | None:
    """The same recogniser by itself."""
    same = (other for other in config.rows if config.recogniser_of(other) == config.recogniser_of(row))
    return next((other for other in same if other.method == "none" and other is not row), None)


def _score(run: "Experiment", row: Row, set_name: str) -> Result:
    if (reference := run.config.references.get(set_name)) is not None:
        return _score_by(reference, run, row, set_name)
    lists = list(read_nbest(run.nbest_path(row, set_name)))
    refs = {nbest.id: nbest.ref or "" for nbest in lists}
    hyps = {nbest.id: nbest.hypotheses[0].text for nbest in lists}
    return run.metric.score(refs, hyps, {nbest.id: nbest.speaker or "" for nbest in lists})


def _score_by(reference: Path, run: "Experiment", row: Row, set_name: str) -> Result:
    """As `fewer score --ref STM --segments MANIFEST` does: words are laid evenly over their segments."""
    normaliser, manifest = run.metric.normaliser, run.config.sets[set_name]
    pairs = load_pairs(run.nbest_path(row, set_name), reference, normaliser=normaliser, segments=manifest)
    return score(pairs.refs, pairs.hyps, pairs.speakers, rules="hubscr" if normaliser.glm else "sclite")


def _ilm_perplexity(run: "Experiment", row: Row) -> float | None:
    if not row.estimates:
        return None
    value: float = read_json(run.ilm(row) / FACTS)["perplexity"][Path(run.config.dev).stem]["ppl_label"]
    return value


def _warnings(config: ExperimentConfig) -> list[str]:
    """Test transcripts that stand in the LMs' text, and sets that the table and the page count differently."""
    warnings = []
    for name, path in config.sets.items() if config.lm_text else ():
        manifest = Manifest(path, transcripts=False)
        refs = dict(zip(manifest.ids(), manifest.texts(), strict=True))
        found = text_overlap(refs, (line for text in config.lm_text for line in read_text(text)))
        if found.count:
            warnings.append(f"{name}: {found}")
    for name in config.sets:
        if (reference := config.references.get(name)) is not None:
            warnings.append(
                f"{name}: this table counts errors against {reference.name}; tuning and the sliders of the report page "
                "count them against the transcripts of the decoded segments, so their rates differ a little"
            )
    return warnings
