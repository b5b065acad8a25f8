"""Features on disk: computed once for a manifest, then read in any order without holding them in memory.

    cache.json              what the features depend on; a change of it is noticed, never silently reused
    1-00000.safetensors     the first utterances at speed 1: their frames one after another, and whose they are
    index-1.npy             where each utterance is; written last, when all files of that speed are there

Every file is complete or absent, so that a build that was killed goes on where it was. Several processes of a
torch.distributed group share the work.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from fewer.data.extractor import FeatureOptions, PretrainedConfig
from fewer.data.statistics import differences
from fewer.errors import FewerError
from fewer.files import atomic_write, fingerprint, read_json, write_json
from fewer.progress import Bar

if TYPE_CHECKING:
    from lhotse.cut import Cut

SHARD = 100  # utterances in one file
SHAPE = {"dim", "frame_shift"}  # what cache.json says besides what the features depend on


class Cuts(Protocol):
    """Cuts by number: a `fewer.data.manifest.Manifest`, or a list."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


Extract = Callable[["Cut", float], Tensor]  # a cut and a speed to features (T, F)


class FeatureCache:
    """The unnormalised features of one manifest, kept in `folder`."""

    def __init__(self, folder: Path, description: dict[str, Any]):
        self.folder, self.description = folder, description
        self.dim: int = description["dim"]
        self.frame_shift: float = description["frame_shift"]
        self.utterances: int = description["utterances"]
        self.dtype = getattr(torch, description["dtype"])
        self.indices: dict[float, np.ndarray] = {}  # speed -> (4, utterances): sorted key, shard, first frame, frames

    @staticmethod
    def open(
        features: FeatureOptions,
        manifest: Path,
        utterances: int,
        shape: Callable[[], tuple[int, float]],
        apart: bool = False,
    ) -> "FeatureCache":
        """The cache of these features for this manifest, begun if there is none.

        shape: says their dimension and frame shift; it is asked only then, since it may have to load a model.
        apart: features of another manifest with this name are no error; they stay, and this one's have their own place.
        """
        assert features.cache is not None
        folder = features.cache.folder.expanduser() / manifest.name.removesuffix(".gz").removesuffix(".jsonl")
        description = {
            "format": 1,
            "manifest": fingerprint(manifest),
            "utterances": utterances,
            "shard": SHARD,
            "dtype": features.cache.dtype,
            **{f"features.{name}": value for name, value in features.recipe().items()},
        }
        if isinstance(features, PretrainedConfig):
            description["features.model"] = features.weights()
        if apart and _of_another_manifest(folder / "cache.json", description["manifest"]):
            folder = folder.with_name(f"{folder.name}-{description['manifest'][:12]}")
        file = folder / "cache.json"
        leftovers = any(folder.glob("*.safetensors"))  # looked for first: another process may begin the cache meanwhile
        if not file.exists():
            if leftovers:
                raise FewerError(f"{folder} holds features, but not what they are (cache.json): delete it")
            dim, frame_shift = shape()
            write_json(file, {**description, "dim": dim, "frame_shift": frame_shift})
        found = read_json(file)
        if not isinstance(found, dict) or not found.keys() >= SHAPE:
            raise FewerError(f"{file} does not describe a feature cache: delete {folder} to build it again")
        changes = differences({name: value for name, value in found.items() if name not in SHAPE}, description)
        if changes:
            raise FewerError(
                f"the feature cache {folder} was built for something else ({changes}): "
                f"delete it to build it again, or set features.cache.folder to another place"
            )
        return FeatureCache(folder, found)

    def build(self, cuts: Cuts, speeds: Sequence[float], extract: Extract) -> None:
        """Compute what is missing of every utterance at every speed."""
        rank, processes = process_rank()
        todo = [part for part in self.missing(speeds) if part[1] % processes == rank]
        if todo:
            total = sum(len(self.rows(shard)) for _, shard in todo)
            with Bar(f"features for {self.folder.name}", total) as bar:
                for speed, shard in todo:
                    self.write_shard(speed, shard, [cuts[row] for row in self.rows(shard)], extract, bar)
        if processes > 1:
            torch.distributed.barrier()
        for speed in speeds:
            if not self.index_file(speed).exists():
                self.write_index(speed, cuts)

    def missing(self, speeds: Sequence[float]) -> list[tuple[float, int]]:
        """Speed and number of the files that are not there."""
        return [
            (speed, shard)
            for speed in speeds
            if not self.index_file(speed).exists()
            for shard in range(math.ceil(self.utterances / SHARD))
            if not self.shard_file(speed, shard).exists()
        ]

    def write_shard(self, speed: float, shard: int, cuts: "list[Cut]", extract: Extract, bar: Bar) -> None:
        parts = []
        for cut in cuts:
            features = extract(cut, speed).to("cpu", self.dtype)
            if not features.isfinite().all():
                raise FewerError(
                    f"utterance {cut.id}: its features do not fit into {self.description['dtype']}; "
                    f"set features.cache.dtype to float32"
                )
            parts.append(features)
            bar.advance()
        tensors = {
            "features": torch.cat(parts),  # (all frames, F)
            "frames": torch.tensor([len(part) for part in parts]),  # (utterances,)
            "keys": torch.from_numpy(np.array([key(cut.id) for cut in cuts]).view(np.int64)),  # (utterances,)
        }
        with atomic_write(self.shard_file(speed, shard), "wb") as stream:
            stream.write(save(tensors))

    def write_index(self, speed: float, cuts: Cuts) -> None:
        columns = []
        for shard in range(math.ceil(self.utterances / SHARD)):
            keys, frames = self.load(self.shard_file(speed, shard), "keys", "frames")
            starts = frames.cumsum(0) - frames
            columns.append(torch.stack([keys, torch.full_like(keys, shard), starts, frames]))
        index = torch.cat(columns, dim=1).numpy().view(np.uint64)
        order = np.argsort(index[0], kind="stable")
        twice = np.flatnonzero(np.diff(index[0, order]) == 0)
        if len(twice):
            one, other = (cuts[int(row)].id for row in order[twice[0] : twice[0] + 2])
            raise FewerError(f"{self.folder}: utterances {one} and {other} have the same id: make ids unique")
        with atomic_write(self.index_file(speed), "wb") as stream:
            np.save(stream, np.ascontiguousarray(index[:, order]))

    def read(self, utterance: str, speed: float) -> Tensor:
        """(T, F) float32"""
        index = self.index(speed)
        wanted = key(utterance)
        column = int(np.searchsorted(index[0], wanted))
        if column == index.shape[1] or index[0, column] != wanted:
            raise FewerError(f"the feature cache {self.folder} does not know utterance {utterance}")
        _, shard, start, frames = (int(value) for value in index[:, column])
        file = self.shard_file(speed, shard)
        (features,) = self.load(file, "features", rows=slice(start, start + frames))
        if features.shape != (frames, self.dim):
            raise FewerError(f"{file} does not belong to this cache: delete {self.folder} to build it again")
        return features.float()

    def index(self, speed: float) -> np.ndarray:
        """Memory-mapped, opened when first needed."""
        if speed not in self.indices:
            file = self.index_file(speed)
            try:
                self.indices[speed] = np.load(file, mmap_mode="r")
            except FileNotFoundError as error:
                raise FewerError(f"the feature cache {self.folder} was not built for speed {speed:g}") from error
            except (OSError, ValueError, EOFError) as error:
                raise FewerError(f"{file} is damaged: delete it, and it will be made again") from error
        return self.indices[speed]

    def load(self, file: Path, *names: str, rows: slice = slice(None)) -> list[Tensor]:
        """Rows of tensors of one file; nothing else of it is read."""
        try:
            with safe_open(file, framework="pt") as tensors:
                return [tensors.get_slice(name)[rows] for name in names]
        except (SafetensorError, OSError) as error:
            indices = f"{self.folder}/index-*.npy"
            raise FewerError(f"{file} is damaged ({error}): delete it and {indices}; it will be made again") from error

    def rows(self, shard: int) -> range:
        """The utterances of one file."""
        return range(shard * SHARD, min((shard + 1) * SHARD, self.utterances))

    def shard_file(self, speed: float, shard: int) -> Path:
        return self.folder / f"{speed:g}-{shard:05d}.safetensors"

    def index_file(self, speed: float) -> Path:
        return self.folder / f"index-{speed:g}.npy"

    def __getstate__(self) -> dict[str, Any]:
        """Data loader workers open their own index."""
        return {**self.__dict__, "indices": {}}


def _of_another_manifest(file: Path, manifest: str) -> bool:
    found = read_json(file) if file.exists() else None
    return isinstance(found, dict) and found.get("manifest") != manifest


def key(utterance: str) -> np.uint64:
    """64 bits that stand for an id, so that an index of any size can be memory-mapped."""
    return np.frombuffer(hashlib.blake2b(utterance.encode(), digest_size=8).digest(), dtype=np.uint64)[0]


def process_rank() -> tuple[int, int]:
    """This process's number in its torch.distributed group, and how many there are."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1
