"""The two domains of the demo: home-assistant commands (source) and harbour announcements (target)."""

import functools
from pathlib import Path

from fewer.data.synthesis.grammar import Grammar

FOLDER = Path(__file__).parent
FILES = {"source": ("shared.txt", "home.txt"), "target": ("shared.txt", "harbour.txt")}


@functools.cache
def domain(name: str) -> Grammar:
    """The grammar of the "source" or the "target" domain."""
    return Grammar.load(*(FOLDER / file for file in FILES[name]))


@functools.cache
def dictation() -> Grammar:
    """Answers and notes of the source domain, whose words are those of both domains, all equally frequent."""
    words = sorted(set.union(*(domain(name).vocabulary() for name in FILES)))
    path = FOLDER / "dictation.txt"
    return Grammar((path.name, path.read_text(encoding="utf-8")), ("vocabulary", f"<word> = {' | '.join(words)} ;"))
