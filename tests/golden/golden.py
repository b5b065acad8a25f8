"""The golden arrays, and fewer's models with the golden parameters."""

from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from fewer.ilm.methods.mini_lstm import MiniLstmContext
from fewer.models.aed import AED, AedConfig
from fewer.models.decoder import DecoderConfig
from fewer.models.encoded import Encoded
from fewer.models.encoder import EncoderConfig
from fewer.models.lm import LstmLm, LstmLmConfig, TransformerLm, TransformerLmConfig
from fewer.models.lstm import Lstm

FOLDER = Path(__file__).parent
CONFIG = AedConfig(
    vocab_size=30,
    encoder=EncoderConfig(features=40, filters=8, layers=3, size=16, pools=(3, 2), dropout=0.0),
    decoder=DecoderConfig(size=20, embedding=12, readout=16, dropout=0.0),
    energy=24,
)


@cache
def arrays(name: str) -> dict[str, Tensor]:
    with np.load(FOLDER / f"{name}.npz") as file:
        return {key: torch.from_numpy(np.asarray(file[key])) for key in file.files}


def encoded(batch: str) -> Encoded:
    golden = arrays("aed_lstm")
    lengths = golden[f"{batch}:encoder_len"].long()
    states = golden[f"{batch}:encoder"]
    mask = torch.arange(states.shape[1]) < lengths[:, None]
    return Encoded(states * mask[:, :, None], lengths)


def labels(batch: str) -> tuple[Tensor, Tensor]:
    golden = arrays("aed_lstm")
    return golden[f"{batch}:y"].long(), golden[f"{batch}:y_len"].long()


def gates(matrix: Tensor, order: str) -> Tensor:
    """Columns of the toolkit's gates in `order` -> rows in torch's order i, f, g (cell), o."""
    parts = dict(zip(order, matrix.chunk(4, dim=-1), strict=True))
    return torch.cat([parts[gate] for gate in "ifgo"], dim=-1).movedim(-1, 0)


def names() -> dict[str, tuple[str, str]]:
    """Our parameter name -> (the toolkit's name, how it is laid out there)."""
    table = {
        "attention.key.weight": ("enc_ctx/W", "linear"),
        "attention.key.bias": ("enc_ctx/b", "same"),
        "attention.fertility.weight": ("inv_fertility/W", "linear"),
        "attention.query.weight": ("output/rec/s_transformed/W", "linear"),
        "attention.feedback": ("output/rec/weight_feedback/W", "flat"),
        "attention.energy": ("output/rec/energy/W", "flat"),
        "ctc.weight": ("ctc/W", "linear"),
        "ctc.bias": ("ctc/b", "same"),
        "decoder.embedding.weight": ("output/rec/target_embed/W", "same"),
        "decoder.readout.weight": ("output/rec/readout_in/W", "linear"),
        "decoder.readout.bias": ("output/rec/readout_in/b", "same"),
        "decoder.output.weight": ("output/rec/output_prob/W", "linear"),
        "decoder.output.bias": ("output/rec/output_prob/b", "same"),
        "decoder.state.lstm.weight_ih": ("output/rec/s/rec/lstm_cell/kernel", "kernel_input"),
        "decoder.state.lstm.weight_hh": ("output/rec/s/rec/lstm_cell/kernel", "kernel_hidden"),
        "decoder.state.lstm.bias": ("output/rec/s/rec/lstm_cell/bias", "cell_gates"),
    }
    for index in range(2):
        table[f"encoder.convolutions.{index}.weight"] = (f"conv{index}/W", "conv")
        table[f"encoder.convolutions.{index}.bias"] = (f"conv{index}/bias", "same")
    for index in range(3):
        for ours, theirs in (("forward_lstm", "fw"), ("backward_lstm", "bw")):
            prefix, source = f"encoder.layers.{index}.{ours}", f"lstm{index}_{theirs}/rec"
            table[f"{prefix}.weight_ih"] = (f"{source}/W", "native_gates")
            table[f"{prefix}.weight_hh"] = (f"{source}/W_re", "native_gates")
            table[f"{prefix}.bias"] = (f"{source}/b", "native_gates")
    return table


def convert(value: Tensor, layout: str, inputs: int = 0) -> Tensor:
    if layout == "linear":
        return value.T
    if layout == "flat":
        return value.flatten()
    if layout == "conv":  # (time, freq, in, out) -> (out, in, time, freq)
        return value.permute(3, 2, 0, 1)
    if layout == "native_gates":
        return gates(value, "gifo")
    if layout == "cell_gates":
        return gates(value, "igfo")
    if layout == "kernel_input":
        return gates(value[:inputs], "igfo")
    if layout == "kernel_hidden":
        return gates(value[inputs:], "igfo")
    return value


