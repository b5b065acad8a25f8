"""The one place where other code gets features: computed from audio or read from the cache, normalised.

raw = RawFeatures.open(config, manifest_path, cuts, speeds=(0.9, 1.0, 1.1))  # computes what the cache lacks
statistics = measure_statistics(raw, cuts)
reader = FeatureReader(config, statistics, raw.cache)
reader.read(cut, speed=0.9)  # (T, F)
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fewer.data.audio import load_audio, where
from fewer.data.cache import Cuts, FeatureCache, process_rank
from fewer.data.extractor import FeatureExtractor, FeaturesConfig
from fewer.data.features import feature_extractor
from fewer.data.reading import one_thread
from fewer.data.statistics import Normaliser, Statistics
from fewer.errors import FewerError
from fewer.progress import Bar, progress

if TYPE_CHECKING:
    from lhotse.cut import Cut


class RawFeatures:
    """Features before normalisation, from audio or from a cache."""

    def __init__(self, config: FeaturesConfig, cache: FeatureCache | None = None, device: str = "cpu"):
        self.config, self.cache, self.device = config, cache, device

    @staticmethod
    def open(
        config: FeaturesConfig, manifest: str | Path, cuts: Cuts, speeds: Sequence[float] = (1.0,), apart: bool = False
    ) -> "RawFeatures":
        """Features of the cuts of a manifest file; with `config.cache`, what the cache lacks is computed now.

        apart: see `FeatureCache.open`.
        """
        if config.cache is None:
            return RawFeatures(config)
        build = CacheBuild(config, manifest, cuts, apart)
        with build.threads():
            build.cache.build(cuts, speeds, build.raw.compute)
        return RawFeatures(config, build.cache)

    @cached_property
    def extractor(self) -> FeatureExtractor:
        """Made when first needed: reading from a cache needs none."""
        return feature_extractor(self.config).to(self.device)

    @property
    def dim(self) -> int:
        """F"""
        return self.extractor.dim if self.cache is None else self.cache.dim

    @property
    def frame_shift(self) -> float:
        """Seconds from one frame to the next."""
        return self.extractor.frame_shift if self.cache is None else self.cache.frame_shift

    def read(self, cut: "Cut", speed: float = 1.0) -> Tensor:
        """(T, F) float32"""
        return self.compute(cut, speed) if self.cache is None else self.cache.read(cut.id, speed)

    def compute(self, cut: "Cut", speed: float = 1.0) -> Tensor:
        """From the audio. (T, F) float32"""
        samples = load_audio(cut, self.config.sampling_rate, speed)
        try:
            return self.extractor(samples.to(self.device)).cpu()
        except FewerError as error:
            raise FewerError(f"{where(cut)}: {error}") from error


class CacheBuild:
    """A cache that may lack features, which can be computed file by file."""

    def __init__(self, config: FeaturesConfig, manifest: str | Path, cuts: Cuts, apart: bool = True):
        device = "cuda" if config.kind == "pretrained" and torch.cuda.is_available() else "cpu"
        self.raw, self.cuts = RawFeatures(config, device=device), cuts
        shape = lambda: (self.raw.dim, self.raw.frame_shift)  # noqa: E731
        self.cache = FeatureCache.open(config, Path(manifest), len(cuts), shape, apart)

    def missing(self) -> list[int]:
        """Files that are not there, at the usual speed."""
        return [shard for _, shard in self.cache.missing((1.0,))]

    def write(self, shard: int) -> int:
        """Compute one file; returns the number of its utterances."""
        cuts = [self.cuts[row] for row in self.cache.rows(shard)]
        with self.threads():
            self.cache.write_shard(1.0, shard, cuts, self.raw.compute, Bar("features"))
        return len(cuts)

    def threads(self) -> AbstractContextManager[object]:
        """How many threads compute: always as many, so that sums are formed in the same order."""
        return nullcontext() if self.raw.config.kind == "pretrained" else one_thread()


class FeatureReader:
    """Normalised features of cuts; a cut has the same numbers in any batch and process."""

    def __init__(self, config: FeaturesConfig, statistics: Statistics | None = None, cache: FeatureCache | None = None):
        self.raw, self.statistics = RawFeatures(config, cache), statistics
        self.normalise = Normaliser(config, statistics)
        if config.kind != "pretrained" or cache is not None:  # else it would load the model, perhaps for nothing
            self._check(self.dim)

    def _check(self, dim: int) -> None:
        if self.statistics is not None and len(self.statistics.mean) != dim:
            raise FewerError(f"features have {dim} dimensions, but the statistics {len(self.statistics.mean)}")

    @property
    def dim(self) -> int:
        """F"""
        return self.raw.dim

    @property
    def frame_shift(self) -> float:
        """Seconds from one frame to the next."""
        return self.raw.frame_shift

    def cached(self, manifest: str | Path, cuts: Cuts) -> "FeatureReader":
        """The same for the cuts of a manifest file, through the cache if the configuration has one."""
        config = self.raw.config
        if config.cache is None:
            return self
        return FeatureReader(config, self.statistics, RawFeatures.open(config, manifest, cuts, apart=True).cache)

    @property
    def sampling_rate(self) -> int:
        """Of the audio."""
        return self.raw.config.sampling_rate

    def of(self, samples: Tensor) -> Tensor:
        """The features of audio at `sampling_rate`. (samples,) -> (T, F)"""
        return self.normalise(self.raw.extractor(samples))

    def read(self, cut: "Cut", speed: float = 1.0) -> Tensor:
        """The cut's features at `speed` times the speed. (T, F) float32"""
        features = self.raw.read(cut, speed)
        self._check(features.shape[1])
        return self.normalise(features)


def measure_statistics(raw: RawFeatures, cuts: Cuts) -> Statistics:
    """Statistics of all frames in one pass; the processes of a torch.distributed group share the work."""
    rank, processes = process_rank()
    rows = range(rank, len(cuts), processes)
    total = Statistics.empty(raw.dim)
    with nullcontext() if raw.config.kind == "pretrained" else one_thread():
        for row in progress(rows, "feature statistics"):
            total += Statistics.of(raw.read(cuts[row]))
    return total.gathered()
