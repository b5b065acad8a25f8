"""Models of every family of transformers' encoder-decoders, small enough to be made in a test: random weights, real
files."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from fewer.recognisers.transformers.families import CANARY, FAMILIES, PROMPT

OTHERS = ("cohere_asr", "canary", "moonshine", "moonshine_streaming", "speech_to_text")
LETTERS = "abcdefghinorst'.,?ABCHT"
MERGES = [("▁", "t"), ("h", "e"), ("▁t", "he"), ("▁", "a"), ("i", "n"), ("▁", "c"), ("a", "t"), ("▁c", "at")]


def sentence_pieces(specials: list[str], byte_fallback: bool) -> Tokenizer:
    """Byte-pairs of letters with a mark for blanks, special labels first, as SentencePiece models become in
    transformers."""
    spelled = [f"<0x{byte:02X}>" for byte in range(256)] if byte_fallback else []
    labels = [*specials, *spelled, "▁", *LETTERS, *("".join(pair) for pair in MERGES)]
    vocabulary = {label: id for id, label in enumerate(labels)}
    tokens = Tokenizer(models.BPE(vocab=vocabulary, merges=MERGES, unk_token="<unk>", byte_fallback=byte_fallback))
    tokens.pre_tokenizer = pre_tokenizers.Metaspace()
    tokens.normalizer = normalizers.NFC()
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokens.decoder = decoders.Sequence(parts) if byte_fallback else decoders.Metaspace()
    tokens.add_special_tokens([AddedToken(special, special=True) for special in specials])
    return tokens


def make_model(
    folder: Path, kind: str, seed: int = 0, sharpness: float = 0.3, ending: float = 0.0, **changes: Any
) -> Path:
    """A folder such as transformers writes. ending: bias of the end label, if there are such. changes: of the
    configuration."""
    if not hasattr(transformers, FAMILIES[kind].model):
        pytest.skip(f"transformers {transformers.__version__} lacks {FAMILIES[kind].model}")
    torch.manual_seed(seed)
    folder.mkdir(parents=True, exist_ok=True)
    config, extractor = {**MAKERS, "speech_to_text": _speech_to_text}[kind](folder, **changes)
    model = getattr(transformers, type(config).__name__.replace("Config", "ForConditionalGeneration"))(config)
    decoder, end = model.model.decoder, config.eos_token_id
    for parameter in model.parameters():  # norms and biases too, which are one and zero in a new model
        mean = float(parameter.detach().mean()) if parameter.ndim == 1 else 0.0
        torch.nn.init.normal_(parameter, mean=mean, std=sharpness)
    with torch.no_grad():
        output = model.get_output_embeddings()
        if output.bias is not None:
            output.bias.zero_()
            output.bias[end] = ending
        decoder.embed_tokens.weight[config.pad_token_id] = 0.0
    model.generation_config.max_length = 40
    model.save_pretrained(folder)
    extractor.save_pretrained(folder)
    return folder


def _fast(folder: Path, specials: list[str], byte_fallback: bool = False) -> dict[str, int]:
    tokens = sentence_pieces(specials, byte_fallback)
    roles = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokens, **roles).save_pretrained(folder)
    return {label: tokens.token_to_id(label) for label in [*specials, "▁"]} | {"size": tokens.get_vocab_size()}


def _ends(ids: dict[str, int]) -> dict[str, int]:
    return {"vocab_size": ids["size"], "pad_token_id": ids["<pad>"], "bos_token_id": ids["<s>"]} | {
        "eos_token_id": ids["</s>"]
    }


ENCODER = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
ENCODER |= {"num_mel_bins": 16, "subsampling_conv_channels": 4, "conv_kernel_size": 5, "max_position_embeddings": 200}
DECODER = {"hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
DECODER |= {"num_key_value_heads": 4, "max_position_embeddings": 40, "head_dim": 6}
BASIC = ["<unk>", "<s>", "<pad>", "</s>"]


def _prompt_labels() -> list[str]:
    languages = [f"<|{language}|>" for language in CANARY.split()[4:10]]
    return [*BASIC, *languages, *(label for label in PROMPT if "{" not in label)]


def _cohere(folder: Path, **changes: Any) -> tuple[Any, Any]:
    ids = _fast(folder, _prompt_labels())
    config = transformers.CohereAsrConfig(
        encoder_config=ENCODER,
        **{**DECODER, **_ends(ids), "tie_word_embeddings": True, "decoder_start_token_id": ids["▁"], **changes},
    )
    return config, transformers.CohereAsrFeatureExtractor(feature_size=16)


def _canary(folder: Path, **changes: Any) -> tuple[Any, Any]:
    ids = _fast(folder, _prompt_labels())
    encoder = {**ENCODER, "hidden_size": 24, "scale_input": False}
    decoder = {**DECODER, **_ends(ids), **changes}
    start = {"decoder_start_token_id": ids["<|startofcontext|>"]}
    config = transformers.CanaryConfig(encoder_config=encoder, decoder_config=decoder, **_ends(ids), **start)
    return config, transformers.ParakeetFeatureExtractor(feature_size=16)


def _waveform_extractor() -> Any:
    return transformers.Wav2Vec2FeatureExtractor(do_normalize=False, return_attention_mask=True)


def _moonshine(folder: Path, **changes: Any) -> tuple[Any, Any]:
    ids = _fast(folder, BASIC, byte_fallback=True)
    sizes = {"hidden_size": 24, "intermediate_size": 32, "max_position_embeddings": 40}
    sizes |= {"encoder_num_hidden_layers": 1, "decoder_num_hidden_layers": 2, "encoder_num_attention_heads": 2}
    sizes |= {"decoder_num_attention_heads": 3}
    config = transformers.MoonshineConfig(**{**sizes, **_ends(ids), "decoder_start_token_id": ids["<s>"], **changes})
    return config, _waveform_extractor()


def _moonshine_streaming(folder: Path, **changes: Any) -> tuple[Any, Any]:
    ids = _fast(folder, BASIC, byte_fallback=True)
    encoder = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    encoder |= {"num_key_value_heads": 2, "sliding_windows": [[4, 2], [4, 0]]}
    sizes = {"hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 3}
    sizes |= {"num_key_value_heads": 3, "max_position_embeddings": 60}
    config = transformers.MoonshineStreamingConfig(encoder_config=encoder, **{**sizes, **_ends(ids), **changes})
    return config, _waveform_extractor()


def _speech_to_text(folder: Path, languages: tuple[str, ...] = (), **changes: Any) -> tuple[Any, Any]:
    """A vocabulary of lower case, and pieces whose numbers in the SentencePiece model are others."""
    model = io.BytesIO()
    lines = ["the cat sat on the hat", "a cat in the hat", "then a rat ate the cat", "is it there"] * 3
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type="unigram",
        vocab_size=30,
        hard_vocab_limit=False,
        user_defined_symbols=[f"<lang:{language}>" for language in languages],
        minloglevel=2,
    )
    (folder / "sentencepiece.bpe.model").write_bytes(model.getvalue())
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    own = [pieces.id_to_piece(id) for id in range(pieces.vocab_size())]
    own = [piece for piece in own if piece not in ("<unk>", "<s>", "</s>")]
    labels = ["<s>", "<pad>", "</s>", "<unk>", *reversed(own)]
    (folder / "vocab.json").write_text(json.dumps({label: id for id, label in enumerate(labels)}))
    special = {"additional_special_tokens": [f"<lang:{language}>" for language in languages]} if languages else {}
    transformers.Speech2TextTokenizer(
        str(folder / "vocab.json"), str(folder / "sentencepiece.bpe.model"), do_lower_case=True, **special
    ).save_pretrained(folder)
    sizes = {"d_model": 24, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2}
    sizes |= {"decoder_attention_heads": 4, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_source_positions": 200}
    sizes |= {"max_target_positions": 40, "conv_channels": 16, "input_feat_per_channel": 16}
    config = transformers.Speech2TextConfig(vocab_size=len(labels), **{**sizes, **changes})
    return config, transformers.Speech2TextFeatureExtractor(feature_size=16, num_mel_bins=16)


MAKERS: dict[str, Callable[..., tuple[Any, Any]]] = {
    "cohere_asr": _cohere,
    "canary": _canary,
    "moonshine": _moonshine,
    "moonshine_streaming": _moonshine_streaming,
}
