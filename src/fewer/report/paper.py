"""The paper's six tables as printed, to stand beside our own numbers.

paper.json keeps every cell as the paper prints it (`**` around what is bold, a cell that spans rows in each of them):
the same system's shallow fusion is 6.80 in table 2 and 6.81 in table 4.
"""

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources

from fewer.errors import FewerError

LM_SCALE, ILM_SCALE, ILM_PPL = "λ1 (LM)", "λ2 (ILM)", "ILM PPL"
SET_NAMES = {  # what the paper's sets may be called in a run
    "Hub5'00": ("hub5e00", "hub500"),
    "Hub5'01": ("hub5e01", "hub501"),
    "RT03": ("rt03", "rt03s"),
    "TLv2-dev": ("tlv2-dev", "tedlium2-dev", "dev"),
    "TLv2-test": ("tlv2-test", "tedlium2-test", "test"),
}


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper."""

    key: str  # its label in the paper, without `tab:`
    number: int
    title: str
    columns: tuple[str, ...]  # as printed
    rows: dict[str, dict[str, str]]  # our row's key -> column -> cell, `**` around what is bold

    def cell(self, row: str, column: str) -> str | None:
        """A cell without its bold mark, or None where the paper has no such cell."""
        text = self.rows.get(row, {}).get(column)
        return None if text is None else text.strip("*")

    def is_bold(self, row: str, column: str) -> bool:
        return self.rows.get(row, {}).get(column, "").startswith("**")

    def column_of(self, set_name: str) -> str | None:
        """The paper's name of one of our sets."""
        name = set_name.casefold()
        for column in self.columns:
            if name == column.casefold() or name in SET_NAMES.get(column, ()):
                return column
        return None


@cache
def paper_tables() -> dict[str, PaperTable]:
    """All six, by key."""
    text = resources.files("fewer.report").joinpath("paper.json").read_text(encoding="utf-8")
    tables = {}
    for key, value in json.loads(text).items():
        columns = value["columns"][1:]
        rows = {row: dict(zip(columns, cells, strict=True)) for row, *cells in value["rows"]}
        tables[key] = PaperTable(key, value["number"], value["title"], tuple(columns), rows)
    return tables


def paper_table(name: str) -> PaperTable:
    """A table by its label (`libri-lstm-ilme`, with or without `tab:`) or number (`2`)."""
    for table in paper_tables().values():
        if name.removeprefix("tab:") in (table.key, str(table.number)):
            return table
    known = ", ".join(f"{table.key} ({table.number})" for table in paper_tables().values())
    raise FewerError(f"the paper has no table '{name}'; there are {known}")
