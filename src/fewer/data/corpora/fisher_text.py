"""Fisher transcripts (LDC2004T19, LDC2005T19) as plain text for language models.

Files data/trans/000/fe_03_00001.txt below each part: comments (#), blank lines, and `7.38 8.78 A: so the topic is`.
"""

import itertools
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from fewer.data.corpora.corpus import Problem, Source, TextSet, Wordless
from fewer.data.corpora.places import find_files, numbered_lines
from fewer.data.corpora.texts import fisher_text
from fewer.errors import FewerError

TRANSCRIPT = r"fe_03_(\d{5})\.txt"
FIRST_PART = 5850  # conversations of LDC2004T19; LDC2005T19 has the others
LINE = re.compile(r"\s*[\d.]+\s+[\d.]+\s+[AB]\s?:(.*)")


def sets(source: Source) -> list[TextSet]:
    """fisher-part1 and fisher-part2, whichever is there."""
    parts: dict[str, list[Path]] = {}
    for path in find_files(source.folder, TRANSCRIPT):
        if path.parent.parent.name == "trans":
            parts.setdefault("fisher-part1" if _number(path) <= FIRST_PART else "fisher-part2", []).append(path)
    if not parts:
        raise FewerError(f"there are no Fisher transcripts (data/trans/000/fe_03_00001.txt, …) under {source.folder}")
    return [TextSet(name, partial(_read, sorted(paths, key=_number))) for name, paths in sorted(parts.items())]


def _number(path: Path) -> int:
    return int(re.fullmatch(TRANSCRIPT, path.name)[1])  # type: ignore[index]


def _read(paths: list[Path]) -> Iterator[str | Problem | Wordless]:
    for earlier, path in itertools.pairwise(paths):
        if earlier.name == path.name:
            yield Problem(str(path), f"the conversation is there twice, also as {earlier}")
    for path in paths:
        for where, line in numbered_lines(path):
            if line.startswith("#"):
                continue
            match = LINE.fullmatch(line)
            if not match:
                yield Problem(where, f"expected `begin end A: words`, found {line.strip()!r:.80}")
            else:
                yield fisher_text(match[1]) or Wordless(where)
