"""Measuring language models: `perplexity`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fewer.api.arguments import paths
from fewer.compute.device import Precision, choose_placement
from fewer.compute.engines import started
from fewer.compute.engines.engine import Engine
from fewer.data.spelling import Case
from fewer.decoding.perplexity import measure
from fewer.recognisers.names import full_name


def perplexity(
    lm: str | Path,
    text: str | Path | Sequence[str | Path],
    *,
    model: str | Path | None = None,
    case: Case = "none",
    engine: str | Engine = "local",
    device: str = "auto",
    precision: Precision = "auto",
) -> dict[str, dict[str, Any]]:
    """The perplexity of a language model, or of a recogniser's internal one, per token and per word.

    Args:
        lm: a folder of `fewer train`, an n-gram file, "hf:NAME", or a folder of `fewer.estimate_ilm`.
        text: text files (plain, gzip, xz) or manifests.
        model: the recogniser: of an internal language model, or whose tokenizer an n-gram file uses.
        case: spelling of the text: none, lower, upper or librispeech.
        engine: who computes, as in `Model.decode`.
        device, precision: as in `fewer.load`.

    Returns:
        For each text by its path: ppl_label, ppl_word, log_prob, labels, words, sentences.
    """
    recogniser, placement = None if model is None else full_name(model), choose_placement(device, precision)
    with started(engine, placement.device) as workers:
        return {str(path): measure(lm, path, recogniser, case, placement, workers) for path in paths(text)}
