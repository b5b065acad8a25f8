"""The perplexity of any language model on a text or a manifest."""

from pathlib import Path
from typing import Any

from fewer.compute.device import CPU, Placement
from fewer.compute.engines.engine import Engine, Local
from fewer.errors import FewerError
from fewer.files import read_json
from fewer.ilm.estimate import ilm_perplexity
from fewer.ilm.folder import FACTS
from fewer.ilm.perplexity import text_perplexity
from fewer.recognisers.loader import load_recogniser
from fewer.store.lms import load_lm_and_tokenizer


def measure(
    lm: str | Path,
    text: Path,
    model: str | Path | None = None,
    case: str = "none",
    placement: Placement = CPU,
    engine: Engine = Local(),
) -> dict[str, Any]:
    """Per label and per word; an internal LM that hears the utterance needs a manifest as text."""
    if not (Path(lm) / FACTS).exists():
        return text_perplexity(*load_lm_and_tokenizer(lm, model, placement.device), text, case, engine)
    if model is None:
        raise FewerError(f"{lm} is an internal LM: give its recogniser with --model")
    config = read_json(Path(lm) / FACTS)["config"]
    recogniser = load_recogniser(model, config.get("language"), config.get("task", "transcribe"), True, placement)
    return ilm_perplexity(recogniser, lm, text, case, engine)
