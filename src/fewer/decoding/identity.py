"""The name of all that a decode depends on."""

from pathlib import Path

from fewer.decoding.system import System
from fewer.files import fingerprint
from fewer.ilm.registry import source_of
from fewer.search.beam import SearchOptions


def identity(system: System, search: SearchOptions, *others: str | Path) -> str:
    """Names what a decode depends on: models by their weights, the search, and others such as the set or scales.

    An internal LM also by its options, and a method of the user's own by its code: some have no weights.
    """
    parts: list[str | Path] = [system.recogniser.encoded_by, repr(search), repr(system.ctc)]
    parts += [repr(system.end_scored_by), *others, *(["centred"] if system.centred else [])]
    parts += [f"share {system.share}"] if system.share else []
    for name in ("lm", "ilm", "words"):
        path = Path(system.names[name]) if name in system.names else None
        weights = [] if path is None else sorted([*path.glob("*.safetensors"), *path.glob("lm/*.safetensors")])
        parts += ["none"] if path is None else weights or [path if path.is_file() else str(path)]
    if system.ilm is not None:
        config = system.ilm.config
        parts += [config.model_dump_json(exclude={"encodings", "task"}), *source_of(config.method)]
    return fingerprint(*parts)
