"""Switchboard-1 release 2 (LDC97S62) with the Mississippi State transcripts.

Audio: sw02001.sph anywhere below (two channels, 8 kHz µ-law). Transcripts: swb_ms98_transcriptions/20/2001/
sw2001{A,B}-ms98-a-trans.text with lines `sw2001A-ms98-a-0002 0.977625 11.561375 hi um ...`.
"""

import re
from functools import partial
from pathlib import Path

from fewer.data.corpora.corpus import Items, Problem, Source, SpeechSet, Utterance, Wordless
from fewer.data.corpora.places import find_files, index_audio, numbered_lines, seconds
from fewer.data.corpora.texts import switchboard_text
from fewer.errors import FewerError

TRANSCRIPT = r"sw(\d{4})([AB])-ms98-a-trans\.text"


def sets(source: Source) -> list[SpeechSet]:
    transcripts = find_files(source.transcripts_folder, TRANSCRIPT)
    if not transcripts:
        raise FewerError(
            f"there are no Mississippi State transcripts (sw2001A-ms98-a-trans.text, …) under "
            f"{source.transcripts_folder}; unpack switchboard_word_alignments.tar.gz, name its folder by --transcripts"
        )
    return [SpeechSet("train", partial(_read, source.folder, transcripts))]


def _read(folder: Path, transcripts: list[Path]) -> Items:
    audio = {name: path for name, path in index_audio(folder).items() if re.fullmatch(r"sw0\d{4}", name)}
    transcribed: set[str] = set()  # sides, such as sw02001-A
    for path in sorted(transcripts, key=lambda path: path.name):
        number, side = re.fullmatch(TRANSCRIPT, path.name).groups()  # type: ignore[union-attr]
        recording = f"sw0{number}"
        transcribed.add(f"{recording}-{side}")
        if recording not in audio:
            yield Problem(str(path), f"there is no audio {recording}.sph under {folder}")
            continue
        yield from _read_side(path, audio[recording], f"sw{number}{side}-", f"{recording}-{side}")
    for recording, path in sorted(audio.items()):
        for side in "AB":
            if f"{recording}-{side}" not in transcribed:
                yield Problem(str(path), f"side {side} has no transcript")


def _read_side(path: Path, audio: Path, prefix: str, side: str) -> Items:
    for where, line in numbered_lines(path):
        fields = line.split(maxsplit=3)
        try:
            start, end, words = seconds(fields[1]), seconds(fields[2]), fields[3]
        except (IndexError, ValueError):
            yield Problem(where, f"expected `segment start end words`, found {line.strip()!r:.80}")
            continue
        text = switchboard_text(words)
        if not fields[0].startswith(prefix):
            yield Problem(where, f"segment {fields[0]} is not of this side, whose segments begin with {prefix}")
        elif not text:
            yield Wordless(where)
        else:
            yield Utterance(
                id=f"{side}_{round(start * 100):06d}-{round(end * 100):06d}",
                audio=audio,
                text=text,
                speaker=side,
                where=where,
                start=start,
                end=end,
                channel="AB".index(side[-1]),
                custom={"subset": "switchboard"},
            )
