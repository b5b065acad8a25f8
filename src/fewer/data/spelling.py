"""Text in the spelling of a recogniser's transcripts, so that it has the same words and labels."""

import re
import unicodedata
from collections.abc import Callable
from typing import Literal, get_args

from fewer.errors import FewerError

# none: as it is. librispeech: as LibriSpeech's transcripts; lines with digits become empty.
Case = Literal["none", "upper", "lower", "librispeech"]

TITLES = {"MR": "MISTER", "MRS": "MISSUS", "DR": "DOCTOR", "MESSRS": "MESSIEURS"}
ELIDED = {"TIS", "TWAS", "TWERE", "TWILL", "TWOULD", "EM", "TWIXT", "GAINST", "NEATH"}  # begin with an apostrophe


def fold_space(text: str) -> str:
    """Words separated by single blanks."""
    return " ".join(text.split())


def spell(case: Case) -> Callable[[str], str]:
    """What changes a line."""
    functions: dict[str, Callable[[str], str]] = {"none": str, "upper": str.upper, "lower": str.lower}
    return functions.get(case, librispeech_text)


def check_case(case: str) -> Case:
    """A case by the name that users give it."""
    for known in get_args(Case):
        if case == known:
            return known
    raise FewerError(f"case: {case!r}; it is one of {', '.join(get_args(Case))}")


def capitals(text: str) -> str:
    """Upper case; accents go, every other sign but the apostrophe becomes a blank."""
    text = text.upper()
    if not text.isascii():
        text = unicodedata.normalize("NFKD", re.sub("[’‘ʼ`´]", "'", text))
        text = "".join(sign for sign in text if not unicodedata.combining(sign)).replace("ʼ", "'").upper()
    words = re.sub(r"[^A-Z']", " ", text.replace("`", "'")).split()
    return " ".join(word for word in words if word.strip("'"))


def librispeech_text(text: str) -> str:
    """`capitals` for printed text: titles are written out, quotation marks go; nothing is left if there are digits.

    How digits are read is not known, and without them a sentence is not one.
    """
    if any(sign.isdigit() for sign in text):
        return ""
    words = [unquoted(word) for word in capitals(text).split()]
    return " ".join(TITLES.get(word, word) for word in words)


def unquoted(word: str) -> str:
    """Without apostrophes that are quotation marks rather than part of the word."""
    bare = word.strip("'")
    before = "'" if word.startswith("'") and bare in ELIDED else ""
    after = "'" if word.endswith("'") and bare.endswith("S") and not word.startswith("'") else ""
    return before + bare + after
