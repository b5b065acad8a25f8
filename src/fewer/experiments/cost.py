"""What an experiment costs besides the trainings: estimating internal LMs, tuning, decoding."""

from dataclasses import dataclass
from pathlib import Path

from fewer.data.manifest import Manifest
from fewer.experiments.config import ExperimentConfig, Row
from fewer.experiments.layers import RECIPES, load_train_config, names, train_values
from fewer.ilm.config import IlmConfig
from fewer.ilm.registry import all_methods
from fewer.models.aed import AedConfig
from fewer.store.model_folder import CONFIG, ModelConfig, read_description
from fewer.training.configs import AedTrainConfig, TrainConfig, parse_train_config
from fewer.training.cost import Amount, forward_flops, time_lines
from fewer.training.gpus import DECODING_SHARE, TRAINING_SHARE, Gpu

SHIFT = 0.01  # seconds from one frame to the next
AVERAGES = ("enc_avg", "ctx_avg")  # which one pass over the training set measures together


@dataclass(frozen=True)
class Costs:
    """Operations of each stage; None where something about it is not known."""

    ilm: float | None
    tuning: float | None
    decoding: float | None


def frozen_lm(config: TrainConfig) -> ModelConfig | None:
    """The LM that a recogniser is trained with, if it is here or there is a recipe of its name."""
    if not isinstance(config, AedTrainConfig) or config.external_lm is None:
        return None
    folder = config.external_lm.model
    if (folder / CONFIG).exists():
        return read_description(folder).model
    return load_train_config(folder.name).model if folder.name in names(RECIPES) else None


def experiment_lines(config: ExperimentConfig, gpu: Gpu) -> list[str]:
    """Estimation, tuning and decoding: operations, and how long they take."""
    costs = experiment_costs(config)
    decodes = sum(_budget(config, row) for row in config.rows if not row.second_pass)
    lines = [
        _line("internal LMs", costs.ilm, "one pass over the training set for all averages"),
        _line("tuning", costs.tuning, f"at most {decodes} decodes of {config.tune}, beam {config.beam}"),
        _line("decoding", costs.decoding, f"{len(config.rows)} rows on {', '.join(config.sets)}"),
    ]
    for flops, share, what in (
        (costs.ilm, TRAINING_SHARE, "internal LMs"),
        (_sum(costs.tuning, costs.decoding), DECODING_SHARE, "tuning and decoding"),
    ):
        if flops:
            lines += [f"{what}: {line}" for line in time_lines(flops, gpu, share)]
    return lines


def experiment_costs(config: ExperimentConfig) -> Costs:
    hours = {name: _hours(config, name, path) for name, path in (*config.sets.items(), ("tune", config.tune))}
    tuned = [_decode(config, row, hours["tune"], _budget(config, row)) for row in config.rows if not row.second_pass]
    searched = [row for row in config.rows if not row.second_pass]
    decoded = [_decode(config, row, hours[name]) for row in searched for name in config.sets]
    return Costs(_ilms(config), _sum(*tuned), _sum(*decoded))


def _line(what: str, flops: float | None, how: str) -> str:
    return f"{what}: " + ("cost unknown" if flops is None else f"{flops / 1e15:.3g} PFLOP") + f"; {how}"


def _sum(*parts: float | None) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _budget(config: ExperimentConfig, row: Row) -> int:
    return int(row.tuning.get("budget", config.tuning.budget))


def _hours(config: ExperimentConfig, name: str, path: Path) -> float | None:
    if path.exists():
        return float(Manifest(path, transcripts=False).durations.sum()) / 3600
    return config.hours.get(name, config.hours.get(path.stem))


def _training(config: ExperimentConfig, name: str) -> AedTrainConfig | None:
    """How a recogniser is trained, if it is trained here."""
    source = config.recognisers[name]
    if source.train is None:
        return None
    parsed = parse_train_config({"tokenizer": "tokenizer.json", **train_values(source.train)}, name)
    return parsed if isinstance(parsed, AedTrainConfig) else None


def _lm(config: ExperimentConfig, row: Row) -> ModelConfig | None:
    """The row's LM, if it is a net that is trained here; n-grams cost nothing to speak of."""
    name = config.lm_of(row)
    if name is None or config.lms[name].train is None:
        return None
    values = {"tokenizer": "tokenizer.json", **train_values(config.lms[name].train or {})}
    return parse_train_config(values, name).model


def _amount(training: AedTrainConfig, hours: float, beam: int = 1) -> Amount | None:
    """So much speech, with as many labels and utterances for an hour as the training set has."""
    if training.expected is None:
        return None
    share = hours / training.expected.hours
    frames = hours * 3600 / SHIFT
    return Amount(training.expected.utterances * share, training.expected.labels * share * beam, frames, 0)


def _decode(config: ExperimentConfig, row: Row, hours: float | None, times: int = 1) -> float | None:
    """One search: the encoder once, then decoder, LM and internal LM for each hypothesis and label."""
    training = _training(config, config.recogniser_of(row))
    if training is None or hours is None or (amount := _amount(training, hours, config.beam)) is None:
        return None
    flops = forward_flops(training.model, amount)
    labels = Amount(amount.sequences * config.beam, amount.labels, 0, 0)
    if row.estimates:
        flops += decoder_flops(training.model, labels)
    if (lm := _lm(config, row)) is not None:
        flops += forward_flops(lm, labels)
    return times * flops


def decoder_flops(model: AedConfig, amount: Amount) -> float:
    """The decoder without attention: what an internal LM computes for each label."""
    silent = Amount(amount.sequences, amount.labels, 0, 0)
    return forward_flops(model, silent)


def _ilms(config: ExperimentConfig) -> float | None:
    """Averages: one pass; trained contexts: passes over the transcripts. Separate LMs are among the trainings."""
    total = 0.0
    for name in config.recognisers:
        rows = [row for row in config.rows if config.recogniser_of(row) == name and row.estimates]
        if not rows:
            continue
        training = _training(config, name)
        if training is None or training.expected is None:
            return None
        amount = _amount(training, training.expected.hours)
        assert amount is not None
        if any(row.method in AVERAGES for row in rows):
            total += forward_flops(training.model, amount)
        for method in {row.method for row in rows if row.subtract is None}:
            if "dev" in all_methods()[method].needs:
                options = {"method": method, **config.ilm.get("all", {}), **config.ilm.get(method, {})}
                listened = forward_flops(training.model, amount) if "audio" in all_methods()[method].needs else 0.0
                learnt = 3 * decoder_flops(training.model, amount)
                total += IlmConfig.model_validate(options).passes * (learnt + listened)
    return total
