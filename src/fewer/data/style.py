"""Text in the style that a recogniser writes.

Whisper writes cased, punctuated sentences without quotation marks, brackets, semicolons and the like. `WhisperStyle`
turns text of one case into that as well as can be told without a model: a capital at the start, names by the case that
they mostly have in cased text, a mark at the end; numbers stay as they are. Text that has case and marks keeps both.
In all text, what the model never writes is replaced or left out.

`PlainStyle` is for recognisers with a small vocabulary of their own: its letters' case, and no sign that it lacks.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fewer.data.spelling import fold_space

Style = Callable[[str], str]

WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
SENTENCE_END = re.compile(r"[.?!][\"')\]]*$")
TYPOGRAPHY = str.maketrans(
    {"’": "'", "‘": "'", "ʼ": "'", "´": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"'}
    | {"—": " -- ", "–": " -- ", "―": " -- ", "…": "...", "\u00a0": " ", "\u00ad": ""}
)
INSTEAD = {";": ", ", ":": ", ", "--": ", ", "---": ", ", "@": " at ", "+": " plus ", "=": " equals "}  # else a blank
NAMES = """monday tuesday wednesday thursday friday saturday sunday january february april june july august september
october november december england france germany europe america london paris english french german american british
christmas god i i'm i'll i've i'd"""
TITLES = {"mister": "Mr.", "mr": "Mr.", "missus": "Mrs.", "mrs": "Mrs.", "messrs": "Messrs."}
ENGLISH = {word: word.capitalize() for word in NAMES.split()} | TITLES
QUESTION = re.compile(
    r"(?:and |but |so |well )?(?:(?:who|what|which|where|when|why|how)\b.{0,20}? )?"
    r"(?:do|does|did|is|are|was|am|can|could|will|would|have|has|shall)(?:n't| not)? "
    r"(?:i|you|he|she|it|we|they|there|this|that)\b",
    re.IGNORECASE,
)
SAMPLE = 2000  # lines that tell how a text looks
LEARNT = 500_000  # lines that names are learnt from


@dataclass(frozen=True)
class Look:
    """How a text is written."""

    cased: bool  # most lines have letters of both cases
    punctuated: bool  # many lines end in a mark

    @classmethod
    def of(cls, lines: Iterable[str]) -> "Look":
        several = [line for line in lines if len(line.split()) > 2]
        cased = sum(not _is_uniform(line) for line in several)
        marked = sum(bool(SENTENCE_END.search(line.rstrip())) for line in several)
        return cls(2 * cased > len(several), 4 * marked > len(several))


def learn_casing(lines: Iterable[str]) -> dict[str, str]:
    """The form that each word mostly has inside cased sentences, for words that are not mostly in lower case."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for line in lines:
        if _is_uniform(line):
            continue
        first = True
        for part in line.translate(TYPOGRAPHY).split():
            for word in WORD.findall(part):
                word = _without_s(word)[0]
                if not first and word != "I":
                    counts[word.lower()][word] += 1
                first = False
            first = bool(SENTENCE_END.search(part)) or part.endswith(":") or '"' in part
    return {word: form for word, forms in counts.items() if (form := _most(forms)) != word}


