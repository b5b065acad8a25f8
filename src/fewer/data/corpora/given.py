"""Whatever a user gives as a set of utterances, as a manifest: the one place that tells what it is."""

import os
import shutil
import time
from contextlib import suppress
from itertools import islice
from pathlib import Path

from pydantic_core import from_json

from fewer.data.copies import fetched, is_remote
from fewer.data.corpora import CORPORA
from fewer.data.corpora.columns import Columns
from fewer.data.corpora.corpus import Source
from fewer.data.corpora.folder import found_in
from fewer.data.corpora.hugging_face import is_saved
from fewer.data.corpora.places import subfolders, walk
from fewer.data.corpora.prepare import PrepareOptions, prepare
from fewer.data.corpora.shar import is_shar
from fewer.data.corpora.table import read_table
from fewer.data.lines import read_lines
from fewer.data.media import AUDIO
from fewer.errors import FewerError
from fewer.files import check_output, fingerprint, locked, user_cache
from fewer.progress import say

UNUSED = 30 * 86_400  # seconds that a manifest in the cache is kept after its last use
BLANK = 1000  # empty lines at most before the first one that says what a file is
KINDS = {
    "table": "a table",
    "folder": "audio with transcripts beside it",
    "kaldi": "a Kaldi data directory",
    "datasets": "a Hugging Face dataset",
    "shar": "lhotse Shar",
}
ACCEPTED = (
    "a set is a manifest of `fewer prepare` or lhotse (.jsonl), a table (.csv, .tsv, NeMo's .jsonl), a folder of audio "
    "with .txt files beside it, a Kaldi data directory, a dataset of save_to_disk, or a folder of lhotse Shar"
)


def as_manifest(given: str | Path, transcripts: bool = True) -> Path:
    """The manifest itself, or one made of what was given, in the user's cache. Others there are removed when they were
    not used for a month.

    transcripts: every utterance needs one; else those that have none come without.
    """
    path = fetched(given) if is_remote(given) else Path(given)
    kind = kind_of_set(path)
    if kind == "manifest":
        return path
    folder = user_cache() / "sets" / fingerprint(str(path.resolve()))[:16]
    options = PrepareOptions(
        sets=(_only_set(kind, path),),
        transcribed=transcripts,
        skipping=f"`fewer prepare {kind} {given} OUT --skip-bad` lists such entries and leaves them out",
    )
    check_output(folder / "lock")
    _remove_unused(folder.parent)
    with locked(folder):  # several processes may be given the same set
        os.utime(folder / "lock")
        (made,) = prepare(kind, path, folder / "prepared", options)
        manifest, new = folder / f"{made.name}.jsonl", folder / "prepared" / f"{made.name}.jsonl"
        if not manifest.is_file() or fingerprint(manifest) != fingerprint(new):
            new.replace(manifest)  # one that is the same stays, with its index
    speakers = f", {len(made.speakers)} speakers" if made.speakers else ""
    say(f"{given}: {made.utterances} utterances, {made.seconds / 60:.1f} minutes{speakers} ({KINDS[kind]})")
    return manifest


def _remove_unused(sets: Path) -> None:
    """Remove sets that nobody has asked for lately; they are made again when somebody does."""
    for folder in sets.iterdir():
        with suppress(OSError):  # another process may remove it too
            if time.time() - (folder / "lock").stat().st_mtime > UNUSED:
                with locked(folder, wait=False) as alone:
                    if alone:
                        shutil.rmtree(folder)


def _only_set(kind: str, path: Path) -> str:
    """The name of the set; an error if there are several."""
    names = [one.name for one in CORPORA[kind].sets(Source(path.absolute(), given=str(path), transcribed=False))]
    if len(names) > 1:
        raise FewerError(f"{path} holds the sets {', '.join(names)}; give one of them, such as {path / names[0]}")
    return names[0]


def kind_of_set(path: Path) -> str:
    """manifest, or a name of CORPORA; an error that says what was found if it is none of them."""
    if path.is_dir():
        return _kind_of_folder(path)
    if not path.is_file():
        raise FewerError(
            f"there is no file or folder {path}; a dataset of the Hugging Face hub is first downloaded with "
            f"`fewer prepare datasets {path} OUT`"
        )
    if AUDIO.fullmatch(path.name):
        raise FewerError(
            f"{path} is one audio file; {ACCEPTED}. (`fewer transcribe {path}` transcribes a file without references)"
        )
    return _kind_of_file(path)


def _kind_of_folder(path: Path) -> str:
    if (path / "wav.scp").is_file() or any((one / "wav.scp").is_file() for one in subfolders(path)):
        return "kaldi"
    if is_shar(path):
        return "shar"
    if is_saved(path):
        return "datasets"
    if any(AUDIO.fullmatch(one.name) for one in walk(path)):
        return "folder"
    raise FewerError(f"{path} is no set of utterances: {found_in(path)}; {ACCEPTED}")


def _kind_of_file(path: Path) -> str:
    first = next((line for line in islice(read_lines(path), BLANK) if line.strip()), "")
    if not first:
        raise FewerError(f"{path} is empty, or begins with empty lines; {ACCEPTED}")
    if not first.lstrip().startswith("{"):
        names, where = read_table(path)[0], str(path)
    else:
        try:
            value = from_json(first)  # unlike the json module it limits nesting
        except ValueError as error:
            raise FewerError(f"{path}, line 1: not valid JSON ({error}); {ACCEPTED}") from error
        if str(value.get("type", "")).endswith("Cut"):
            return "manifest"
        if "fewer-nbest" in str(value.get("format")):
            raise FewerError(f"{path} is an N-best file of `fewer decode`; give the set that was decoded")
        if {"sources", "sampling_rate"} <= set(value):
            raise FewerError(
                f"{path} holds lhotse recordings without transcripts; join them with their supervisions: "
                f"`lhotse cut simple -r {path.name} -s supervisions.jsonl.gz cuts.jsonl.gz`"
            )
        if {"recording_id", "start"} <= set(value):
            raise FewerError(
                f"{path} holds lhotse supervisions without audio; join them with their recordings: "
                f"`lhotse cut simple -r recordings.jsonl.gz -s {path.name} cuts.jsonl.gz`"
            )
        names, where = list(value), f"{path}, line 1: not a lhotse cut; as a table it"
    Columns.guess(names, where, transcribed=False)  # an error if there is no audio
    return "table"
