"""The demo: text-only domain adaptation on a corpus that it makes itself.

A recogniser learns from speech of a source domain (home-assistant commands); an LM learns from text of a target domain
(harbour announcements) and from the transcripts of the source domain, which the adapted recogniser should not forget.
Every method of the paper then recognises speech of both domains.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from fewer.compute.device import choose_placement
from fewer.config import parse_config
from fewer.data.synthesis.corpus import make_corpus
from fewer.data.synthesis.script import DemoCorpusConfig
from fewer.experiments.attention import write_attention
from fewer.experiments.config import ExperimentConfig
from fewer.experiments.experiment import Experiment
from fewer.locks import exclusive
from fewer.progress import say
from fewer.report.page import write_report
from fewer.report.tables import write_tables

METHODS = ("none", "sf", "dr", "zero", "enc_avg", "ctx_avg", "seq_avg", "mini_lstm", "decoder_like")


@dataclass(frozen=True)
class Size:
    """How large everything is."""

    corpus: DemoCorpusConfig = field(default_factory=DemoCorpusConfig)
    labels: int = 300
    filters: int = 8  # of the convolutions
    encoder: int = 128  # units per direction
    decoder: int = 192
    embedding: int = 96
    energy: int = 96
    short: int = 6  # epochs of short answers only, in which attention is learnt
    epochs: int = 13
    lm: int = 320  # units
    lm_parts: int = 6  # quarters of its text that the LM sees
    mini_lstm: int = 50
    ilm_passes: int = 5
    averaged: int = 2000  # utterances in the averages
    beam: int = 6
    decodes: int = 5  # of each method, for tuning
    processes: int = 2  # that train together, and that search together


QUICK = Size(
    DemoCorpusConfig.quick(),
    labels=150,
    filters=4,
    encoder=32,
    decoder=48,
    embedding=32,
    energy=32,
    short=1,
    epochs=2,
    lm=64,
    lm_parts=2,
    mini_lstm=16,
    ilm_passes=2,
    beam=4,
    decodes=3,
    processes=1,
)


def demo(folder: str | Path = "demo", quick: bool = False, seed: int = 1, device: str = "auto") -> dict[str, Any]:
    """Make the corpus, run the experiment, write tables and FOLDER/report.html; returns the results."""
    folder = Path(folder).resolve()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # nets so small gain nothing from more, and lose much where others want the cores too
    try:
        with exclusive(folder):  # its corpus and the page are outside of the run folder, which has a lock of its own
            return _demo(folder, quick, seed, device)
    finally:
        torch.set_num_threads(threads)


def _demo(folder: Path, quick: bool, seed: int, device: str) -> dict[str, Any]:
    corpus = folder / "corpus"
    size = QUICK if quick else Size()
    say("Source domain: transcribed speech of home-assistant commands. Target domain: text of harbour announcements.")
    make_corpus(corpus, size.corpus.model_copy(update={"seed": seed}))
    config = demo_experiment(corpus, folder, size, seed).model_copy(update={"device": device})
    if choose_placement(device).device.type != "cpu":
        config = config.model_copy(update={"engine": "local"})  # forks would share the GPU
    experiment = Experiment(config, folder / "run")
    results = experiment.run()
    write_attention(experiment.recogniser("aed"), corpus / "target-dev.jsonl", folder / "run" / "attention.json")
    write_tables(results, folder / "run")
    write_report(folder / "run", folder / "report.html")
    return results


def demo_experiment(corpus: Path, folder: Path, size: Size, seed: int) -> ExperimentConfig:
    """The demo's experiment: a small recogniser of the paper's kind, an LSTM LM, every method of the paper."""
    source, target = (str(corpus / f"{name}.jsonl") for name in ("source-dev", "target-dev"))
    lm_text = [str(corpus / f"{name}.txt") for name in ("target-text", "source-text")]
    aed = {
        "model": {
            "kind": "aed",
            "encoder": {
                "filters": size.filters,
                "layers": 2,
                "size": size.encoder,
                "input_stack": 4,
                "pools": [2],
                "dropout": 0.1,
            },
            "decoder": {
                "size": size.decoder,
                "embedding": size.embedding,
                "readout": size.decoder,
                "dropout": 0.1,
                "cell_zoneout": 0.05,
                "output_zoneout": 0.02,
            },
            "energy": size.energy,
        },
        "features": {"kind": "log_mel", "dim": 40, "cache": {"folder": str(folder / "features")}},
        "data": {
            "train": str(corpus / "train.jsonl"),
            "dev": source,
            "batches": {
                "max_size": 7000,
                "max_size_from": {1: 2500, size.short // 2 + 1: 4000, size.short + 1: 7000},
                "curriculum": [{"first": 1, "last": size.short, "max_mean_chars": 16}],
            },
        },
        "augment": None,
        "sub_epochs": size.epochs,
        "optimizer": {"clip": 2.0},
        "schedule": {
            "peak": 0.003,
            "warm_up_from": 0.003,
            "warm_up": 2,
            "newbob": {"decay": 0.6, "window": 1, "hold": 3, "threshold": -1.0, "relative_to_rate": False},
        },
    }
    lm = {
        "model": {"kind": "lstm_lm", "embedding": size.embedding, "size": size.lm, "dropout": 0.1},
        "data": {
            "train": lm_text,
            "dev": [target],
            "batches": {"max_size": 3000, "sub_epochs": 4},
            "allow_unknown": True,
        },
        "sub_epochs": size.lm_parts,
        "schedule": {"peak": 0.003, "newbob": {"decay": 0.5, "window": 1, "hold": 1, "relative_to_rate": False}},
    }
    values = {
        "title": "fewer demo: from home-assistant commands to harbour announcements, by text alone",
        "seed": seed,
        "tokenizer": {"text": [str(corpus / "source-text.txt")], "size": size.labels},
        "recognisers": {"aed": {"train": aed}},
        "lms": {"lm": {"train": lm}},
        "train": str(corpus / "train.jsonl"),
        "dev": source,
        "tune": target,
        "sets": {name: str(corpus / f"{name}.jsonl") for name in ("target-test", "source-test")},
        "rows": [{"method": method} for method in METHODS],
        "ilm": {
            "all": {"passes": size.ilm_passes, "units": size.mini_lstm, "batch": 600, "learning_rate": 0.003},
            "enc_avg": {"utterances": size.averaged},
            "ctx_avg": {"utterances": size.averaged},
        },
        "beam": size.beam,
        "processes": size.processes,
        "engine": f"processes:{size.processes}" if size.processes > 1 and sys.platform == "linux" else "local",
        "tuning": {"budget": size.decodes, "space": {"length": "reward"}},
        "lm_text": lm_text,
    }
    return parse_config(ExperimentConfig, values, "fewer demo")
