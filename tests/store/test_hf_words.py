"""LMs with tokenizers of their own score word by word what they say of whole texts."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import fewer
from fewer.data.tokenizers import CharacterTokenizer
from fewer.decoding.rescore import text_scores
from fewer.decoding.system import load_system
from fewer.errors import FewerError
from fewer.hugging_face import loading
from fewer.ilm.config import IlmConfig
from fewer.ilm.estimate import estimate_ilm
from fewer.models.lm import LmScorer
from fewer.recognisers.whisper.recogniser import WhisperRecogniser
from fewer.search.beam import SearchOptions, beam_search
from fewer.search.scorer import first_labels
from fewer.store.hf_lm import load_hf_text_lm
from fewer.store.hf_words import WordwiseLm, load_hf_over
from tests.recognisers.tiny import noises, write_manifest

transformers = pytest.importorskip("transformers")
MERGES = [("Ġ", "c"), ("Ġc", "a"), ("a", "t"), ("i", "n"), ("h", "a")]


def make_lm(folder: Path, kind: str = "gpt2") -> Path:
    """A causal LM of random weights, whose byte-pairs are others than those of any recogniser here."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    labels = ["<|end|>", *alphabet, *("".join(pair) for pair in MERGES)]
    tokens = Tokenizer(models.BPE(vocab={label: id for id, label in enumerate(labels)}, merges=MERGES))
    tokens.pre_tokenizer, tokens.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    roles = {"bos_token": "<|end|>", "eos_token": "<|end|>"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokens, **roles).save_pretrained(folder)
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"vocab_size": len(labels), "bos_token_id": 0, "eos_token_id": 0, "initializer_range": 0.4}
    if kind == "gpt2":
        config = transformers.GPT2Config(n_embd=8, n_layer=2, n_head=2, n_positions=256, **sizes)
    else:
        heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2}
        config = transformers.LlamaConfig(hidden_size=16, intermediate_size=24, **heads, **sizes)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session", params=["gpt2", "llama"])
def lm_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_lm(tmp_path_factory.mktemp("lm"), request.param)


@cache
def parts(folder: Path) -> tuple[Any, Any]:
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    return transformers.AutoTokenizer.from_pretrained(folder), model


def brute_force(folder: Path, text: str, end: bool) -> float:
    """log P of a text, all of its tokens read at once, without batch, cache or padding."""
    tokenizer, model = parts(folder)
    tokens = [0, *tokenizer.encode(text, add_special_tokens=False), *([0] if end else [])]
    with torch.inference_mode():
        log_probs = model(input_ids=torch.tensor([tokens])).logits[0].log_softmax(-1)
    return float(sum(log_probs[place, token] for place, token in enumerate(tokens[1:])))


TEXTS = ["the cat sat in a hat", "cat", "", "a tin, a cat?", "Ünïcode is   in it"]


def test_words_add_up_to_what_the_lm_says_of_the_text(lm_folder: Path, whisper: WhisperRecogniser) -> None:
    lm = load_hf_over(str(lm_folder), whisper.tokenizer)
    assert isinstance(lm, WordwiseLm)
    for text in TEXTS:
        labels = torch.tensor([[*whisper.tokenizer.encode(text), whisper.tokenizer.end]])
        for scored, end in ((lm, True), (lm.without_end(), False)):
            said = scored.log_probs(labels).gather(2, labels[..., None]).sum()
            assert float(said) == pytest.approx(brute_force(lm_folder, " ".join(text.split()), end), abs=1e-3)


def test_the_second_pass_says_the_same(lm_folder: Path) -> None:
    found = text_scores(TEXTS, *load_hf_text_lm(lm_folder))
    assert found == pytest.approx([brute_force(lm_folder, text, end=True) for text in TEXTS], abs=1e-3)


@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_a_moving_beam_scores_as_whole_texts(lm_folder: Path, whisper: WhisperRecogniser, data: st.DataObject) -> None:
    """Random labels and parents: pasts of different lengths in one batch, words of different lengths."""
    lm: Any = load_hf_over(str(lm_folder), whisper.tokenizer)
    scorer, tokenizer = LmScorer(lm), whisper.tokenizer
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 1000)))
    spelled = sorted({label for text in TEXTS for label in tokenizer.encode(text)})
    memory, state = scorer.start(range(2))
    labels, texts, totals, width = first_labels(2), [list[int]() for _ in range(2)], torch.zeros(2), 1
    for _ in range(9):
        scores, state = scorer.step(memory, state, labels)
        for row, text in enumerate(texts):
            whole = float(totals[row] + scores[0, row, tokenizer.end])
            assert whole == pytest.approx(brute_force(lm_folder, tokenizer.decode(text), end=True), abs=2e-3)
        parents = torch.stack([u * width + torch.randint(width, (3,), generator=generator) for u in range(2)])
        labels = torch.tensor(spelled)[torch.randint(len(spelled), (6,), generator=generator)]
        totals = totals[parents.flatten()] + scores[0, parents.flatten(), labels]
        texts = [[*texts[parent], int(label)] for parent, label in zip(parents.flatten(), labels, strict=True)]
        state, width = scorer.reorder(state, parents), 3


