"""A bundle: what `fewer adapt` found out about a recogniser, in one folder that decoding and transcribing load.

bundle.json   format, the base model's and its tokenizer's fingerprints, scales, length and end-label policy, results
lm…           the language model: an n-gram file, or a folder (of `fewer train`, or of transformers)
ilm/          the internal language model, as `fewer ilm` writes it
words.txt     hotwords with their weights

bundle.json has the SHA-256 of every other file, so that a damaged or changed file is found when it is loaded. A bundle
of a stranger can name no file outside of itself, except the base model, which is known by its fingerprint.

The base model itself is not in it: it is loaded from where it was, or from where the user says it is now.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from fewer.compute.device import CPU, Placement
from fewer.config import Config, parse_config
from fewer.decoding.system import System, load_system
from fewer.errors import FewerError
from fewer.files import read_json, write_json
from fewer.progress import warn
from fewer.recognisers.loader import BUNDLE as FACTS
from fewer.recognisers.loader import load_recogniser
from fewer.recognisers.recogniser import Recogniser
from fewer.search.beam import SearchOptions
from fewer.search.fusion import Fusion, signed
from fewer.search.nbest import LengthPolicy

NAME, VERSION = "fewer-bundle", 2
PLAIN = re.compile(r"\w[\w.-]{0,100}", re.ASCII)  # no path leads out of the bundle
Scale = Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False)]
KEPT = (".safetensors", ".json", ".yaml", ".arpa", ".arpa.gz", ".txt", ".model")  # kinds of files that are copied


class Base(Config):
    """The recogniser that a bundle belongs to."""

    source: str  # where it was: a folder, or a name on the Hugging Face hub
    fingerprint: str  # of its weights, tokenizer and prompt
    tokenizer: str  # fingerprint of its tokenizer


class Length(Config):
    """As `LengthPolicy`."""

    exponent: float = Field(default=1.0, ge=-100, le=100)
    reward: Scale = 0.0


class BundleFacts(Config):
    """What bundle.json says."""

    format: str = f"{NAME}/{VERSION}"
    made_with: str = ""  # version of fewer
    base: Base
    language: str | None = None  # what is spoken, for a multilingual Whisper
    task: str = "transcribe"
    method: str  # none, sf, or that of the internal LM
    scales: dict[str, Scale]  # term -> what its score is multiplied by; negative for what is subtracted
    length: Length = Length()
    end_scored_by: tuple[str, ...] | None = None  # terms that score the end label; None: the recogniser's own default
    centred: bool | None = None  # the LMs are, so that length is not paid for; None: the recogniser's own default
    share: float = Field(default=0.0, ge=0, lt=1)  # of the LM, where it is mixed with the ILM; 0: it is not
    beam: int = Field(default=5, ge=1, le=1000)
    lm: str | None = None  # file or folder in the bundle
    ilm: str | None = None  # folder in the bundle
    words: str | None = None  # file in the bundle
    checksums: dict[str, str] | None = None  # file in the bundle, such as "ilm/ilm.json" -> its SHA-256
    text: dict[str, Any] = Field(default={})  # what the LM was made of
    dev: dict[str, Any] | None = None  # results on the dev set
    general: dict[str, Any] | None = None  # results on the general set

    @field_validator("lm", "ilm", "words")
    @classmethod
    def _inside(cls, name: str | None) -> str | None:
        if name is not None and not PLAIN.fullmatch(name):
            raise ValueError("a file of the bundle has a plain name")
        return name

    @model_validator(mode="after")
    def _ends(self) -> "BundleFacts":
        if self.end_scored_by is not None and not {"aed", *self.scales}.intersection(self.end_scored_by):
            raise ValueError("end_scored_by names none of the terms, which are aed and those of scales")
        return self

    @property
    def length_policy(self) -> LengthPolicy:
        return LengthPolicy(self.length.exponent, self.length.reward)


@dataclass(frozen=True)
class Bundle:
    """A bundle with its base model, ready for a search."""

    folder: Path
    facts: BundleFacts
    system: System  # recogniser, and those models whose scale is not 0

    @property
    def recogniser(self) -> Recogniser:
        return self.system.recogniser

    @property
    def scales(self) -> dict[str, float]:
        """Of the terms that take part."""
        return {term: scale for term, scale in self.facts.scales.items() if scale}

    @property
    def length(self) -> LengthPolicy:
        return self.facts.length_policy

    @property
    def options(self) -> SearchOptions:
        return SearchOptions(self.facts.beam, self.length)

    def fusion(self) -> Fusion:
        """The search's score."""
        return self.system.fusion(self.scales)


