"""How each corpus's transcripts become plain words.

LibriSpeech, speechocean762, Kaldi: as they are (LibriSpeech: upper case without punctuation); white space is folded.

Switchboard (MS-State): lower case. [silence], [noise], [vocalized-noise], [laughter] and the marks of asides go.
[laughter-story] is "story"; a mispronounced [it'n/isn't] is what was said, "it'n"; a coined {yuppiedom} is the word;
them_1 is "them". A partial word keeps what was said, with a dash where it breaks: ab[solute]- is "ab-", -[an]y is "-y".

Fisher: spelled as Switchboard is. Lower case. [laughter], [noise], [mn], [[skip]], … and <foreign …> go; guesses in
(( )) stay. Letters a._b._c. are "a b c". Punctuation goes. A word that lost its head, 'cause, is "-cause".

Hub5, RT-03 (STM): lower case. Hesitations (%HESITATION, %UH) and the marks of asides go. Round brackets, which mark
words that scoring does not insist on, go, and the words stay. Of { one / another } the first stays. Letters lose dots.

TED-LIUM: parts of words are joined (it 's, don 't, o 'clock). <unk>, <sil>, {NOISE}, numbers of pronunciations such as
(2), and utterance names at the end go. So do the marks <s> and </s> of its text for language models.

In the telephone corpora, the spellings of one sound of assent (mhm, mm-hmm, um-hm, …) become "um-hum", and those of the
other (uhhuh) "uh-huh", as the MS-State transcripts spell them.
"""

import re
from collections.abc import Iterable
from enum import StrEnum

_ASSENT = re.compile(r"(?:m+|u+h?m+)-?h+u*m+")
_NON_SPEECH = re.compile(
    r"\[+(?:silence|noise|vocalized-noise|laughter|laugh|skip|pause|mn|sigh|cough|breath|lipsmack|sneeze)\]+"
)
_ASIDE = re.compile(r"<[be]_aside>")


class Case(StrEnum):
    """What becomes of upper and lower case."""

    KEEP = "keep"
    LOWER = "lower"
    UPPER = "upper"

    def apply(self, text: str) -> str:
        return text if self is Case.KEEP else text.lower() if self is Case.LOWER else text.upper()


def switchboard_text(text: str) -> str:
    """The words of a line of the MS-State transcripts; empty if nobody speaks."""
    text = _NON_SPEECH.sub(" ", _ASIDE.sub(" ", text.lower()))
    return _telephone_words(_switchboard_word(word) for word in text.split())


def _switchboard_word(word: str) -> str:
    word = re.sub(r"^\[laughter-(.+)\](-?)$", r"\1\2", word)
    word = re.sub(r"^\[(.+)/.+\](-?)$", r"\1\2", word)  # said/meant
    word = re.sub(r"^\{(.+)\}$", r"\1", word)
    word = re.sub(r"^-?\[[^][]*\](?=.)", "-", word)  # -[an]y
    word = re.sub(r"(?<=.)\[[^][]*\]-?$", "-", word)  # ab[solute]-
    word = re.sub(r"^([^][]+)\[.+\]$", r"\1-", word)  # ex[specially]-/especially], a slip
    word = re.sub(r"(?<=\w)\[[^][]*\](?=\w)", "-", word)  # ammu[n]ition
    word = re.sub(r"_\d+", "", word)
    return re.sub(r"[][{}<>]", "", word)


def fisher_text(text: str) -> str:
    """The words of one line of the Fisher transcripts; empty if nobody speaks."""
    text = _NON_SPEECH.sub(" ", re.sub(r"<[^>]*>", " ", text.lower()))
    text = _letters(text)
    text = re.sub(r"(?:^|(?<=\s))'(\S[^']*)'(?=\s|$)", r"\1", text)  # 'quoted words'
    text = re.sub(r"[^\w'\s-]|_", " ", text)
    return _telephone_words(re.sub(r"^'", "-", word) for word in text.split())


def stm_text(text: str) -> str:
    """The words of a scoring reference; may be empty."""
    text = _ASIDE.sub(" ", text.lower())
    text = re.sub(r"\{([^{}/]*)/[^{}]*\}", r" \1 ", text)  # { first / second }
    text = re.sub(r"[(){}]", " ", text)
    text = re.sub(r"(?:^|(?<=\s))[%@<]\S*|[][<>]", " ", text)
    return _telephone_words(_letters(text).split())


def tedlium_text(text: str) -> str:
    """The words of a TED-LIUM segment."""
    text = re.sub(r"\(\S*\)\s*$|\(\d+\)|<\w+>|\{\w+\}|\[\w+\]", " ", text)
    text = re.sub(r"(?<=\w) +'(s|re|ve|ll|d|m|t)\b", r"'\1", text)  # it 's, we 'll, don 't
    text = re.sub(r"\b(o|d|y(?= +'all)|ma(?= +'am)) +'(?=\w)", r"\1'", text)  # o 'clock, d 'etat, y 'all, ma 'am
    text = re.sub(r"(?<=s) +'(?=\s|$)", "'", text)  # the parents ' house
    text = re.sub(r"(?:^|(?<=\s))' +(?=\w)", "'", text)  # the ' 60s
    return _words(text.split())


def tedlium_lm_text(text: str) -> str:
    """The words of a line of TED-LIUM's LM text, spelled as its transcripts are; each line there ends in </s>."""
    return tedlium_text(re.sub(r"(?:^|(?<=\s))</?s>(?=\s|$)", " ", text))


def _letters(text: str) -> str:
    """Spelled letters without their dots: a._b._c.'s and t. v. are words of one letter each."""
    text = text.replace("._", " ")
    text = re.sub(r"\b(\w)\.'?s\b", r"\1's", text)
    return re.sub(r"\.(?=\s|$|')", "", text)


def _telephone_words(words: Iterable[str]) -> str:
    """Words with one spelling for each sound of assent."""
    return _words("um-hum" if _ASSENT.fullmatch(word) else "uh-huh" if word == "uhhuh" else word for word in words)


def _words(words: Iterable[str]) -> str:
    return " ".join(word for word in words if re.search(r"\w", word))
