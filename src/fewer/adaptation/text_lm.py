"""From text, or from a language model that exists, to the language model of a bundle."""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from fewer.data.hotwords import read_terms
from fewer.data.style import LEARNT, SAMPLE, Look, PlainStyle, Style, learn_casing
from fewer.data.token_store import read_text
from fewer.errors import FewerError
from fewer.files import atomic_write, read_json, write_json
from fewer.progress import Bar, warn
from fewer.recognisers.recogniser import Recogniser
from fewer.store.lms import hugging_face, load_lm
from fewer.store.ngram_files import BINARY_SUFFIX, is_ngram_file, save_ngram
from fewer.store.word_ngram import WordNGram, read_word_lm, save_word_lm
from fewer.training.ngram_text import NGramConfig, ngram_of_texts

LARGE = 20_000_000  # labels of a text beyond which n-grams that occur but once are dropped


class Styles:
    """The style that a recogniser writes, for texts of any look."""

    def __init__(self, recogniser: Recogniser, cased: Iterable[Path] = (), words: Path | None = None):
        """cased: texts from which the case of names can be learnt, as far as they have case; words: hotwords."""
        self.recogniser, self.cased, self.words = recogniser, list(cased), words
        self._casing: dict[str, str] | None = None

    def of(self, text: Path) -> Style:
        """What changes the lines of a text."""
        look = Look.of(islice(read_text(text), SAMPLE))
        style = self.recogniser.style(look, lambda: self.casing)
        if not ((look.cased and look.punctuated) or isinstance(style, PlainStyle)):
            lacks = [name for name, there in (("case", look.cased), ("punctuation", look.punctuated)) if not there]
            warn(f"{text}: without {' and '.join(lacks)}; it is written as the recogniser would, as well as can be")
        return style

    @property
    def casing(self) -> dict[str, str]:
        """The case of names, from cased text and the hotwords."""
        if self._casing is None:
            lines = (line for text in self.cased for line in islice(read_text(text), LEARNT))
            self._casing = learn_casing(lines)
            for term in read_terms(self.words) if self.words is not None else ():
                for word in term.text.split():
                    if word not in (word.lower(), word.upper()) or " " in term.text:
                        self._casing.setdefault(word.lower(), word)
        return self._casing

    def write(self, texts: Sequence[Path], out: Path) -> int:
        """All texts in that style, one line after the other; returns the number of lines. An error if none is left."""
        lines = 0
        with atomic_write(out) as stream, Bar("reading text") as bar:
            for line in self._lines(texts):
                bar.advance()
                if line:
                    print(line, file=stream)
                    lines += 1
            if not lines:
                raise FewerError(f"there is no text in {', '.join(map(str, texts))}")
        return lines

    def _lines(self, texts: Sequence[Path]) -> Iterator[str]:
        for text in texts:
            yield from map(self.of(text), read_text(text))


def text_lm(
    texts: Sequence[Path], styles: Styles | None, recogniser: Recogniser, order: int, work: Path
) -> tuple[Path, dict[str, Any]]:
    """An n-gram over the recogniser's own labels, as a file, and what it is made of. Without styles, text stays."""
    out, tokenizer, done = work / f"lm{BINARY_SUFFIX}", recogniser.tokenizer, work / "lm.json"
    if done.exists():
        return out, read_json(done)
    styled: Sequence[Path] = texts
    facts: dict[str, Any] = {"files": [path.name for path in texts], "order": order}
    if styles is not None:
        styled = [work / "text.txt"]
        facts["lines"] = styles.write(texts, styled[0])
    size = sum(path.stat().st_size for path in styled)
    prune = (0, 0, 1, 1) if size > 4 * LARGE else ()  # a label is some four letters
    config = NGramConfig(order=order, prune=prune, allow_unknown=tokenizer.unknown is not None)
    made = ngram_of_texts(styled, tokenizer, config, work / "tokens")
    save_ngram(out, made.model, tokenizer.labels)
    facts |= {"labels": made.labels, "ngrams": made.model.counts()}
    write_json(done, facts)
    return out, facts


def given_lm(source: str, recogniser: Recogniser, work: Path) -> tuple[Path, dict[str, Any]]:
    """A language model that exists, in a form that a bundle can hold; an error if it does not fit the recogniser."""
    tokenizer, facts = recogniser.tokenizer, {"lm": Path(source).name}
    lm = load_lm(source, tokenizer)
    if (name := hugging_face(source)) is not None:
        return _saved_hf_lm(name, work / "lm"), facts
    if not is_ngram_file(source):
        return Path(source), facts
    out = work / f"lm{BINARY_SUFFIX}"
    if source.endswith(BINARY_SUFFIX):
        shutil.copyfile(source, out)
    elif isinstance(lm, WordNGram):
        save_word_lm(out, read_word_lm(source))
    else:
        save_ngram(out, lm, tokenizer.labels)  # type: ignore[arg-type]
    return out, facts


def _saved_hf_lm(name: str, out: Path) -> Path:
    """Weights as safetensors, whatever they were, and the tokenizer if there is one."""
    from fewer.store.hf_lm import load_hf_parts

    model, tokenizer = load_hf_parts(name)
    model.save_pretrained(out)
    if tokenizer is not None:
        tokenizer.save_pretrained(out)
    return out
