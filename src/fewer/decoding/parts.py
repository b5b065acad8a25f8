"""The shards of a decode on disk, and the N-best file that they become.

.NAME.parts/job.json          what is decoded with what, and how it is divided
.NAME.parts/plan.safetensors  the utterances of each batch
.NAME.parts/00012.jsonl       a shard: the lines of the manifest, then their N-best lists; complete or absent
"""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt, TypeAdapter
from torch import Tensor

from fewer.config import parse_config, parse_json
from fewer.data.lines import read_raw_lines
from fewer.data.plan import Items, Plan
from fewer.errors import FewerError
from fewer.files import atomic_write, locked, read_json, write_json
from fewer.progress import say
from fewer.search.nbest import Header, NBest, header_line, nbest_line, parse_header, parse_nbest
from fewer.store.checkpoint import load_tensors, save_tensors

SHARDS = 256  # that a set is divided into, if they do not become too small …
MOST, LEAST_ON_GPU = 64, 4  # … or too large: batches in a shard
SHOWN = 10  # missing shards that a message names


@dataclass(frozen=True)
class Share:
    """Every n-th shard of a job, as `--shard i/n` says."""

    number: int  # from 1 to `of`
    of: int

    def has(self, shard: int) -> bool:
        return shard % self.of == self.number - 1

    def __str__(self) -> str:
        return f".{self.number}-of-{self.of}"


def parse_share(text: str) -> Share:
    number, slash, of = text.partition("/")
    if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
        raise FewerError(f"--shard {text}: write i/n, such as 3/8 for the third of eight")
    return Share(int(number), int(of))


class _Job(BaseModel):
    model_config = ConfigDict(strict=True)
    format: Literal["fewer-parts/1"] = "fewer-parts/1"
    identity: str
    header: str  # the first line of the N-best file
    utterances: PositiveInt
    per_shard: PositiveInt  # batches
    batches: NonNegativeInt


