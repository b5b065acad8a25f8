"""Which word of the hypothesis stands for which word of the reference.

Three sets of rules:
    plain    fewest errors (every error counts one) on the words between spaces; what Kaldi and jiwer report
    sclite   NIST sclite's defaults: its costs, `{ a / b }` alternatives, letter case ignored
    hubscr   sclite as the Hub5 and RT evaluations call it: also optionally deletable (words) and fragments wor-
"""

from collections.abc import Sequence
from typing import Literal, get_args

from fewer.errors import FewerError
from fewer.evaluation import network
from fewer.evaluation.network import Edit

Rules = Literal["plain", "sclite", "hubscr"]
RULES: tuple[str, ...] = get_args(Rules)
NO_WORD = ""  # kaldialign's mark of a gap; no word between spaces is empty


def tokens(text: str, characters: bool = False) -> list[str]:
    """The words of a text, or its characters with one space between words."""
    words = text.split()
    return list(" ".join(words)) if characters else words


def align(ref: str, hyp: str, rules: Rules = "plain", characters: bool = False) -> tuple[Edit, ...]:
    """The columns of the best alignment. Characters count spaces by the plain rules, as sclite -c does not."""
    if rules == "plain":
        return plain_alignment(tokens(ref, characters), tokens(hyp, characters))
    if rules not in RULES:
        raise FewerError(f"unknown alignment rules '{rules}'; there are {', '.join(RULES)}")
    hubscr = rules == "hubscr"
    return tuple(network.align(network.parse(ref, hubscr, characters), network.parse(hyp, hubscr, characters)))


def plain_alignment(ref: Sequence[str], hyp: Sequence[str]) -> tuple[Edit, ...]:
    """An alignment with the fewest errors (kaldialign's choice among several)."""
    import kaldialign

    if ref == hyp:
        return tuple([Edit(word, word, "=", position) for position, word in enumerate(ref)])
    edits: list[Edit] = []
    position = 0
    for r, h in kaldialign.align(ref, hyp, NO_WORD):
        if r == NO_WORD:
            edits.append(Edit(None, h, "I", position))
            continue
        edits.append(Edit(r, None, "D", position) if h == NO_WORD else Edit(r, h, "=" if r == h else "S", position))
        position += 1
    return tuple(edits)


def show(edits: Sequence[Edit]) -> tuple[str, str, str]:
    """Three lines to print below each other: reference, hypothesis (errors in capitals as sclite does), and S, D, I."""
    refs, hyps, kinds = [], [], []
    for edit in edits:
        right = edit.kind == "="
        ref = edit.ref if edit.ref is not None else "" if right else "*" * len(edit.hyp or "")
        hyp = edit.hyp if edit.hyp is not None else "" if right else "*" * len(edit.ref or "")
        if not right:
            ref, hyp = ref.upper(), hyp.upper()
        width = max(len(ref), len(hyp), 1)
        refs.append(ref.ljust(width))
        hyps.append(hyp.ljust(width))
        kinds.append(("" if right else edit.kind).ljust(width))
    return " ".join(refs).rstrip(), " ".join(hyps).rstrip(), " ".join(kinds).rstrip()
