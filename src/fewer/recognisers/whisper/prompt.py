"""What a Whisper reads before the first label, and which labels never come."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fewer.data.whisper_tokens import NO_TIMESTAMPS, WhisperTokenizer
from fewer.errors import FewerError

START, TRANSLATE = "<|startoftranscript|>", "<|translate|>"  # the labels between them are languages
TASKS = ("transcribe", "translate")
MULTILINGUAL = 51865  # labels of OpenAI's multilingual models at least; the English ones have one less
NO_BLANKS = ("zh", "yue", "ja", "th", "lo", "my")  # languages written without blanks between words


def language_labels(generation: Any, tokenizer: WhisperTokenizer) -> dict[str, int]:
    """The label of each language that a multilingual model knows; empty for an English one."""
    if not getattr(generation, "is_multilingual", tokenizer.size >= MULTILINGUAL):
        return {}
    start, translate = (tokenizer.labels.index(label) for label in (START, TRANSLATE))
    return {tokenizer.labels[id].strip("<|>"): id for id in range(start + 1, translate)}


def prompt_labels(known: Mapping[str, int], tokenizer: WhisperTokenizer, language: str | None, task: str) -> list[int]:
    """<|startoftranscript|>, language and task if the model has several, <|notimestamps|>.

    known: the label of each language.
    """
    labels = tokenizer.labels
    start, no_timestamps = labels.index(START), labels.index(NO_TIMESTAMPS)
    if not known:
        if language not in (None, "en") or task != "transcribe":
            raise FewerError(f"this model only transcribes English: no language {language!r}, no task {task!r}")
        return [start, no_timestamps]
    if language is None:
        raise FewerError(unsaid(known))
    if language not in known:
        raise FewerError(f"language {language!r} is not one of this model: {', '.join(sorted(known))}")
    if task not in TASKS:
        raise FewerError(f"task {task!r} is not one of this model: {', '.join(TASKS)}")
    return [start, known[language], labels.index(f"<|{task}|>"), no_timestamps]


def has_blanks(language: str | None, task: str) -> bool:
    """Whether what is written has blanks between words."""
    return language not in NO_BLANKS or task == "translate"


def unsaid(known: Collection[str]) -> str:
    """What to tell where a language is needed."""
    return f"this model knows {len(known)} languages: say which one is spoken, such as --language en (language='en')"


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


def never_written(suppress: Tensor, tokenizer: WhisperTokenizer) -> set[str]:
    """The texts of suppressed labels; those that only never come behind a blank begin with one."""
    ids = [id for id in suppress.nonzero().flatten().tolist() if id < tokenizer.end]
    texts = {tokenizer.tokens.decode([id], skip_special_tokens=False) for id in ids}
    return {text for text in texts if text.strip() and "\ufffd" not in text}


def _ids(given: Sequence[int] | None) -> list[int]:
    return [id for id in given or () if id >= 0]
