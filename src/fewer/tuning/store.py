"""What tuning leaves in a folder: every decode (so that a killed run goes on), the pool, the surface, the result."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from fewer.config import parse_config
from fewer.errors import FewerError
from fewer.evaluation.guards import UtteranceSet
from fewer.files import read_json, write_json
from fewer.search.nbest import Header, LengthPolicy, NBest, Scale, read_header, read_nbest, write_nbest
from fewer.tuning.space import Scales
from fewer.tuning.tune import Trial, TuneOptions, TuneResult

FORMAT = "fewer-tune/1"


class SavedDecodes:
    """The N-best lists of a method's decodes as files, one for each point, so that none is made twice.

    Tuning is deterministic, so running it again with the same files goes on where it was killed.
    """

    def __init__(self, folder: str | Path, identity: str, end_by: Sequence[str] | None = None):
        self.folder, self.end_by = Path(folder), end_by
        self.identity = identity  # fingerprint of all that a decode depends on but its scales: models, beam, dev set

    def path(self, scales: Scales) -> Path:
        return decode_path(self.folder, scales, self.end_by)

    def load(self, scales: Scales) -> list[NBest] | None:
        """The lists of an earlier decode with these scales, if there was one."""
        path = self.path(scales)
        if not path.exists():
            return None
        header = read_header(path)
        if header.info.get("identity") != self.identity:
            raise FewerError(
                f"{path} is a decode with other models, options or utterances than now; tune into another folder, or"
                f" remove {self.folder}"
            )
        if (header.scales, header.length) != (scales.terms, scales.length):
            return None
        return list(read_nbest(path))

    def save(self, scales: Scales, lists: list[NBest]) -> None:
        header = Header(tuple(scales.terms), scales.terms, scales.length, {"identity": self.identity})
        write_nbest(self.path(scales), header, lists)


def decode_path(folder: Path, scales: Scales, end_by: Sequence[str] | None = None) -> Path:
    """The file of the decode at these scales. end_by: what scores the end label, if not the usual terms."""
    values = scales.terms | {"exponent": scales.length.exponent, "reward": scales.length.reward}
    end = [] if end_by is None else [f"end-{'-'.join(end_by)}"]
    return folder / ("_".join([*end, *(f"{name}{value:.6g}" for name, value in values.items())]) + ".jsonl")


def chosen_decode(folder: str | Path) -> Path:
    """The N-best lists of the decode whose scales tuning chose, in the folder of its result."""
    tuned = read_tuned(Path(folder) / "tune.json")
    return decode_path(Path(folder) / "decodes", tuned.multiplied, tuned.end_by)


def any_decode(folder: str | Path, identity: str) -> list[NBest] | None:
    """The lists of whichever decode with this identity is in a method's folder, if there is one."""
    for path in sorted((Path(folder) / "decodes").glob("*.jsonl")):
        if read_header(path).info.get("identity") == identity:
            return list(read_nbest(path))
    return None


def save_result(folder: str | Path, result: TuneResult, options: TuneOptions, method: str, dev_set: str) -> None:
    """Write pool.jsonl, surface.npz, length.npz (if a length parameter was tuned) and, last, tune.json."""
    folder = Path(folder)
    info = {"method": method, "set": dev_set, "pool": True}
    result.pool.save(folder / "pool.jsonl", result.scales, info)
    result.surface.save(folder / "surface.npz")
    if result.length_curve is not None:
        result.length_curve.save(folder / "length.npz")
    write_json(folder / "tune.json", to_json(result, options, method, dev_set))


def to_json(result: TuneResult, options: TuneOptions, method: str, dev_set: str) -> dict[str, Any]:
    """What tables, reports and decodes read of a tuning run."""
    return {
        "format": FORMAT,
        "method": method,
        "tuned_on": asdict(UtteranceSet.of(dev_set, result.pool.ids)),
        "parameters": result.parameters,  # positive, as the user writes them
        "scales": result.scales.terms,  # as the search multiplies by
        "length": asdict(result.scales.length),
        "end_by": result.end_by and list(result.end_by),  # what scores the end label; null: the usual terms
        "ends": {rule: round(wer, 4) for rule, wer in result.ends.items()},  # WER of the other rules that were tried
        "result": result.chosen.result.to_json(),
        "baseline": result.baseline.result.to_json(),
        "improved": result.improved,
        "kept_baseline": result.kept_baseline,
        "converged": result.converged,
        "decodes": len(result.trials),
        "pool": len(result.pool),
        "trials": [_trial(trial) for trial in result.trials],
        "options": options.model_dump(mode="json"),
    }


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "parameters": trial.parameters,
        "predicted_wer": None if trial.predicted is None else round(trial.predicted, 4),
        "wer": round(trial.wer, 4),
        "new": trial.new,
        "pool": trial.pool,
        "unended": trial.unended,
    }


def load_scales(path: str | Path) -> tuple[Scales, UtteranceSet]:
    """The scales that a tune.json holds, and the set on which they were tuned."""
    tuned = read_tuned(path)
    return tuned.multiplied, UtteranceSet(tuned.tuned_on.name, tuned.tuned_on.fingerprint)


class _Facts(BaseModel):
    """Of what a tune.json says, further keys are of no concern here."""

    model_config = ConfigDict(allow_inf_nan=False, frozen=True)


class TunedOn(_Facts):
    name: str
    fingerprint: str


class TunedLength(_Facts):
    exponent: float = Field(default=1.0, ge=-100, le=100)
    reward: Scale = 0.0


class TunedTrial(_Facts):
    parameters: dict[str, float]
    wer: float


class Tuned(_Facts):
    """What is read from a tune.json."""

    format: str
    tuned_on: TunedOn
    scales: dict[str, Scale]
    length: TunedLength
    parameters: dict[str, float] = Field(default={})
    trials: list[TunedTrial] = Field(default=[])
    converged: bool | None = None  # None: not known
    end_by: tuple[Literal["aed", "lm", "ilm", "words", "ctc"], ...] | None = Field(default=None, min_length=1)

    @property
    def multiplied(self) -> Scales:
        """The scales as the search multiplies by."""
        return Scales(dict(self.scales), LengthPolicy(self.length.exponent, self.length.reward))


def read_tuned(path: str | Path) -> Tuned:
    """A tune.json, checked."""
    value = read_json(path)
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise FewerError(f"{path} is not a tune.json of `fewer tune` (format {FORMAT})")
    try:
        return parse_config(Tuned, value, path)
    except FewerError as error:
        raise FewerError(f"{error}; run `fewer tune` again") from error
