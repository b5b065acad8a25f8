"""`--engine`: who does the shards of a job. `started` is the one place that reads it."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from fewer.compute.engines.engine import Engine, Local
from fewer.compute.engines.forked import Processes
from fewer.compute.engines.group import Torchrun
from fewer.compute.world import joined, processes
from fewer.errors import FewerError

ENGINES = "local, processes:N, torchrun, ray or ray:ADDRESS"


@contextmanager
def started(engine: str | Engine = "local", device: str | torch.device = "cpu") -> Iterator[Engine]:
    """The engine as users write it, until the block ends; one that was started before stays.

    Under torchrun, "local" is what torchrun started. device: where its processes compute.
    """
    if isinstance(engine, Engine):
        yield engine
        return
    name, _, detail = engine.partition(":")
    many = processes()[1] > 1
    if name not in ("local", "processes", "torchrun", "ray") or (detail and name in ("local", "torchrun")):
        raise FewerError(f"--engine {engine} is unknown; write {ENGINES}")
    if many and name in ("processes", "ray"):
        raise FewerError(f"--engine {engine} under torchrun: every process would start its own; start it by itself")
    if name == "torchrun" and "RANK" not in os.environ:
        raise FewerError("--engine torchrun: start it as `torchrun --nproc-per-node N -m fewer …`")
    if name == "processes":
        if not re.fullmatch("[1-9][0-9]{0,3}", detail):
            raise FewerError(f"--engine {engine}: write the number of processes, such as processes:4")
        with Processes(int(detail)) as forks:
            yield forks
    elif name == "ray":
        from fewer.compute.engines.cluster import Ray

        with Ray(detail or None) as ray:
            yield ray
    elif many:
        with joined(device) as world:
            yield Torchrun(world)
    else:
        yield Local()