def aed_arrays(file: str, prefix: str) -> dict[str, Tensor]:
    """The toolkit's parameters or gradients under our names and layouts."""
    source = arrays(file)
    inputs = CONFIG.decoder.embedding + CONFIG.encoder.output
    return {ours: convert(source[prefix + theirs], layout, inputs) for ours, (theirs, layout) in names().items()}


def golden_aed() -> AED:
    model = AED(CONFIG)
    model.load_state_dict(aed_arrays("aed_lstm", "param:"))
    return model.eval()


def set_lstm(lstm: Lstm, w_ih: Tensor, w_hh: Tensor, bias: Tensor) -> None:
    with torch.no_grad():
        lstm.weight_ih.copy_(w_ih)
        lstm.weight_hh.copy_(w_hh)
        lstm.bias.copy_(bias)


def set_linear(layer: nn.Linear, weight: Tensor, bias: Tensor | None = None) -> None:
    with torch.no_grad():
        layer.weight.copy_(weight.T)
        if bias is not None:
            layer.bias.copy_(bias)


def golden_lstm_lm(file: str = "lm") -> LstmLm:
    """The LSTM LM of lm.npz or of beam.npz; the toolkit's embedding bias is folded into the table."""
    source = arrays(file)
    prefix = "lstmlm:param:" + ("" if file == "lm" else "output/rec/lm_output_sub/")
    model = LstmLm(LstmLmConfig(vocab_size=30, embedding=10, size=14))
    with torch.no_grad():
        model.embedding.weight.copy_(source[f"{prefix}input/W"] + source[f"{prefix}input/b"])
    set_linear(model.output, source[f"{prefix}output/W"], source[f"{prefix}output/b"])
    layer = model.layers[0]
    assert isinstance(layer, Lstm)
    if file == "lm":
        rec = f"{prefix}lstm0/rec/"
        set_lstm(layer, *(gates(source[rec + name], "gifo") for name in ("W", "W_re", "b")))
    else:
        cell = f"{prefix}lstm0/rec/lstm_cell/"
        kernel, bias = source[f"{cell}kernel"], source[f"{cell}bias"]
        set_lstm(layer, gates(kernel[:10], "igfo"), gates(kernel[10:], "igfo"), gates(bias, "igfo"))
    return model.eval()


def golden_transformer_lm(file: str = "lm") -> TransformerLm:
    source = arrays(file)
    prefix = "tlm:param:output/rec/" + ("" if file == "lm" else "lm_")
    config = TransformerLmConfig(vocab_size=30, layers=2, size=16, feed_forward=24, heads=4, embedding=12)
    model = TransformerLm(config)

    def norm(layer: nn.LayerNorm, name: str) -> None:
        with torch.no_grad():
            layer.weight.copy_(source[f"{prefix}{name}/scale"])
            layer.bias.copy_(source[f"{prefix}{name}/bias"])

    with torch.no_grad():
        model.embedding.weight.copy_(source[f"{prefix}target_embed_raw/W"])
    set_linear(model.up, source[f"{prefix}target_embed_lin/W"])
    set_linear(model.output, source[f"{prefix}output/W"], source[f"{prefix}output/b"])
    norm(model.norm, "decoder")
    for index, block in enumerate(model.blocks):
        name = f"dec_{index}_"
        qkv = source[f"{prefix}{name}self_att_att/QKV"].unflatten(1, (4, 3, 4))  # (in, heads, q|k|v, head)
        set_linear(block.qkv, qkv.permute(0, 2, 1, 3).flatten(1))
        set_linear(block.out, source[f"{prefix}{name}self_att_lin/W"])
        for ours, theirs in (("inner", "ff_conv1"), ("outer", "ff_conv2")):
            set_linear(getattr(block, ours), source[f"{prefix}{name}{theirs}/W"], source[f"{prefix}{name}{theirs}/b"])
        norm(block.attention_norm, f"{name}self_att_laynorm")
        norm(block.feed_forward_norm, f"{name}ff_laynorm")
    return model.eval()


def golden_mini_lstm() -> MiniLstmContext:
    source = arrays("ilm_lstm")
    context = MiniLstmContext(CONFIG.decoder.embedding, CONFIG.encoder.output, units=7)
    rec = "param:output/rec/mini_att_lstm/rec/"
    set_lstm(context.lstm, *(gates(source[rec + name], "gifo") for name in ("W", "W_re", "b")))
    set_linear(context.linear, source["param:output/rec/mini_att/W"], source["param:output/rec/mini_att/b"])
    return context.eval()
