"""A Hugging Face causal LM scores labels, teacher-forced and step by step alike."""

from pathlib import Path

import pytest
import torch

from fewer.errors import FewerError
from fewer.models.lm import LmScorer
from fewer.store.hf_lm import ABSENT, HfLm, load_hf_lm

transformers = pytest.importorskip("transformers")


def tiny(vocab_size: int) -> "transformers.GPT2LMHeadModel":
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=vocab_size, n_embd=8, n_layer=2, n_head=2, n_positions=32, bos_token_id=0, eos_token_id=0
    )
    return transformers.GPT2LMHeadModel(config).eval()


def test_steps_equal_teacher_forcing_through_a_label_map() -> None:
    model = tiny(12)
    ids = torch.tensor([0, 7, 3, 11, 5])
    lm = HfLm(model, ids, start=0)
    labels = torch.tensor([[1, 4, 2, 0], [3, 3, 1, 0]])
    at_once = lm.log_probs(labels)
    plain = model(input_ids=torch.tensor([[0, 7, 5, 3], [0, 11, 11, 7]])).logits.log_softmax(-1)[..., ids]
    torch.testing.assert_close(at_once, plain, atol=1e-5, rtol=1e-5)
    scorer = LmScorer(lm)
    memory, state = scorer.start(labels)
    read = torch.full((2,), -1)
    for i in range(4):
        scores, state = scorer.step(memory, state, read)
        torch.testing.assert_close(scores[0], at_once[:, i], atol=1e-5, rtol=1e-5)
        read = labels[:, i]
        if i == 1:  # rows change places in the middle
            state = scorer.reorder(state, torch.tensor([1, 0]))
            labels, at_once, read = labels.flip(0), at_once.flip(0), read.flip(0)


def test_a_label_that_the_lm_lacks_is_all_but_impossible() -> None:
    lm = HfLm(tiny(12), torch.tensor([0, 7, -1]), start=0)
    assert bool((lm.log_probs(torch.tensor([[1, 2, 0]]))[..., 2] == ABSENT).all())


def test_without_a_tokenizer_the_vocabularies_must_be_of_one_size(tmp_path: Path) -> None:
    tiny(5).save_pretrained(tmp_path / "lm")
    lm = load_hf_lm(tmp_path / "lm", ["</s>", "a", "b", "c", "d"], end=0)
    assert lm.vocab_size == 5
    with pytest.raises(FewerError, match="5 tokens and no tokenizer"):
        load_hf_lm(tmp_path / "lm", ["</s>", "a", "b"], end=0)


def test_what_is_no_causal_lm_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(FewerError, match="not a causal language model"):
        load_hf_lm(tmp_path, ["</s>", "a"], end=0)


def test_a_download_that_is_not_whole_is_told_by_its_name(tmp_path: Path) -> None:
    tiny(5).save_pretrained(tmp_path / "lm")
    weights = tmp_path / "lm" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(FewerError, match=r"/lm is not a causal .*was it downloaded whole"):
        load_hf_lm(tmp_path / "lm", ["</s>", "a", "b", "c", "d"], end=0)
