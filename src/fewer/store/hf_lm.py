"""Any Hugging Face causal LM as a language model over a recogniser's labels.

Its vocabulary is the recogniser's, or contains it: `ids[v]` is then the LM's token for label v. (GPT-2's text tokens
are those of Whisper's English models.)
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fewer.errors import FewerError
from fewer.files import read_json_object
from fewer.hugging_face import check_sizes, loading
from fewer.progress import quiet_loading

TOKENIZER_FILES = ("tokenizer.json", "vocab.json", "tokenizer.model", "spiece.model")
MOST = 0.9  # share of the labels that an LM must have to be taken for one of the same vocabulary
MANY = 2  # times as many tokens as labels that such an LM has at most
ABSENT = -100.0  # log-probability of a label that the LM does not have
Past = list[tuple[Tensor, Tensor]]  # keys and values of each layer, (rows, heads, n, head)


class HfLm(nn.Module):
    """A `LanguageModel` around a transformers causal LM; its key-value cache is explicit state."""

    known: Tensor  # (V,) bool
    ids: Tensor  # (V,)

    def __init__(self, model: Any, ids: Tensor, start: int):
        """ids: (V,) the LM's token of each label, −1 where there is none. start: the token it reads first."""
        super().__init__()
        self.model = model.eval().requires_grad_(False)
        self.vocab_size = len(ids)
        self.register_buffer("known", ids >= 0, persistent=False)
        self.register_buffer("ids", ids.clamp_min(0), persistent=False)
        self.start_token = start
        if int(ids.max()) >= model.config.vocab_size:
            raise FewerError(f"the LM has {model.config.vocab_size} tokens, but a label maps to token {int(ids.max())}")

    @torch.inference_mode()
    def log_probs(self, labels: Tensor) -> Tensor:
        """log P(labels[i] = v | labels[<i]) for every v. (B, N) -> (B, N, V)"""
        first = torch.full_like(labels[:, :1], self.start_token)
        inputs = torch.cat([first, self.ids[labels[:, :-1]]], dim=1)
        return self._of_labels(self.model(input_ids=inputs, use_cache=False).logits)

    def start(self, rows: int) -> Past:
        return []

    @torch.inference_mode()
    def step(self, state: Past, labels: Tensor) -> tuple[Tensor, Past]:
        """Next label's log-probabilities after reading `labels`, -1 before the first. (rows,) -> (rows, V)"""
        from transformers import DynamicCache

        tokens = torch.where(labels < 0, self.start_token, self.ids[labels.clamp_min(0)])
        cache = DynamicCache(state) if state else DynamicCache()
        output = self.model(input_ids=tokens[:, None], past_key_values=cache, use_cache=True)
        past = [(layer.keys, layer.values) for layer in output.past_key_values.layers]
        return self._of_labels(output.logits[:, -1]), past

    def _of_labels(self, logits: Tensor) -> Tensor:
        log_probs = functional.log_softmax(logits.float(), dim=-1)[..., self.ids]
        return torch.where(self.known, log_probs, ABSENT)


class HfTextTokenizer:
    """The LM's own tokenizer, for scoring text."""

    def __init__(self, tokenizer: Any):
        self.tokenizer, self.end = tokenizer, int(tokenizer.eos_token_id)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids


def load_hf_lm(source: str | Path, labels: Sequence[str], end: int) -> HfLm:
    """Load a causal LM by name or folder and find each label among its tokens.

    Without a tokenizer beside it, an LM with as many tokens as there are labels has the labels themselves.
    """
    return over_labels(source, *load_hf_parts(source), labels, end)


def over_labels(source: str | Path, model: Any, tokenizer: Any, labels: Sequence[str], end: int) -> HfLm:
    """The same of a causal LM and its tokenizer, if there is one."""
    if tokenizer is None:
        if model.config.vocab_size != len(labels):
            raise FewerError(
                f"{source} has {model.config.vocab_size} tokens and no tokenizer, the recogniser {len(labels)} labels: "
                "put the LM's tokenizer beside it so that labels can be found by name"
            )
        return HfLm(model, torch.arange(len(labels)), end)
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    ids = torch.tensor([vocabulary.get(label, -1) for label in labels])
    ids[end] = tokenizer.eos_token_id
    if not has_labels(tokenizer, labels):
        found = int((ids >= 0).sum())
        raise FewerError(
            f"{source} has only {found} of the recogniser's {len(labels)} labels: its tokenizer is another one; "
            "use it with `fewer rescore`, which reads text"
        )
    return HfLm(model, ids, first_token(tokenizer))


def has_labels(tokenizer: Any, labels: Sequence[str]) -> bool:
    """Whether an LM's tokens are a recogniser's labels, but for a few.

    An LM with many more tokens also has small labels, such as letters, but does not spell words with them.
    """
    vocabulary = tokenizer.get_vocab()
    found = sum(label in vocabulary for label in labels) + 1
    return found >= MOST * len(labels) and len(vocabulary) <= MANY * len(labels)


def load_hf_text_lm(source: str | Path) -> tuple[HfLm, HfTextTokenizer]:
    """A causal LM over its own tokens, with its tokenizer."""
    model, tokenizer = load_hf_parts(source)
    if tokenizer is None:
        raise FewerError(f"{source} has no tokenizer beside it, so it cannot read text")
    return HfLm(model, torch.arange(model.config.vocab_size), first_token(tokenizer)), HfTextTokenizer(tokenizer)


def load_hf_parts(source: str | Path) -> tuple[Any, Any]:
    """The model, and its tokenizer if there is one."""
    try:
        from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise FewerError("Hugging Face LMs need transformers: pip install 'fewer[hf]'") from error
    files, unusable = Path(source), f"{source} is not a causal language model that transformers can load"
    with loading(source, f"{unusable} ({files / 'config.json'})"), quiet_loading(source):
        if (files / "config.json").exists():
            read_json_object(files / "config.json")
        config = AutoConfig.from_pretrained(source, trust_remote_code=False)
    check_sizes(config.to_dict(), files / "config.json")
    with loading(source, f"{unusable} (config.json, generation_config.json and weights)"), quiet_loading(source):
        model = AutoModelForCausalLM.from_pretrained(
            source, config=config, dtype=torch.float32, trust_remote_code=False, use_safetensors=True
        )
        with torch.inference_mode():
            model.eval()(input_ids=torch.zeros(1, 1, dtype=torch.long, device=model.device))  # here, not in a search
    if files.is_dir() and not any((files / name).exists() for name in TOKENIZER_FILES):
        return model, None
    named = f"{files / 'tokenizer.json'} (or vocab.json, tokenizer_config.json)"
    with loading(source, f"{named} is not a tokenizer that transformers can load"), quiet_loading(source):
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
        used = tokenizer.get_vocab().keys() - tokenizer.get_added_vocab().keys()  # of text; added ones may be unused
        largest = max(tokenizer.convert_tokens_to_ids(list(used)), default=0)
        tokenizer.encode("a text")
    if tokenizer.eos_token_id is None:
        raise FewerError(f"{named} names no end-of-text token")
    largest, rows = max(largest, first_token(tokenizer), tokenizer.eos_token_id), model.config.vocab_size
    if largest >= rows:
        raise FewerError(f"{named} has a token {largest}, but the model only {rows} tokens; is it of another model?")
    return model, tokenizer


def first_token(tokenizer: Any) -> int:
    """The token that an LM reads before any text."""
    return int(tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id)
