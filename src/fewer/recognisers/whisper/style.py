"""What a Whisper never writes, from the labels that it never outputs."""

from torch import Tensor

from fewer.data.whisper_tokens import WhisperTokenizer


def never_written(suppress: Tensor, tokenizer: WhisperTokenizer) -> set[str]:
    """The texts of its suppressed labels; those that only never come behind a blank begin with one."""
    ids = [id for id in suppress.nonzero().flatten().tolist() if id < tokenizer.end]
    texts = {tokenizer.tokens.decode([id], skip_special_tokens=False) for id in ids}
    return {text for text in texts if text.strip() and "\ufffd" not in text}
