"""Datasets of Hugging Face's `datasets`: a name on the hub, or a folder of `save_to_disk`.

Only data is read: `datasets` runs no code of a dataset (its version 4 and later cannot), and audio is decoded here.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fewer.data.corpora.columns import Columns, FreshIds
from fewer.data.corpora.corpus import Items, Problem, Source, SpeechSet
from fewer.data.corpora.stored_audio import StoredAudio
from fewer.errors import FewerError
from fewer.hugging_face import loading
from fewer.progress import say


def is_saved(folder: Path) -> bool:
    """Whether `save_to_disk` has written the folder."""
    return (folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file()


def sets(source: Source) -> list[SpeechSet]:
    """Each split; of one that was saved alone, its folder's name."""
    datasets = _datasets()
    with loading(source.given, f"the dataset {source.given} cannot be loaded"):
        if source.folder.is_dir() and is_saved(source.folder):
            saved = datasets.load_from_disk(str(source.folder))
            if not isinstance(saved, datasets.DatasetDict):
                saved = {source.folder.name: saved}
            loads: dict[str, Callable[[], Any]] = {name: partial(saved.get, name) for name in saved}
        else:
            name, config = (str(source.folder), None) if source.folder.is_dir() else _name(source.given)
            splits = datasets.get_dataset_split_names(name, config)
            loads = {split: partial(datasets.load_dataset, name, config, split=split) for split in splits}
    return [SpeechSet(name, partial(_read, source, name, load)) for name, load in loads.items()]


def _datasets() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise FewerError("Hugging Face datasets need another package: pip install 'fewer[datasets]'") from error
    return datasets


def _name(given: str) -> tuple[str, str | None]:
    """NAME or NAME:CONFIG."""
    name, _, config = given.partition(":")
    return name, config or None


def _read(source: Source, name: str, load: Callable[[], Any]) -> Items:
    datasets = _datasets()
    with loading(source.given, f"the dataset {source.given}, {name}, cannot be loaded"):
        table = _loaded(load, source.given)
        kinds = {column: kind for column, kind in table.features.items() if isinstance(kind, datasets.Audio)}
        for column in kinds:
            table = table.cast_column(column, datasets.Audio(decode=False))
    columns = Columns.guess(table.column_names, f"{source.given}, {name}", source.transcribed, next(iter(kinds), None))
    say(f"{source.given}, {name}: {columns}")
    table = table.select_columns([used for used in set(vars(columns).values()) if used is not None])
    store, ids = StoredAudio(source.audio), FreshIds()
    for number, row in enumerate(table):
        where = f"{source.given}, {name}, row {number}"
        audio = _audio(row[columns.audio], store)
        if isinstance(audio, str):
            yield Problem(where, f"column {columns.audio!r}: {audio}")
            continue
        item = columns.utterance(
            row, where, audio, partial(ids.make, f"{name}-{number:06d}", number), name, source.transcribed
        )
        if not isinstance(item, Problem) and item.channel is None:
            item = replace(item, audio=store.one_channel(audio))
        yield item


def _loaded(load: Callable[[], Any], given: str) -> Any:
    try:
        return load()
    except Exception as error:
        if "torchcodec" not in repr(error.__cause__):
            raise
        raise FewerError(
            f"{given} is a folder of audio files, for which `datasets` needs torchcodec: pip install torchcodec; or "
            "give its table of files and transcripts: fewer prepare table metadata.csv"
        ) from error


def _audio(value: Any, store: StoredAudio) -> Path | str:
    """The file with the audio of a row, or what is wrong."""
    if isinstance(value, str):
        return Path(value)
    if isinstance(value, dict) and value.get("bytes"):
        return store.keep(value.get("path") or "", value["bytes"])
    if isinstance(value, dict) and value.get("path"):
        return Path(value["path"])
    if isinstance(value, dict) and value.get("array") is not None and value.get("sampling_rate"):
        return store.keep_samples(np.asarray(value["array"], np.float32), int(value["sampling_rate"]))
    return f"no audio: found {type(value).__name__}" + (f" with {', '.join(value)}" if isinstance(value, dict) else "")
