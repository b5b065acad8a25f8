"""Attention weights of a few utterances, teacher-forced on their transcripts, for plots."""

from pathlib import Path

import torch

from fewer.data.batches import UtteranceConfig
from fewer.data.manifest import Manifest
from fewer.files import write_json
from fewer.recognisers.aed import AedRecogniser
from fewer.store.model_folder import load_model


@torch.inference_mode()
def write_attention(model: str | Path, manifest: str | Path, out: str | Path, utterances: int = 6) -> None:
    """Write {"utterances": [{"id", "text", "labels", "weights" (labels × frames)}, …]}."""
    recogniser = AedRecogniser(load_model(model))
    batches = recogniser.batches(Manifest(manifest), UtteranceConfig(order="corpus"), transcripts=True)
    plan = batches.plan(1).items
    chosen = plan[torch.linspace(0, len(plan) - 1, min(utterances, len(plan))).long().numpy()]
    batch = batches.load(chosen, 1)
    encoded = recogniser.encode(batch)
    decoded = recogniser.aed.teacher_forced(encoded, batch.labels)
    weights = torch.stack([state.weights for state in decoded.context_states], dim=1)  # (B, N, T)
    lines = []
    for row, utterance in enumerate(batch.ids):
        labels, frames = int(batch.label_lengths[row]), int(encoded.lengths[row])
        ids = batch.labels[row, :labels].tolist()
        lines.append(
            {
                "id": utterance,
                "text": recogniser.tokenizer.decode(ids[:-1]),
                "labels": [recogniser.tokenizer.labels[label] for label in ids],
                "weights": [[round(w, 3) for w in line] for line in weights[row, :labels, :frames].tolist()],
            }
        )
    write_json(out, {"utterances": lines})
