"""A system with all that a search needs to be told."""

from dataclasses import dataclass

from fewer.decoding.system import System
from fewer.search.beam import SearchOptions


@dataclass(frozen=True)
class Search:
    system: System
    scales: dict[str, float]  # term -> what its score is multiplied by
    options: SearchOptions
