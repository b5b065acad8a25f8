"""Loading models of transformers: configuration, weights, tokenizer and features."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from fewer.compute.device import CPU, Placement
from fewer.config import shown
from fewer.data.audio import rate_problem
from fewer.data.hf_tokens import pretrained_tokenizer
from fewer.errors import FewerError
from fewer.files import read_json_object
from fewer.hugging_face import check_sizes, loading
from fewer.progress import quiet_loading
from fewer.recognisers.transformers.families import FAMILIES, Family, family_of
from fewer.recognisers.transformers.recogniser import FamilyRecogniser

CONFIG, GENERATION = "config.json", "generation_config.json"  # in model folders of transformers
PROBE = 0.01  # amplitude of a second of sound that a model must be able to hear
NEEDED = "Whisper and other pretrained recognisers need transformers: pip install 'fewer[hf]'"


def model_name(source: str | Path) -> str:
    """A folder, or the name on the hub, as transformers takes it."""
    path = Path(source).expanduser()
    return str(path) if path.is_dir() else str(source)


def kind_of(source: str | Path) -> Family:
    """The family of a model; an error if it is of none that is known here, or that transformers has."""
    name = model_name(source)
    check_files(name)
    here = Path(name) / CONFIG
    if here.is_file() and read_json_object(here).get("model_type") == "whisper":
        return FAMILIES["whisper"]  # which needs no transformers, if its files are the usual ones
    try:
        from transformers import PreTrainedConfig
    except ImportError as error:
        raise FewerError(NEEDED) from error
    with loading(name, _problem(name)), quiet_loading(name):
        config, _ = PreTrainedConfig.get_config_dict(name)
    return family_of(config, name)


def check_files(name: str) -> None:
    """Damaged configurations, which transformers would do without, or not name."""
    for file in (CONFIG, GENERATION):
        if (Path(name) / file).exists():
            read_json_object(Path(name) / file)


def load_weights(name: str, family: Family, check: Callable[[Any], None] = lambda config: None) -> Any:
    """The model, in float32. check: of its configuration, before weights are read."""
    try:
        import transformers
    except ImportError as error:
        raise FewerError(NEEDED) from error
    check_files(name)
    kind, problem = getattr(transformers, family.model), _problem(name)
    with loading(name, problem):
        config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
    if not isinstance(config, kind.config_class):
        family_of(config.to_dict(), name)
        raise FewerError(f"{name} is a model of type '{config.model_type}', not one for {family.model}")
    check_sizes(config.to_dict(), Path(name) / CONFIG)
    check(config)
    weights = f"cannot load the weights that {Path(name) / CONFIG} describes" if Path(name).is_dir() else problem
    with loading(name, weights), quiet_loading(name):
        return _read_weights(kind, name)


def load_family(
    source: str | Path,
    family: Family,
    language: str | None = None,
    task: str = "transcribe",
    placement: Placement = CPU,
    detect: bool = False,
) -> FamilyRecogniser:
    """A model of a family other than Whisper, from a local folder of transformers or from the Hugging Face hub.

    language: what is spoken, if it knows several. task: transcribe, or translate to English, if it can.
    """
    name = model_name(source)
    return around_family(load_weights(name, family), language, task, name, placement, detect)


def around_family(
    model: Any,
    language: str | None = None,
    task: str = "transcribe",
    source: str | Path | None = None,
    placement: Placement | None = None,
    detect: bool = False,
) -> FamilyRecogniser:
    """A …ForConditionalGeneration with tokenizer and features from `source`, or from where it was loaded.

    placement: None: it stays where it is.
    """
    from transformers import AutoFeatureExtractor

    name = str(model.config.name_or_path if source is None else source)
    family = FAMILIES[model.config.model_type]
    with loading(name, f"{name}/preprocessor_config.json: cannot load what the model hears"), quiet_loading(name):
        extractor = AutoFeatureExtractor.from_pretrained(name, trust_remote_code=False)
    rate = getattr(extractor, "sampling_rate", None)
    if problem := rate_problem(rate) if isinstance(rate, int) else f"no sampling rate (found {shown(rate)})":
        raise FewerError(f"{name}/preprocessor_config.json: {problem}")
    end = model.generation_config.eos_token_id
    end = end[0] if isinstance(end, list) and end else end
    if not isinstance(end, int):
        raise FewerError(f"{name}: {GENERATION} names no end label (eos_token_id)")
    tokenizer = pretrained_tokenizer(name, model.get_output_embeddings().out_features, end)
    placement = placement or Placement(model.device)
    try:
        with loading(name, f"{CONFIG} and {GENERATION} describe no {model.config.model_type} that fewer can use"):
            recogniser = FamilyRecogniser(model, family, tokenizer, extractor, language, task, placement, detect)
    except FewerError as error:
        raise FewerError(f"{name}: {error}") from error
    with loading(name, f"{name}/preprocessor_config.json: what it prepares is not what the model hears"):
        recogniser.listen([torch.linspace(-PROBE, PROBE, 1 + recogniser.sampling_rate)])  # not whole frames
    return recogniser


def unrounded(model: Any) -> Any:
    """A …ForConditionalGeneration with the weights of its checkpoint, if it was loaded in a lower precision.

    Bundles and internal LMs know the model that they belong to by these weights.
    """
    name = str(model.config.name_or_path)
    if model.dtype == torch.float32 or not name:
        return model
    with loading(name, f"cannot load the weights of {name} in full precision"), quiet_loading(name):
        whole = _read_weights(type(model), name)
    own, theirs = model.state_dict(), whole.state_dict()
    same = own.keys() == theirs.keys()
    same = same and all(torch.equal(own[key].cpu(), theirs[key].to(own[key].dtype)) for key in own)
    return whole.to(model.device) if same else model


def _read_weights(kind: Any, name: str) -> Any:
    return kind.from_pretrained(name, dtype=torch.float32, trust_remote_code=False, use_safetensors=True)


def _problem(name: str) -> str:
    if Path(name).is_dir():
        return f"{Path(name) / CONFIG}: cannot load the recogniser {name}"
    return f"cannot load the recogniser {name}, which is no folder here either"
