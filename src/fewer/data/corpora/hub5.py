"""Telephone test sets that NIST scores by an STM file: Hub5'00, Hub5'01 and the telephone part of RT-03S.

Hub5'00: LDC2002S09 (hub5e_00/english/*.sph) with LDC2002T43 (reference/hub5e00.english.000405.stm, *_hub5.glm)
Hub5'01: LDC2002S13 (english/*.sph) with hub5e01.english.010402.stm and en20010117_hub5.glm from NIST
RT-03S: LDC2007S10 (data/{audio,references}/eval03/english/cts/*.{sph,stm}, data/trans_rules/en20030506.glm)

The segments are those of the STM, without those that scoring ignores. STM and GLM are kept beside the manifest.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fewer.data.corpora.corpus import Items, Problem, Source, SpeechSet, Utterance
from fewer.data.corpora.places import find_files, find_one, find_root, index_audio
from fewer.data.corpora.stm import clean_stm, read_stm
from fewer.data.corpora.texts import stm_text
from fewer.data.lines import read_lines
from fewer.errors import FewerError

SUBSETS = {"sw": "switchboard", "en": "callhome", "fsh": "fisher"}  # by the beginning of the recording's name


@dataclass(frozen=True)
class ScoredSet:
    """The files of one test set."""

    name: str
    audio: dict[str, Path]
    stms: list[Path]
    glm: Path | None


def hub5e00(source: Source) -> list[SpeechSet]:
    stm = find_one(
        source.transcripts_folder,
        r"hub5e00\.english\..*\.stm",
        "reference hub5e00.english.000405.stm",
        "it is on LDC2002T43; put LDC2002S09 and LDC2002T43 into one folder or name the latter by --transcripts",
    )
    return [_speech_set(ScoredSet("hub5e00", index_audio(_english(source.folder)), [stm], _glm(stm.parent)))]


def hub5e01(source: Source) -> list[SpeechSet]:
    stm = find_one(
        source.transcripts_folder,
        r"hub5e_?01.*\.stm",
        "reference hub5e01.english.010402.stm",
        "LDC2002S13 does not hold it: get it from NIST and name its folder by --transcripts",
    )
    return [_speech_set(ScoredSet("hub5e01", index_audio(_english(source.folder)), [stm], _glm(stm.parent)))]


def rt03(source: Source) -> list[SpeechSet]:
    part = Path("eval03", "english", "cts")
    root = find_root(
        source.folder, lambda folder: (folder / "data" / "audio" / part).is_dir(), f"data/audio/{part.as_posix()}"
    )
    references = root / "data" / "references" / part
    stms = find_files(references, r".*\.stm")
    if not stms:
        raise FewerError(f"there is no reference *.stm in {references}; is LDC2007S10 complete?")
    glm = _glm(root / "data" / "trans_rules")
    return [_speech_set(ScoredSet("rt03", index_audio(root / "data" / "audio" / part), stms, glm))]


def _english(folder: Path) -> Path:
    """The folder with the English recordings: the disc may hold other languages' beside them."""
    for candidate in (folder, *sorted(folder.glob("*")), *sorted(folder.glob("*/*"))):
        if (candidate / "english").is_dir() and index_audio(candidate / "english"):
            return candidate / "english"
    return folder


def _glm(folder: Path) -> Path | None:
    """The newest English file of rules for equal spellings (their names hold a date), if there is one."""
    found = find_files(folder, r"en\d+.*\.glm")
    return found[-1] if found else None


def _speech_set(files: ScoredSet) -> SpeechSet:
    companions: dict[str, Callable[[], Iterator[str]]] = {".stm": lambda: clean_stm(files.stms)}
    if glm := files.glm:
        companions[".glm"] = lambda: read_lines(glm)
    return SpeechSet(files.name, lambda: _read(files), companions)


def _read(files: ScoredSet) -> Items:
    named: set[str] = set()
    for stm in files.stms:
        for segment in read_stm(stm):
            if isinstance(segment, Problem):
                yield segment
                continue
            named.add(segment.recording)
            if not segment.scored:
                continue
            if segment.recording not in files.audio:
                yield Problem(segment.where, f"there is no audio {segment.recording}.sph")
                continue
            side = f"{segment.recording}-{segment.side}"
            yield Utterance(
                id=f"{side}_{round(segment.start * 100):06d}-{round(segment.end * 100):06d}",
                audio=files.audio[segment.recording],
                text=stm_text(segment.text),
                speaker=side,
                where=segment.where,
                start=segment.start,
                end=segment.end,
                channel="AB".index(segment.side),
                custom=_custom(segment.recording, segment.labels),
            )
    for recording in sorted(set(files.audio) - named):
        yield Problem(str(files.audio[recording]), f"has no segment in {', '.join(str(stm) for stm in files.stms)}")


def _custom(recording: str, labels: str) -> dict[str, str]:
    letters = recording.rstrip("0123456789_")
    subset = {"subset": SUBSETS[letters]} if letters in SUBSETS else {}
    return subset | ({"stm_labels": labels} if labels else {})
