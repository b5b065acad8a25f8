"""What a language model with a tokenizer of its own costs: word by word in the search, and in a second pass.

    python benchmarks/word_lm.py whisper-tiny.en SET [--lm FOLDER] [--utterances 4] [--layers 6] [--size 256] [--quick]

SET is anything that `fewer decode` takes. Without --lm, a GPT-2 of these sizes with random weights and byte-pairs of
the set's transcripts is made. Its scale is 0, so that hypotheses are those of the recogniser: the work is that of a
real search, whatever the LM says. CPU-seconds for each utterance, with one thread; the last line is JSON.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from machine import QUICK

from fewer.data.corpora.given import as_manifest
from fewer.data.lines import read_raw_lines
from fewer.data.manifest import Manifest
from fewer.decoding.decode import search_set
from fewer.decoding.encoding import hold_set
from fewer.decoding.rescore import text_scores
from fewer.decoding.system import System, load_system
from fewer.errors import FewerError
from fewer.recognisers.loader import load_recogniser
from fewer.store.hf_lm import load_hf_text_lm
from fewer.store.hf_words import WordwiseLm

LABELS = 1000  # of the LM that is made


def write_lm(folder: Path, texts: list[str], layers: int, size: int) -> Path:
    """A causal LM of transformers with random weights."""
    import transformers
    from tokenizers import ByteLevelBPETokenizer

    tokens = ByteLevelBPETokenizer()
    tokens.train_from_iterator(texts, vocab_size=LABELS, special_tokens=["<|end|>"], show_progress=False)
    tokens.save(str(folder / "bpe.json"))
    roles = {"bos_token": "<|end|>", "eos_token": "<|end|>"}
    made = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "bpe.json"), **roles)
    made.save_pretrained(folder)
    config = transformers.GPT2Config(
        vocab_size=len(made), n_embd=size, n_layer=layers, n_head=4, bos_token_id=0, eos_token_id=0
    )
    torch.manual_seed(0)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


def measured(function: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    result = function()
    return result, time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("set")
    parser.add_argument("--lm")
    parser.add_argument("--utterances", type=int, default=4)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--quick", action="store_true", help=QUICK)
    given = parser.parse_args()
    if given.quick:
        given.utterances, given.layers, given.size = 1, 1, 8
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(costs(given, Path(folder))))


def costs(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    some = folder / "some.jsonl"
    some.write_bytes(b"".join(islice(read_raw_lines(as_manifest(given.set)), given.utterances)))
    manifest = Manifest(some)
    (folder / "lm").mkdir()
    lm = given.lm or str(write_lm(folder / "lm", list(manifest.texts()), given.layers, given.size))
    recogniser = load_recogniser(given.model, cached=True)
    options, count = recogniser.defaults.search, len(manifest)
    alone, fused = System(recogniser), load_system(recogniser, lm, centred=False, share=0.0)
    asked_of = fused.lm
    if not isinstance(asked_of, WordwiseLm):
        raise FewerError(f"{lm} has the recogniser's own tokenizer: it is asked for every label, not word by word")
    with hold_set(recogniser, manifest, folder / "encodings") as batches, torch.inference_mode():
        _, plain = measured(lambda: list(search_set(alone, batches, {}, options)))
        found, by_words = measured(lambda: list(search_set(fused, batches, {"lm": 0.0}, options)))
        texts = sorted({hypothesis.text for _, nbest in found for hypothesis in nbest.hypotheses})
        text_lm, tokenizer = load_hf_text_lm(lm)
        _, second = measured(lambda: text_scores(texts, text_lm, tokenizer))
    asked, parameters = asked_of.asked, sum(p.numel() for p in asked_of.parameters())
    print(f"LM of {parameters:,} parameters; beam {options.beam}, {count} utterances; {asked}")
    print(f"CPU-seconds for each utterance: search alone {plain / count:.2f}, with the LM {by_words / count:.2f};")
    print(f"second pass over {len(texts)} texts {second / count:.2f}")
    return {
        "parameters": parameters,
        "beam": options.beam,
        "search": plain / count,
        "words": by_words / count,
        "second_pass": second / count,
        "asked": {"words": asked.words, "tokens": asked.tokens, "batches": asked.calls},
    }


if __name__ == "__main__":
    main()