def read_bundle(folder: str | Path) -> BundleFacts:
    """What bundle.json says; an error if this version of fewer cannot read it."""
    path = Path(folder).expanduser() / FACTS
    if not path.is_file():
        raise FewerError(f"{folder} is not a bundle of `fewer adapt`: it has no {FACTS}")
    value = read_json(path)
    name, _, version = str(value.get("format") if isinstance(value, dict) else None).partition("/")
    if name != NAME or not version.isdigit():
        raise FewerError(f"{path} is not a {NAME} file; is it complete?")
    if int(version) > VERSION:
        raise FewerError(
            f"{path}: format {name}/{version}, but this version of fewer reads {VERSION}; install a newer one"
        )
    return parse_config(BundleFacts, value, path)


def load_bundle(
    folder: str | Path,
    base: str | Path | Recogniser | None = None,
    scales: Mapping[str, float] | None = None,
    instead: Mapping[str, str | Path] | None = None,
    end_by: Sequence[str] | None = None,
    placement: Placement = CPU,
) -> Bundle:
    """A bundle with its base model: `base` if given (loaded or not), else from where it was when it was adapted.

    What is given overrides the bundle: scales by term, sources of LM, ILM and hotwords by term (`instead`), and the
    terms that score the end label. placement: of a base model that is not loaded.
    """
    folder = Path(folder).expanduser()
    facts = read_bundle(folder)
    recogniser = (
        base if base is not None and not isinstance(base, str | Path) else _load_base(folder, facts, base, placement)
    )
    if facts.checksums is None:
        warn(f"{folder / FACTS}: {facts.format} has no checksums, so damage is not noticed; adapt again to add them")
    usual = signed(recogniser.defaults.scales(instead or ()))
    usual = {term: scale for term, scale in usual.items() if not facts.scales.get(term)}
    facts = facts.model_copy(update={"scales": facts.scales | usual | dict(scales or {})})
    where = f"{folder / FACTS}: it was made for {facts.base.source}"
    if recogniser.tokenizer.fingerprint != facts.base.tokenizer:
        raise FewerError(f"{where}, whose tokenizer is another one than that of the model given; give that model")
    if recogniser.fingerprint != facts.base.fingerprint:
        raise FewerError(
            f"{where}, whose weights (or language and task) are not those of the model given; "
            "give that model, or adapt this one with `fewer adapt`"
        )
    parts = {"lm": facts.lm, "ilm": facts.ilm, "words": facts.words}
    own: dict[str, str | Path] = {term: folder / name for term, name in parts.items() if name is not None}
    used = {term: source for term, source in (own | dict(instead or {})).items() if facts.scales.get(term)}
    for term, scale in facts.scales.items():
        if scale and term not in used:
            raise FewerError(f"{folder / FACTS}: '{term}' has the scale {scale:g}, but the bundle has no such model")
    for path in used.values():
        if path not in own.values():  # given in place of the bundle's
            continue
        if not Path(path).exists():
            raise FewerError(f"{folder} is not complete: {Path(path).name} of {FACTS} is missing; copy all of it")
        check_part(folder, Path(path), facts.checksums)
    models = (used.get("lm"), used.get("ilm"))
    policy: dict[str, Any] = {"end_scored_by": facts.end_scored_by if end_by is None else end_by}
    policy |= {"centred": facts.centred, "share": facts.share}
    system = load_system(recogniser, *models, words=used.get("words"), **policy)
    system.names["model"] = str(folder)
    return Bundle(folder, facts, system)


