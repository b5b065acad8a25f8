"""N-gram models come back from both kinds of files, and kenlm gives the same scores for ours."""

from pathlib import Path

import pytest
import torch

from fewer.errors import FewerError
from fewer.models.ngram import NGram
from fewer.store.arpa import arpa_words
from fewer.store.ngram_files import load_ngram, save_ngram
from fewer.training.ngram import estimate

LABELS = ["</s>", "▁a", "b c", "\\", "\x00", "▁", "d", "<unk>"]


@pytest.fixture
def model() -> NGram:
    labels = torch.randint(0, 7, (400,), generator=torch.Generator().manual_seed(0))  # <unk> is never seen
    labels[-1] = 0
    return estimate(labels, 4, len(LABELS), prune=[0, 0, 1])


def some_labels() -> torch.Tensor:
    return torch.randint(0, 8, (4, 20), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", ["m.arpa", "m.arpa.gz", "m.safetensors"])
def test_a_model_comes_back_from_its_file(tmp_path: Path, model: NGram, name: str) -> None:
    save_ngram(tmp_path / name, model, LABELS)
    again = load_ngram(tmp_path / name, LABELS)
    assert again.counts() == model.counts()
    torch.testing.assert_close(again.log_probs(some_labels()), model.log_probs(some_labels()), rtol=0, atol=1e-5)


def test_a_double_precision_model_stays_so_when_it_is_saved(tmp_path: Path, model: NGram) -> None:
    save_ngram(tmp_path / "m.safetensors", model.double(), LABELS)
    assert model.backoffs.dtype == torch.double
    assert load_ngram(tmp_path / "m.safetensors", LABELS).backoffs.dtype == torch.float


def test_kenlm_gives_the_same_scores(tmp_path: Path, model: NGram) -> None:
    kenlm = pytest.importorskip("kenlm", reason="kenlm is not installed: pip install 'fewer[kenlm]'")
    save_ngram(tmp_path / "m.arpa", model, LABELS)
    other, ours = kenlm.Model(str(tmp_path / "m.arpa")), load_ngram(tmp_path / "m.arpa", LABELS)
    words = arpa_words(LABELS, 0)
    sentences = torch.randint(1, 8, (20, 15), generator=torch.Generator().manual_seed(2))
    sentences = torch.cat([sentences, torch.zeros(20, 1, dtype=torch.long)], dim=1)
    scores = ours.score(sentences) / torch.tensor(10.0).log()
    for sentence, score in zip(sentences.tolist(), scores, strict=True):
        text = " ".join(words[label] for label in sentence[:-1])
        theirs = [log_prob for log_prob, _, _ in other.full_scores(text, bos=True, eos=True)]
        torch.testing.assert_close(score, torch.tensor(theirs), rtol=0, atol=1e-4)


def test_a_model_of_another_vocabulary_is_refused(tmp_path: Path, model: NGram) -> None:
    for name in ("m.arpa", "m.safetensors"):
        save_ngram(tmp_path / name, model, LABELS)
        with pytest.raises(FewerError, match=name):
            load_ngram(tmp_path / name, LABELS[:-2])
        with pytest.raises(FewerError, match=name):
            load_ngram(tmp_path / name, [*LABELS[:-2], "e", "f"])
    with pytest.raises(FewerError, match="8 labels, but the tokenizer 2"):
        save_ngram(tmp_path / "n.arpa", model, ["</s>", "a"])


def test_what_is_no_model_is_refused(tmp_path: Path, model: NGram) -> None:
    with pytest.raises(FewerError, match=r"ends in \.arpa, \.arpa\.gz or \.safetensors"):
        save_ngram(tmp_path / "m.bin", model, LABELS)
    save_ngram(tmp_path / "m.safetensors", model, LABELS)
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes((tmp_path / "m.safetensors").read_bytes()[:-100])
    with pytest.raises(FewerError, match=r"cannot read .*cut\.safetensors"):
        load_ngram(cut, LABELS)
    with pytest.raises(FewerError, match=r"cannot read .*absent"):
        load_ngram(tmp_path / "absent.safetensors", LABELS)


def test_a_wrong_ngram_is_named_with_its_line(tmp_path: Path) -> None:
    head = "\\data\\\nngram 1=4\nngram 2=2\nngram 3=1\n\n\\1-grams:\n-99 <s> 0\n-1 </s>\n-1 a 0\n-1 b 0\n\n\\2-grams:\n"
    path = tmp_path / "x.arpa"
    path.write_text(head + "-1 a b\n-1 a b\n\n\\3-grams:\n-1 a b a\n\n\\end\\\n")
    with pytest.raises(FewerError, match="line 14: this 2-gram is there twice"):
        load_ngram(path, ["</s>", "a", "b"])
    path.write_text(head + "-1 a b\n-1 a a\n\n\\3-grams:\n-1 b a a\n\n\\end\\\n")
    with pytest.raises(FewerError, match="line 17: this 3-gram follows on no shorter n-gram"):
        load_ngram(path, ["</s>", "a", "b"])
