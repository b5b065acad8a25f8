"""Readers for speech corpora as they are on disk, and `prepare`, which writes lhotse manifests from them.

Each reader streams utterances and the problems it meets, so that a problem is one clear error or, on request, one
line of a list. (lhotse's own recipes hold the whole corpus in memory, drop what does not fit with a warning, and need
sph2pipe for SPHERE audio; the tests compare with them.)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from fewer.data.corpora import (
    fisher_text,
    folder,
    hub5,
    hugging_face,
    kaldi,
    librispeech,
    shar,
    speechocean762,
    switchboard,
    table,
    tedlium2,
)
from fewer.data.corpora.corpus import Source, SpeechSet, TextSet


@dataclass(frozen=True)
class Corpus:
    """A kind of corpus that `fewer prepare` understands."""

    what: str  # for the help text
    sets: Callable[[Source], Sequence[SpeechSet | TextSet]]
    takes: Literal["folder", "file", "name"] = "folder"  # name: also of something on the Hugging Face hub
    any_rate: bool = False  # files may have any sampling rate: recognisers resample what they hear


CORPORA: dict[str, Corpus] = {
    "table": Corpus(
        "a .csv, .tsv or .jsonl (NeMo) file with a column of audio files and one of transcripts",
        table.sets,
        takes="file",
        any_rate=True,
    ),
    "folder": Corpus("audio files, each with its transcript in a .txt file beside it", folder.sets, any_rate=True),
    "datasets": Corpus(
        "a Hugging Face dataset: NAME or NAME:CONFIG on the hub, or a folder of save_to_disk",
        hugging_face.sets,
        takes="name",
        any_rate=True,
    ),
    "shar": Corpus("a folder in lhotse's Shar format", shar.sets, any_rate=True),
    "librispeech": Corpus("LibriSpeech or Mini LibriSpeech, any of its sets", librispeech.sets),
    "tedlium2": Corpus("TED-LIUM release 2, with its text for language models", tedlium2.sets),
    "switchboard": Corpus("Switchboard-1 (LDC97S62) with the Mississippi State transcripts", switchboard.sets),
    "fisher_text": Corpus("Fisher transcripts (LDC2004T19, LDC2005T19) as text for language models", fisher_text.sets),
    "hub5e00": Corpus("Hub5'00 (LDC2002S09 and LDC2002T43)", hub5.hub5e00),
    "hub5e01": Corpus("Hub5'01 (LDC2002S13 and NIST's STM)", hub5.hub5e01),
    "rt03": Corpus("telephone part of RT-03S (LDC2007S10)", hub5.rt03),
    "speechocean762": Corpus("speechocean762", speechocean762.sets),
    "kaldi": Corpus("a Kaldi data directory, or a folder of several", kaldi.sets),
}
