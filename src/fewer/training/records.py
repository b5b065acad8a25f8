"""What a run tells: `train.log`, `curves.jsonl`, and tensorboard curves when asked for."""

import json
import time
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from fewer.config import parse_json
from fewer.data.lines import read_raw_lines
from fewer.errors import FewerError
from fewer.files import atomic_write
from fewer.progress import say

CURVES, LOG = "curves.jsonl", "train.log"


class Point(BaseModel):
    """A line of the curves; further values are numbers."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int | float | None]
    kind: Literal["step", "sub_epoch"]
    step: int = Field(ge=0)


POINT = TypeAdapter(Point)


class Records:
    """Writes the curves of a run. After a restart they go on as if it had never stopped."""

    def __init__(self, folder: Path, step: int, sub_epochs: int, tensorboard: bool):
        """Go on after `step` optimiser steps and `sub_epochs` finished sub-epochs; drop what was told beyond them."""
        self.folder = folder
        kept = [line for line in read_curves(folder) if _is_before(line, step, sub_epochs)]
        with atomic_write(folder / CURVES) as stream:
            stream.writelines(json.dumps(line) + "\n" for line in kept)
        self.board = _board(folder / "tensorboard", step) if tensorboard else None

    def point(self, kind: str, step: int, values: dict[str, Any]) -> None:
        """One point of the curves: `kind` is "step" (within a sub-epoch) or "sub_epoch" (a finished one)."""
        with open(self.folder / CURVES, "a", encoding="utf-8") as stream:
            stream.write(json.dumps({"kind": kind, "step": step, **values}) + "\n")
        if self.board is not None:
            for name, value in values.items():
                self.board.add_scalar(f"{kind}/{name}", value, step)

    def tell(self, text: str) -> None:
        """Say it and write it into the log."""
        say(text)
        with open(self.folder / LOG, "a", encoding="utf-8") as stream:
            stream.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")

    def close(self) -> None:
        if self.board is not None:
            self.board.close()


def read_curves(folder: str | Path) -> list[dict[str, Any]]:
    """The points of a run's curves; a last line that was cut short by a kill is left out."""
    path = Path(folder) / CURVES
    if not path.exists():
        return []
    whole = (line for line in read_raw_lines(path) if line.endswith(b"\n"))
    points = [parse_json(POINT, line, f"{path}, line {number}") for number, line in enumerate(whole, start=1)]
    return [point.model_dump() for point in points]


def _is_before(line: dict[str, Any], step: int, sub_epochs: int) -> bool:
    return line["step"] <= step if line["kind"] == "step" else line.get("sub_epoch", 0) <= sub_epochs


def _board(folder: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise FewerError("tensorboard curves need an extra: pip install 'fewer[tensorboard]'") from error
    return SummaryWriter(str(folder), purge_step=step + 1)
