"""A language model that exists as what is subtracted: density ratio and decoder-like LMs that have recipes, n-grams."""

import os
from pathlib import Path

from fewer.decoding.perplexity import measure
from fewer.ilm.config import IlmConfig
from fewer.ilm.folder import LM, NGRAM, discard, save_facts
from fewer.recognisers.loader import load_recogniser
from fewer.store.ngram_files import is_ngram_file


def subtract_lm(recogniser: Path, config: IlmConfig, lm: Path, out: Path, dev: Path) -> None:
    """Make the folder of an internal LM that is the LM of a model folder or n-gram file, which it points to.

    out: RUN/ilm/RECOGNISER/VARIANT
    """
    out.mkdir(parents=True, exist_ok=True)
    ngram = is_ngram_file(lm)
    link = out / (NGRAM if ngram else LM)
    discard(out, LM, NGRAM)
    there, run = lm.resolve(), out.resolve().parents[2]
    inside = there.is_relative_to(run)  # then it is found wherever the run folder is moved
    link.symlink_to(os.path.relpath(there, out.resolve()) if inside else there, target_is_directory=not ngram)
    perplexity = {dev.stem: measure(lm, dev, recogniser if ngram else None)}
    loaded = load_recogniser(recogniser, config.language, config.task)
    save_facts(out, config, loaded, {"train": str(lm), "perplexity": perplexity})
