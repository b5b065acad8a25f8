"""A Whisper that is small enough to be made in a test: random weights, real files, one second of audio at most."""

import json
import wave
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    GenerationConfig,
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
    WhisperTokenizer,
)

MERGES = [("Ġ", "t"), ("h", "e"), ("Ġt", "he"), ("Ġ", "a"), ("i", "n"), ("Ġ", "c"), ("a", "t"), ("Ġc", "at")]
TIMESTAMPS = 51
ENDING = 2.0  # logit of the end label


def byte_pairs() -> Tokenizer:
    """Byte-level BPE with a few merges, as Whisper's with some 50,000."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {label: id for id, label in enumerate([*alphabet, *("".join(pair) for pair in MERGES)])}
    tokens = Tokenizer(models.BPE(vocab=vocabulary, merges=MERGES))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    return tokens


def make_whisper(folder: Path, multilingual: bool = False, seed: int = 0, sharpness: float = 0.3) -> Path:
    """A folder such as transformers writes. sharpness: the weights' deviation, and so how peaked the softmax is.

    The end label is made so likely that utterances end after some ten labels.
    """
    tokens = byte_pairs()
    size = tokens.get_vocab_size()
    languages = ["en", "de", "zh"]
    specials = ["<|endoftext|>", "<|startoftranscript|>", *(f"<|{language}|>" for language in languages)]
    specials += ["<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>"]
    specials.append("<|notimestamps|>")
    tokens.add_special_tokens([AddedToken(special, special=True) for special in specials])
    id = {special: size + index for index, special in enumerate(specials)}
    end, comma, blank = id["<|endoftext|>"], tokens.token_to_id(","), tokens.token_to_id("Ġ")
    ends = {"bos_token_id": end, "eos_token_id": end, "pad_token_id": end}
    start = {"decoder_start_token_id": id["<|startoftranscript|>"]}
    torch.manual_seed(seed)
    config = WhisperConfig(
        vocab_size=tokens.get_vocab_size() + TIMESTAMPS,
        num_mel_bins=8,
        d_model=24,
        encoder_layers=2,
        encoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_layers=3,
        decoder_attention_heads=4,
        decoder_ffn_dim=40,
        max_source_positions=50,
        max_target_positions=40,
        init_std=sharpness,
        suppress_tokens=[comma],
        begin_suppress_tokens=[blank, end],
        **ends,
        **start,
    )
    model = WhisperForConditionalGeneration(config)
    for parameter in model.parameters():  # biases too, which are zero in a new model
        if parameter.ndim == 1:
            torch.nn.init.normal_(parameter, std=sharpness, mean=float(parameter.detach().mean()))
    with torch.no_grad():  # the last norm's bias is a part of what the output layer reads that is always there
        bias = model.model.decoder.layer_norm.bias
        model.model.decoder.embed_tokens.weight[end] = ENDING * bias / bias.norm() ** 2
    unreadable = [id for label, id in tokens.get_vocab().items() if not label.replace("Ġ", "a").isascii()]
    several = {
        "lang_to_id": {f"<|{language}|>": id[f"<|{language}|>"] for language in languages},
        "task_to_id": {task: id[f"<|{task}|>"] for task in ("transcribe", "translate")},
    }
    model.generation_config = GenerationConfig(
        max_length=40,
        no_timestamps_token_id=id["<|notimestamps|>"],
        is_multilingual=multilingual,
        suppress_tokens=[comma, *unreadable, *range(end + 1, config.vocab_size)],
        begin_suppress_tokens=[blank, end],
        return_timestamps=False,
        **(several if multilingual else {}),
        **ends,
        **start,
    )
    model.save_pretrained(folder)
    roles = dict.fromkeys(("unk_token", "bos_token", "eos_token", "pad_token"), "<|endoftext|>")
    tokens.save(str(folder / "tokenizer.json"))
    WhisperTokenizer(tokenizer_object=tokens, **roles).save_pretrained(folder)
    WhisperFeatureExtractor(feature_size=8, chunk_length=1).save_pretrained(folder)
    return folder


def noises(count: int, seed: int = 0) -> list[torch.Tensor]:
    """Utterances of 0.2 to 1 s at 16 kHz."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(3200, 16000, count)
    return [torch.from_numpy(0.3 * generator.standard_normal(length).astype(np.float32)) for length in lengths]


def write_manifest(path: Path, texts: list[str | None], seed: int = 0) -> Path:
    """Cuts of noise with these transcripts."""
    lines = []
    for index, (text, samples) in enumerate(zip(texts, noises(len(texts), seed), strict=True)):
        lines.append(json.dumps(write_cut(path.with_name(f"{path.stem}-{index}.wav"), samples, text)) + "\n")
    path.write_text("".join(lines))
    return path


def write_cut(audio: Path, samples: torch.Tensor, text: str | None, rate: int = 16000) -> dict[str, Any]:
    """Write the audio; returns a cut of it."""
    with wave.open(str(audio), "wb") as stream:
        stream.setparams((1, 2, rate, 0, "NONE", ""))
        stream.writeframes((samples * 32767).clamp(-32768, 32767).short().numpy().tobytes())
    name, span = audio.stem, {"start": 0.0, "duration": len(samples) / rate, "channel": 0}
    spoken = [] if text is None else [{"id": name, "recording_id": name, **span, "text": text, "speaker": "s"}]
    source = {"type": "file", "channels": [0], "source": str(audio)}
    recording = {"id": name, "sources": [source], "sampling_rate": rate, "num_samples": len(samples)}
    recording |= {"duration": span["duration"], "channel_ids": [0]}
    return {"id": name, **span, "supervisions": spoken, "recording": recording, "type": "MonoCut"}


def extractor_of(whisper: Any) -> Any:
    """The features of a `WhisperRecogniser` as transformers computes them."""
    from transformers import WhisperFeatureExtractor

    return WhisperFeatureExtractor.from_pretrained(whisper.name)
