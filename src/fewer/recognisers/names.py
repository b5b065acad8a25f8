"""Models by the names people know them by: `tiny.en` is openai/whisper-tiny.en on the Hugging Face hub."""

import difflib
from pathlib import Path

from fewer.config import shortened
from fewer.errors import FewerError

_OPENAI = ["tiny", "tiny.en", "base", "base.en", "small", "small.en", "medium", "medium.en"]
_OPENAI += ["large-v1", "large-v2", "large-v3", "large-v3-turbo"]
_DISTIL = ["small.en", "medium.en", "large-v2", "large-v3", "large-v3.5"]
SHORT_NAMES = {name: f"openai/whisper-{name}" for name in _OPENAI}
SHORT_NAMES |= {"large-v1": "openai/whisper-large", "large": "openai/whisper-large-v3"}
SHORT_NAMES |= {"turbo": "openai/whisper-large-v3-turbo"}
SHORT_NAMES |= {f"distil-{name}": f"distil-whisper/distil-{name}" for name in _DISTIL}


def full_name(source: str | Path) -> str | Path:
    """The hub's name of a short one; paths and the hub's names stay as they are. A folder of that name wins."""
    name = str(source)
    try:
        there = Path(name).expanduser().exists()
    except OSError as error:  # no file can have such a name
        raise FewerError(f"there is no model {shortened(name, 60)!r}: {error.strerror}") from error
    if there or "/" in name or "\\" in name:
        return source
    if name in SHORT_NAMES:
        return SHORT_NAMES[name]
    near = difflib.get_close_matches(name.lower().removeprefix("whisper-"), SHORT_NAMES, n=1)
    meant = f"; did you mean {near[0]}?" if near else ":"
    known = "" if near else f" give a folder, a name on the Hugging Face hub, or one of {', '.join(SHORT_NAMES)}"
    raise FewerError(
        f"there is no model {shortened(name, 60)!r}: it is neither a folder here nor a short name{meant}{known}"
    )