class WhisperStyle:
    """Changes a line of a text with a given look."""

    def __init__(
        self,
        look: Look,
        never: Collection[str] = (),
        casing: Mapping[str, str] | None = None,
        english: bool = True,
    ):
        """never: what the recogniser never writes, with a blank before it if only then. casing: see `learn_casing`."""
        self.look, self.english = look, english
        self.casing = {**(ENGLISH if english else {}), **(casing or {})}
        everywhere = {text for text in never if text.strip() and not text.startswith(" ")}
        self.never = frozenset(everywhere)
        self.never_pattern = _any_of(everywhere)
        self.never_first = _any_of({text.strip() for text in never if text.startswith(" ")} - everywhere, r"(?<!\S)")

    def __call__(self, line: str) -> str:
        line = self._written(line)
        if not any(sign.isalnum() for sign in line):
            return ""
        has_case = line.lower() != line.upper()
        shouted = _is_uniform(line) and line == line.upper() and len(line.split()) > 1
        plain = has_case and _is_uniform(line) and (not self.look.cased or shouted)
        if plain:
            line = self._cased(line)
        if has_case and (plain or not self.look.punctuated):
            line = self._ended(line)
        return line

    def _written(self, line: str) -> str:
        """Without what is never written."""
        line = unicodedata.normalize("NFC", line).translate(TYPOGRAPHY)
        if not line.isprintable():
            line = "".join(sign if sign.isprintable() else " " for sign in line)
        if "[" in self.never and "[" in line:  # notes, not speech
            line = re.sub(r"\[[^\]]*\]", " ", line)
        if self.never_pattern is not None:
            line = self.never_pattern.sub(self._instead, line)
        if self.never_first is not None:
            line = self.never_first.sub(" ", line)
            line = re.sub(r"(?<=[^\w\s])'(?!\w)", "", line)  # the other end of such a quotation
        line = re.sub(r"\s+([,.?!])", r"\1", fold_space(line))
        line = re.sub(r",[,\s]*(?=[,.?!])", "", line)
        line = re.sub(r"([.?!]),", r"\1", line)
        return re.sub(r",$", "." if self.look.punctuated else "", line.lstrip(",.?! "))

    def _instead(self, match: re.Match[str]) -> str:
        text, (begin, end) = match[0], match.span()
        if text == ":" and match.string[begin - 1 : begin].isdigit() and match.string[end : end + 1].isdigit():
            return "."
        instead = INSTEAD.get(text, " ")
        return " " if any(sign in self.never for sign in instead) else instead

    def _cased(self, line: str) -> str:
        """A line of one case as sentences."""
        words, first = [], True
        for part in line.lower().split():
            cased = WORD.sub(lambda match: self._word(match[0]), part)
            if cased.endswith("..") and not part.endswith(".."):  # an abbreviation that had its point
                cased = cased[:-1]
            words.append(_capital(cased) if first else cased)
            first = bool(SENTENCE_END.search(cased))  # or behind a title
        return " ".join(words)

    def _word(self, word: str) -> str:
        if word in self.casing:
            return self.casing[word]
        base, ending = _without_s(word)
        return self.casing.get(base, base) + ending

    def _ended(self, line: str) -> str:
        if re.search(r"[.?!,]$", line):
            return line
        return line + ("?" if self.english and QUESTION.match(line) and "?" not in self.never else ".")


class PlainStyle:
    """The case that a vocabulary has, if it has one alone, without signs that none of its labels has."""

    def __init__(self, labels: Sequence[str], words: bool = False):
        """words: labels are whole words, so signs cannot be looked up among them."""
        letters = "".join(labels[1:])
        lower, upper = letters != letters.upper(), letters != letters.lower()
        self.change: Callable[[str], str] = (
            str.lower if lower and not upper else str.upper if upper and not lower else str
        )
        self.signs = None if words else set(letters) | {" "}

    def __call__(self, line: str) -> str:
        line = self.change(unicodedata.normalize("NFC", line).translate(TYPOGRAPHY))
        if self.signs is None:
            return fold_space(line)
        return fold_space("".join(sign if sign in self.signs else "" if sign == "'" else " " for sign in line))


def _any_of(texts: Collection[str], before: str = "") -> re.Pattern[str] | None:
    longest_first = sorted(texts, key=lambda text: (-len(text), text))
    return re.compile(before + "(?:" + "|".join(map(re.escape, longest_first)) + ")") if texts else None


def _is_uniform(line: str) -> bool:
    """Whether all letters are of one case (but for a lone I, which is always a capital)."""
    return line == line.upper() or re.sub(r"\bI\b", "i", line) == line.lower()


def _most(forms: Counter[str]) -> str:
    return max(sorted(forms), key=lambda form: forms[form])


def _without_s(word: str) -> tuple[str, str]:
    return (word[:-2], word[-2:]) if word[-2:].lower() == "'s" else (word, "")


def _capital(word: str) -> str:
    place = next((i for i, sign in enumerate(word) if sign.isalnum()), 0)
    return word[:place] + word[place].upper() + word[place + 1 :]
