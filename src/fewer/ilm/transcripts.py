"""What the recogniser itself makes of audio, as a manifest: transcripts where there are none."""

import json
from pathlib import Path
from typing import Any

from fewer.compute.world import World
from fewer.data.batches import UtteranceBatches
from fewer.data.lines import read_raw_lines
from fewer.errors import FewerError
from fewer.files import atomic_write
from fewer.progress import Bar
from fewer.recognisers.recogniser import Recogniser
from fewer.search.beam import SearchOptions, beam_search
from fewer.search.fusion import Fusion
from fewer.search.rules import Suppression

BEAM = 4


def own_transcripts(recogniser: Recogniser, batches: UtteranceBatches, out: Path, world: World) -> None:
    """Write a copy of the batches' manifest with the recogniser's best hypotheses, found without an LM.

    Utterances of which it makes nothing, or to which it finds no end, are left out.
    """
    manifest, rules = batches.manifest, [Suppression(recogniser.suppress, recogniser.suppress_first)]
    # A loop does not end, so it is left out.
    fusion = Fusion([recogniser.scorer({})], {"aed": 1.0}, recogniser.tokenizer.end, rules, recogniser.device)
    plan, texts = batches.plan(1), dict[int, str]()  # by line of the manifest
    with Bar(f"transcribing {manifest.path.stem}", len(plan)) as bar:
        for step in range(len(plan)):
            for items in plan.group(step, world.rank, world.size):
                if len(items):
                    texts |= dict(zip(items.tolist(), _best(recogniser, fusion, batches, items), strict=True))
            bar.advance()
    whole = {line: text for part in world.gather(texts) for line, text in part.items() if text}
    if not whole:
        raise FewerError(
            f"{manifest.path}: the recogniser hears no words in any of these {len(manifest)} utterances; "
            "give a manifest with transcripts, or other audio"
        )
    if world.first:
        with atomic_write(out) as stream:
            for number, line in enumerate(read_raw_lines(manifest.path)):
                if number in whole:
                    print(json.dumps(_with_text(json.loads(line), whole[number]), ensure_ascii=False), file=stream)
    world.wait()


def _best(recogniser: Recogniser, fusion: Fusion, batches: UtteranceBatches, items: Any) -> list[str]:
    """The best hypothesis of each utterance; empty where it does not end."""
    encoded = recogniser.encode(batches.load(items, 1))
    limits = recogniser.max_lengths(encoded)
    lists = beam_search(fusion, encoded, limits, SearchOptions(BEAM), recogniser.tokenizer.decode)
    return [best[0].text.strip() if best[0].ended else "" for best in lists]


def _with_text(cut: dict[str, Any], text: str) -> dict[str, Any]:
    """The line of a manifest with another transcript; what else it says of the speech stays."""
    recording = cut["recording"]["id"] if cut.get("recording") else cut["id"]
    spoken = {"id": cut["id"], "recording_id": recording, "start": 0.0, "duration": cut["duration"]}
    spoken |= {"channel": cut["channel"]} | (cut.get("supervisions") or [{}])[0] | {"text": text}
    return cut | {"supervisions": [spoken]}
