"""What a training will be like before it starts: the network, the schedule by sub-epoch, steps, and cost.

Cost counts the multiplications and additions of matrices, three times those of a forward pass (once for a frozen LM).
It is compared with how fast this machine multiplies matrices, and with a named GPU's published peak rate and an assumed
share of it. Memory and disk are estimates.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path

import torch
from torch import nn

from fewer.compute.device import choose_device
from fewer.data.batches import UtteranceBatches
from fewer.data.manifest import Manifest
from fewer.data.reader import RawFeatures
from fewer.data.token_store import read_text
from fewer.data.tokenizers import load_tokenizer
from fewer.models.aed import AedConfig
from fewer.models.lm import TransformerLmConfig
from fewer.progress import progress
from fewer.store.model_folder import ModelConfig, build_model
from fewer.training.configs import AedTrainConfig, LmTrainConfig, TrainConfig
from fewer.training.gpus import DEFAULT, GPUS, TRAINING_SHARE, Gpu
from fewer.training.growing import stage_config
from fewer.training.resources import activation_bytes, disk_bytes, gigabytes, state_bytes
from fewer.training.schedule import learning_rate
from fewer.training.trainer import duration

SAMPLE = 500  # transcripts from which labels per character are estimated


@dataclass(frozen=True)
class Amount:
    """What a sub-epoch sees."""

    sequences: float
    labels: float  # end labels counted
    frames: float  # 0 for text
    steps: int  # of the optimiser


@dataclass(frozen=True)
class Phase:
    """Sub-epochs between which nothing changes but the learning rate."""

    first: int
    last: int
    model: ModelConfig
    max_size: int  # of a batch, in padded frames or labels
    smoothing: float
    amount: Amount | None  # None: the data is not known
    frozen: ModelConfig | None = None  # an LM in the softmax, which is not trained

    @property
    def sub_epochs(self) -> int:
        return self.last - self.first + 1

    @property
    def flops(self) -> float:
        """Of all its sub-epochs."""
        if self.amount is None:
            return 0.0
        frozen = 0.0 if self.frozen is None else forward_flops(self.frozen, self.amount)
        return self.sub_epochs * (3 * forward_flops(self.model, self.amount) + frozen)


def phases(config: TrainConfig, frozen: ModelConfig | None = None) -> list[Phase]:
    """The schedule by sub-epoch. Amounts of speech come from the manifest if it is here, else from `expected`.

    Of text they come from `expected` if that is given: else all of the text has to be read. It is never tokenised,
    but for a sample.
    """
    amount = _amounts(config)
    starts = [start for start in sorted(_changes(config)) if start <= config.sub_epochs]
    result: list[Phase] = []
    for first, following in zip(starts, [*starts[1:], config.sub_epochs + 1], strict=True):
        model: ModelConfig = config.model
        smoothing = config.smoothing
        if isinstance(config, AedTrainConfig):
            stage = config.growing.stage(first) if config.growing else 0
            model = stage_config(config.model, config.growing, stage)
            smoothing = config.smoothing if first >= config.smoothing_from else 0.0
        size = config.data.batches.max_size_at(first)
        phase = Phase(first, following - 1, model, size, smoothing, amount(first) if amount else None, frozen)
        if result and replace(phase, first=result[-1].first) == replace(result[-1], last=phase.last):
            result[-1] = replace(phase, first=result[-1].first)
        else:
            result.append(phase)
    return result


def _changes(config: TrainConfig) -> set[int]:
    """Sub-epochs that begin with something new."""
    changes = {1, *config.data.batches.max_size_from}
    if isinstance(config, AedTrainConfig):
        changes |= {config.smoothing_from, *(config.growing.starts if config.growing else ())}
        changes |= {start for rule in config.data.batches.curriculum for start in (rule.first, rule.last + 1)}
    return changes


def _amounts(config: TrainConfig) -> Callable[[int], Amount] | None:
    """What each sub-epoch sees, if that can be known."""
    if isinstance(config, AedTrainConfig):
        speech, features = config.expected, config.features
        if config.data.train.exists() and not (features.kind == "pretrained" and speech):  # it would have to be loaded
            return _planned(config)
        if speech is None:
            return None
        shift = 0.02 * features.pool if features.kind == "pretrained" else 0.01
        return _divided(config, speech.utterances, speech.labels, speech.hours * 3600 / shift)
    if config.expected is not None:
        return _divided(config, config.expected.sentences, config.expected.labels, 0)
    if all(path.exists() for path in config.data.train):
        texts = config.data.train
        lengths = [len(line) for path in texts for line in progress(_sentences(config, path), f"reading {path.name}")]
        sample = [line for path in texts for line in islice(_sentences(config, path), SAMPLE)]
        labels = sum(lengths) * _labels_per_character(config, sample) + len(lengths)
        return _divided(config, len(lengths), labels, 0)
    return None


def _divided(config: TrainConfig, sequences: float, labels: float, frames: float) -> Callable[[int], Amount]:
    """Amounts of a sub-epoch when the whole is known: batches as full as they may be."""
    batches = config.data.batches
    copies = 1
    if isinstance(config, AedTrainConfig) and config.data.batches.speed_mode == "copies":
        copies = len(config.data.batches.speeds)

    def amount(sub_epoch: int) -> Amount:
        share = copies / batches.sub_epochs
        size = (frames or labels) * share / batches.max_size_at(sub_epoch)
        count = max(size, sequences * share / batches.max_sequences)
        return Amount(sequences * share, labels * share, frames * share, math.ceil(count / batches.accumulate))

    return amount


def _planned(config: AedTrainConfig) -> Callable[[int], Amount]:
    """Amounts from the plan over the manifest that is here."""
    manifest = Manifest(config.data.train, skip_bad=config.data.skip_bad)
    batches = UtteranceBatches(manifest, RawFeatures(config.features), None, config.data.batches, config.seed)
    sample = [manifest[index].supervisions[0].text for index in range(min(len(manifest), SAMPLE))]
    per_character = _labels_per_character(config, sample)

    def amount(sub_epoch: int) -> Amount:
        plan = batches.plan(sub_epoch)
        characters = manifest.text_chars[plan.items // batches.copies].sum()
        labels = float(characters) * per_character + len(plan.items)
        return Amount(len(plan.items), labels, float(batches.frames(plan.items, sub_epoch).sum()), len(plan))

    return amount


def _labels_per_character(config: TrainConfig, texts: list[str]) -> float:
    tokenizer = load_tokenizer(config.tokenizer)
    return sum(len(tokenizer.encode(text)) for text in texts) / max(sum(map(len, texts)), 1)


def _sentences(config: LmTrainConfig, path: Path) -> Iterator[str]:
    """The lines of a text that are trained on, as they are tokenised."""
    return filter(str.strip, read_text(path, config.data.case))


def forward_flops(config: ModelConfig, amount: Amount) -> float:
    """Multiplications and additions of matrices in a forward pass over a sub-epoch."""
    total = 0.0
    for name, weight in _meta(config).named_parameters():
        if weight.dim() > 1 and "embedding" not in name:
            total += 2 * weight.numel() * _uses(config, name, amount)
    if isinstance(config, AedConfig):
        pairs = amount.labels * amount.frames / config.encoder.reduction / max(amount.sequences, 1)
        total += 2 * pairs * (2 * config.energy + config.encoder.output)  # scores and weighted sums of attention
    elif isinstance(config, TransformerLmConfig):
        pairs = amount.labels * amount.labels / max(amount.sequences, 1) / 2
        total += 2 * pairs * 2 * config.size * config.layers
    return total


def _uses(config: ModelConfig, name: str, amount: Amount) -> float:
    """How many positions a weight is multiplied with."""
    if not isinstance(config, AedConfig):
        return amount.labels
    encoder = config.encoder
    if name.startswith("encoder.convolutions."):
        return amount.frames * (encoder.features >> int(name.split(".")[2]))  # the first pool halves the bins
    if name.startswith("encoder.layers."):
        return (
            amount.frames
            / encoder.input_pool
            / encoder.input_stack
            / math.prod(encoder.pools[: int(name.split(".")[2])])
        )
    if name.startswith(("attention.key", "attention.fertility", "ctc")):
        return amount.frames / encoder.reduction
    return amount.labels


def parameter_counts(config: ModelConfig) -> dict[str, int]:
    """Parameters of each part of a model, layer by layer."""
    counts: dict[str, int] = {}
    for name, weight in _meta(config).named_parameters():
        part = ".".join(name.split(".")[: 3 if ".layers." in name or ".state." in name else 2])
        part = name.split(".")[0] if name.split(".")[0] in ("attention", "ctc", "output", "norm", "up") else part
        counts[part.removesuffix(".weight")] = counts.get(part.removesuffix(".weight"), 0) + weight.numel()
    return counts


def _meta(config: ModelConfig) -> nn.Module:
    """The model without memory for its weights."""
    with torch.device("meta"):
        return build_model(config)


def matmul_speed(device: torch.device, seconds: float = 0.5) -> float:
    """Floating-point operations per second of large matrix products on this machine."""
    size = 1024 if device.type == "cpu" else 8192
    left, right = (torch.randn(size, size, device=device) for _ in range(2))
    count, began = 0, 0.0
    while count < 2 or time.monotonic() - began < seconds:
        if count == 1:  # the first one warms up
            began = time.monotonic()
        float((left @ right)[0, 0])
        count += 1
    return 2 * size**3 * (count - 1) / (time.monotonic() - began)


@cache
def _speed(device: torch.device) -> float:
    return matmul_speed(device)  # once: several trainings may be told about


def dry_run(config: TrainConfig, gpu: Gpu = GPUS[DEFAULT], frozen: ModelConfig | None = None) -> str:
    """Everything that `fewer train --dry-run` prints. frozen: the LM that a recogniser is trained with."""
    counts = parameter_counts(config.model)
    lines = [f"{config.model.kind} with {config.model.vocab_size} labels"]
    for part, group in _alike(counts):
        lines.append(f"  {part:<28}{sum(group):>15,}" + (f"  = {len(group)} × {group[0]:,}" if len(group) > 1 else ""))
    lines += [f"  {'parameters':<28}{sum(counts.values()):>15,}", "", *_schedule_lines(config, gpu, frozen)]
    return "\n".join(lines)


def _alike(counts: dict[str, int]) -> list[tuple[str, list[int]]]:
    """Numbered parts of the same size that follow each other, as one."""
    result: list[tuple[str, list[int]]] = []
    for name, count in counts.items():
        stem, _, number = name.rpartition(".")
        first, last = result[-1] if result else ("", [])
        if number.isdigit() and first.startswith(f"{stem}.") and count == last[-1]:
            result[-1] = (f"{first.split('–')[0]}–{number}", [*last, count])
        else:
            result.append((name, [count]))
    return result


def _schedule_lines(config: TrainConfig, gpu: Gpu, frozen: ModelConfig | None) -> list[str]:
    table = phases(config, frozen)
    unit = "frames" if isinstance(config, AedTrainConfig) else "labels"
    lines = [f"{'sub-epochs':<12}{'network':<24}{'parameters':>13}{'smoothing':>11}{unit:>9}{'steps':>8}{'PFLOP':>10}"]
    for phase in table:
        steps = "?" if phase.amount is None else f"{phase.amount.steps:,}"
        lines.append(
            f"{f'{phase.first}–{phase.last}':<12}{_network(phase.model):<24}"
            f"{sum(parameter_counts(phase.model).values()):>13,}{phase.smoothing:>11g}{phase.max_size:>9,}{steps:>8}"
            + ("" if phase.amount is None else f"{phase.flops / 1e15:>10.3g}")
        )
    batches = config.data.batches
    rates = f"learning rate {learning_rate(config.schedule, []):g}"
    if config.schedule.warm_up:
        rates += f" → {config.schedule.peak:g} over sub-epochs 1–{config.schedule.warm_up}"
    if config.schedule.newbob:
        rates += f", then × {config.schedule.newbob.decay:g} when dev stops improving"
    lines += [
        f"{unit} of one batch ({batches.accumulate} for a step), steps of each sub-epoch, PFLOP of all of them",
        f"{rates}; {config.sub_epochs} sub-epochs of 1/{batches.sub_epochs} = "
        f"{config.sub_epochs / batches.sub_epochs:.3g} epochs",
        *_curriculum_lines(config),
        "",
    ]
    if any(phase.amount is None for phase in table):
        return [*lines, "cost unknown: the data is not here, and the configuration does not say what is `expected`"]
    return [*lines, *_cost_lines(config, table, gpu, frozen)]


def _curriculum_lines(config: TrainConfig) -> list[str]:
    if not isinstance(config, AedTrainConfig):
        return []
    lines = []
    for rule in config.data.batches.curriculum:
        kept = [f"{name} {value!r}" for name, value in (("subsets", rule.subsets), ("ids", rule.ids)) if value]
        if rule.max_mean_chars:
            kept.append(f"the shortest transcripts, {rule.max_mean_chars:g} characters on average")
        lines.append(f"curriculum: sub-epochs {rule.first}–{rule.last} only {' and '.join(kept)}")
    if lines and not config.data.train.exists():
        lines.append("(steps and cost without the curriculum, since the data is not here)")
    return lines


def _cost_lines(config: TrainConfig, table: list[Phase], gpu: Gpu, frozen: ModelConfig | None) -> list[str]:
    steps = sum(phase.sub_epochs * phase.amount.steps for phase in table if phase.amount)
    flops = sum(phase.flops for phase in table)
    lines = [f"{steps:,} steps, {flops:.3g} floating-point operations", *_lm_lines(config, frozen)]
    return [*lines, *time_lines(flops, gpu, TRAINING_SHARE, config.bf16, config.device), *_room(config, table, frozen)]


def time_lines(flops: float, gpu: Gpu, share: float, bf16: bool = False, device_name: str = "auto") -> list[str]:
    """How long so many operations take here and on a named GPU."""
    device = choose_device(device_name)
    speed, peak = _speed(device), gpu.rate(bf16)
    kind = "bfloat16" if bf16 and gpu.bfloat16 else "float32"
    return [
        f"at the {speed / 1e9:,.0f} GFLOP/s measured here ({device}, {torch.get_num_threads()} threads): "
        f"{duration(flops / speed)} at least; a real step reaches a part of that speed",
        f"on one {gpu.name}, at {share:.0%} (assumed) of its published peak of {peak / 1e12:g} TFLOP/s in {kind}: "
        f"about {duration(flops / (share * peak))}",
    ]


def _lm_lines(config: TrainConfig, frozen: ModelConfig | None) -> list[str]:
    if not isinstance(config, AedTrainConfig) or config.external_lm is None:
        return []
    if frozen is None:
        return [f"without the forward passes of the frozen LM {config.external_lm.model}, whose size is not known here"]
    return [f"with forward passes of the frozen LM ({sum(parameter_counts(frozen).values()):,} parameters)"]


def _room(config: TrainConfig, table: list[Phase], frozen: ModelConfig | None) -> list[str]:
    """Memory of the largest phase, and disk."""
    parameters = sum(parameter_counts(config.model).values())
    extra = 0 if frozen is None else sum(parameter_counts(frozen).values())
    state = state_bytes(config, parameters, extra)
    batches = []
    for phase in table:
        assert phase.amount is not None
        ratio = phase.amount.labels / phase.amount.frames if phase.amount.frames else 1.0
        batches.append(activation_bytes(phase.model, phase.max_size, ratio))
    return [
        f"memory: about {gigabytes(state + max(batches))} ({gigabytes(state)} for weights, gradients and moments, "
        f"about {gigabytes(max(batches))} for the activations of a batch)",
        f"disk: about {gigabytes(disk_bytes(config, parameters))}, checkpoints included",
    ]


def _network(config: ModelConfig) -> str:
    if isinstance(config, AedConfig):
        encoder = config.encoder
        first = encoder.input_pool * encoder.input_stack
        if not encoder.layers:
            return "features as they are" if first == 1 else f"features, pool {first}"
        pools = [first, *encoder.pools] if first > 1 else encoder.pools
        return f"{encoder.layers} × {encoder.size}, pools {'·'.join(map(str, pools))}"
    return f"{config.layers} × {config.size}" if hasattr(config, "layers") else f"{config.size}"
