"""The files that an experiment reads, so that all that are missing can be told at once."""

from collections.abc import Iterator
from pathlib import Path

from fewer.errors import FewerError
from fewer.experiments.config import ExperimentConfig, LmSource, ModelSource
from fewer.experiments.layers import train_values
from fewer.recognisers.names import SHORT_NAMES, full_name
from fewer.store.model_folder import WEIGHTS
from fewer.training.configs import AedTrainConfig, parse_train_config

Input = tuple[Path, str]  # a file or folder, and what it is for


def missing_inputs(config: ExperimentConfig) -> list[str]:
    """A line for each file or folder that is needed and not there, with all that it is for."""
    purposes: dict[Path, list[str]] = {}
    for path, what in inputs(config):
        if not path.expanduser().exists() and what not in purposes.setdefault(path, []):
            purposes[path].append(what)
    return [f"{path} ({', '.join(whats)})" for path, whats in purposes.items() if whats]


def inputs(config: ExperimentConfig) -> Iterator[Input]:
    """All that is read and not made by the experiment itself, or by an earlier one that shares its models."""
    yield from _tokenizer(config)
    for name, recogniser in config.recognisers.items():
        if recogniser.folder is not None:
            yield from _model(recogniser.folder, f"recogniser {name}")
        else:
            yield from _training(config, name, recogniser)
    for name, lm in config.lms.items():
        yield from _lm(config, name, lm)
    yield config.train, "train"
    yield config.dev, "dev"
    yield config.tune, "tune"
    yield from ((path, f"set {name}") for name, path in config.sets.items())
    yield from ((path, f"references of {name}") for name, path in config.references.items())
    yield from ((path, "lm_text") for path in config.lm_text)
    _, colon, table = config.normaliser.partition(":")
    if colon:
        yield Path(table), "normaliser"


def _tokenizer(config: ExperimentConfig) -> Iterator[Input]:
    tokenizer = config.tokenizer
    if tokenizer is None or (tokenizer.path is not None and tokenizer.path.exists()):
        return
    if tokenizer.path is not None and not tokenizer.text:
        yield tokenizer.path, "tokenizer"
    yield from ((path, "text of the tokenizer") for path in tokenizer.text)


def _model(given: Path, what: str) -> Iterator[Input]:
    """A folder; a Whisper that is known by name needs none."""
    try:
        known = str(full_name(given)) in SHORT_NAMES.values()
    except FewerError:  # neither a folder nor a short name
        known = False
    if not known:
        hub = str(given).count("/") == 1 and not str(given).startswith((".", "/", "~"))
        yield given, what + (", unless it is a model of the Hugging Face hub" if hub else "")


def _lm(config: ExperimentConfig, name: str, lm: LmSource) -> Iterator[Input]:
    if lm.path is not None:
        if not str(lm.path).startswith("hf:"):
            yield lm.path, f"LM {name}"
    elif lm.ngram is None:
        yield from _training(config, name, lm)
    elif config.models is None or not (config.models / f"{name}.safetensors").exists():
        yield from ((path, f"text of LM {name}") for path in lm.ngram.text)
        if lm.ngram.mix is not None:
            yield lm.ngram.mix, f"mix of LM {name}"


def _training(config: ExperimentConfig, name: str, source: ModelSource | LmSource) -> Iterator[Input]:
    """What a training reads, if it is still to be done."""
    if config.models is not None and (config.models / name / WEIGHTS).exists():
        return
    training = parse_train_config({"tokenizer": "tokenizer.json", **train_values(source.train or {})}, name)
    data, what = training.data, f"training of {name}"
    for paths in (data.train, data.dev):
        yield from ((path, what) for path in ([paths] if isinstance(paths, Path) else paths))
    if training.initial is not None and str(training.initial) not in config.recognisers:
        yield training.initial, f"{what}: initial"
    if isinstance(training, AedTrainConfig):
        if training.data.statistics is not None:
            yield training.data.statistics, f"{what}: statistics"
        if training.external_lm is not None and str(training.external_lm.model) not in config.lms:
            yield training.external_lm.model, f"{what}: external_lm"
