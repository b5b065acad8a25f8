"""Tables of audio files and transcripts: CSV, TSV (Common Voice, fairseq's kind with a header), JSON lines (NeMo)."""

import csv
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

from pydantic_core import from_json

from fewer.data.corpora.columns import Columns, FreshIds, known_name
from fewer.data.corpora.corpus import Items, Problem, Source, SpeechSet
from fewer.data.corpora.places import first_file
from fewer.data.corpora.stored_audio import StoredAudio
from fewer.data.lines import read_lines
from fewer.errors import FewerError
from fewer.progress import say

DELIMITERS = "\t,;|"
FOLDERS = ("", "clips", "audio", "wav", "wavs", "..")  # where files may be that a table names, from its own folder
ENDINGS = ("", ".wav", ".flac", ".mp3")  # that names of files may lack

Row = dict[str, object]


def sets(source: Source) -> list[SpeechSet]:
    return [SpeechSet(_stem(source.folder), partial(_read, source))]


def _read(source: Source) -> Items:
    path = source.folder
    names, rows = read_table(path)
    columns = Columns.guess(names, str(path), source.transcribed)
    say(f"{source.given}: {columns}")
    store, ids = StoredAudio(source.audio), FreshIds()
    for number, row in rows:
        where = f"{path}, line {number}"
        if isinstance(row, str):
            yield Problem(where, row)
            continue
        given = str(row.get(columns.audio) or "").strip()
        if not given:
            yield Problem(where, f"column {columns.audio!r} names no audio file")
            continue
        audio = find_audio(given, path.parent)
        item = columns.utterance(
            row, where, audio, partial(ids.make, Path(given).stem, number), _stem(path), source.transcribed
        )
        if not isinstance(item, Problem) and item.channel is None:
            item = replace(item, audio=store.one_channel(audio))
        yield item


def _stem(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).stem


def find_audio(name: str, folder: Path) -> Path:
    """The file that a table means; if there is none, where it should be."""
    places = [*(folder / place for place in FOLDERS), Path.cwd()]
    found = (first_file(name + ending, places) for ending in ENDINGS)
    return next((path for path in found if path is not None), folder / name)


def read_table(path: Path) -> tuple[list[str], Iterator[tuple[int, Row | str]]]:
    """Names of the columns, and the rows with their line numbers; a row that cannot be used is what is wrong."""
    first = next((line for line in read_lines(path) if line.strip()), None)
    if first is None:
        raise FewerError(f"{path} is empty; a table has a line for each utterance")
    if first.lstrip().startswith("{"):
        row = _parse_json(first)
        if isinstance(row, str):
            raise FewerError(f"{path}, line 1: {row}")
        return list(row), _json_rows(path)
    if first.lstrip().startswith("["):
        raise FewerError(f"{path} is a JSON list; write one JSON object per line (JSON lines)")
    delimiter = _delimiter(first, path.parent)
    if delimiter is None:
        raise FewerError(f"{path}, line 1: a table has columns, separated by tabs or commas; found {first!r:.80}")
    names = next(_fields(path, delimiter))[1]
    if not _is_header(names, path):
        names = _names_of(names, path)
        return names, _rows(path, delimiter, names, 0)
    return names, _rows(path, delimiter, names, 1)


def _delimiter(first: str, folder: Path) -> str | None:
    """What separates columns: between known names or a file and something else, else what is there most often."""
    there = [delimiter for delimiter in DELIMITERS if delimiter in first]
    telling = [delimiter for delimiter in there if _tells(first.split(delimiter), folder)]
    return max(telling or there, key=first.count, default=None)


def _tells(fields: list[str], folder: Path) -> bool:
    """Whether some of the fields are names of columns, or audio files."""
    cleaned = [_unquoted(field.strip()).strip() for field in fields]
    return any(known_name(field) for field in cleaned) or _audio_files(cleaned, folder)


def _audio_files(fields: list[str], folder: Path) -> bool:
    return any(find_audio(field, folder).is_file() for field in fields if field)


def _json_rows(path: Path) -> Iterator[tuple[int, Row | str]]:
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            yield number, _parse_json(line)


def _parse_json(line: str) -> Row | str:
    try:
        value = from_json(line)  # unlike the json module it limits nesting
    except ValueError as error:
        return f"not valid JSON ({error})"
    return value if isinstance(value, dict) else "not a JSON object"


def _fields(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The fields of each row. Tabs and bars separate, whatever is quoted; commas may stand in quoted fields."""
    plain = delimiter in "\t|"
    lines = (f"{line}\n" for line in read_lines(path))
    reader = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE if plain else csv.QUOTE_MINIMAL, strict=True)
    try:
        for fields in reader:
            if any(field.strip() for field in fields):
                yield reader.line_num, [_unquoted(field) if plain else field for field in fields]
    except csv.Error as error:
        raise FewerError(f"{path}, line {reader.line_num}: {error}; is a quotation mark missing?") from error


def _unquoted(field: str) -> str:
    """A field that a spreadsheet has quoted: "a ""b"" c" is a "b" c."""
    inner = field[1:-1]
    if len(field) > 1 and field[0] == field[-1] == '"' and '"' not in inner.replace('""', ""):
        return inner.replace('""', '"')
    return field


def _rows(path: Path, delimiter: str, names: list[str], skipped: int) -> Iterator[tuple[int, Row | str]]:
    for number, fields in islice(_fields(path, delimiter), skipped, None):
        if len(fields) != len(names):
            yield number, f"the line has {len(fields)} fields, but the table {len(names)} columns"
        else:
            yield number, dict(zip(names, fields, strict=True))


def _is_header(names: list[str], path: Path) -> bool:
    """Whether the first row names columns; else one of its fields is an audio file."""
    return any(known_name(name) for name in names) or not _audio_files([name.strip() for name in names], path.parent)


def _names_of(first: list[str], path: Path) -> list[str]:
    """Names for the two columns of a table without a header."""
    audio = [find_audio(field.strip(), path.parent).is_file() for field in first]
    if len(first) != 2:
        raise FewerError(
            f"{path} has {len(first)} columns and no header; write a first line with names, such as audio and text"
        )
    return ["audio", "text"] if audio[0] else ["text", "audio"]
