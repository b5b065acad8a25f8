"""The authors' models from checkpoints in TensorFlow's format and RETURNN configurations."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fewer
from fewer.data.features import GammatoneConfig, MfccConfig
from fewer.errors import FewerError
from fewer.models.encoded import Encoded
from fewer.recognisers.loader import load_recogniser
from fewer.store.model_folder import load_model, read_description
from fewer.store.returnn_config import UNKNOWN, read_returnn_config
from tests.cli.running import Fewer
from tests.golden.golden import arrays, golden_aed, golden_lstm_lm, golden_transformer_lm
from tests.golden.reference import Reference, network, random_arrays
from tests.store.tf_writer import write_checkpoint

CODES = "#version: 0.2\na b</w>\n"


def vocabulary(labels: int) -> str:
    names = {"<s>": 0, "</s>": 0, "<unk>": 1, "ab": 2, "a@@": 3} | {f"x{id}": id for id in range(4, labels)}
    return repr(names)


HEAD = """#!rnn.py
import os
from Util import cleanup_env_var_path
cleanup_env_var_path("LD_LIBRARY_PATH", "/nowhere")
raise SystemExit("a configuration is read, not run")

def transform(data, network):
  x = tf.clip_by_value(x, -3.0, 3.0)

learning_rate = 0.0008
"""
MFCC = "dev = {'audio': {'features': 'mfcc', 'norm_mean': '/nowhere/stats.mean.txt'}, 'class': 'LibriSpeechCorpus'}\n"
RASR = "dev = {'class': 'ExternSprintDataset', 'input_stddev': 3.0, 'partitionEpoch': 1}\n"
NET = """
num_heads = 2 * 2
place_on_cpu = True
network = {
  'lstm0_pool': {'class': 'pool', 'pool_size': (3,)}, 'lstm1_pool': {'class': 'pool', 'pool_size': (2,)},
  'output': {'class': 'rec', 'unit': {
    's': {'class': 'rnn_cell', 'unit': 'LSTMBlock', 'device': "CPU" if place_on_cpu else None},
    'output_prob': {'class': 'softmax', 'loss_opts': {'label_smoothing': 0.1}},
    'dec_0_self_att_att': {'class': 'self_attention', 'num_heads': num_heads}}}}
