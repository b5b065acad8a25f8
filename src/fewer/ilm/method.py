"""What a method of estimating the internal LM is: one record, for built-in methods and the user's own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fewer.models.context import Context
from fewer.recognisers.recogniser import Recogniser

if TYPE_CHECKING:
    from fewer.ilm.config import IlmConfig
    from fewer.ilm.estimate import Estimation

Need = Literal["audio", "transcripts", "dev"]  # of the training set, and a dev set that tells when to stop
LAST = (5, 0)


def new_context(estimation: "Estimation") -> Context:
    """There is nothing to be estimated."""
    return estimation.new_context()


@dataclass(frozen=True)
class IlmMethod:
    """A method of `fewer ilm --method NAME`."""

    name: str
    description: str = ""  # one line, for help, tables and the report page
    symbol: str = ""  # as tables print it, the paper's if it has one; the name if empty
    order: tuple[int, int] = LAST  # in tables, which draw a line between groups (the first number)
    needs: tuple[Need, ...] = ()
    # The context that it puts into the recogniser's decoder, with new weights. None: a language model of its own.
    context: "Callable[[IlmConfig, Recogniser], Context] | None" = None
    # Returns the context, measured or trained; a language model of its own is left in the folder.
    estimate: "Callable[[Estimation], Context | None]" = new_context
    supports: Callable[[Recogniser], str | None] = lambda recogniser: None  # else the reason why it cannot be used

    @property
    def trained(self) -> bool:
        """Whether its context learns."""
        return self.context is not None and "dev" in self.needs
