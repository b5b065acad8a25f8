"""Does adaptation lose text on recordings? Long and short recordings, transcribed by `fewer transcribe`.

    python benchmarks/recordings.py WORK whisper-tiny.en --librispeech LibriSpeech/dev-clean --speakers 3000,3081 \\
        --clips uqm=uqm/report --bundle librispeech:sf=books-sf --bundle uqm:zero_encoder=uqm-bundle --minutes 60

Recordings are made of LibriSpeech chapters in their order (`chapters`), of utterances of changing speakers without a
pause (`speakers`), of chapters cut every 30 s regardless of pauses (`cuts`), and of given clips: each as a file of its
own (`NAME-clips`) and joined (`NAME-joined`). --clips takes NAME=a manifest (.jsonl) or a Kaldi data folder. --bundle
takes [SET:]NAME=FOLDER of `fewer adapt`; SET is `librispeech` or the name of clips. The model alone is `plain`. If
there is a system `sf`, the others are compared with it, too. Of deletions, those are told apart whose word is joined
with the one beside it ("latchkey" for "latch key"), where nothing that was said is missing.
--noisy names systems that are also measured with white noise at 10 dB.

Prints a table for each set and writes recordings.json and recordings.md to WORK (or --results). Transcripts stay in
WORK: the same command goes on where it was.
"""

import argparse
import json
import random
import subprocess
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kaldialign
import numpy as np
import soundfile

from fewer.data.manifest import Manifest
from fewer.evaluation.normalise import load_normaliser
from fewer.evaluation.wer import percent
from fewer.recognisers.loader import load_recogniser
from fewer.transcription.transcribe import is_repetitive

RATE = 16_000
LONG = 200.0  # seconds of a recording that is joined
CUT = 30.0  # seconds of a clip that is cut regardless of pauses
NOISE = 10.0  # dB of speech over noise
LOST = 10  # words of a window that are lost
SAMPLES = 10_000  # resampled sets of windows
NONE = "<eps>"


@dataclass(frozen=True)
class Utterance:
    id: str
    speaker: str
    text: str
    samples: Any  # a path, or a cut of a manifest

    def load(self) -> np.ndarray:
        if not isinstance(self.samples, Path):
            return self.samples.resample(RATE).load_audio()[0]
        audio, rate = soundfile.read(self.samples, dtype="float32")
        if rate != RATE or audio.ndim != 1:
            raise SystemExit(f"{self.samples}: expected one channel at {RATE} Hz")
        return audio


