"""Loading a recogniser: the one place that asks what kind of model a source is."""

from pathlib import Path
from typing import Any

from fewer.compute.device import CPU, Placement
from fewer.errors import FewerError
from fewer.files import is_there
from fewer.recognisers.aed import AedRecogniser
from fewer.recognisers.names import full_name
from fewer.recognisers.recogniser import Recogniser
from fewer.store.model_folder import load_model

BUNDLE = "bundle.json"  # in folders of `fewer adapt`
TRANSFORMERS = "config.json"  # in folders of transformers


def load_recogniser(
    source: str | Path,
    language: str | None = None,
    task: str = "transcribe",
    cached: bool = False,
    placement: Placement = CPU,
    detect: bool = False,
) -> Recogniser:
    """A model folder of `fewer train`, or a Whisper or other encoder-decoder of transformers: its folder, its short
    name or its name on the hub.

    language, task: of a multilingual model. cached: features of whole sets go through the cache of the model's
    training, if it has one. placement: the device, and the precision of its encoder. detect: without a language, a
    multilingual Whisper has to detect it before a search.
    """
    source = full_name(source)
    if is_bundle(source):
        raise FewerError(f"{source} is a bundle of `fewer adapt`, not a model; `fewer decode` and `transcribe` take it")
    if not is_pretrained(source):
        return AedRecogniser(load_model(source, placement.device, cached), placement.settled().precision)

    from fewer.recognisers.transformers.families import FAMILIES
    from fewer.recognisers.transformers.loading import kind_of, load_family
    from fewer.recognisers.whisper.recogniser import load_whisper

    family = kind_of(source)
    if family is FAMILIES["whisper"]:
        return load_whisper(source, language, task, placement.settled(int8=True), detect)
    return load_family(source, family, language, task, placement.settled(), detect)


def around_model(model: Any, language: str | None = None, task: str = "transcribe") -> Recogniser:
    """A recogniser with the weights of a model of transformers that is loaded; it stays where it is."""
    from fewer.recognisers.transformers.families import FAMILIES, family_of
    from fewer.recognisers.transformers.loading import around_family, unrounded
    from fewer.recognisers.whisper.recogniser import around_whisper

    name = str(model.config.name_or_path) or type(model).__name__
    around = around_whisper if family_of(model.config.to_dict(), name) is FAMILIES["whisper"] else around_family
    return around(unrounded(model), language, task)


def is_bundle(source: str | Path) -> bool:
    return is_there(Path(source) / BUNDLE)


def is_pretrained(source: str | Path) -> bool:
    """Whether this names a model of transformers rather than one of `fewer train`: a folder, or `owner/name`.

    A name whose first part is a folder here is a path, if perhaps a mistyped one.
    """
    path = Path(source).expanduser()
    if path.exists():
        return (path / TRANSFORMERS).exists()
    return str(source).count("/") == 1 and not path.is_absolute() and not path.parent.exists()
