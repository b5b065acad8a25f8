"""The authors' models: RETURNN (TensorFlow) checkpoints of the paper's recognisers and LMs as model folders.

Dims come from the weights; what weights do not say (pooling, zoneout, heads, features) comes from the configuration.
A weight matrix is (inputs, outputs) there. Gates of encoders, of LSTM LMs and of Mini-LSTMs are ordered cell, input,
forget, output; those of decoders input, cell, forget, output.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fewer.data.features import FeaturesConfig, GammatoneConfig, MfccConfig
from fewer.data.statistics import Statistics
from fewer.data.subword_nmt import END_NAMES, SubwordNmtTokenizer, read_vocabulary
from fewer.errors import FewerError
from fewer.models.aed import AedConfig
from fewer.models.decoder import DecoderConfig
from fewer.models.encoder import EncoderConfig
from fewer.models.lm import LstmLmConfig, TransformerLmConfig
from fewer.store.model_folder import (
    STATISTICS,
    TOKENIZER,
    ModelConfig,
    build_model,
    check_labels,
    save_model,
    write_config,
)
from fewer.store.returnn_config import read_returnn_config
from fewer.store.tensorflow import read_checkpoint

NATIVE, CELL = "gifo", "igfo"  # orders of gates; ours is ifgo
Arrays = Mapping[str, np.ndarray]


def import_returnn(
    checkpoint: str | Path,
    config: str | Path,
    out: str | Path,
    codes: str | Path,
    vocabulary: str | Path,
    statistics: tuple[Path, Path] | None = None,
) -> ModelConfig:
    """Write a model folder. codes, vocabulary: files of subword-nmt; statistics: files of the features' mean and
    deviation, for features that are normalised by them."""
    out, values, arrays = Path(out), read_returnn_config(config), read_checkpoint(checkpoint)
    if out.exists() and any(out.iterdir()):
        raise FewerError(f"{out} is not empty; give another folder")
    model_config, weights = converted(arrays, values.get("network"), str(checkpoint))
    tokenizer = SubwordNmtTokenizer.from_files(codes, vocabulary)
    _check_end(vocabulary)
    check_labels(model_config, tokenizer, Path(vocabulary))
    description: dict[str, Any] = {"imported": str(checkpoint), "model": model_config.model_dump(mode="json")}
    model = build_model(model_config)
    model.load_state_dict(weights)
    if isinstance(model_config, AedConfig):
        features = _features(values, Path(config))
        description |= {"features": features.model_dump(mode="json"), "smoothing": _smoothing(values)}
        if isinstance(rate := values.get("learning_rate"), float):
            description["schedule"] = {"peak": rate}  # of contexts that are trained later
        if features.normalise == "global":
            _statistics(statistics).save(out / STATISTICS, features)
    tokenizer.save(out / TOKENIZER)
    write_config(out, description)
    save_model(out, model)
    return model_config


def converted(arrays: Arrays, network: Any = None, source: str = "checkpoint") -> tuple[ModelConfig, dict[str, Tensor]]:
    """A model's configuration and weights. network: RETURNN's, as far as it is known."""
    weights = _Weights(arrays, network if isinstance(network, dict) else {}, source)
    if "enc_ctx/W" in arrays:
        return weights.aed()
    if "output/rec/target_embed_raw/W" in arrays:
        return weights.transformer_lm()
    if "lstm0/rec/W" in arrays:
        return weights.lstm_lm()
    raise FewerError(
        f"{source} is none of the paper's models: it has neither enc_ctx/W (a recogniser) nor "
        f"output/rec/target_embed_raw/W (a Transformer LM) nor lstm0/rec/W (an LSTM LM), "
        f"but {', '.join(list(arrays)[:5])}"
    )


class _Weights:
    def __init__(self, arrays: Arrays, network: dict[str, Any], source: str):
        self.arrays, self.network, self.source = arrays, network, source
        self.made: dict[str, Tensor] = {}

    def get(self, name: str) -> Tensor:
        if name not in self.arrays:
            raise FewerError(f"{self.source} has no weight {name}; is it one of the paper's models?")
        return torch.from_numpy(np.array(self.arrays[name], dtype=np.float32))

    def layer(self, *path: str) -> dict[str, Any]:
        """What the configuration says about a layer."""
        found: Any = self.network
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}

    def linear(self, ours: str, theirs: str, bias: str | None = "b") -> None:
        self.made[f"{ours}.weight"] = self.get(f"{theirs}/W").T
        if bias:
            self.made[f"{ours}.bias"] = self.get(f"{theirs}/{bias}")

    def native_lstm(self, ours: str, theirs: str) -> None:
        for name, part in (("weight_ih", "W"), ("weight_hh", "W_re"), ("bias", "b")):
            self.made[f"{ours}.{name}"] = gates(self.get(f"{theirs}/rec/{part}"), NATIVE)

    def aed(self) -> tuple[AedConfig, dict[str, Tensor]]:
        layers = self._count(r"lstm(\d+)_fw/rec/W")
        for index in range(2):
            self.made[f"encoder.convolutions.{index}.weight"] = self.get(f"conv{index}/W").permute(3, 2, 0, 1)
            self.made[f"encoder.convolutions.{index}.bias"] = self.get(f"conv{index}/bias")
        for index in range(layers):
            for ours, theirs in (("forward_lstm", "fw"), ("backward_lstm", "bw")):
                self.native_lstm(f"encoder.layers.{index}.{ours}", f"lstm{index}_{theirs}")
        self.linear("attention.key", "enc_ctx")
        self.linear("attention.fertility", "inv_fertility", None)
        self.made["attention.feedback"] = self.get("output/rec/weight_feedback/W").flatten()
        self.made["attention.energy"] = self.get("output/rec/energy/W").flatten()
        self.made["decoder.embedding.weight"] = self.get("output/rec/target_embed/W")
        self.linear("decoder.readout", "output/rec/readout_in")
        self.linear("decoder.output", "output/rec/output_prob")
        if "ctc/W" in self.arrays:
            self.linear("ctc", "ctc")
        vocab_size, embedding = self.made["decoder.embedding.weight"].shape
        size = self.get("lstm0_fw/rec/W_re").shape[0]
        state = self._feed_forward(embedding, 2 * size) if self._has("FF_0/W") else self._lstm(embedding, 2 * size)
        filters, features = self.get("conv0/W").shape[3], self._features(self.get("lstm0_fw/rec/W").shape[0])
        pools = self._pools(layers)
        return AedConfig(
            vocab_size=vocab_size,
            encoder=EncoderConfig(features=features, filters=filters, layers=layers, size=size, pools=pools),
            decoder=DecoderConfig(embedding=embedding, readout=self.made["decoder.readout.bias"].shape[0], **state),
            energy=self.get("enc_ctx/W").shape[1],
            ctc="ctc/W" in self.arrays,
        ), self.made

    def _has(self, name: str) -> bool:
        return f"output/rec/{name}" in self.arrays

    def _count(self, pattern: str) -> int:
        found = [int(match[1]) for name in self.arrays if (match := re.fullmatch(pattern, name))]
        return max(found, default=-1) + 1

    def _lstm(self, embedding: int, context: int) -> dict[str, Any]:
        """An LSTM cell of TensorFlow, of whatever class: one matrix for inputs and state."""
        self.linear("attention.query", "output/rec/s_transformed", None)
        pattern = r"output/rec/s/(?:.*/)?(kernel|bias)"
        named = {match[1]: name for name in self.arrays if (match := re.fullmatch(pattern, name))}
        if set(named) != {"kernel", "bias"}:
            raise FewerError(f"{self.source} has no weights of the decoder's LSTM, output/rec/s/…/kernel and bias")
        kernel, inputs = self.get(named["kernel"]), embedding + context
        self.made["decoder.state.lstm.weight_ih"] = gates(kernel[:inputs], CELL)
        self.made["decoder.state.lstm.weight_hh"] = gates(kernel[inputs:], CELL)
        self.made["decoder.state.lstm.bias"] = gates(self.get(named["bias"]), CELL)
        unit = self.layer("output", "unit", "s")
        state: dict[str, Any] = {"state": "lstm", "size": kernel.shape[1] // 4}
        if "zoneout" not in str(unit.get("unit", "")).lower() + named["kernel"].lower():
            return state
        factors = self.layer("output", "unit", "s", "unit_opts")
        cell, output = (factors.get(f"zoneout_factor_{name}", 0.0) for name in ("cell", "output"))
        return state | {"state": "zoneout_lstm", "cell_zoneout": cell, "output_zoneout": output}

    def _feed_forward(self, embedding: int, context: int) -> dict[str, Any]:
        self.linear("decoder.state.linear", "output/rec/FF_0")
        inputs, size = self.get("output/rec/FF_0/W").shape
        history, rest = divmod(inputs - context, embedding)
        if rest or history < 1:
            raise FewerError(f"{self.source}: output/rec/FF_0/W has {inputs} inputs, which are no labels and a context")
        return {"state": "feed_forward", "size": size, "history": history}

    def _features(self, convolved: int) -> int:
        """Input dims: two convolutions halve them."""
        return convolved // int(self.get("conv1/W").shape[3]) * 4

    def _pools(self, layers: int) -> tuple[int, ...]:
        """Over time, after each layer but the last; those of the paper where the configuration says nothing."""
        said = [self.layer(f"lstm{index}_pool").get("pool_size") for index in range(layers - 1)]
        if not all(isinstance(size, tuple | list) and size and isinstance(size[0], int) for size in said):
            raise FewerError(
                f"the configuration does not say how the encoder of {self.source} pools over time: expected "
                f"pool_size in network['lstm0_pool'] to network['lstm{layers - 2}_pool']"
            )
        pools = [size[0] for size in said if size is not None]
        while pools and pools[-1] == 1:
            pools.pop()
        return tuple(pools)

    def lstm_lm(self) -> tuple[LstmLmConfig, dict[str, Tensor]]:
        layers = self._count(r"lstm(\d+)/rec/W")
        table = self.get("input/W")
        if "input/b" in self.arrays:
            table = table + self.get("input/b")
        self.made["embedding.weight"] = table
        for index in range(layers):
            self.native_lstm(f"layers.{index}", f"lstm{index}")
        self.linear("output", "output")
        size = self.get("lstm0/rec/W_re").shape[0]
        vocab_size, embedding = table.shape
        return LstmLmConfig(vocab_size=vocab_size, embedding=embedding, size=size, layers=layers), self.made

    def transformer_lm(self) -> tuple[TransformerLmConfig, dict[str, Tensor]]:
        root = "output/rec/"
        layers = self._count(rf"{root}dec_(\d+)_self_att_att/QKV")
        heads = self.layer("output", "unit", "dec_0_self_att_att").get("num_heads")
        if not isinstance(heads, int):
            raise FewerError(f"the configuration does not say how many heads {self.source} has (num_heads)")
        self.made["embedding.weight"] = self.get(f"{root}target_embed_raw/W")
        self.linear("up", f"{root}target_embed_lin", None)
        self.linear("output", f"{root}output")
        self._norm("norm", f"{root}decoder")
        size = self.get(f"{root}target_embed_lin/W").shape[1]
        for index in range(layers):
            ours, theirs = f"blocks.{index}", f"{root}dec_{index}_"
            qkv = self.get(f"{theirs}self_att_att/QKV").unflatten(1, (heads, 3, -1))  # head by head there
            self.made[f"{ours}.qkv.weight"] = qkv.permute(0, 2, 1, 3).flatten(1).T
            self.linear(f"{ours}.out", f"{theirs}self_att_lin", None)
            self.linear(f"{ours}.inner", f"{theirs}ff_conv1")
            self.linear(f"{ours}.outer", f"{theirs}ff_conv2")
            self._norm(f"{ours}.attention_norm", f"{theirs}self_att_laynorm")
            self._norm(f"{ours}.feed_forward_norm", f"{theirs}ff_laynorm")
        vocab_size, embedding = self.made["embedding.weight"].shape
        inner = self.made["blocks.0.inner.bias"].shape[0]
        sizes = {"layers": layers, "size": size, "feed_forward": inner, "heads": heads, "embedding": embedding}
        return TransformerLmConfig(vocab_size=vocab_size, **sizes), self.made

    def _norm(self, ours: str, theirs: str) -> None:
        self.made[f"{ours}.weight"] = self.get(f"{theirs}/scale")
        self.made[f"{ours}.bias"] = self.get(f"{theirs}/bias")


def gates(matrix: Tensor, order: str) -> Tensor:
    """Columns of gates in `order` -> rows in torch's order i, f, g (cell), o."""
    parts = dict(zip(order, matrix.chunk(4, dim=-1), strict=True))
    return torch.cat([parts[gate] for gate in "ifgo"], dim=-1).movedim(-1, 0)


