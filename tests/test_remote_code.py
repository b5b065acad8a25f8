"""No Python of a model folder runs, and nothing is unpickled."""

import ast
import json
from pathlib import Path

import pytest
import torch

import fewer
from fewer.errors import FewerError
from fewer.store.hf_lm import load_hf_parts

SOURCES = sorted(Path(fewer.__file__).parent.rglob("*.py"))
OWN = ("WhisperTokenizer", "cls", "nn.Embedding")  # classes of fewer and torch with a method of that name


def hugging_face_calls() -> list[tuple[str, ast.Call]]:
    found = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = node.func.value
                if node.func.attr == "from_pretrained" and ast.unparse(owner) not in OWN:
                    found.append((f"{path}:{node.lineno}: {ast.unparse(owner)}", node))
    return found


def keyword(call: ast.Call, name: str) -> object:
    given = [word.value for word in call.keywords if word.arg == name]
    return given[0].value if given and isinstance(given[0], ast.Constant) else None


def test_every_loading_from_hugging_face_refuses_remote_code_and_pickles() -> None:
    calls = hugging_face_calls()
    assert len(calls) >= 8
    for where, call in calls:
        assert keyword(call, "trust_remote_code") is False, where
        if "Model" in where or "Generation" in where:
            assert keyword(call, "use_safetensors") is True, where


def test_nothing_is_unpickled() -> None:
    for path in SOURCES:
        text = path.read_text()
        for word in ("torch.load(", "pickle.load", "allow_pickle=True", "yaml.load(", "yaml.unsafe_load", "eval("):
            allowed = (word == "yaml.load(" and path.name == "config.py") or (word == "eval(" and ".eval(" in text)
            assert word not in text or allowed, f"{path}: {word}"


def test_code_that_comes_with_a_model_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "surprise", "auto_map": {"AutoConfig": "c.C", "AutoModelForCausalLM": "c.M"}})
    )
    (tmp_path / "c.py").write_text(f"open({str(tmp_path / 'PWNED')!r}, 'w')\nclass C: pass\nclass M: pass\n")
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    with pytest.raises(FewerError, match="is not a causal language model"):
        load_hf_parts(tmp_path)
    assert not (tmp_path / "PWNED").exists()


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=1, n_head=1, n_embd=4, vocab_size=5)
    model = transformers.GPT2LMHeadModel(config)
    config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(FewerError, match="safetensors"):
        load_hf_parts(tmp_path)
