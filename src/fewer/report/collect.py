"""Everything that the page shows, read from a run folder. What a run does not have is left out."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field

from fewer.config import parse_config
from fewer.errors import FewerError
from fewer.evaluation.normalise import load_normaliser
from fewer.files import read_json
from fewer.progress import progress
from fewer.report.blob import Blob
from fewer.report.lists import SCALE_STEP, TextStore, pack_best, pack_list, pack_powers
from fewer.report.methods import facts_of
from fewer.report.results import Results, Row
from fewer.training.records import CURVES, read_curves
from fewer.tuning.store import read_tuned
from fewer.tuning.surface import Surface

CURVE_POINTS = 200  # at most, of each curve
ATTENTION_LEVELS = 255


def collect(run: Path, results: Results) -> tuple[dict[str, Any], Blob]:
    """The page's data: what goes into its JSON, and the arrays."""
    blob = Blob()
    sets = list(dict.fromkeys([*([results.tuned_on] if results.tuned_on else []), *results.sets]))
    stores: dict[str, dict[str, Any]] = {}
    lists: dict[str, dict[str, Any]] = {}
    for name in progress(sets, "N-best lists"):
        store = TextStore(load_normaliser(results.normaliser))
        lists[name] = _lists_of(run, results, name, store, blob)
        if lists[name]:
            stores[name] = store.pack(name, blob)
    packed = [one for of_set in lists.values() for one in of_set.values()]
    lengths = np.unique(np.concatenate([one.pop("used_lengths") for one in packed] or [np.ones(1, np.int64)]))
    data: dict[str, Any] = {
        "title": results.title,
        "tunedOn": results.tuned_on,
        "tunedSets": [name for name in sets if results.tuned(name)],
        "sets": [name for name in sets if lists[name]],
        "resultSets": results.sets,
        "references": results.references,
        "rows": [_row(results, row) for row in results.ordered],
        "start": _first_shown(results),
        "scaleStep": SCALE_STEP,
        "texts": stores,
        "lists": {name: of_set for name, of_set in lists.items() if of_set},
        "powers": pack_powers(packed, lengths, blob),
        "surfaces": {row.key: found for row in results.ordered if (found := _surfaces(run, row, blob))},
        "curves": _curves(run),
        "attention": _attention(run, blob),
    }
    return data, blob


def _row(results: Results, row: Row) -> dict[str, Any]:
    baseline = results.baseline(row)
    return {
        "key": row.key,
        "method": row.method,
        "name": row.name,
        "about": facts_of(row.method).description,
        "baseline": baseline.key if baseline else None,
        "lm": row.lm_scale,
        "ilm": row.ilm_scale,
        "ppl": row.ilm_ppl,
        "pplSet": row.ilm_ppl_set,
        "wer": {name: {"wer": score.wer, "low": score.low, "high": score.high} for name, score in row.wer.items()},
    }


def _first_shown(results: Results) -> str:
    """The row that the page opens with: the best one on the set that was tuned on; of equals, one with more scales."""
    rates = [(results.wer_where_tuned(row), row) for row in results.ordered]
    known = [(rate, row) for rate, row in rates if rate is not None]
    if not known:
        return results.ordered[0].key
    return min(known, key=lambda found: (found[0], -_scales(found[1])))[1].key


def _scales(row: Row) -> int:
    return 0 if row.method == "none" else 1 if row.ilm_ppl is None else 2


def _lists_of(run: Path, results: Results, name: str, store: TextStore, blob: Blob) -> dict[str, Any]:
    """By row: the pool for the set that was tuned on, elsewhere the lists of the decode at the tuned scales."""
    found: dict[str, Any] = {}
    for row in results.ordered:
        decode = run / "decodes" / name / f"{row.key}.jsonl"
        pools = [run / "pools" / f"{row.key}.jsonl", run / "tuning" / row.key / "pool.jsonl"]
        pool = next((path for path in pools if path.exists()), None) if name == results.tuned_on else None
        path = pool or decode
        if not path.exists():
            continue
        key = f"{name}/{row.key}"
        packed, lengths = pack_list(path, key, store, blob)
        best = pack_best(decode, key, store, blob) if decode.exists() else None
        found[row.key] = {**packed, "used_lengths": lengths, "pool": pool is not None, "best": best}
    return found