def _check_end(vocabulary: str | Path) -> None:
    ids = read_vocabulary(vocabulary)
    if 0 not in {ids.get(name) for name in END_NAMES}:
        raise FewerError(
            f"{vocabulary}: label 0 must be the end label ({', '.join(END_NAMES)}), as in the paper's models"
        )


def _features(values: dict[str, Any], config: Path) -> FeaturesConfig:
    """MFCCs of librosa, or gammatones that RASR extracted."""
    data = values.get("dev") or values.get("train")
    said: Any = data if isinstance(data, dict) else {}
    audio: Any = said.get("audio") if isinstance(said.get("audio"), dict) else {}
    if audio.get("features") == "mfcc":
        clipped = "clip_by_value(x, -3.0, 3.0)" in config.read_text(encoding="utf-8")
        return MfccConfig(style="librosa", dim=audio.get("num_feature_filters", 40), clip=3.0 if clipped else None)
    if isinstance(deviation := said.get("input_stddev"), float):
        return GammatoneConfig(sampling_rate=8000, scale=deviation)
    raise FewerError(f"{config}: the features are neither MFCCs (audio) nor of RASR (input_stddev); which are they?")


def _smoothing(values: dict[str, Any]) -> float:
    network: Any = values.get("network")
    try:
        found = network["output"]["unit"]["output_prob"]["loss_opts"]["label_smoothing"]
    except (KeyError, TypeError):
        return 0.0
    return float(found) if isinstance(found, int | float) else 0.0


def _statistics(files: tuple[Path, Path] | None) -> Statistics:
    if files is None:
        raise FewerError("the features are normalised by mean and deviation: give the files (--mean, --deviation)")
    try:
        mean, deviation = (torch.from_numpy(np.loadtxt(path, dtype=np.float64).reshape(-1)) for path in files)
    except (OSError, ValueError) as error:
        raise FewerError(f"cannot read the features' statistics: {error}") from error
    if mean.shape != deviation.shape:
        raise FewerError(f"{files[0]} has {len(mean)} numbers, but {files[1]} has {len(deviation)}")
    return Statistics(1, mean, deviation.square())
