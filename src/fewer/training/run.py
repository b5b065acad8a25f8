"""A training run from its configuration to a model folder; started again, it goes on where it was."""

import json
import platform
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

from fewer.compute.world import World, joined
from fewer.config import first_of, read_yaml
from fewer.data.augment import SpecAugment
from fewer.data.batches import UtteranceBatches
from fewer.data.manifest import Manifest
from fewer.data.reader import FeatureReader, RawFeatures, measure_statistics
from fewer.data.statistics import Statistics, differences
from fewer.data.text import SentenceBatches
from fewer.data.token_store import TokenStore, store_tokens
from fewer.data.tokenizer import Tokenizer
from fewer.data.tokenizers import load_tokenizer
from fewer.errors import FewerError
from fewer.files import fingerprint, read_json_object, write_json
from fewer.locks import exclusive
from fewer.models.aed import AED
from fewer.store.model_folder import (
    CONFIG,
    STATISTICS,
    TOKENIZER,
    WEIGHTS,
    Model,
    build_model,
    check_labels,
    load_model,
    load_model_weights,
    read_description,
    save_model,
    write_config,
)
from fewer.store.ngram_files import is_ngram_file, load_ngram
from fewer.training.aed_task import ENCODER, AedTask
from fewer.training.configs import (
    AedTrainConfig,
    LmTrainConfig,
    TrainConfig,
    changed_keys,
    effective,
    parse_train_config,
)
from fewer.training.lm_task import LmTask
from fewer.training.task import Task
from fewer.training.trainer import Trainer
from fewer.version import __version__

PACKAGES = ("torch", "numpy", "lhotse", "sentencepiece", "safetensors")


def train_model(config: TrainConfig, folder: str | Path, fall_back: bool = False) -> None:
    """Train what `config` describes and leave a model folder.

    fall_back: go on from the checkpoint before the last one if that is damaged.
    """
    with joined(config.device) as world:
        _train(config, Path(folder), fall_back, world)


def _train(config: TrainConfig, folder: Path, fall_back: bool, world: World) -> None:
    tokenizer = load_tokenizer(config.tokenizer)
    check_labels(config.model, tokenizer, config.tokenizer)
    with exclusive(folder, first=world.first):
        _train_alone(config, folder, fall_back, world, tokenizer)


def _train_alone(config: TrainConfig, folder: Path, fall_back: bool, world: World, tokenizer: Tokenizer) -> None:
    if world.first:
        open_folder(config, folder, tokenizer, world)
    world.wait()
    task, marks = make_task(config, folder, tokenizer, world)
    marks = [json.dumps(effective(config, only_set=True)), tokenizer.fingerprint, *marks]
    model = Trainer(task, config, folder, world, fingerprint(*marks)).run(fall_back)
    if world.first:
        save_model(folder, model)
        write_config(folder, config.model_dump(mode="json"))  # it may have gone on for longer than was planned


def open_folder(config: TrainConfig, folder: Path, tokenizer: Tokenizer, world: World) -> None:
    """Write down what is going to be trained, unless the folder holds a run of something else."""
    if (folder / CONFIG).exists():
        old = parse_train_config(read_yaml(folder / CONFIG), folder / CONFIG)
        if changes := changed_keys(effective(old), effective(config)):
            raise FewerError(
                f"{folder / CONFIG} holds another configuration; give another folder, or delete it to start anew:\n"
                + first_of([f"  {change}" for change in changes])
            )
    elif folder.exists() and any(not path.name.startswith(".") for path in folder.iterdir()):
        raise FewerError(f"{folder} is not empty and not a run of `fewer train`; give another folder")
    else:
        write_config(folder, config.model_dump(mode="json"))
    tokenizer.save(folder / TOKENIZER)
    runs = _starts(folder / "run.json")
    start = {"time": time.strftime("%Y-%m-%d %H:%M:%S"), "processes": world.size, "device": str(world.device)}
    write_json(folder / "run.json", {"seed": config.seed, "starts": [*runs, start | {"versions": versions()}]})


def _starts(path: Path) -> list[Any]:
    """How often a run was started before."""
    starts = read_json_object(path).get("starts") if path.exists() else []
    if not isinstance(starts, list):
        raise FewerError(f"{path}: `starts` is not a list; delete the file, which only keeps notes")
    return starts


def versions() -> dict[str, str]:
    """Of fewer, Python and the libraries that decide numbers."""
    return {"fewer": __version__, "python": platform.python_version()} | {name: version(name) for name in PACKAGES}


def make_task(config: TrainConfig, folder: Path, tokenizer: Tokenizer, world: World) -> tuple[Task, list[str]]:
    """The task, and marks of the data and models it builds on."""
    if isinstance(config, LmTrainConfig):
        return _lm_task(config, folder, tokenizer)
    return _aed_task(config, folder, tokenizer, world)


