"""The methods of a table, in the paper's order, with a line on each."""

from typing import NamedTuple

from fewer.ilm.method import LAST
from fewer.ilm.registry import all_methods


class MethodFacts(NamedTuple):
    """What a reader of a table wants to know of a method."""

    symbol: str  # as tables print it
    about: str = ""
    order: tuple[int, int] = LAST  # tables draw a line between groups, which are the first numbers


WITHOUT_ILM: dict[str, MethodFacts] = {
    "none": MethodFacts("None", "The recogniser alone.", (0, 0)),
    "sf": MethodFacts("Shallow fusion", "Adds the external language model and subtracts nothing.", (1, 0)),
    "train_w_lm": MethodFacts(
        "Train w. LM", "Recogniser trained together with the external language model; nothing subtracted.", (2, 0)
    ),
}


def facts_of(name: str) -> MethodFacts:
    """Of a row of a table; a method that is not known here, such as another user's own, comes last."""
    if name in WITHOUT_ILM:
        return WITHOUT_ILM[name]
    if (method := all_methods().get(name)) is None:
        return MethodFacts(name)
    return MethodFacts(method.symbol or name, method.description, method.order)