pretrain = {'construction_algo': custom_construction_algo, 'repetitions': 5}
"""


def toolkit(file: str, prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): v.numpy() for name, v in arrays(file).items() if name.startswith(prefix)}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Any]:
    """Codes, vocabulary and statistics, as options of the import."""
    (tmp_path / "bpe.codes").write_text(CODES)
    (tmp_path / "bpe.vocab").write_text(vocabulary(30))
    np.savetxt(tmp_path / "mean.txt", np.linspace(-1, 1, 40))
    np.savetxt(tmp_path / "std_dev.txt", np.linspace(1, 2, 40))
    return {"codes": tmp_path / "bpe.codes", "vocabulary": tmp_path / "bpe.vocab"}


@pytest.fixture
def statistics(tmp_path: Path, files: dict[str, Any]) -> dict[str, Any]:
    return {"mean": tmp_path / "mean.txt", "deviation": tmp_path / "std_dev.txt"}


def imported(folder: Path, parameters: dict[str, np.ndarray], config: str, options: dict[str, Any]) -> Path:
    write_checkpoint(folder / "net-model/network.295", {**parameters, "global_step": np.array(7, dtype=np.int64)})
    (folder / "returnn.config").write_text(config)
    return fewer.import_returnn(folder / "net-model/network.295", folder / "returnn.config", folder / "out", **options)


def test_the_librispeech_recogniser(tmp_path: Path, files: dict[str, Any], statistics: dict[str, Any]) -> None:
    out = imported(tmp_path, toolkit("aed_lstm", "param:"), HEAD + MFCC + NET, files | statistics)
    loaded, expected = load_model(out), golden_aed()
    assert loaded.aed.config.encoder.pools == (3, 2)
    for name, value in expected.state_dict().items():
        assert torch.equal(loaded.aed.state_dict()[name], value), name
    features = read_description(out).features
    assert features == MfccConfig(style="librosa", dim=40, clip=3.0)
    assert loaded.features is not None
    heard = loaded.features.of(torch.randn(16000, generator=torch.Generator().manual_seed(0)))
    assert heard.shape[1] == 40
    assert float(heard.abs().max()) <= 3
    recogniser = load_recogniser(str(out))
    assert recogniser.ilm_options(True) == {"learning_rate": 0.0008, "smoothing": 0.1}
    assert loaded.tokenizer.encode("ab aab") == [2, 3, 2]


@pytest.mark.parametrize("state", ["zoneout_lstm", "feed_forward"])
def test_other_decoders_and_telephone_features(tmp_path: Path, files: dict[str, Any], state: str) -> None:
    files["vocabulary"].write_text(vocabulary(13))
    parameters = {k: v for k, v in random_arrays(state).items() if not k.startswith(("mini", "lm:"))}
    config = HEAD + RASR + f"network = {network(state)!r}\n"
    out = imported(tmp_path, parameters, config, files)
    model = load_model(out).aed
    decoder = model.config.decoder
    assert (decoder.state, decoder.cell_zoneout, decoder.output_zoneout, decoder.history) == (state, 0.15, 0.05, 3)
    assert read_description(out).features == GammatoneConfig(sampling_rate=8000, scale=3.0)
    states, labels = np.random.default_rng(1).normal(size=(4, 10)), [3, 1, 0]
    batch = Encoded(torch.from_numpy(states).float()[None], torch.tensor([4]))
    ours = model.teacher_forced(batch, torch.tensor([labels])).logits.detach().log_softmax(-1)[0].numpy()
    theirs = Reference(parameters, state).teacher_forced("attention", states, np.zeros(10), labels)
    np.testing.assert_allclose(ours, theirs, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["lstm", "transformer"])
def test_language_models(tmp_path: Path, files: dict[str, Any], kind: str) -> None:
    prefix = "lstmlm:param:" if kind == "lstm" else "tlm:param:"
    out = imported(tmp_path, toolkit("lm", prefix), HEAD + NET, files)
    expected = (golden_lstm_lm() if kind == "lstm" else golden_transformer_lm()).state_dict()
    found = load_model(out).lm.state_dict()
    assert set(found) == set(expected)
    assert all(torch.equal(found[name], value) for name, value in expected.items())


def test_the_command(
    tmp_path: Path,
    files: dict[str, Any],
    statistics: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_checkpoint(tmp_path / "network.8", toolkit("aed_lstm", "param:"))
    (tmp_path / "returnn.config").write_text(HEAD + MFCC + NET)
    options = [f"--{name}={path}" for name, path in (files | statistics).items()]
    paths = [str(tmp_path / name) for name in ("network.8", "returnn.config", "out")]
    code, out, _ = Fewer(monkeypatch, capsys)("import-returnn", *paths, *options)
    assert code == 0
    assert "imported" in out
    assert load_model(tmp_path / "out").aed.vocab_size == 30


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"config": MFCC}, "does not say how the encoder .* pools over time: expected pool_size in network"),
        ({"config": NET}, "the features are neither MFCCs .* nor of RASR"),
        ({"statistics": False}, r"give the files \(--mean, --deviation\)"),
        ({"without": "enc_ctx/b"}, "has no weight enc_ctx/b"),
        ({"without": "enc_ctx/W"}, "is none of the paper's models"),
        ({"without": "output/rec/s/rec/lstm_cell/kernel"}, "no weights of the decoder's LSTM"),
        ({"vocabulary": vocabulary(29)}, "model.vocab_size is 30, but .* has 29 labels"),
        ({"vocabulary": repr({f"x{id}": id for id in range(29)})}, "label 0 must be the end label"),
        ({"config": "network = {"}, "is not a RETURNN configuration, which is Python"),
    ],
)
def test_what_is_missing_is_named_and_nothing_is_written(
    tmp_path: Path, files: dict[str, Any], statistics: dict[str, Any], change: dict[str, Any], complaint: str
) -> None:
    parameters = toolkit("aed_lstm", "param:")
    parameters.pop(change.get("without", ""), None)
    if "vocabulary" in change:
        files["vocabulary"].write_text(change["vocabulary"])
    options = files | (statistics if change.get("statistics", True) else {})
    with pytest.raises(FewerError, match=complaint):
        imported(tmp_path, parameters, change.get("config", HEAD + MFCC + NET), options)
    assert not (tmp_path / "out").exists()


def test_configurations_are_evaluated_as_far_as_they_are_literals(tmp_path: Path) -> None:
    (tmp_path / "c").write_text(
        "a = 3\nb = [a * 2, -a, 'x', (1, None)]\nc = open('/etc/passwd')\nd = {'k': c, 'l': {'m': a // 2}}\n"
        "e = 1 // 0\nf = 'y' if a else 'n'\ng = 2 if c else 1\na = 4\n"
    )
    values = read_returnn_config(tmp_path / "c")
    assert values["b"] == [6, -3, "x", (1, None)]
    assert values["d"] == {"k": UNKNOWN, "l": {"m": 1}}
    assert [values[name] for name in "acefg"] == [4, UNKNOWN, UNKNOWN, "y", UNKNOWN]