class Parts:
    """The folder of a decode that is under way."""

    def __init__(self, folder: Path, job: _Job):
        self.folder, self.job = folder, job

    @staticmethod
    def begin(out: Path, identity: str, header: Header, plan: Callable[[], Plan], on_gpu: bool, shared: bool) -> None:
        """Divide the work, unless that was done before.

        identity: of all that the lists depend on. shared: other processes may be doing other shards of it.
        """
        folder = folder_of(out)
        with locked(folder):
            if (folder / "job.json").exists():
                if Parts.open(out).job.identity == identity:
                    return
                if shared:
                    raise FewerError(
                        f"{folder} holds shards of a decode with other models, options or utterances; "
                        "wait until it is merged, delete the folder, or write to another file"
                    )
                say(f"{folder} is of other models or options: decoding from the beginning")
                for path in folder.iterdir():
                    if path.name != "lock":
                        path.unlink()
            steps = plan()
            starts = steps.starts
            save_tensors(
                folder / "plan.safetensors",
                {"items": torch.from_numpy(steps.items), "starts": torch.from_numpy(starts)},
            )
            batches = len(starts) - 1
            per_shard = min(max(batches // SHARDS, LEAST_ON_GPU if on_gpu else 1), MOST)
            first = header_line(header)
            job = _Job(
                identity=identity, header=first, utterances=len(steps.items), per_shard=per_shard, batches=batches
            )
            write_json(folder / "job.json", job.model_dump())

    @staticmethod
    def open(out: Path) -> "Parts":
        folder = folder_of(out)
        if not (folder / "job.json").exists():
            raise FewerError(f"{out}: there are no shards to merge ({folder / 'job.json'} is missing)")
        parts = Parts(folder, parse_config(_Job, read_json(folder / "job.json"), folder / "job.json"))
        if len(parts.groups) != parts.job.batches or sum(map(len, parts.groups)) != parts.job.utterances:
            raise FewerError(f"{folder}: job.json does not fit plan.safetensors; delete the folder to decode anew")
        return parts

    @cached_property
    def groups(self) -> list[Items]:
        """The utterances of each batch."""
        path = self.folder / "plan.safetensors"
        tensors, _ = load_tensors(path, f"delete {self.folder} to decode anew")
        if not _is_plan(tensors):
            raise FewerError(f"{path} does not divide the utterances into batches; delete {self.folder} to decode anew")
        return np.split(tensors["items"].numpy(), tensors["starts"][1:-1].numpy())

    @property
    def shards(self) -> range:
        return range(-(-self.job.batches // self.job.per_shard))

    def batches(self, shard: int) -> range:
        """Those of a shard."""
        first = shard * self.job.per_shard
        return range(first, min(first + self.job.per_shard, self.job.batches))

    def items(self, shard: int) -> Items:
        """The lines of the manifest that a shard is about."""
        batches = self.batches(shard)
        return np.concatenate(self.groups[batches.start : batches.stop])

    def path(self, shard: int) -> Path:
        return self.folder / f"{shard:05d}.jsonl"

    def has(self, shard: int) -> bool:
        return self.path(shard).exists()

    def write(self, shard: int, found: Iterable[tuple[int, NBest]]) -> int:
        """A shard's lists with their lines in the manifest; returns their number."""
        lists = sorted(found, key=lambda pair: pair[0])
        with atomic_write(self.path(shard)) as stream:
            print(json.dumps([line for line, _ in lists]), file=stream)
            for _, nbest in lists:
                print(nbest_line(nbest), file=stream)
        return len(lists)

    def remove_if_empty(self) -> None:
        """Leave nothing where nothing was done."""
        if not any(map(self.has, self.shards)):
            shutil.rmtree(self.folder, ignore_errors=True)

    def in_order(self) -> Iterator[bytes]:
        """The lists of all shards, in the manifest's order; in memory are those of one block of the plan."""
        ready: dict[int, bytes] = {}
        shards = iter(self.shards)
        for line in range(self.job.utterances):
            while line not in ready:
                if (shard := next(shards, None)) is None:
                    raise FewerError(f"{self.folder} lacks line {line + 1} of the manifest; delete it to decode anew")
                ready |= self._read(shard)
            yield ready.pop(line)

    def _read(self, shard: int) -> dict[int, bytes]:
        """Its lists by their lines in the manifest, checked as every N-best file is."""
        path = self.path(shard)
        first, *rest = read_raw_lines(path)
        lines = parse_json(_LINES, first, f"{path}, line 1")
        if lines != sorted(self.items(shard).tolist()) or len(rest) != len(lines):
            raise FewerError(f"{path} does not hold the utterances of its shard; delete it, and decode again")
        for number, line in enumerate(rest, start=2):
            parse_nbest(line, f"{path}, line {number}")
        return dict(zip(lines, rest, strict=True))


_LINES = TypeAdapter(list[int])


def _is_plan(tensors: dict[str, Tensor]) -> bool:
    """Whether every utterance is in one batch, and no batch is empty."""
    if tensors.keys() != {"items", "starts"}:
        return False
    items, starts = tensors["items"], tensors["starts"]
    if any(one.ndim != 1 or one.dtype != torch.int64 for one in (items, starts)) or len(starts) < 2:
        return False
    if starts[0] != 0 or starts[-1] != len(items) or bool((starts[1:] <= starts[:-1]).any()):
        return False
    return torch.equal(items.sort().values, torch.arange(len(items)))


def folder_of(out: Path) -> Path:
    return out.with_name(f".{out.name}.parts")


def merge(out: str | Path) -> int:
    """The shards that lie beside an N-best file as that file; returns the number of utterances."""
    out = Path(out)
    parts = Parts.open(out)
    if missing := [shard for shard in parts.shards if not parts.has(shard)]:
        named = ", ".join(map(str, missing[:SHOWN])) + (", …" if len(missing) > SHOWN else "")
        raise FewerError(
            f"{out}: {len(missing)} of {len(parts.shards)} shards are missing (numbers {named}); run the same "
            "`fewer decode` again, with the --shard that did not finish or without --shard"
        )
    first = parts.job.header.encode() + b"\n"
    parse_header(parts.folder / "job.json", first)
    with atomic_write(out, "wb") as stream:
        stream.write(first)
        stream.writelines(parts.in_order())
    shutil.rmtree(parts.folder)
    return parts.job.utterances