def _surfaces(run: Path, row: Row, blob: Blob) -> dict[str, Any] | None:
    """The WER over the scales and over the length parameter, and the points that tuning decoded."""
    folder = run / "tuning" / row.key
    found = {}
    for name in ("surface", "length"):
        path = folder / f"{name}.npz"
        if path.exists() and (surface := Surface.load(path)).names:
            found[name] = _surface(surface, f"{row.key}/{name}", blob)
    if not found:
        return None
    if not (folder / "tune.json").exists():
        return {**found, "trials": [], "chosen": {}, "converged": None}
    tuned = read_tuned(folder / "tune.json")
    points = [{"at": trial.parameters, "wer": trial.wer} for trial in tuned.trials]
    return {**found, "trials": points, "chosen": tuned.parameters, "converged": tuned.converged}


def _surface(surface: Surface, name: str, blob: Blob) -> dict[str, Any]:
    words = np.unique(surface.words)
    same = len(words) == 1
    return {
        "names": surface.names,
        "axes": [[round(float(value), 6) for value in axis] for axis in surface.axes],
        "errors": blob.add(f"{name}/errors", surface.errors, "i32", delta=True),
        "words": int(words[0]) if same else blob.add(f"{name}/words", surface.words, "i32", delta=True),
        "at": surface.at,
    }


def _curves(run: Path) -> list[dict[str, Any]]:
    """Cross entropy on training and dev data after each sub-epoch, of every model that was trained."""
    found = []
    for folder in (run / "models", run / "ilm"):
        for path in sorted(folder.rglob(CURVES)) if folder.is_dir() else []:
            points = [point for point in read_curves(path.parent) if point.get("kind") == "sub_epoch"]
            points = points[:: max(1, len(points) // CURVE_POINTS)]
            series = {
                label: [_rounded(point.get(f"{label}_ce")) for point in points]
                for label in ("train", "dev")
                if any(f"{label}_ce" in point for point in points)
            }
            if series:
                name = " / ".join(path.parent.relative_to(folder).parts)
                steps = [int(point["step"]) for point in points]
                found.append({"name": name, "steps": steps, "series": series})
    return found


def _rounded(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else round(float(value), 4)


class _Utterance(BaseModel):
    id: str
    text: str
    labels: list[str]
    weights: list[list[Annotated[float, Field(ge=0, le=2)]]]  # (labels, frames)


class _Attention(BaseModel):
    """What attention.json says."""

    utterances: list[_Utterance]


def _attention(run: Path, blob: Blob) -> list[dict[str, Any]]:
    path = run / "attention.json"
    if not path.exists():
        return []
    found = []
    for number, utterance in enumerate(parse_config(_Attention, read_json(path), path).utterances):
        if len({len(row) for row in utterance.weights}) > 1 or len(utterance.weights) != len(utterance.labels):
            raise FewerError(
                f"{path}: utterance {utterance.id} has {len(utterance.labels)} labels and {len(utterance.weights)} rows"
                f" of weights; expected one row for each label, all of one length"
            )
        weights = np.array(utterance.weights, dtype=float).reshape(len(utterance.labels), -1)
        levels = np.clip(np.rint(weights * ATTENTION_LEVELS), 0, ATTENTION_LEVELS)
        found.append(
            {
                "id": utterance.id,
                "text": utterance.text,
                "labels": utterance.labels,
                "frames": weights.shape[1],
                "weights": blob.add(f"attention/{number}", levels, "u8"),
            }
        )
    return found