@dataclass(frozen=True)
class Recording:
    """One or more files with one reference."""

    name: str
    utterances: Sequence[Utterance]
    cut: bool = False  # into files of 30 s

    @property
    def text(self) -> str:
        return " ".join(utterance.text for utterance in self.utterances)

    def write(self, folder: Path, noisy: bool) -> list[Path]:
        """Its files, made if they are not there."""
        done = folder / f"{self.name}.done"
        if not done.exists():
            folder.mkdir(parents=True, exist_ok=True)
            samples = np.concatenate([utterance.load() for utterance in self.utterances])
            if noisy:
                rng = np.random.default_rng(zlib.crc32(self.name.encode()))
                power = np.square(samples).mean() / 10 ** (NOISE / 10)
                samples = samples + np.sqrt(power) * rng.standard_normal(len(samples))
                samples = samples / max(1.0, np.abs(samples).max())
            step = int(CUT * RATE) if self.cut else len(samples)
            for number, start in enumerate(range(0, len(samples), step)):
                soundfile.write(folder / f"{self.name}.{number:03}.flac", samples[start : start + step], RATE)
            done.write_text("")
        return sorted(folder.glob(f"{self.name}.[0-9][0-9][0-9].flac"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("model")
    parser.add_argument("--librispeech", type=Path, help="folder of a subset: speaker/chapter/files")
    parser.add_argument("--speakers", help="of LibriSpeech, separated by commas; default: all")
    parser.add_argument("--clips", action="append", default=[], metavar="NAME=SOURCE")
    parser.add_argument("--bundle", action="append", default=[], metavar="[SET:]NAME=FOLDER")
    parser.add_argument("--noisy", default="", help="systems that also hear noise, separated by commas")
    parser.add_argument("--minutes", type=float, default=60.0, help="of each set")
    parser.add_argument("--only", default="", help="sets, separated by commas; default: all")
    parser.add_argument("--results", type=Path, help="folder of recordings.json and .md; default: WORK")
    args = parser.parse_args()
    sets = dict(recordings(args))
    if args.only:
        sets = {name: sets[name] for name in args.only.split(",")}
    found: dict[str, Any] = {"minutes": args.minutes, "sets": {}}
    normaliser = load_normaliser(load_recogniser(args.model).defaults.normaliser)
    for name, (group, made) in sets.items():
        systems = {"plain": args.model} | bundles(args.bundle, group)
        for noisy in (False, True):
            tried = [system for system in systems if not noisy or system in args.noisy.split(",")]
            if not tried:
                continue
            label = f"{name}-noisy" if noisy else name
            transcripts = {s: transcribe(args.work, label, made, noisy, s, systems[s]) for s in tried}
            found["sets"][label] = measure(made, transcripts, normaliser)
            print(table(label, found["sets"][label]), flush=True)
            folder = args.results or args.work
            (folder / "recordings.json").write_text(json.dumps(found, indent=1) + "\n")
            parts = [table(each, facts) for each, facts in found["sets"].items()]
            (folder / "recordings.md").write_text("# Recordings\n\n" + "\n".join(parts))


def bundles(given: Sequence[str], group: str) -> dict[str, str]:
    """Those of a group of sets, by name."""
    chosen = {}
    for text in given:
        name, _, folder = text.partition("=")
        where, _, name = name.rpartition(":")
        if where in ("", group):
            chosen[name] = folder
    return chosen


def recordings(args: argparse.Namespace) -> Iterator[tuple[str, tuple[str, list[Recording]]]]:
    """Each set's name, its group and recordings."""
    rng, most = random.Random(0), 60 * args.minutes
    if args.librispeech is not None:
        chapters = librispeech(args.librispeech, args.speakers and args.speakers.split(","))
        rng.shuffle(chapters)
        yield "chapters", ("librispeech", up_to(most, [Recording(f"chapter-{u[0].id}", u) for u in chapters]))
        mixed = changing([utterance for chapter in chapters for utterance in chapter], rng)
        yield "speakers", ("librispeech", up_to(most, joined("speakers", mixed)))
        yield "cuts", ("librispeech", up_to(most, [Recording(f"cut-{u[0].id}", u, True) for u in chapters[::-1]]))
    for text in args.clips:
        name, _, source = text.partition("=")
        utterances = list(clips(Path(source)))
        rng.shuffle(utterances)
        singles = up_to(most, [Recording(f"{name}-{utterance.id}", [utterance]) for utterance in utterances])
        yield f"{name}-clips", (name, singles)
        rng.shuffle(utterances)
        yield f"{name}-joined", (name, up_to(most, joined(f"{name}-joined", utterances)))


def librispeech(folder: Path, speakers: Sequence[str] | None) -> list[list[Utterance]]:
    """The utterances of each chapter."""
    chapters = []
    for path in sorted(folder.glob("*/*/*.trans.txt")):
        speaker = path.parent.parent.name
        if speakers is None or speaker in speakers:
            lines = [line.split(" ", 1) for line in path.read_text().splitlines()]
            chapters.append([Utterance(id, speaker, text, path.with_name(f"{id}.flac")) for id, text in lines])
    return chapters


def clips(source: Path) -> Iterator[Utterance]:
    """Of a manifest, or of a Kaldi data folder, whose paths may be relative to it or to the folder above."""
    if source.is_file():
        for cut in Manifest(source):
            spoken = cut.supervisions[0]
            yield Utterance(cut.id, spoken.speaker or "", spoken.text, cut)
        return
    texts, paths, speakers = (
        dict(line.split(maxsplit=1) for line in (source / name).read_text().splitlines())
        for name in ("text", "wav.scp", "utt2spk")
    )
    for id, text in texts.items():
        path = next(base / paths[id] for base in (source, source.parent) if (base / paths[id]).exists())
        yield Utterance(id, speakers[id], text, path)


def changing(utterances: Sequence[Utterance], rng: random.Random) -> list[Utterance]:
    """In such an order that the speaker changes after each."""
    queues: dict[str, list[Utterance]] = {}
    for utterance in utterances:
        queues.setdefault(utterance.speaker, []).append(utterance)
    for queue in queues.values():
        rng.shuffle(queue)
    order = []
    while queues:
        for speaker in rng.sample(sorted(queues), len(queues)):
            order.append(queues[speaker].pop())
            if not queues[speaker]:
                del queues[speaker]
    return order


def joined(name: str, utterances: Sequence[Utterance]) -> list[Recording]:
    """Recordings of some minutes."""
    groups: list[list[Utterance]] = [[]]
    seconds = 0.0
    for utterance in utterances:
        groups[-1].append(utterance)
        seconds += duration(utterance)
        if seconds >= LONG:
            groups.append([])
            seconds = 0.0
    marks = [zlib.crc32(" ".join(utterance.id for utterance in group).encode()) for group in groups]
    return [Recording(f"{name}-{mark:08x}", group) for mark, group in zip(marks, groups, strict=True) if group]


def duration(utterance: Utterance) -> float:
    source = utterance.samples
    return soundfile.info(str(source)).duration if isinstance(source, Path) else source.duration


def up_to(seconds: float, made: Sequence[Recording]) -> list[Recording]:
    """The first recordings, of so many seconds together."""
    chosen, total = [], 0.0
    for recording in made:
        if total >= seconds:
            break
        chosen.append(recording)
        total += sum(map(duration, recording.utterances))
    return chosen


def transcribe(
    work: Path, label: str, made: Sequence[Recording], noisy: bool, system: str, model: str
) -> dict[str, list[dict[str, Any]]]:
    """Each recording's segments, by the command that users call; what was transcribed before is read."""
    audio, out = work / "audio" / label, work / "transcripts" / label / system
    files = {recording.name: recording.write(audio, noisy) for recording in made}
    missing = [file for each in files.values() for file in each if not (out / f"{file.stem}.json").exists()]
    if missing:
        print(f"{label}, {system}: {len(missing)} files", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", "fewer", "transcribe", *map(str, missing), "--model", model]
        out.mkdir(parents=True, exist_ok=True)
        subprocess.run([*command, "--output", "json", "--out", str(out)], check=True, stdout=subprocess.DEVNULL)
    found = {}
    for name, paths in files.items():
        parts = [json.loads((out / f"{path.stem}.json").read_text())["segments"] for path in paths]
        found[name] = [segment for part in parts for segment in part]
    return found


def measure(made: Sequence[Recording], transcripts: dict[str, Any], normaliser: Any) -> dict[str, Any]:
    """Of each system errors, and what it loses against `plain`; windows are those of `plain`."""
    written = is_written(" ".join(recording.text for recording in made))
    deleted: dict[str, list[int]] = {system: [] for system in transcripts}  # of each window
    unheard: dict[str, list[int]] = {system: [] for system in transcripts}  # those that no other word contains
    lost: dict[str, list[int]] = {system: [] for system in transcripts}
    wrong: dict[str, list[int]] = {system: [] for system in transcripts}  # errors of each recording
    counts = {system: np.zeros(6, dtype=int) for system in transcripts}  # S, D, I, words, written errors and words
    for recording in made:
        ref = normaliser.ref(recording.text).split()
        edits = {s: aligned(ref, said(found[recording.name], normaliser.hyp)) for s, found in transcripts.items()}
        windows = of_windows(edits["plain"], transcripts["plain"][recording.name], normaliser.hyp)
        for system, each in edits.items():
            gone = np.array([kind in "DJ" for kind in each.kinds], dtype=bool)
            joined_words = np.array([kind == "J" for kind in each.kinds], dtype=bool)
            had = np.array([kind == "C" for kind in edits["plain"].kinds], dtype=bool)
            for number in sorted(set(windows.tolist())):
                inside = windows == number
                deleted[system].append(int((gone & inside).sum()))
                unheard[system].append(int((gone & ~joined_words & inside).sum()))
                lost[system].append(int((gone & had & inside).sum()))
            counts[system][:4] += [each.kinds.count("S"), int(gone.sum()), each.inserted, len(ref)]
            wrong[system].append(each.kinds.count("S") + int(gone.sum()) + each.inserted)
            if written:
                spelled = recording.text.split()
                hyp = said(transcripts[system][recording.name], str)
                counts[system][4:] += [kaldialign.edit_distance(spelled, hyp)["total"], len(spelled)]
    facts: dict[str, Any] = {"seconds": round(sum(duration(u) for r in made for u in r.utterances)), "systems": {}}
    facts |= {"recordings": len(made), "windows": len(deleted["plain"]), "written": written}
    for system, (sub, deletions, ins, words, errors, spelled) in counts.items():
        more, unheard_more, errors_more = (
            [int(difference.sum()), *interval(difference)]
            for difference in (np.array(of[system]) - np.array(of["plain"]) for of in (deleted, unheard, wrong))
        )
        from_sf = np.array(wrong[system]) - np.array(wrong.get("sf", wrong[system]))
        facts["systems"][system] = {
            "wer": round(percent(int(sub + deletions + ins), int(words)), 2),
            "written_wer": round(percent(int(errors), int(spelled)), 2) if written else None,
            "sub": int(sub),
            "deletions": int(deletions),
            "ins": int(ins),
            "words": int(words),
            "more_deletions": more,
            "more_unheard": unheard_more,
            "more_errors": errors_more,
            "more_errors_than_sf": [int(from_sf.sum()), *interval(from_sf)] if "sf" in wrong else None,
            "lost_windows": sum(count > LOST for count in lost[system]),
            "most_lost": max(lost[system], default=0),
            "without_lm": sum("without_lm" in s for found in transcripts[system].values() for s in found),
            "runaways": sum(is_repetitive(s["text"]) for found in transcripts[system].values() for s in found),
        }
    return facts


@dataclass(frozen=True)
class Aligned:
    kinds: list[str]  # of each word of the reference: C, S, D, or J, a deletion whose word is joined with the next one
    places: list[int]  # hypothesis words before each word of the reference
    inserted: int


def aligned(ref: list[str], hyp: list[str]) -> Aligned:
    pairs = kaldialign.align(ref, hyp, NONE)
    kinds, places, inserted, place = [], [], 0, 0
    for number, (wanted, found) in enumerate(pairs):
        if wanted == NONE:
            inserted += 1
        else:
            gone = "J" if found == NONE and is_joined(pairs, number) else "D"
            kinds.append(gone if found == NONE else "C" if found == wanted else "S")
            places.append(place)
        place += found != NONE
    return Aligned(kinds, places, inserted)


def is_joined(pairs: Sequence[tuple[str, str]], number: int) -> bool:
    """Whether a deleted word is in the word beside it, as "latch key" is in "latchkey": that is nearer to both."""
    word = pairs[number][0]
    for other, first in ((number - 1, False), (number + 1, True)):
        wanted, found = pairs[other] if 0 <= other < len(pairs) else (NONE, NONE)
        if NONE not in (wanted, found) and wanted != found:
            both = word + wanted if first else wanted + word
            if letters(both, found) < letters(wanted, found):
                return True
    return False


def letters(one: str, other: str) -> int:
    """That differ."""
    return int(kaldialign.edit_distance(list(one), list(other))["total"])


def said(segments: Sequence[dict[str, Any]], normalise: Any) -> list[str]:
    return [word for segment in segments for word in normalise(segment["text"]).split()]


def of_windows(edits: Aligned, segments: Sequence[dict[str, Any]], normalise: Any) -> np.ndarray:
    """The window of each word of the reference: that of the hypothesis word it is aligned with, or of the next one."""
    owners = [number for number, segment in enumerate(segments) for _ in normalise(segment["text"]).split()]
    last = len(segments) - 1
    return np.array([owners[place] if place < len(owners) else last for place in edits.places], dtype=int)


def interval(difference: np.ndarray) -> tuple[int, int]:
    """Between which sums 95 % of resampled sets of windows, or recordings, lie."""
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(len(difference), np.full(len(difference), 1 / len(difference)), SAMPLES) @ difference
    return int(np.percentile(drawn, 2.5)), int(np.percentile(drawn, 97.5))


def is_written(text: str) -> bool:
    """Whether it has case and punctuation."""
    return text != text.upper() and any(mark in text for mark in ".?!,")


def table(name: str, facts: dict[str, Any]) -> str:
    """Markdown."""
    lines = [
        f"## {name}\n",
        f"{facts['seconds'] / 60:.0f} minutes, {facts['recordings']} recordings, {facts['windows']} windows. "
        + ("" if facts["written"] else "The references have no case and punctuation.")
        + "\n",
        "| system | WER | errors more than plain (95 %) | more than sf | with case and punctuation | sub | del | ins "
        "| deletions more than plain (95 %) | without joined words "
        "| windows that lose more than 10 words | most words lost | windows without LM | loops |",
        f"|---|{'---:|' * 13}",
    ]
    for system, row in facts["systems"].items():
        errors, more, unheard, from_sf = (
            "–" if row[name] is None else "{:+} ({:+} to {:+})".format(*row[name])
            for name in ("more_errors", "more_deletions", "more_unheard", "more_errors_than_sf")
        )
        written = "–" if row["written_wer"] is None else f"{row['written_wer']:.2f}"
        share = 100 * row["lost_windows"] / max(facts["windows"], 1)
        lines.append(
            f"| {system} | {row['wer']:.2f} | {errors} | {from_sf} | {written} "
            f"| {row['sub']} | {row['deletions']} | {row['ins']} | {more} | {unheard} "
            f"| {row['lost_windows']} ({share:.1f} %) | {row['most_lost']} | {row['without_lm']} | {row['runaways']} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
