"""What the recogniser itself makes of audio, as a manifest: transcripts where there are none."""

import json
from pathlib import Path
from typing import Any

from fewer.compute.engines.engine import Engine, Local
from fewer.data.batches import Batch, UtteranceBatches
from fewer.data.lines import read_raw_lines
from fewer.errors import FewerError
from fewer.files import atomic_write
from fewer.ilm.on_batches import on_batches
from fewer.recognisers.recogniser import Recogniser
from fewer.search.beam import SearchOptions, beam_search
from fewer.search.fusion import Fusion
from fewer.search.rules import Suppression

BEAM = 4


def own_transcripts(recogniser: Recogniser, batches: UtteranceBatches, out: Path, engine: Engine = Local()) -> None:
    """Write a copy of the batches' manifest with the recogniser's best hypotheses, found without an LM.

    Utterances of which it makes nothing, or to which it finds no end, are left out.
    """
    manifest, rules = batches.manifest, [Suppression(recogniser.suppress, recogniser.suppress_first)]
    # A loop does not end, so it is left out.
    fusion = Fusion([recogniser.scorer({})], {"aed": 1.0}, recogniser.tokenizer.end, rules, recogniser.device)
    lines = [int(line) for group in batches.plan(1) for items in group for line in items]

    def best(batch: Batch) -> list[str]:
        """The best hypothesis of each utterance; empty where it does not end."""
        encoded = recogniser.encode(batch)
        limits = recogniser.max_lengths(encoded)
        lists = beam_search(fusion, encoded, limits, SearchOptions(BEAM), recogniser.tokenizer.decode)
        return [best[0].text.strip() if best[0].ended else "" for best in lists]

    found = on_batches(engine, batches, best, recogniser.device, f"transcribing {manifest.path.stem}")
    texts = [text for some in found for text in some]
    whole = {line: text for line, text in zip(lines, texts, strict=True) if text}  # by line of the manifest
    if not whole:
        raise FewerError(
            f"{manifest.path}: the recogniser hears no words in any of these {len(manifest)} utterances; "
            "give a manifest with transcripts, or other audio"
        )
    if engine.first:
        with atomic_write(out) as stream:
            for number, line in enumerate(read_raw_lines(manifest.path)):
                if number in whole:
                    print(json.dumps(with_text(json.loads(line), whole[number]), ensure_ascii=False), file=stream)
    engine.wait()


def with_text(cut: dict[str, Any], text: str) -> dict[str, Any]:
    """The line of a manifest with another transcript; what else it says of the speech stays."""
    recording = cut["recording"]["id"] if cut.get("recording") else cut["id"]
    spoken = {"id": cut["id"], "recording_id": recording, "start": 0.0, "duration": cut["duration"]}
    spoken |= {"channel": cut["channel"]} | (cut.get("supervisions") or [{}])[0] | {"text": text}
    return cut | {"supervisions": [spoken]}
