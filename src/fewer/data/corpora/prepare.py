"""Write a corpus's manifests: all of them if everything is in order, none otherwise."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from fewer.config import first_of
from fewer.data.corpora import CORPORA
from fewer.data.corpora.audio import read_header
from fewer.data.corpora.corpus import Problem, Source, SpeechSet, TextSet, Utterance, Wordless
from fewer.data.corpora.cuts import make_cut
from fewer.data.corpora.disk_table import DiskTable
from fewer.data.corpora.split import Split
from fewer.data.corpora.texts import Case
from fewer.errors import FewerError
from fewer.files import AtomicFiles
from fewer.progress import Bar, warn

RATES = (8000, 16000)  # Hz; files of other rates need resampling
SHOWN = 10  # skipped entries that are shown; the whole list is written to a file


@dataclass(frozen=True)
class PrepareOptions:
    """What `prepare` may be asked for."""

    sets: tuple[str, ...] = ()  # only these; empty: all that are there
    splits: tuple[Split, ...] = ()  # sets that are also written in parts, by speaker
    transcripts: Path | None = None  # folder of the transcripts, if not in the corpus's
    skip_bad: bool = False  # list bad entries and go on without them
    resample: int | None = None  # Hz; every cut gets this rate
    case: Case = Case.KEEP  # of the transcripts' letters
    text: bool = False  # also write the transcripts as plain text, one line each
    transcribed: bool = True  # every utterance needs a transcript
    skipping: str = "--skip-bad lists such entries and leaves them out"  # what an error says can be done


@dataclass
class SetSummary:
    """What one written file holds."""

    name: str
    utterances: int = 0
    seconds: float = 0.0
    words: int = 0
    speakers: set[str] = field(default_factory=set)
    wordless: int = 0  # segments without words, left out
    shortened: int = 0  # segments cut at the end of their recording
    skipped: int = 0  # bad entries, left out on request

    def count(self, text: str, seconds: float = 0.0, speaker: str | None = None) -> None:
        self.utterances += 1
        self.seconds += seconds
        self.words += len(text.split())
        if speaker is not None:
            self.speakers.add(speaker)


def prepare(corpus: str, source: Path, out: Path, options: PrepareOptions | None = None) -> list[SetSummary]:
    """Read the corpus at `source` and write OUT/<set>.jsonl (of text corpora: OUT/<set>.txt) for each of its sets."""
    options = options or PrepareOptions()
    read_header.cache_clear()  # the files may have changed since
    with ExitStack() as stack:
        try:
            chosen = _choose(corpus, source, out, options)
            any_rate = CORPORA[corpus].any_rate or options.resample is not None
            gathered = [Gathered(one, source, options, any_rate, stack.enter_context(_table())) for one in chosen]
            for one in gathered:
                one.read()
        except OSError as error:
            named = f" {error.filename}" if error.filename not in (None, str(source)) else ""
            raise FewerError(f"{source}: cannot read{named}: {error.strerror or error}") from error
        files = stack.enter_context(AtomicFiles())

        def create(name: str) -> IO[str]:
            return files.open(out / name)

        summaries = [summary for one in gathered for summary in one.write(create)]
    for one in gathered:
        if not one.problems:  # a list from an earlier run says nothing about this one
            (out / f"{one.set.name}.skipped.txt").unlink(missing_ok=True)
    return summaries


def _choose(corpus: str, source: Path, out: Path, options: PrepareOptions) -> list[SpeechSet | TextSet]:
    """The wanted sets of the corpus."""
    if corpus not in CORPORA:
        raise FewerError(f"unknown corpus {corpus!r}; there are {', '.join(CORPORA)}")
    kind = CORPORA[corpus]
    if kind.takes == "file" and not source.is_file():
        raise FewerError(f"there is no file {source}" + (": it is a folder" if source.is_dir() else ""))
    for folder in (source if kind.takes == "folder" else None, options.transcripts):
        if folder is not None and not folder.is_dir():
            raise FewerError(f"there is no folder {folder}" + (": it is a file" if folder.is_file() else ""))
    place = Source(
        folder=source.absolute(),
        transcripts=options.transcripts and options.transcripts.absolute(),
        given=str(source),
        audio=out.absolute() / "prepared-audio",
        transcribed=options.transcribed,
    )
    found = kind.sets(place)
    names = [one.name for one in found]
    for name in options.sets:
        if name not in names:
            raise FewerError(f"{source} has no set {name!r}; it has {', '.join(names)}")
    chosen = [one for one in found if not options.sets or one.name in options.sets]
    parts = [part for split in options.splits for part, _ in split.parts]
    for split in options.splits:
        if split.whole not in [one.name for one in chosen if isinstance(one, SpeechSet)]:
            raise FewerError(f"--split: there is no set {split.whole!r} with speakers among those that are prepared")
        for part, _ in split.parts:
            if part in names or parts.count(part) > 1:
                raise FewerError(f"--split: {part} would be the name of two sets; give the parts other names")
    for one in chosen:
        if (out / f"{one.name}.jsonl").absolute() == source.absolute():
            raise FewerError(f"the manifest would overwrite {source}; give another folder as OUT")
    return chosen


def _table() -> DiskTable:
    return DiskTable("speaker", "text", "line")


class Gathered:
    """A set that is read and checked; its lines wait on disk, in the order of their ids."""

    def __init__(
        self, one: SpeechSet | TextSet, source: Path, options: PrepareOptions, any_rate: bool, table: DiskTable
    ):
        self.source = source
        self.set, self.options, self.any_rate, self.table = one, options, any_rate, table
        self.summary = SetSummary(one.name)
        self.problems: list[Problem] = []
        self.first: tuple[int, Path] | None = None  # rate (Hz) and file of the first utterance
        self.splits = [split for split in options.splits if split.whole == one.name]

    def read(self) -> None:
        with Bar(self.set.name) as bar:
            for item in self.set.read():
                problem = self._add(item)
                if problem and not self.options.skip_bad:
                    raise FewerError(f"{problem}\n({self.options.skipping})")
                if problem:
                    self.problems.append(problem)
                    self.summary.skipped += 1
                bar.advance()
        if not self.summary.utterances:
            raise FewerError(f"{self.source}: set {self.set.name} has no usable utterance{_listing(self.problems, 2)}")
        for split in self.splits:
            split.assign(self.summary.speakers)  # an error before anything is written if there are too few

    def _add(self, item: Utterance | str | Problem | Wordless) -> Problem | None:
        """Put a line on the table, or say what is wrong."""
        if isinstance(item, Problem):
            return item
        if isinstance(item, Utterance):
            return self._add_utterance(item)
        if isinstance(item, Wordless):
            self.summary.wordless += 1
        else:
            text = self.options.case.apply(item)
            self.table.add(f"{self.summary.utterances:012d}", "", text, "")
            self.summary.count(text)
        return None

    def _add_utterance(self, utterance: Utterance) -> Problem | None:
        made = make_cut(utterance, self.options.resample)
        if isinstance(made, Problem):
            return made
        if not self.any_rate and (problem := self._wrong_rate(made.rate, utterance.audio)):
            return problem
        text = self.options.case.apply(utterance.text or "")
        made.cut.supervisions[0].text = None if utterance.text is None else text
        line = json.dumps(made.cut.to_dict(), ensure_ascii=False)
        if not self.table.add(utterance.id, utterance.speaker or "", text, line):
            return Problem(utterance.where, f"utterance {utterance.id} is there twice")
        self.first = self.first or (made.rate, utterance.audio)
        self.summary.count(text, made.cut.duration, utterance.speaker)
        self.summary.shortened += made.shortened
        return None

    def _wrong_rate(self, rate: int, audio: Path) -> Problem | None:
        if rate not in RATES:
            return Problem(str(audio), f"is sampled at {rate} Hz; ask for --resample 16000 (or 8000)")
        if self.first and self.first[0] != rate:
            other = f"{self.first[1]} of the same set at {self.first[0]} Hz"
            return Problem(
                str(audio), f"is sampled at {rate} Hz, but {other}; ask for --resample 16000 (or 8000) to mix them"
            )
        return None

    def write(self, create: Callable[[str], IO[str]]) -> list[SetSummary]:
        """Write the set's files, and those of its parts."""
        name = self.set.name
        if isinstance(self.set, SpeechSet):
            create(f"{name}.jsonl").writelines(f"{line}\n" for _, _, _, line in self.table)
            for suffix, lines in self.set.companions.items():
                create(f"{name}{suffix}").writelines(f"{line}\n" for line in lines())
        if isinstance(self.set, TextSet) or self.options.text:
            create(f"{name}.txt").writelines(f"{text}\n" for _, _, text, _ in self.table)
        if self.problems:
            create(f"{name}.skipped.txt").writelines(f"{problem}\n" for problem in self.problems)
            warn(f"{name}: skipped {len(self.problems)} bad entries{_listing(self.problems, SHOWN)}")
        return [self.summary, *(part for split in self.splits for part in self._write_parts(split, create))]

    def _write_parts(self, split: Split, create: Callable[[str], IO[str]]) -> list[SetSummary]:
        part_of = split.assign(self.summary.speakers)
        summaries = {name: SetSummary(name) for name, _ in split.parts}
        files = {name: create(f"{name}.jsonl") for name in summaries}
        text_files = {name: create(f"{name}.txt") for name in summaries} if self.options.text else {}
        for _, speaker, text, line in self.table:
            if name := part_of.get(speaker):
                files[name].write(f"{line}\n")
                if name in text_files:
                    text_files[name].write(f"{text}\n")
                summaries[name].count(text, json.loads(line)["duration"], speaker)
        return list(summaries.values())


def _listing(problems: list[Problem], most: int) -> str:
    return ":\n" + first_of([f"  {problem}" for problem in problems], most) if problems else ""
