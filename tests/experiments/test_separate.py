"""The folder of a language model that is subtracted."""

from pathlib import Path

import torch

from fewer.experiments.separate import subtract_lm
from fewer.ilm.config import IlmConfig
from fewer.ilm.estimate import estimate_ilm
from fewer.ilm.folder import load_ilm
from fewer.models.lm import LstmLm
from fewer.models.ngram import NGram
from fewer.recognisers.loader import load_recogniser
from fewer.store.model_folder import WEIGHTS
from fewer.store.ngram_files import save_ngram
from fewer.training.ngram import estimate


def test_it_is_the_lm_that_was_named_last(tones: Path, tmp_path: Path) -> None:
    recogniser, dr = load_recogniser(tones / "aed"), IlmConfig(method="dr", passes=1, size=4)
    ilm, ngram = tmp_path / "run" / "ilm" / "aed" / "dr", tmp_path / "run" / "bigram.safetensors"
    tokenizer = recogniser.tokenizer
    stream = torch.tensor([2, 3, 2, tokenizer.end])
    save_ngram(ngram, estimate(stream, 2, tokenizer.size, tokenizer.end), tokenizer.labels)
    estimate_ilm(tones / "aed", dr, ilm, tones / "train.jsonl", tones / "dev.jsonl")
    for lm, kind in ((ngram, NGram), (tones / "lm", LstmLm), (ngram, NGram)):
        subtract_lm(tones / "aed", dr, lm, ilm, tones / "dev.jsonl")
        assert isinstance(load_ilm(ilm, recogniser).separate, kind)
    assert (tones / "lm" / WEIGHTS).exists()
    (tmp_path / "run").rename(tmp_path / "moved")
    assert isinstance(load_ilm(tmp_path / "moved" / "ilm" / "aed" / "dr", recogniser).separate, NGram)