def _lm_task(config: LmTrainConfig, folder: Path, tokenizer: Tokenizer) -> tuple[Task, list[str]]:
    data = config.data

    def batches(files: tuple[Path, ...], changes: dict[str, Any]) -> tuple[SentenceBatches, TokenStore]:
        store = store_tokens(files, tokenizer, data.store or folder / "text", data.case, data.allow_unknown)
        return SentenceBatches(store, data.batches.model_copy(update=changes), config.seed), store

    train, text = batches(data.train, {})
    dev, dev_text = batches(data.dev, ONE_PASS)
    marks = [text.folder.name, dev_text.folder.name]

    def make() -> Model:
        model = build_model(config.model)
        _initialise(model, config, tokenizer)
        return model

    return LmTask(make, train, dev, config.smoothing), [*marks, *_initial_marks(config)]


def _aed_task(config: AedTrainConfig, folder: Path, tokenizer: Tokenizer, world: World) -> tuple[Task, list[str]]:
    data = config.data
    _check_features(config)
    train, dev = (cast(Any, Manifest(path, skip_bad=data.skip_bad)) for path in (data.train, data.dev))
    given = _given_statistics(config)
    measured = {1.0} if config.features.normalise == "global" and given is None else set()
    raw = RawFeatures.open(config.features, data.train, train, sorted(measured | set(data.batches.speeds)))
    raw_dev = RawFeatures.open(config.features, data.dev, dev)
    if raw.dim != config.model.encoder.features:
        raise FewerError(f"the features have {raw.dim} dimensions: set model.encoder.features to {raw.dim}")
    statistics = _statistics(config, folder, given, raw, train, world)
    reader, dev_reader = (FeatureReader(config.features, statistics, part.cache) for part in (raw, raw_dev))
    plain = data.batches.model_copy(update=ONE_PASS | {"speeds": (1.0,), "curriculum": (), "max_duration": None})
    augment = SpecAugment(config.augment) if config.augment else None
    task = AedTask(
        config,
        UtteranceBatches(train, reader, tokenizer, data.batches, config.seed, augment),
        UtteranceBatches(dev, dev_reader, tokenizer, plain, config.seed),
        _external_lm(config, tokenizer),
        lambda model: _initialise(model, config, tokenizer),
    )
    marks = [fingerprint(path) for path in (data.train, data.dev)]
    marks += [fingerprint(folder / STATISTICS)] if statistics else []
    if config.external_lm is not None:
        model = config.external_lm.model
        marks.append(fingerprint(model if is_ngram_file(model) else model / WEIGHTS))
    return task, [*marks, *_initial_marks(config)]


ONE_PASS = {"order": "sorted", "sub_epochs": 1, "accumulate": 1, "max_size_from": {}}  # a dev set, in plain order


def _check_features(config: AedTrainConfig) -> None:
    """Weights understand no other features than those they learnt from."""
    if config.initial is None:
        return
    there = read_description(config.initial).features
    if changes := differences(there.recipe() if there else {}, config.features.recipe()):
        raise FewerError(
            f"initial: {config.initial} was trained on other features ({changes}); set `features` as there"
        )


def _given_statistics(config: AedTrainConfig) -> Path | None:
    """A model that starts from another one's weights hears its features as that one did."""
    initial = config.initial and config.initial / STATISTICS
    return config.data.statistics or (initial if initial and initial.exists() else None)


def _statistics(
    config: AedTrainConfig, folder: Path, given: Path | None, raw: RawFeatures, train: Any, world: World
) -> Statistics | None:
    """Given, measured at an earlier start, or measured now; a copy is part of the model folder."""
    if config.features.normalise != "global":
        return None
    path = folder / STATISTICS
    if not path.exists():
        statistics = measure_statistics(raw, train) if given is None else Statistics.load(given, config.features)
        if world.first:
            statistics.save(path, config.features)
    world.wait()
    return Statistics.load(path, config.features)


def _external_lm(config: AedTrainConfig, tokenizer: Tokenizer) -> Any:
    if config.external_lm is None:
        return None
    if is_ngram_file(config.external_lm.model):
        return load_ngram(config.external_lm.model, tokenizer.labels, tokenizer.end)
    loaded = load_model(config.external_lm.model)
    if loaded.tokenizer.fingerprint != tokenizer.fingerprint:
        raise FewerError(
            f"external_lm.model: {config.external_lm.model} was trained with another tokenizer than {config.tokenizer}"
        )
    return loaded.lm


def _initialise(model: AED | Any, config: TrainConfig, tokenizer: Tokenizer) -> None:
    if config.initial is None:
        return
    if load_tokenizer(config.initial / TOKENIZER).fingerprint != tokenizer.fingerprint:
        raise FewerError(f"initial: {config.initial} was trained with another tokenizer than {config.tokenizer}")
    parts = ENCODER if isinstance(config, AedTrainConfig) and config.initial_part == "encoder" else ("",)
    load_model_weights(model, config.initial, parts)


def _initial_marks(config: TrainConfig) -> list[str]:
    return [] if config.initial is None else [fingerprint(config.initial / WEIGHTS)]