def check_part(folder: Path, part: Path, checksums: Mapping[str, str] | None) -> None:
    """An error unless a file or folder of a bundle holds exactly the files that were written, and no links."""
    files = sorted(part.rglob("*")) if part.is_dir() else [part]
    links = [path for path in (part, *files) if path.is_symlink()]
    if links:
        raise FewerError(f"{links[0]} is a link; the files of a bundle must be in its folder")
    if checksums is None:  # a bundle of an older version
        return
    found = {path.relative_to(folder).as_posix(): path for path in files if not path.is_dir()}
    expected = {name for name in checksums if name == part.name or name.startswith(f"{part.name}/")}
    if missing := sorted(expected - found.keys()):
        raise FewerError(f"{folder} is not complete: {missing[0]} is missing; copy the whole folder")
    for name, path in found.items():
        if name not in expected:
            raise FewerError(f"{path} is not a file that {folder / FACTS} lists; remove it, or adapt again")
        if not path.is_file() or _checksum(path) != checksums[name]:
            raise FewerError(f"{path} is damaged or was changed after `fewer adapt`; copy the bundle again")


def _checksum(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _load_base(folder: Path, facts: BundleFacts, base: str | Path | None, placement: Placement) -> Recogniser:
    source = facts.base.source if base is None else base
    if base is None and Path(source).is_absolute() and not Path(source).exists():
        raise FewerError(f"{folder} was made for {source}, which is not there any more; say where it is now (--base)")
    try:
        return load_recogniser(source, facts.language, facts.task, placement=placement)
    except FewerError as error:
        if base is not None:
            raise
        raise FewerError(f"{folder / FACTS} names a base model: {error}") from error


def write_bundle(
    out: str | Path, facts: BundleFacts, parts: Mapping[str, Path], temporary: Path | None = None
) -> BundleFacts:
    """Write the folder, complete or not at all, and return what it says.

    parts: what the bundle names, and where those files and folders are. temporary: the folder's name until it is
    complete, on the same disk.
    """
    out = Path(out)
    refuse_existing(out)
    temporary = temporary or out.with_name(f".{out.name}.tmp{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        for name, source in parts.items():
            _copy(source, temporary / name)
        files = [path for path in sorted(temporary.rglob("*")) if path.is_file()]
        checksums = {path.relative_to(temporary).as_posix(): _checksum(path) for path in files}
        facts = facts.model_copy(update={"checksums": checksums})
        write_json(temporary / FACTS, facts.model_dump(mode="json"))
        os.rename(temporary, out)
        return facts
    except OSError as error:
        raise FewerError(f"cannot write {out}: {error.strerror or error}; is the disk full or read-only?") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def refuse_existing(out: str | Path) -> None:
    """A bundle is never written over anything."""
    if Path(out).exists():
        raise FewerError(f"{out} is there already; give another folder, or remove it first")


def _copy(source: Path, target: Path) -> None:
    """A file, or a folder's files of the kinds that models consist of, and those of its folder `lm`."""
    if source.is_file():
        shutil.copyfile(source, target)
        return
    if not source.is_dir():
        raise FewerError(f"{source} is neither a file nor a folder, so it cannot be copied; save it to a file")
    target.mkdir()
    for path in sorted(source.iterdir()):
        if path.is_symlink() and not path.resolve().is_relative_to(source.resolve()):
            raise FewerError(f"{path} is a link to a file elsewhere, which is not copied into a bundle; copy it there")
        if path.is_file() and path.name.endswith(KEPT):
            shutil.copyfile(path, target / path.name)
        elif path.name == "lm" and path.is_dir():
            _copy(path, target / path.name)
