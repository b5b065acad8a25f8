"""The methods of a table: those of internal LMs, and those that subtract nothing."""

from fewer.ilm.method import IlmMethod
from fewer.ilm.registry import all_methods

WITHOUT_ILM = {
    "none": IlmMethod("none", "The recogniser alone.", "None", (0, 0)),
    "sf": IlmMethod("sf", "Adds the external language model and subtracts nothing.", "Shallow fusion", (1, 0)),
    "train_w_lm": IlmMethod(
        "train_w_lm",
        "Recogniser trained together with the external language model; nothing subtracted.",
        "Train w. LM",
        (2, 0),
    ),
}


def facts_of(name: str) -> IlmMethod:
    """Of a row of a table; a method that is not known here, such as another user's own, comes last."""
    return WITHOUT_ILM.get(name) or all_methods().get(name) or IlmMethod(name)
