"""Growing the encoder during training (SPEC §2): a few narrow layers at first, one layer and some width more at a time.

By default the last layer stays the last and new ones are put below it, so that decoder, attention and CTC keep what
they listen to; `new_layer: top` puts them on top, as the authors' configurations do. Old weights become the leading
block of the new ones: gate by gate in an LSTM, and separately for the forward and the backward half of a layer's output
wherever something reads it.
"""

import math
from collections.abc import Sequence
from itertools import accumulate, product
from typing import Literal

from pydantic import Field
from torch import Tensor

from fewer.config import Config
from fewer.models.aed import AED, AedConfig

Blocks = tuple[tuple[int, ...], ...]  # for each axis of a weight, the sizes of the blocks it consists of


class GrowingConfig(Config):
    starts: tuple[int, ...]  # sub-epochs that begin with one layer more: 26, 31, 36, 41 for LibriSpeech
    first_layers: int = Field(default=2, ge=1)  # layers at first
    first_share: float = Field(default=0.5, gt=0, le=1)  # of the final width at first; it then grows by equal steps
    new_layer: Literal["below_last", "top"] = "below_last"  # where a new layer is put; the authors: top
    scale_regularisation: bool = False  # dropout and L2 of the BLSTM layers grow with the width; the authors: true
    reset_with_smoothing: bool = False  # Adam starts anew when label smoothing begins, too; the authors: true

    def share(self, stage: int) -> float:
        """Of the final width, at a stage."""
        return self.first_share + (1 - self.first_share) * min(stage / max(len(self.starts), 1), 1.0)

    def stage(self, sub_epoch: int) -> int:
        return sum(start <= sub_epoch for start in self.starts)

    def problem(self, layers: int) -> str | None:
        """Why the encoder cannot grow to so many layers like this, if it cannot."""
        if list(self.starts) != sorted(set(self.starts)) or (self.starts and self.starts[0] < 2):
            return f"growing.starts: {list(self.starts)} must rise, from sub-epoch 2 on"
        if self.first_layers + len(self.starts) != layers:
            return (
                f"growing.starts: {len(self.starts)} times a layer more than {self.first_layers} does not make "
                f"the encoder's {layers}; give {layers - self.first_layers} sub-epochs"
            )
        return None


def stage_config(config: AedConfig, growing: GrowingConfig | None, stage: int) -> AedConfig:
    """The model of one stage. While there are too few layers to pool between, their pools become one."""
    if growing is None or stage >= len(growing.starts):
        return config
    encoder = config.encoder
    layers = growing.first_layers + stage
    share = growing.share(stage)
    gaps = max(layers - 1, 1)
    pools = encoder.pools
    if len(pools) > gaps:
        pools = (*pools[: gaps - 1], math.prod(pools[gaps - 1 :]))
    changes: dict[str, object] = {"layers": layers, "size": round(encoder.size * share), "pools": pools}
    if growing.scale_regularisation:
        changes["dropout"] = encoder.dropout * share
    smaller = encoder.model_copy(update=changes)
    return config.model_copy(update={"encoder": smaller})


def grow(old: AED, new: AED, new_layer: Literal["below_last", "top"] = "below_last") -> None:
    """Put the weights of `old` into `new`, a wider and perhaps deeper model whose other weights stay as they are."""
    weights = dict(old.named_parameters())
    for name, weight in new.named_parameters():
        source = name if new_layer == "top" else _old_name(name, old.config, new.config)
        if source in weights:
            copy_leading(weights[source], weight, blocks(source, old), blocks(name, new))


def copy_leading(old: Tensor, new: Tensor, old_blocks: Blocks, new_blocks: Blocks) -> None:
    """Copy each block of `old` into the leading corner of the same block of `new`."""
    old_axes, new_axes = [_spans(axis) for axis in old_blocks], [_spans(axis) for axis in new_blocks]
    pairs = [list(zip(before, after, strict=True)) for before, after in zip(old_axes, new_axes, strict=True)]
    for corner in product(*pairs):
        source = tuple(slice(start, start + size) for (start, size), _ in corner)
        target = tuple(slice(start, start + size) for (_, size), (start, _) in corner)
        new[target] = old[source]


def blocks(name: str, model: AED) -> Blocks:
    """What blocks a weight of the model consists of; only those that grow are told apart."""
    config, shape = model.config, model.get_parameter(name).shape
    width = config.encoder.size
    whole = tuple((size,) for size in shape)
    if name.startswith("encoder.layers."):
        _, _, layer, _, kind = name.split(".")
        gates = (width,) * 4
        if kind == "weight_ih":
            return gates, ((width, width) if int(layer) else whole[1])
        return (gates, (width,)) if kind == "weight_hh" else (gates,)
    if name in READERS:
        return whole[0], (shape[1] - 2 * width, width, width)
    return whole


READERS = (  # weights whose last inputs are the encoder's output [forward; backward]
    "attention.key.weight",
    "attention.fertility.weight",
    "decoder.state.lstm.weight_ih",
    "decoder.state.linear.weight",
    "decoder.readout.weight",
    "ctc.weight",
)


def _old_name(name: str, old: AedConfig, new: AedConfig) -> str | None:
    """What a weight of the new model was called in the old one; None if it belongs to a new layer."""
    if not name.startswith("encoder.layers."):
        return name
    parts = name.split(".")
    layer, last = int(parts[2]), new.encoder.layers - 1
    if layer == last:
        layer = old.encoder.layers - 1
    elif layer >= old.encoder.layers - 1:
        return None
    return ".".join([*parts[:2], str(layer), *parts[3:]])


def _spans(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Start and size of each block of an axis."""
    return list(zip(accumulate(sizes, initial=0), sizes, strict=False))