def test_searches_with_an_internal_lm(lm_folder: Path, whisper: WhisperRecogniser, tmp_path: Path) -> None:
    """The score of the best hypothesis is what brute force says of its text; the internal LM is subtracted."""
    estimate_ilm(whisper, IlmConfig(method="zero_encoder"), tmp_path / "ilm")
    system = load_system(whisper, lm_folder, tmp_path / "ilm")
    encoded = whisper.listen(noises(2))
    scales = {"lm": 0.3, "ilm": -0.2}
    lists = beam_search(
        system.fusion(scales), encoded, torch.tensor([12, 12]), SearchOptions(beam=3), whisper.tokenizer.decode
    )
    for best in (hypotheses[0] for hypotheses in lists):
        complete = best.text if best.ended else " ".join(best.text.split()[:-1])
        assert best.scores["lm"] == pytest.approx(brute_force(lm_folder, complete, end=False), abs=2e-3)
        total = best.scores["aed"] + 0.3 * best.scores["lm"] - 0.2 * best.scores["ilm"]
        assert best.score == pytest.approx(total / best.length, abs=1e-3)
    assert system.lm.asked.words > 0  # type: ignore[union-attr]
    assert "words, of" in str(system.lm.asked)  # type: ignore[union-attr]


def test_what_several_rows_ask_is_asked_once(lm_folder: Path, whisper: WhisperRecogniser) -> None:
    lm: Any = load_hf_over(str(lm_folder), whisper.tokenizer)
    scorer = LmScorer(lm)
    memory, state = scorer.start(range(4))
    _, state = scorer.step(memory, state, first_labels(4))
    assert lm.asked.words == 0
    the = torch.tensor(whisper.tokenizer.encode("the")[:1]).expand(4)
    scorer.step(memory, state, the)
    assert (lm.asked.calls, lm.asked.words) == (1, 1)


def test_decode_takes_it_and_tells_the_cost(
    lm_folder: Path, tiny: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manifest = write_manifest(tmp_path / "dev.jsonl", ["the cat", "a hat"])
    caplog.set_level("INFO", logger="fewer")
    lists = fewer.decode(str(tiny), manifest, tmp_path / "out.jsonl", lm=str(lm_folder), lm_scale=0.2, beam=2)
    assert len(lists) == 2
    assert "so words are scored when they are complete" in caplog.text
    assert "the LM was asked for" in caplog.text


def test_a_tokenizer_that_cannot_read_text_is_refused(lm_folder: Path, tmp_path: Path) -> None:
    for file in lm_folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    facts = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(facts | {"model_max_length": "long"}))
    with pytest.raises(FewerError, match=r"tokenizer_config\.json\) is not a tokenizer that transformers can load"):
        load_hf_over(str(tmp_path), CharacterTokenizer(["</s>", " ", *"abcdefghijklmnopqrstuvwxyz"]))


def test_a_model_that_cannot_compute_is_refused(tmp_path: Path) -> None:
    folder = make_lm(tmp_path / "lm")
    facts = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(facts | {"resid_pdrop": float("nan")}))
    with pytest.raises(FewerError, match=r"is not a causal language model that transformers can load \(config\.json"):
        load_hf_over(str(folder), CharacterTokenizer(["</s>", " ", *"abcdefghijklmnopqrstuvwxyz"]))


def test_a_model_of_endless_layers_is_refused(lm_folder: Path, tmp_path: Path) -> None:
    for file in lm_folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    facts = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(facts | {"n_layer": 10**6}))
    with pytest.raises(FewerError, match=r"config\.json: n_layer is 1000000, but at most 1000 is allowed"):
        load_hf_over(str(tmp_path), CharacterTokenizer(["</s>", " ", *"abcdefghijklmnopqrstuvwxyz"]))


def test_a_library_in_rust_that_gives_up_is_told_as_damage() -> None:
    class PanicException(BaseException):
        pass

    with pytest.raises(FewerError, match="it cannot be read: PanicException"), loading("model", "it cannot be read"):
        raise PanicException("out of range")
    with pytest.raises(KeyboardInterrupt), loading("model", "it cannot be read"):
        raise KeyboardInterrupt


def test_what_cannot_be_scored_by_words_is_refused(lm_folder: Path, tmp_path: Path) -> None:
    letters = CharacterTokenizer(["</s>", *"あいう"])
    with pytest.raises(FewerError, match="do not tell where words begin: use this LM with `fewer rescore`"):
        load_hf_over(str(lm_folder), letters)
    tokens = Tokenizer.from_file(str(lm_folder / "tokenizer.json"))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    vocabulary = tokens.get_vocab()
    vocabulary["tĠ"] = vocabulary.pop("ha")
    crossing = Tokenizer(models.BPE(vocab=vocabulary, merges=[("t", "Ġ")]))
    crossing.pre_tokenizer = tokens.pre_tokenizer
    for file in lm_folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    crossing.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(FewerError, match="its tokens cross words"):
        load_hf_over(str(tmp_path), CharacterTokenizer(["</s>", " ", *"abcdefghijklmnopqrstuvwxyz"]))
