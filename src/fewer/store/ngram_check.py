"""Whether the tensors of a binary n-gram file are a model: checked once, when it is loaded, so that a damaged or
malicious file is an error instead of a search that never ends or reads outside of its tables."""

import torch
from torch import Tensor

KINDS = {
    "labels": torch.int32,
    "node_log_probs": torch.float32,
    "targets": torch.int32,
    "backoffs": torch.float32,
    "begins": torch.int32,
    "suffixes": torch.int32,
}
HIGHEST_ORDER = 64
HIGHEST_LOG_PROB = 1e-3  # rounding may lift a probability of 1 above it
LARGEST_LOG = 1e6  # absolute value of a log-probability or a back-off weight


def ngram_problem(tensors: dict[str, Tensor], end: int) -> str | None:
    """What is wrong with a model's tensors (see `fewer.models.ngram`); None if nothing is."""
    return _shape_problem(tensors) or _tree_problem(tensors, end) or _value_problem(tensors)


def _shape_problem(tensors: dict[str, Tensor]) -> str | None:
    if tensors.keys() != KINDS.keys():
        return f"it should hold the tensors {', '.join(KINDS)}, but holds {', '.join(sorted(tensors))[:200] or 'none'}"
    for name, kind in KINDS.items():
        if tensors[name].dtype != kind or tensors[name].dim() != 1:
            return f"'{name}' is {tensors[name].dtype} of shape {list(tensors[name].shape)}, not a row of {kind}"
    nodes, histories = len(tensors["labels"]), len(tensors["backoffs"])
    if nodes < 2 or histories < 1:
        return "it holds no n-grams"
    sizes = {"node_log_probs": nodes, "targets": nodes, "begins": histories + 1, "suffixes": histories}
    for name, size in sizes.items():
        if len(tensors[name]) != size:
            return f"'{name}' has {len(tensors[name])} entries, but should have {size}"
    return None


def _tree_problem(tensors: dict[str, Tensor], end: int) -> str | None:
    labels, begins = tensors["labels"], tensors["begins"]
    nodes, histories = len(labels), len(begins) - 1
    if int(begins[0]) != 1 or int(begins[-1]) != nodes or bool((begins.diff() < 0).any()):
        return "'begins' does not rise from 1 to the number of n-grams"
    if bool((begins[:-1] <= torch.arange(histories, dtype=torch.int32)).any()):
        return "'begins' leads from an n-gram back to an earlier one"
    firsts = [1]
    while firsts[-1] < histories and len(firsts) <= HIGHEST_ORDER:
        firsts.append(int(begins[firsts[-1]]))
    if (firsts[-1] != histories and histories > 1) or len(firsts) > HIGHEST_ORDER:
        return "'begins' does not divide the n-grams by their lengths"
    vocab_size = int(begins[1]) - 1
    if not 0 <= end < vocab_size:
        return f"the end label {end} is outside the vocabulary of {vocab_size} labels"
    if not torch.equal(labels[1 : vocab_size + 1], torch.arange(vocab_size, dtype=torch.int32)):
        return "'labels' does not begin with all labels in order"
    if bool((labels < 0).any()) or int(labels.max()) >= vocab_size:
        return f"'labels' holds a label outside the vocabulary of {vocab_size}"
    rises = labels[1:] > labels[:-1]  # of nodes 1, 2, …
    rises[begins[:-1][begins.diff() > 0].long() - 1] = True  # where other histories begin
    return None if bool(rises.all()) else "'labels' are not sorted within a history"


def _value_problem(tensors: dict[str, Tensor]) -> str | None:
    targets, suffixes, histories = tensors["targets"], tensors["suffixes"], len(tensors["backoffs"])
    if bool((targets < 0).any()) or int(targets.max()) >= histories:
        return f"'targets' leads outside the {histories} histories"
    numbers = torch.arange(histories, dtype=torch.int32)
    if bool((suffixes < 0).any()) or int(suffixes[0]) != 0 or bool((suffixes[1:] >= numbers[1:]).any()):
        return "'suffixes' does not lead to shorter histories"
    for name in ("node_log_probs", "backoffs"):
        if not bool((tensors[name].abs() <= LARGEST_LOG).all()):
            return f"'{name}' holds numbers that are not finite or far too large"
    if float(tensors["node_log_probs"].max()) > HIGHEST_LOG_PROB:
        return "'node_log_probs' holds probabilities above 1"
    return None
