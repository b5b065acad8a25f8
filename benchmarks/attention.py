"""Whether a recogniser listens: how attention goes through utterances when it is given their true labels.

    python benchmarks/attention.py MODEL MANIFEST [--picture attention.png]

Prints, of all labels: how often the frame with the most weight is not before that of the label before (monotone), how
much weight lies within one frame of it (sharp), and, of utterances, the correlation of labels' numbers with the mean
frames they look at (diagonal). The last line is JSON. The picture shows six utterances.
"""

import argparse
import json

import numpy as np
import torch
from torch import Tensor

from fewer.data.manifest import Manifest
from fewer.decoding.encoding import encode_set
from fewer.decoding.system import System
from fewer.recognisers.aed import AedRecogniser
from fewer.store.model_folder import load_model

PICTURED = 6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("manifest")
    parser.add_argument("--picture")
    args = parser.parse_args()
    torch.set_num_threads(1)
    system = System(AedRecogniser(load_model(args.model)))
    weights = attention(system, args.manifest)
    forward = np.concatenate([np.diff(one.argmax(axis=1)) >= 0 for one in weights])
    near = np.concatenate([sharpness(one) for one in weights])
    diagonal = [np.corrcoef(one @ np.arange(one.shape[1]), np.arange(len(one)))[0, 1] for one in weights]
    found = {"utterances": len(weights), "labels": len(near), "monotone": float(forward.mean())}
    found |= {"sharp": float(near.mean()), "diagonal": float(np.mean(diagonal))}
    print(
        f"{found['utterances']} utterances, {found['labels']} labels: {100 * found['monotone']:.1f} % of steps do not "
        f"go back, {100 * found['sharp']:.1f} % of the weight is within a frame of its peak, correlation with the "
        f"diagonal {found['diagonal']:.4f}"
    )
    print(json.dumps(found))
    if args.picture:
        draw(weights[:: max(1, len(weights) // PICTURED)][:PICTURED], args.picture)


@torch.inference_mode()
def attention(system, manifest: str) -> list[np.ndarray]:  # type: ignore[no-untyped-def]
    """(N, T) of each utterance of two labels or more"""
    model, tokenizer = system.recogniser.aed, system.recogniser.tokenizer
    found = []
    for batch in encode_set(system, Manifest(manifest)):
        labels = [torch.tensor(tokenizer.encode(utterance.ref or "")) for utterance in batch.utterances]
        padded = torch.nn.utils.rnn.pad_sequence(labels, batch_first=True)  # (B, N)
        states = model.teacher_forced(batch.encoded, padded).context_states
        weights: Tensor = torch.stack([state.weights for state in states], dim=1)  # (B, N, T)
        for row, own, frames in zip(weights, labels, batch.encoded.lengths.tolist(), strict=True):
            if len(own) > 1:
                found.append(row[: len(own), :frames].numpy())
    return found


def sharpness(weights: np.ndarray) -> np.ndarray:
    """The weight within one frame of each label's peak. (N, T) -> (N,)"""
    frames = np.arange(weights.shape[1])
    return (weights * (abs(frames - weights.argmax(axis=1)[:, None]) <= 1)).sum(axis=1)


def draw(weights: list[np.ndarray], path: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 6), layout="constrained")
    for axes, one in zip(figure.subplots(2, PICTURED // 2).flat, weights, strict=False):
        axes.imshow(one, aspect="auto", origin="lower", cmap="Blues", vmin=0, vmax=1)
        axes.set(xlabel="frame", ylabel="label")
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    main()
