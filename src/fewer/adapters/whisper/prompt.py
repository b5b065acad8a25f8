"""What a Whisper reads before the first label, and which labels never come."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fewer.data.whisper_tokens import NO_TIMESTAMPS, WhisperTokenizer
from fewer.errors import FewerError

NO_BLANKS = ("zh", "yue", "ja", "th", "lo", "my")  # languages written without blanks between words


def prompt_labels(generation: Any, tokenizer: WhisperTokenizer, language: str | None, task: str) -> list[int]:
    """<|startoftranscript|>, language and task if the model has several, <|notimestamps|>."""
    start, no_timestamps = generation.decoder_start_token_id, tokenizer.labels.index(NO_TIMESTAMPS)
    if not getattr(generation, "is_multilingual", False):
        if language not in (None, "en") or task != "transcribe":
            raise FewerError(f"this model only transcribes English: no language {language!r}, no task {task!r}")
        return [start, no_timestamps]
    known = {label.strip("<|>"): id for label, id in generation.lang_to_id.items()}
    if language is None:
        raise FewerError(f"this model knows {len(known)} languages: say which one is spoken, such as language='en'")
    if language not in known:
        raise FewerError(f"language {language!r} is not one of this model: {', '.join(sorted(known))}")
    if task not in generation.task_to_id:
        raise FewerError(f"task {task!r} is not one of this model: {', '.join(generation.task_to_id)}")
    return [start, known[language], generation.task_to_id[task], no_timestamps]


def suppressed(generation: Any, tokenizer: WhisperTokenizer) -> tuple[Tensor, Tensor]:
    """Labels that never come, and those that never come first. (V,) bool each

    All special labels but the end label, all timestamps, and what the model's own generation config names.
    """
    never = torch.zeros(tokenizer.size, dtype=torch.bool)
    never[tokenizer.end + 1 :] = True
    never[_ids(generation.suppress_tokens)] = True
    never[tokenizer.end] = False
    first = never.clone()
    first[_ids(generation.begin_suppress_tokens)] = True
    return never, first


def _ids(given: Sequence[int] | None) -> list[int]:
    return [id for id in given or () if id >= 0]
