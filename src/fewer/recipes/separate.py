"""A language model that exists as what is subtracted: density ratio and decoder-like LMs that have recipes."""

from pathlib import Path

from fewer.ilm.folder import LM, save_facts
from fewer.ilm.methods import IlmConfig
from fewer.recipes.perplexity import measure
from fewer.training.model_folder import load_model


def subtract_lm(recogniser: Path, config: IlmConfig, lm: Path, out: Path, dev: Path) -> None:
    """Make the folder of an internal LM that is the LM of a model folder, which it points to."""
    out.mkdir(parents=True, exist_ok=True)
    link = out / LM
    link.unlink(missing_ok=True)
    link.symlink_to(lm.resolve(), target_is_directory=True)
    save_facts(out, config, load_model(recogniser), {"train": str(lm), "perplexity": {dev.stem: measure(lm, dev)}})
