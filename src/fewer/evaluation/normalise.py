"""What texts must share before their words are compared.

none          words as they are
librispeech   upper case, letters and apostrophes alone, as LibriSpeech's transcripts are
english       the English normaliser of the Whisper paper (appendix C), by the Hugging Face transformers library;
              english:PATH adds Whisper's table of British and American spellings, a normalizer.json or its folder
basic         lower case, every sign but letters and digits becomes a blank: that paper's for all other languages
glm:PATH      NIST's mapping file for Hub5 and RT-03 (see glm.py)
"""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fewer.data.spelling import capitals, fold_space
from fewer.errors import FewerError
from fewer.evaluation.glm import Glm
from fewer.files import read_json

Function = Callable[[str], str]
BRACKETS = re.compile(r"[<\[][^>\]]*[>\]]|\([^)]+?\)")


@dataclass(frozen=True)
class Normaliser:
    """How references and hypotheses are made comparable."""

    name: str
    ref: Function
    hyp: Function
    by_word: bool = True  # words with times are normalised one by one, as csrfilt does; False: needs the whole text
    glm: bool = False  # made for NIST's telephone sets, which hubscr scores


def load_normaliser(name: str) -> Normaliser:
    """A normaliser by the name that users give it."""
    kind, colon, path = name.partition(":")
    if kind == "none" and not colon:
        return Normaliser(name, fold_space, fold_space)
    if kind == "librispeech" and not colon:
        return Normaliser(name, capitals, capitals)
    if kind == "basic" and not colon:
        return Normaliser(name, basic, basic)
    if kind == "english" and (path or not colon):
        function = english(Path(path) if path else None)
        return Normaliser(name, function, function, by_word=False)
    if kind == "glm" and path:
        glm = Glm(path)
        return Normaliser(name, lambda text: glm(text, "ref"), lambda text: glm(text, "hyp"), glm=True)
    raise FewerError(
        f"unknown normaliser '{name}': there are none, librispeech, basic, english, english:PATH and glm:PATH"
    )


def basic(text: str) -> str:
    """Lower case, without marks and symbols; what stands in brackets is not spoken."""
    text = BRACKETS.sub("", text.lower())
    return fold_space(unicodedata.normalize("NFKC", text).translate(_BLANKS))


class _Blanks(dict[int, str]):
    """A blank for each mark and symbol, else the sign itself; looked up once."""

    def __missing__(self, code: int) -> str:
        sign = chr(code)
        self[code] = " " if unicodedata.category(sign)[0] in "MSP" else sign
        return self[code]


_BLANKS = _Blanks()


def english(spellings: Path | None = None) -> Function:
    """Whisper's English normaliser. Without its table of spellings, British and American ones stay different words."""
    try:
        from transformers.models.whisper.english_normalizer import EnglishTextNormalizer
    except ImportError as error:
        raise FewerError(
            "the english normaliser needs Hugging Face transformers: pip install 'fewer[hf]', or use another normaliser"
        ) from error
    table = {}
    if spellings is not None:
        file = spellings / "normalizer.json" if spellings.is_dir() else spellings
        table = read_json(file)
        if not isinstance(table, dict) or not all(isinstance(word, str) for word in table.values()):
            raise FewerError(f"{file}: expected a JSON object of spellings, such as Whisper's normalizer.json")
    normalise = EnglishTextNormalizer(table)
    return lambda text: fold_space(normalise(text))
