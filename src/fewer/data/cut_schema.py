"""What a line of a manifest may say: a lhotse cut whose audio is in a file or at a URL.

lhotse would also run the commands of a manifest (sources of type `command`, URLs that begin with `pipe:`). Manifests
come from other people, so these are refused here, when the manifest is read for the first time.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fewer.config import complaint
from fewer.data.limits import (
    HIGHEST_RATE,
    LATEST,
    LONGEST_CUT,
    LONGEST_NAME,
    LOWEST_RATE,
    MOST_CHANNELS,
    MOST_SAMPLES,
)

URL_SCHEMES = ("http", "https", "s3", "gs")
TRANSFORMS = ("Resample", "Speed", "Volume")  # of a recording; others may read further files
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
Channel = Annotated[int, Field(ge=0, lt=1 << 16)]
Rate = Annotated[int, Field(ge=LOWEST_RATE, le=HIGHEST_RATE)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False, defer_build=True)  # prepared when first used


class Source(_Strict):
    """Where audio is."""

    type: str
    channels: list[Channel] = Field(min_length=1, max_length=MOST_CHANNELS)
    source: Name

    @model_validator(mode="after")
    def _harmless(self) -> "Source":
        if problem := source_problem(self.type, self.source):
            raise ValueError(problem)
        return self


class Transform(_Strict):  # type: ignore[no-redef]
    """A change that lhotse makes to the audio."""

    name: Literal["Resample", "Speed", "Volume"]
    options: dict[str, Annotated[float, Field(gt=0, le=HIGHEST_RATE)]] = Field(alias="kwargs")


class Recording(_Strict):
    id: str
    sources: list[Source] = Field(min_length=1, max_length=MOST_CHANNELS)
    sampling_rate: Rate
    num_samples: int = Field(gt=0, le=MOST_SAMPLES)
    duration: float = Field(gt=0, le=LATEST)
    transforms: list[Transform] | None = Field(default=None, max_length=8)


class Supervision(_Strict):
    text: str | None = None
    speaker: str | None = None
    custom: dict[str, Any] | None = None


class ManifestCut(_Strict):
    """One line."""

    type: Literal["MonoCut", "MultiCut"]
    id: Name
    start: float = Field(default=0.0, ge=0, le=LATEST)
    duration: float = Field(gt=0, le=LONGEST_CUT)
    channel: Channel | list[Channel] = 0
    supervisions: list[Supervision] | None = None
    recording: Recording | None = None
    custom: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        """The transcript, empty if there is none."""
        return (self.supervisions[0].text or "") if self.supervisions else ""

    @property
    def subset(self) -> str | None:
        """What `custom["subset"]` of the cut or of its supervision says."""
        for custom in (self.custom, *(part.custom for part in self.supervisions or ())):
            if custom is not None and "subset" in custom:
                return str(custom["subset"])
        return None


class _Named(BaseModel):
    id: str


def source_problem(kind: str, source: object) -> str | None:
    """Why audio must not be read from such a source; None if it may be."""
    if kind == "file" or (kind == "memory" and isinstance(source, bytes)):
        return None
    if kind != "url":
        return f"audio of type '{kind[:20]}' is not read, because it may run commands; convert the audio to files"
    scheme, colon, _ = str(source).partition("://")
    if not colon or scheme.lower() not in URL_SCHEMES:
        return f"a URL must begin with {', '.join(f'{name}://' for name in URL_SCHEMES)}; download the audio to files"
    return None


def check_line(line: bytes, transcripts: bool) -> ManifestCut | str:
    """The cut of a manifest's line, or what is wrong with it. transcripts: it needs one supervision with text."""
    try:
        cut = ManifestCut.model_validate_json(line)
    except ValidationError as error:
        return _problem(error.errors()[0])
    supervisions = cut.supervisions or []
    if len(supervisions) > 1 or (transcripts and not supervisions):
        return f"{len(supervisions)} supervisions instead of one"
    if transcripts and not cut.text.strip():
        return "the transcript is empty"
    return cut


def line_id(line: bytes) -> str | None:
    """The id of a line that cannot be used, if it has one."""
    try:
        return _Named.model_validate_json(line).id[:LONGEST_NAME] or None
    except ValidationError:
        return None


def _problem(item: Any) -> str:
    if item["type"] == "json_invalid":
        return f"not valid JSON ({item['ctx']['error']})"
    if item["loc"] in ((), ("type",)):
        found = item["input"] if item["loc"] and isinstance(item["input"], str) else type(item["input"]).__name__
        return f"not a lhotse MonoCut or MultiCut (found {found[:40]})"
    if item["type"] == "source":
        return f"{'.'.join(map(str, item['loc']))}: {item['msg']}"
    return complaint(item)
