"""Randomness without state: every random decision has a seed of its own, derived from where training stands."""

import zlib

import numpy
import torch


def derived(seed: int, *moment: int | str) -> int:
    """A 63-bit seed for one moment of a run, such as ("step", sub_epoch, step, rank)."""
    numbers = [zlib.crc32(part.encode()) if isinstance(part, str) else part for part in moment]
    return int(numpy.random.SeedSequence([seed, *numbers]).generate_state(1, numpy.uint64)[0] >> 1)


def seed_moment(seed: int, *moment: int | str) -> None:
    """Seed torch's generators for one moment."""
    torch.manual_seed(derived(seed, *moment))
