"""What Whisper makes of audio, as a manifest: transcripts in its own style where there are none in that style."""

import json
from pathlib import Path
from typing import Any

from fewer.adapters.whisper.recogniser import WhisperRecogniser
from fewer.data.batches import UtteranceConfig
from fewer.data.lines import read_raw_lines
from fewer.data.manifest import Manifest
from fewer.files import atomic_write
from fewer.progress import Bar
from fewer.search.beam import SearchOptions, beam_search
from fewer.search.fusion import Fusion

BATCH = UtteranceConfig(max_size=16_000, max_sequences=32, order="sorted")


def own_transcripts(recogniser: WhisperRecogniser, manifest: Path, out: Path, beam: int = 1) -> None:
    """Write a copy of a manifest (transcribed or not) with the recogniser's best hypotheses for transcripts.

    Utterances of which it makes nothing, or to which it finds no end (it then repeats itself), are left out.
    """
    utterances = Manifest(manifest, transcripts=False)
    batches = recogniser.batches(utterances, BATCH, transcripts=False)
    fusion = Fusion(
        [recogniser.scorer({})],
        {"aed": 1.0},
        recogniser.tokenizer.end,
        suppress=recogniser.suppress,
        suppress_first=recogniser.suppress_first,
    )
    texts: dict[int, str] = {}
    with Bar(f"transcribing {manifest.stem}", len(utterances)) as bar:
        for group in batches.plan(1):
            for items in group:
                encoded = recogniser.encode(batches.load(items, 1))
                limits = recogniser.max_lengths(encoded)
                lists = beam_search(fusion, encoded, limits, SearchOptions(beam=beam), recogniser.tokenizer.decode)
                texts |= {item: best[0].text for item, best in zip(items.tolist(), lists, strict=True) if best[0].ended}
                bar.advance(len(items))
    with atomic_write(out) as stream:
        for index, line in enumerate(read_raw_lines(manifest)):
            if texts.get(index):
                print(json.dumps(_with_text(json.loads(line), texts[index]), ensure_ascii=False), file=stream)


def _with_text(cut: dict[str, Any], text: str) -> dict[str, Any]:
    spoken = {"id": cut["id"], "recording_id": cut["recording"]["id"], "start": 0.0, "duration": cut["duration"]}
    spoken |= {"channel": cut["channel"]} | (cut.get("supervisions") or [{}])[0] | {"text": text}
    return cut | {"supervisions": [spoken]}
